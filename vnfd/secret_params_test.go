package vnfd_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/vnfd"
)

func TestTheNamesThatAVNFDDeclaresSecretAreRead(t *testing.T) {
	for written, want := range map[string][]string{
		"":                                       nil,
		"{secret_params: [snmp_community, b]}":   {"b", "snmp_community"},
		"{secret_params: 'snmp_community, b,b'}": {"b", "snmp_community"},
		"{secret_params: one, other: [not, read]}": {"one"},
		"{secret_params: }":                        nil,
	} {
		p, err := vnfd.Load(declaring(t, written))
		if err != nil {
			t.Errorf("%s: %v", written, err)
			continue
		}
		if diff := cmp.Diff(want, p.VNFD.SecretParams); diff != "" {
			t.Errorf("%s: %s", written, diff)
		}
	}
	long := strings.Repeat("x", 101)
	many := strings.TrimSuffix(strings.Repeat("a,", 201), ",")
	for _, written := range []string{"{a: 1}", "[1, [b]]", "'a,,b'", "' '", long, "[" + many + "]"} {
		_, err := vnfd.Load(declaring(t, "{secret_params: "+written+"}"))
		if said := invalid(t, err); !strings.Contains(said, "metadata.secret_params must be at most 200 names") {
			t.Errorf("%.60s: %s", written, said)
		}
	}
}

func TestTheVNFsNodeTypeMayDeclareSecretsToo(t *testing.T) {
	files := base(t)
	changed := false
	for name, f := range files {
		const derived = "derived_from: tosca.nodes.nfv.VNF\n"
		if at := strings.Index(string(f.Data), derived); at >= 0 {
			line := string(f.Data)[strings.LastIndex(string(f.Data)[:at], "\n")+1 : at]
			f.Data = []byte(strings.Replace(string(f.Data), derived, derived+line+"metadata: {secret_params: of_the_type}\n", 1))
			files[name], changed = f, true
		}
	}
	p, err := vnfd.Load(files)
	if err != nil || !changed || fmt.Sprint(p.VNFD.SecretParams) != "[of_the_type]" {
		t.Errorf("%v, %v: %+v", changed, err, p)
	}
}

// declaring is the base whose VNF has the metadata in its node template.
func declaring(t *testing.T, metadata string) fstest.MapFS {
	t.Helper()
	files := base(t)
	for _, f := range files {
		const template = "    VNF:\n"
		if at := strings.Index(string(f.Data), template); at >= 0 && metadata != "" {
			f.Data = []byte(strings.Replace(string(f.Data), template, template+"      metadata: "+metadata+"\n", 1))
		}
	}
	return files
}
