package manifest_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
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

// mapped gives the instance a mapping of one VDU.
func mapped(src drivers.Source, vdu, kind, name string) drivers.Source {
	src.Instance.Params[manifest.ParamMapping] = map[string]any{vdu: map[string]any{"kind": kind, "name": name}}
	return src
}

func TestRefusalsNameTheMappedWorkload(t *testing.T) {
	t.Parallel()
	placed := func(mapping any) drivers.Source {
		src := spread("THREE")
		src.Instance.Params = map[string]any{manifest.ParamMapping: mapping}
		return src
	}
	agent := "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}"
	for name, c := range map[string]struct {
		src  drivers.Source
		want string
	}{
		"at another VIM": {placed(map[string]any{"THREE": map[string]any{"kind": "Deployment", "name": "nine"}}),
			"placement: VDU THREE is to run at a Kubernetes VIM, but no manifest has a Deployment called nine, which params.vdu_mapping names"},
		"at another VIM, with a mapping that can't be read": {placed(map[string]any{"THREE": "nine"}), "params.vdu_mapping: params.vdu_mapping.THREE must have the name and kind"},
		"at another VIM, without a mapping":                 {placed(map[string]any{}), "no manifest has a workload called three: place it"},
		"it can't scale": {mapped(sample.Source("i1", "ns", agent, sample.TwoVDUs(), map[string]int{"front_aspect": 1}), "VDU1", "DaemonSet", "agent"),
			"levels.front_aspect: aspect front_aspect can't be scaled: its VDU VDU1 (DaemonSet agent) is a DaemonSet"},
		"it stays with its package, which has none": {
			staying(mapped(sample.Source("i1", "ns", workloadOf("web", "web:1", ""), sample.Workloads("web", "db"), nil), "DB", "Deployment", "store"), []string{"DB"}, workloadOf("store", "db:2", "")),
			"each of the two packages must have one Deployment called store, which params.vdu_mapping names, and they have 0 and 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.NewRenderer(nil).Render(c.src)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAMappedWorkloadStaysWithItsPackage(t *testing.T) {
	t.Parallel()
	before := mapped(sample.Source("i1", "ns", workloadOf("web", "web:1", "")+"---\n"+workloadOf("store", "db:1", ""), sample.Workloads("web", "db"), nil), "DB", "Deployment", "store")
	is := madeOf(t, staying(before, []string{"DB"}, workloadOf("web", "web:2", ""), workloadOf("store", "db:2", "")))
	if !strings.Contains(is["Deployment/ns/store"], "db:1") || !strings.Contains(is["Deployment/ns/web"], "web:2") {
		t.Errorf("%v", is)
	}
}

func TestTheFileOfAMappedWorkloadIsListed(t *testing.T) {
	t.Parallel()
	web, store := sample.Deployment("web", "cm"), sample.Deployment("store", "cm")
	before := sample.Packaged("i1", "ns", filesOf(map[string]string{"web.yaml": web}), sample.Workloads("web"), nil)
	before.Instance.Params["lcm-kubernetes-def-files"] = paths("web.yaml")
	after := mapped(sample.Packaged("i1", "ns", filesOf(map[string]string{"web.yaml": web, "store.yaml": store}), sample.Workloads("web", "db"), nil), "DB", "Deployment", "store")

	got, err := manifest.Definitions(before, after, paths("web.yaml"))

	if err != nil || !slices.Equal(got, paths("web.yaml", "store.yaml")) {
		t.Errorf("listed are %v, %v", got, err)
	}
}
