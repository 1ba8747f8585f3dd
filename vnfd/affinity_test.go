package vnfd_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/vnfd"
)

// A rule may name VDUs or placement groups, and policies may be a list or a mapping. What it is
// for beside VDUs (a virtual link) is nobody's to place, and a scope that nobody knows is warned
// of and left out.
func TestAffinityRulesNameTheVDUsOfTheirPlacementGroups(t *testing.T) {
	files := base(t)
	const df = "Definitions/df.yaml"
	text := string(files[df].Data)
	text = strings.Replace(text, "  policies:\n", `  groups:
    spread:
      type: tosca.groups.nfv.PlacementGroup
      members: [VDU2, VDU1]
  policies:
    - apart:
        type: tosca.policies.nfv.AntiAffinityRule
        targets: [spread]
        properties: {scope: zone}
    - together:
        type: tosca.policies.nfv.AffinityRule
        targets: [VDU1, internal_link]
        properties: {scope: nfvi_node}
    - elsewhere:
        type: tosca.policies.nfv.AffinityRule
        targets: [VDU1]
        properties: {scope: rack}
`, 1)
	files[df].Data = []byte(text)
	pkg, problems, err := vnfd.Check(files)
	if err != nil || pkg == nil {
		t.Fatalf("%v, %v", problems, err)
	}
	want := []vnfd.Affinity{{ID: "apart", Anti: true, Scope: "zone", VDUs: []string{"VDU1", "VDU2"}}, {ID: "together", Scope: "nfvi_node", VDUs: []string{"VDU1"}}}
	if got := pkg.VNFD.Flavours[0].Affinities; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	found := false
	for _, p := range problems {
		found = found || strings.Contains(p.Message, `scope "rack"`)
	}
	if !found {
		t.Errorf("no warning of the unknown scope in %v", problems)
	}
}
