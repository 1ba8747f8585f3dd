package packages

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// heat renders a package for an instance as OpenStack's driver does.
func heat(t *testing.T, name string, params map[string]any, links ...desired.ExtVirtualLink) (*vnfd.Flavour, *hot.Rendered) {
	t.Helper()
	p, err := vnfd.Load(os.DirFS(name))
	if err != nil {
		t.Fatal(err)
	}
	flavour, ok := p.VNFD.Flavour("simple")
	if !ok {
		t.Fatal("no flavour simple")
	}
	folder, err := hot.Parse(p.Files, "simple")
	if err != nil {
		t.Fatal(err)
	}
	r, err := folder.Render(hot.Input{
		Instance: "9c5f0b1a-4c1d-5c55-8f0f-6f2a9e1b0143", Flavour: flavour, Params: params, ExtVirtualLinks: links, Key: []byte("key"),
		Runs: func(vdu string) bool { return vdu != "WEB" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return flavour, r
}

// link connects connection points to net0, those that are called name=address at that one.
func link(cps ...string) desired.ExtVirtualLink {
	l := desired.ExtVirtualLink{ID: "link", ResourceID: "net0"}
	for _, cp := range cps {
		name, at, fixed := strings.Cut(cp, "=")
		ext := desired.ExtCp{CpdID: name}
		if fixed {
			ext.CpConfig = map[string]desired.ExtCpConfig{"one": {Protocols: []desired.CpProtocol{{
				LayerProtocol: "IP_OVER_ETHERNET", IPOverEthernet: &desired.IPOverEthernet{IPAddresses: []desired.IPAddress{{Type: "IPV4", FixedAddresses: []string{at}}}},
			}}}}
		}
		l.ExtCps = append(l.ExtCps, ext)
	}
	return l
}

func TestEachVDUOfVirtualMachinesScalesFromTheVNFDsLeastToItsMost(t *testing.T) {
	plain := map[string]any{"image_id": "img1", "flavor_name": "m1.tiny", "ext_network_id": "net0"}
	for name, test := range map[string]struct {
		params map[string]any
		cps    []string
		shapes map[string]hot.Shape
	}{
		"vm-asg-1.0":        {nil, []string{"CP1", "CP2"}, map[string]hot.Shape{"VDU1": hot.Grouped, "VDU2": hot.Grouped}},
		"vm-asg-1.1":        {nil, []string{"CP1", "CP2"}, map[string]hot.Shape{"VDU1": hot.Grouped, "VDU2": hot.Grouped}},
		"vm-indexed-1.0":    {nil, []string{"CP1", "CP2"}, map[string]hot.Shape{"VDU1": hot.Expanded, "VDU2": hot.Expanded}},
		"vm-indexed-1.1":    {nil, []string{"CP1", "CP2"}, map[string]hot.Shape{"VDU1": hot.Expanded, "VDU2": hot.Expanded}},
		"vm-blue-green-1.0": {nil, []string{"CP1"}, map[string]hot.Shape{"VDU1": hot.Grouped}},
		"vm-blue-green-1.1": {nil, []string{"CP1"}, map[string]hot.Shape{"VDU1": hot.Grouped}},
		"vm-sample-1.0":     {plain, nil, map[string]hot.Shape{"VDU1": hot.Grouped}},
		"vm-sample-1.1":     {plain, nil, map[string]hot.Shape{"VDU1": hot.Grouped}},
		"k8s-cluster-1.0": {nil, []string{"masterNode_CP1", "workerNode_CP1"},
			map[string]hot.Shape{"MasterVDU": hot.Grouped, "WorkerVDU": hot.Grouped}},
		"k8s-cluster-ha-1.0": {nil, []string{"masterNode_CP1", "workerNode_CP1", "vip_CP=10.10.0.100"},
			map[string]hot.Shape{"MasterVDU": hot.Grouped, "WorkerVDU": hot.Grouped}},
		"mixed-1.0": {nil, []string{"DB_CP"}, map[string]hot.Shape{"DB": hot.Expanded}},
	} {
		t.Run(name, func(t *testing.T) {
			var links []desired.ExtVirtualLink
			if test.cps != nil {
				links = append(links, link(test.cps...))
			}
			flavour, r := heat(t, name, test.params, links...)
			shapes := map[string]hot.Shape{}
			for id, d := range r.VDUs {
				shapes[id] = d.Shape
			}
			if !maps.Equal(shapes, test.shapes) {
				t.Errorf("its VDUs are %v, want %v", shapes, test.shapes)
			}
			for _, bound := range []func(vnfd.VDU) int{func(v vnfd.VDU) int { return v.Min }, func(v vnfd.VDU) int { return v.Max }} {
				counts := map[string]int{}
				for _, v := range flavour.VDUs {
					if r.VDUs[v.ID] != nil {
						counts[v.ID] = bound(v)
					}
				}
				if err := r.Check(counts); err != nil {
					t.Error(err)
				}
				if _, err := r.Create(counts); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestEveryVersionOfAVirtualMachineIsAnotherAndStartsFromAnotherImage(t *testing.T) {
	for name, cps := range map[string][]string{"vm-asg": {"CP1", "CP2"}, "vm-indexed": {"CP1", "CP2"}, "vm-blue-green": {"CP1"}} {
		digests := map[string]string{}
		for version, image := range map[string]string{"1.0": "img1", "1.1": "img2"} {
			_, r := heat(t, name+"-"+version, nil, link(cps...))
			for vdu, d := range r.VDUs {
				if digests[vdu] == d.Digest {
					t.Errorf("%s: VDU %s of both versions is the same", name, vdu)
				}
				digests[vdu] = d.Digest
			}
			body, err := r.Create(map[string]int{"VDU1": 1, "VDU2": 1})
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), image) || !strings.Contains(string(text), "net0") {
				t.Errorf("%s-%s has no image %s, or no network: %s", name, version, image, text)
			}
		}
		if len(digests) == 0 {
			t.Errorf("%s has no VDU", name)
		}
	}
}

func TestTheNumberOfServersOfTheSampleIsTheParameterNumOfInstances(t *testing.T) {
	_, r := heat(t, "vm-sample-1.0", map[string]any{"image_id": "img1", "flavor_name": "m1.tiny", "ext_network_id": "net0"})
	body, err := r.Create(map[string]int{"VDU1": 3})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(body.Template)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := body.Parameters["num_of_instances"]; (!ok || n != int64(3) && n != 3) && !strings.Contains(string(text), `"desired_capacity":3`) {
		t.Errorf("the parameters are %v, the template is %s", body.Parameters, text)
	}
}

func TestTheScriptsOfThePackagesOfVirtualMachinesAreListed(t *testing.T) {
	for _, name := range []string{"vm-asg-1.1", "vm-indexed-1.1", "vm-blue-green-1.1", "vm-sample-1.1"} {
		p, err := vnfd.Load(os.DirFS(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range []string{"coordinate_new_vnf.py", "coordinate_old_vnf.py", "machine.py"} {
			if !slices.ContainsFunc(p.Artifacts, func(a string) bool { return strings.HasSuffix(a, script) }) {
				t.Errorf("%s: %s isn't among the artifacts %v", name, script, p.Artifacts)
			}
		}
	}
}
