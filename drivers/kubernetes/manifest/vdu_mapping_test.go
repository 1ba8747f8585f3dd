package manifest_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

func TestAVDUWithoutAWorkloadIsListed(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		mapping  any
		reason   string // of VDU THREE; "" if it has a group
		external bool
		unknown  bool
	}{
		"no mapping":             {nil, `has the name "three"`, false, false},
		"a workload":             {map[string]any{"THREE": map[string]any{"kind": "Deployment", "name": "four"}}, "", false, false},
		"a workload of any kind": {map[string]any{"THREE": map[string]any{"name": "four"}}, "", false, false},
		"another kind":           {map[string]any{"THREE": map[string]any{"kind": "StatefulSet", "name": "four"}}, `has the name "four"`, false, false},
		"what makes the pods":    {map[string]any{"THREE": map[string]any{"kind": "ConfigMap", "name": "shared"}}, "ConfigMap shared makes the pods", true, false},
		"no list of VDUs":        {"four", "must map VDU ids", false, false},
		"no object":              {map[string]any{"THREE": "four"}, "must have the name and kind", false, false},
		"no VDU":                 {map[string]any{"FOUR": map[string]any{"name": "four"}}, `has the name "three"`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := spread()
			src.VDUs = nil
			files := src.Package.Files.(fstest.MapFS)
			files["Files/kubernetes/four.yaml"] = &fstest.MapFile{Data: bytes.ReplaceAll(files["Files/kubernetes/one.yaml"].Data, []byte("one"), []byte("four"))}
			src.Instance.Params = map[string]any{}
			if c.mapping != nil {
				src.Instance.Params[manifest.ParamMapping] = c.mapping
			}

			form, err := manifest.NewRenderer(nil).Render(src)
			if err != nil {
				t.Fatal(err)
			}

			of := map[string]drivers.UnmatchedVDU{}
			for _, u := range form.Unmatched {
				of[u.VDU] = u
			}
			u, lacks := of["THREE"]
			if lacks != (c.reason != "") || !strings.Contains(u.Reason, c.reason) || u.External != c.external {
				t.Errorf("VDU THREE is listed as %+v", u)
			}
			if _, unknown := of["FOUR"]; unknown != c.unknown || len(of["ONE"].Reason) > 0 {
				t.Errorf("listed are %+v", form.Unmatched)
			}
			grouped := false
			for _, g := range form.Desired.Groups {
				grouped = grouped || g.VDU == "THREE" && g.Owner == "Deployment/default/four"
			}
			if grouped == lacks {
				t.Errorf("VDU THREE has a group: %t", grouped)
			}
		})
	}
}
