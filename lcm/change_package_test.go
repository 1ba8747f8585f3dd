package lcm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
)

// updated is one that runs base with container updates of the packages on top.
func updated(base string, packages ...string) func(*desired.Instance) {
	return func(in *desired.Instance) {
		in.Package, in.Base, in.Overlays = base, "", nil
		for _, p := range packages {
			in.Package, in.Base, in.VnfdID = p, base, "of "+p
			in.Overlays = append(in.Overlays, desired.Overlay{Package: p, Paths: []string{"Files/" + p + ".yaml"}})
		}
	}
}

func TestAChangeOfPackageIsDistinguishedFromAContainerUpdateAndAHeal(t *testing.T) {
	strategy := func(s string) func(*desired.Instance) { return func(in *desired.Instance) { in.Update.Strategy = s } }
	generation := func(g string) func(*desired.Instance) { return func(in *desired.Instance) { in.Generation = g } }
	condemn := func(in *desired.Instance) { in.Condemned = map[string]string{"Deployment/amf/x": "u1"} }
	more := func(in *desired.Instance) { in.Levels = map[string]int{"a": 2, "b": 1} }
	note := func(in *desired.Instance) {
		in.Metadata = map[string]any{"configmap_secret_paths": []any{"Files/p2.yaml"}}
	}
	for _, c := range []struct {
		name          string
		before, after *desired.Instance
		want          lcm.Type // "" is none
	}{
		{"rolling", running(), running(updated("p2")), lcm.ChangePackage},
		{"blue-green", running(), running(updated("p2"), generation("1"), strategy(desired.BlueGreen)), lcm.ChangePackage},
		{"another generation of the same package", running(), running(generation("1")), lcm.ChangePackage},
		{"a blue-green change is taken back", running(updated("p2"), generation("1")), running(), lcm.ChangePackage},
		{"a container update", running(), running(updated("p1", "p2")), lcm.ModifyInfo},
		{"a container update with its paths in the metadata", running(), running(updated("p1", "p2"), note), lcm.ModifyInfo},
		{"a container update on top of one", running(updated("p1", "p2")), running(updated("p1", "p2", "p3")), lcm.ModifyInfo},
		{"a container update is taken back", running(updated("p1", "p2")), running(), lcm.ChangePackage},
		{"a container update that scales besides", running(), running(updated("p1", "p2"), more), lcm.ChangePackage},
		{"a container update under which another was replaced", running(updated("p1", "p2")), running(updated("p1", "p3", "p4")), lcm.ChangePackage},
		{"a container update of another base", running(updated("p1", "p2")), running(updated("p0", "p2", "p3")), lcm.ChangePackage},
		{"a change of package over container updates", running(updated("p1", "p2")), running(updated("p3")), lcm.ChangePackage},
		{"a heal of the whole that lets the package apply in full", running(updated("p1", "p2")),
			running(updated("p2"), condemn, func(in *desired.Instance) { in.VnfdID = "of p2" }), lcm.Heal},
		{"the package applies in full, and nothing is healed", running(updated("p1", "p2")),
			running(updated("p2"), func(in *desired.Instance) { in.VnfdID = "of p2" }), lcm.ChangePackage},
		{"a heal that leaves container updates as they are", running(updated("p1", "p2")), running(updated("p1", "p2"), condemn), lcm.Heal},
		{"a name, above container updates", running(updated("p1", "p2")), running(updated("p1", "p2"), note), lcm.ModifyInfo},
		{"how the next change is to be made", running(), running(strategy(desired.BlueGreen)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if typ, _, ok := lcm.Classify(c.before, c.after); typ != c.want || ok != (c.want != "") {
				t.Errorf("%q, %v; want %q", typ, ok, c.want)
			}
		})
	}
}

func TestTheParamsOfAChangeOfPackageAreThoseOfARequest(t *testing.T) {
	after := running(updated("p2"), func(in *desired.Instance) {
		in.VnfdID, in.Generation = "d2", "1"
		in.Update = desired.UpdatePolicy{Strategy: desired.BlueGreen, Drain: "30s", Coordinate: desired.Coordination{
			New: "Scripts/new.py", NewClass: "New", Old: "Scripts/old.py", OldClass: "Old",
			Params: map[string]any{"vdu_params": []any{map[string]any{
				"vdu_id": "VDU1", "new_vnfc_param": map[string]any{"cp_name": "CP1", "username": "u", "password": "age:secret"},
			}}},
		}}
	})
	_, params, ok := lcm.Classify(running(), after)
	want := `{"vnfdId":"d2","additionalParams":{"upgrade_type":"Blue-Green","namespace":"amf","lcm-kubernetes-def-files":["x.yaml"],
		"lcm-operation-coordinate-new-vnf":"Scripts/new.py","lcm-operation-coordinate-new-vnf-class":"New",
		"lcm-operation-coordinate-old-vnf":"Scripts/old.py","lcm-operation-coordinate-old-vnf-class":"Old",
		"vdu_params":[{"vdu_id":"VDU1","new_vnfc_param":{"cp_name":"CP1","username":"u"}}]}}`
	if !ok || !sameJSON(t, string(params), want) {
		t.Errorf("params are %s, %v; want %s", params, ok, want)
	}
}

func TestModificationsByAChangeOfPackageHoldNoSecrets(t *testing.T) {
	after := running(updated("p2"), func(in *desired.Instance) {
		in.VnfdID = "d2"
		in.Extensions = map[string]any{"vnfcs": 2.0, "token": "t"}
		in.ConfigurableProperties = map[string]any{"isAutoscaleEnabled": true}
	})
	vnf := lcm.VNF{Provider: "ours", ProductName: "amf", SoftwareVersion: "2.0", VnfdVersion: "1.1"}
	got := string(lcm.TriggeredByPackage(running(), after, vnf))
	want := `{"vnfdId":"d2","vnfProvider":"ours","vnfProductName":"amf","vnfSoftwareVersion":"2.0","vnfdVersion":"1.1",
		"extensions":{"vnfcs":2},"vnfConfigurableProperties":{"isAutoscaleEnabled":true}}`
	if !sameJSON(t, got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	after.Metadata = map[string]any{"k": "w", "vim_password": "x"}
	if got := string(lcm.TriggeredByPackage(running(), after, vnf)); !strings.Contains(got, `"metadata":{"k":"w"}`) {
		t.Errorf("got %s, without the new metadata", got)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return cmp.Equal(x, y)
}
