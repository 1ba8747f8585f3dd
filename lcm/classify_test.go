package lcm_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
)

func running(changes ...func(*desired.Instance)) *desired.Instance {
	in := &desired.Instance{
		ID: "amf", Name: "amf-1", VnfdID: "d1", Package: "p1", State: desired.Instantiated, Flavour: "simple",
		Levels: map[string]int{"a": 1, "b": 1},
		Params: map[string]any{"namespace": "amf", "lcm-kubernetes-def-files": []any{"x.yaml"}, "db_password": "age:xyz"},
		VIMConnections: map[string]desired.VIMConnection{"vim1": {VimID: "v", VimType: "kubernetes",
			AccessInfo: map[string]string{"bearer_token": "secret", "username": "u"}}},
		Metadata: map[string]any{"k": "v"},
	}
	for _, c := range changes {
		c(in)
	}
	return in
}

func TestClassifyNamesTheDominantOperation(t *testing.T) {
	off := func(in *desired.Instance) { in.State = desired.NotInstantiated }
	level := func(aspect string, n int) func(*desired.Instance) {
		return func(in *desired.Instance) {
			in.Levels = maps.Clone(in.Levels)
			in.Levels[aspect] = n
		}
	}
	pin := func(p string) func(*desired.Instance) { return func(in *desired.Instance) { in.Package = p } }
	vnfd := func(in *desired.Instance) { in.VnfdID = "d2" }
	name := func(in *desired.Instance) { in.Name = "amf-2" }
	condemn := func(key, id string) func(*desired.Instance) {
		return func(in *desired.Instance) {
			in.Condemned = maps.Clone(in.Condemned)
			if in.Condemned == nil {
				in.Condemned = map[string]string{}
			}
			in.Condemned[key] = id
		}
	}
	links := func(in *desired.Instance) {
		in.ExtVirtualLinks = []desired.ExtVirtualLink{{ID: "net", ResourceID: "n0", ExtCps: []desired.ExtCp{{CpdID: "cp", CpConfig: map[string]desired.ExtCpConfig{"a": {CreateLinkPort: true}}}}}}
	}
	const net = `"extVirtualLinks":[{"id":"net","resourceId":"n0","extCps":[{"cpdId":"cp","cpConfig":{"a":{"createExtLinkPort":true}}}]}]`
	managed := func(in *desired.Instance) {
		in.ExtManagedVirtualLinks = []desired.ExtManagedVirtualLink{{ID: "m", VirtualLinkDescID: "vl", ResourceID: "n1"}}
	}
	placed := func(in *desired.Instance) { in.Placement = map[string]string{"VDU2": "core"} }
	stopped := func(in *desired.Instance) { in.State = desired.Stopped }
	flavour := func(in *desired.Instance) {
		in.Flavour, in.InstantiationLevel, in.Levels = "big", "half", nil
		in.Params = map[string]any{"namespace": "amf", "lcm-kubernetes-def-files": []any{"y.yaml"}, "db_password": "age:xyz"}
	}
	for _, c := range []struct {
		name          string
		before, after *desired.Instance
		want          lcm.Type // "" is none
		params        string
	}{
		{"nothing at all", nil, nil, "", ""},
		{"an identifier is made", nil, running(off), "", ""},
		{"an identifier is removed", running(off), nil, "", ""},
		{"the same", running(), running(), "", ""},
		{"a default is written", running(func(in *desired.Instance) { in.State = "" }), running(), "", ""},
		{"the pin is filled in", running(pin("")), running(), "", ""},
		{"a directory that runs at once", nil, running(), lcm.Instantiate,
			`{"flavourId":"simple","vimConnectionInfo":{"vim1":{"vimId":"v","vimType":"kubernetes","accessInfo":{"username":"u"}}},
			  "additionalParams":{"namespace":"amf","lcm-kubernetes-def-files":["x.yaml"]}}`},
		{"it is to run", running(off), running(links, managed, placed), lcm.Instantiate,
			`{"flavourId":"simple","vimConnectionInfo":{"vim1":{"vimId":"v","vimType":"kubernetes","accessInfo":{"username":"u"}}},
			  ` + net + `, "extManagedVirtualLinks":[{"id":"m","vnfVirtualLinkDescId":"vl","resourceId":"n1"}],
			  "additionalParams":{"namespace":"amf","lcm-kubernetes-def-files":["x.yaml"],"placement":{"VDU2":"core"}}}`},
		{"it is to run no longer", running(), running(off), lcm.Terminate, `{"terminationType":"FORCEFUL"}`},
		{"its directory is gone", running(), nil, lcm.Terminate, `{"terminationType":"FORCEFUL"}`},
		{"terminate dominates all", running(), running(off, vnfd, level("a", 3), name), lcm.Terminate, `{"terminationType":"FORCEFUL"}`},
		{"another package", running(), running(pin("p2")), lcm.ChangePackage,
			`{"vnfdId":"d1","additionalParams":{"upgrade_type":"RollingUpdate","namespace":"amf","lcm-kubernetes-def-files":["x.yaml"]}}`},
		{"package dominates scale, heal and info", running(), running(vnfd, level("a", 3), condemn("Pod/amf/x", "u1"), name), lcm.ChangePackage,
			`{"vnfdId":"d2","additionalParams":{"upgrade_type":"RollingUpdate","namespace":"amf","lcm-kubernetes-def-files":["x.yaml"]}}`},
		{"links", running(), running(links, level("a", 2)), lcm.ChangeExtConn, "{" + net + "}"},
		{"links dominate scale, heal and info", running(), running(links, level("a", 3), condemn("Server/vdu/x", "u1@t"), name), lcm.ChangeExtConn, "{" + net + "}"},
		{"package dominates links", running(), running(links, pin("p2")), lcm.ChangePackage,
			`{"vnfdId":"d1", ` + net + `, "additionalParams":{"upgrade_type":"RollingUpdate","namespace":"amf","lcm-kubernetes-def-files":["x.yaml"]}}`},
		{"other networks in the place of its own", running(), running(managed), lcm.ChangePackage,
			`{"vnfdId":"d1", "extManagedVirtualLinks":[{"id":"m","vnfVirtualLinkDescId":"vl","resourceId":"n1"}],
			  "additionalParams":{"upgrade_type":"RollingUpdate","namespace":"amf","lcm-kubernetes-def-files":["x.yaml"]}}`},
		{"placement", running(), running(placed), lcm.ModifyInfo, `{}`},
		{"scale in of the VNFCs named", running(), running(level("b", 0), condemn("Server/vdu/x", "u1@2026-05-25T10:00:00Z")), lcm.Scale,
			`{"type":"SCALE_IN","aspectId":"b","numberOfSteps":1,"additionalParams":{"vnfcInstanceId":["u1"]}}`},
		{"heal of a server and its volumes", running(), running(condemn("Server/vdu/x", "u1@t"), condemn("Volume/vdu/x/data", "v1")), lcm.Heal,
			`{"vnfcInstanceId":["u1"],"additionalParams":{"all":true}}`},
		{"scale out", running(), running(level("a", 3)), lcm.Scale, `{"type":"SCALE_OUT","aspectId":"a","numberOfSteps":2}`},
		{"scale in", running(), running(level("b", 0)), lcm.Scale, `{"type":"SCALE_IN","aspectId":"b","numberOfSteps":1}`},
		{"an aspect that wasn't named", running(), running(level("c", 2)), lcm.Scale, `{"type":"SCALE_OUT","aspectId":"c","numberOfSteps":2}`},
		{"several aspects", running(), running(level("a", 3), level("b", 0)), lcm.ScaleToLevel,
			`{"scaleInfo":[{"aspectId":"a","scaleLevel":3},{"aspectId":"b","scaleLevel":0}]}`},
		{"scale dominates heal", running(), running(level("a", 2), condemn("Pod/amf/x", "u1")), lcm.Scale,
			`{"type":"SCALE_OUT","aspectId":"a","numberOfSteps":1}`},
		{"another instantiation level", running(), running(func(in *desired.Instance) { in.InstantiationLevel = "big" }), lcm.ScaleToLevel,
			`{"instantiationLevelId":"big"}`},
		{"back to the default instantiation level", running(func(in *desired.Instance) { in.InstantiationLevel = "big" }), running(), lcm.ScaleToLevel,
			`{"scaleInfo":[{"aspectId":"a","scaleLevel":1},{"aspectId":"b","scaleLevel":1}]}`},
		{"stop", running(), running(stopped), lcm.Operate, `{"changeStateTo":"STOPPED","stopType":"GRACEFUL"}`},
		{"start", running(stopped), running(), lcm.Operate, `{"changeStateTo":"STARTED"}`},
		{"a stop dominates scale, heal and info", running(), running(stopped, level("a", 3), condemn("Pod/amf/x", "u1"), name), lcm.Operate,
			`{"changeStateTo":"STOPPED","stopType":"GRACEFUL"}`},
		{"links dominate a stop", running(), running(stopped, links), lcm.ChangeExtConn, "{" + net + "}"},
		{"a VNF that is stopped is scaled", running(stopped), running(stopped, level("a", 2)), lcm.Scale, `{"type":"SCALE_OUT","aspectId":"a","numberOfSteps":1}`},
		{"a VNF that is stopped is terminated", running(stopped), running(off), lcm.Terminate, `{"terminationType":"FORCEFUL"}`},
		{"a directory that begins stopped", running(off), running(stopped, flavour, func(in *desired.Instance) { in.VIMConnections = nil }), lcm.Instantiate,
			`{"flavourId":"big","instantiationLevelId":"half","additionalParams":{"namespace":"amf","lcm-kubernetes-def-files":["y.yaml"]}}`},
		{"another flavour, with its manifests", running(), running(flavour), lcm.ChangeFlavour,
			`{"newFlavourId":"big","instantiationLevelId":"half","additionalParams":{"namespace":"amf","lcm-kubernetes-def-files":["y.yaml"]}}`},
		{"a flavour dominates links, a stop and scale", running(), running(flavour, links, stopped), lcm.ChangeFlavour,
			`{"newFlavourId":"big","instantiationLevelId":"half",` + net + `,"additionalParams":{"namespace":"amf","lcm-kubernetes-def-files":["y.yaml"]}}`},
		{"package dominates flavour", running(), running(func(in *desired.Instance) { in.Flavour = "big" }, vnfd), lcm.ChangePackage,
			`{"vnfdId":"d2","additionalParams":{"upgrade_type":"RollingUpdate","namespace":"amf","lcm-kubernetes-def-files":["x.yaml"]}}`},
		{"heal", running(), running(condemn("Pod/amf/y", "u2"), condemn("Pod/amf/x", "u1"), name), lcm.Heal, `{"vnfcInstanceId":["u1","u2"]}`},
		{"heal of the whole VNF", running(), running(condemn("Deployment/amf/x", "d1")), lcm.Heal, `{}`},
		{"heal of pods beside objects names the pods alone", running(), running(condemn("Deployment/amf/x", "d1"), condemn("Pod/amf/x", "u1")), lcm.Heal,
			`{"vnfcInstanceId":["u1"]}`},
		{"heal while an old tombstone stays", running(condemn("Pod/amf/x", "u1")), running(condemn("Pod/amf/x", "u1"), condemn("Pod/amf/y", "u2")), lcm.Heal,
			`{"vnfcInstanceId":["u2"]}`},
		{"heal while an old tombstone goes", running(condemn("Pod/amf/x", "u1")), running(condemn("Pod/amf/y", "u2")), lcm.Heal, `{"vnfcInstanceId":["u2"]}`},
		{"a spent tombstone is dropped beside a scale", running(condemn("Pod/amf/x", "u1")), running(level("a", 2)), lcm.Scale,
			`{"type":"SCALE_OUT","aspectId":"a","numberOfSteps":1}`},
		{"a tombstone of one that doesn't run", running(off), running(off, condemn("Pod/amf/x", "u1")), "", ""},
		{"a second heal", running(condemn("Pod/amf/x", "u1")), running(condemn("Pod/amf/x", "u2")), lcm.Heal, `{"vnfcInstanceId":["u2"]}`},
		{"a spent tombstone is dropped", running(condemn("Pod/amf/x", "u1")), running(), "", ""},
		{"info", running(), running(name, func(in *desired.Instance) { in.Metadata = map[string]any{"k": "w", "token": "t"} }), lcm.ModifyInfo,
			`{"vnfInstanceName":"amf-2","metadata":{"k":"w"}}`},
		{"connection info", running(), running(func(in *desired.Instance) { in.VIMConnections = nil }), lcm.ModifyInfo, `{"vimConnectionInfo":{}}`},
		{"info of one that doesn't run", running(off), running(off, vnfd), lcm.ModifyInfo, `{"vnfdId":"d2"}`},
		{"levels of one that doesn't run", running(off), running(off, level("a", 3)), "", ""},
		{"suspend alone", running(), running(func(in *desired.Instance) { in.Suspend = true }), "", ""},
		{"drift alone", running(), running(func(in *desired.Instance) { in.Drift = desired.DriftReport }), "", ""},
		{"held is lifted", running(func(in *desired.Instance) { in.Held = "op" }), running(), "", ""},
		{"policy is Jibe's own business", running(), running(func(in *desired.Instance) {
			in.Drift, in.Suspend, in.Held, in.Update.Strategy = desired.DriftReport, true, "op", desired.BlueGreen
		}), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			typ, params, ok := lcm.Classify(c.before, c.after)
			if typ != c.want || ok != (c.want != "") {
				t.Fatalf("%q, %v; want %q", typ, ok, c.want)
			}
			if c.want == "" {
				return
			}
			var got, want any
			if err := json.Unmarshal(params, &got); err != nil {
				t.Fatalf("%s: %v", params, err)
			}
			if err := json.Unmarshal([]byte(c.params), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("params (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEffectiveLevelsDecideTheDirection(t *testing.T) {
	unnamed := running(func(in *desired.Instance) { in.Levels = nil })
	named := running(func(in *desired.Instance) { in.Levels = map[string]int{"a": 1} })
	typ, params, ok := lcm.ClassifyLevels(unnamed, named, map[string]int{"a": 2}, map[string]int{"a": 1})
	if !ok || typ != lcm.Scale || !strings.Contains(string(params), "SCALE_IN") {
		t.Errorf("%s %s", typ, params)
	}
	if why := lcm.NoRollbackLevels(unnamed, named, map[string]int{"a": 2}, map[string]int{"a": 1}); !strings.Contains(why, "aspect a") {
		t.Errorf("no rollback: %q", why)
	}
	// Writing down the level that the VNFD has anyway is no change.
	if typ, _, ok := lcm.ClassifyLevels(unnamed, named, map[string]int{"a": 1}, map[string]int{"a": 1}); ok {
		t.Errorf("%s", typ)
	}
}

func TestAChangeThatRemovesForGoodHasNoRollback(t *testing.T) {
	in := func(in *desired.Instance) { in.VnfdID, in.Levels = "d2", map[string]int{"a": 0, "b": 1} }
	heal := func(in *desired.Instance) {
		in.VnfdID, in.Condemned = "d2", map[string]string{"Pod/amf/x": "u1"}
	}
	out := func(in *desired.Instance) { in.VnfdID, in.Levels = "d2", map[string]int{"a": 2, "b": 1} }
	for _, c := range []struct {
		before, after *desired.Instance
		want          string
	}{
		{running(), running(in), "scaled in"},
		{running(), running(heal), "heals"},
		{running(), running(out), ""},
		{running(), running(func(in *desired.Instance) {
			in.Levels, in.Condemned = map[string]int{"a": 2, "b": 1}, map[string]string{"Pod/amf/x": "u1"}
		}), "heals"},
		{running(heal), running(out), ""}, // the tombstone that goes stands against nothing
		{nil, running(), ""},
		{running(), nil, ""},
	} {
		levels := func(in *desired.Instance) map[string]int {
			if in == nil {
				return nil
			}
			return in.Levels
		}
		got := lcm.NoRollbackLevels(c.before, c.after, levels(c.before), levels(c.after))
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Secrets of an instance must not be shown with its operation.
func TestParamsHoldNoSecret(t *testing.T) {
	secret := "s3cr3t"
	in := running(func(in *desired.Instance) {
		in.Params = map[string]any{"a": map[string]any{"password": secret, "list": []any{"age:" + secret, map[string]any{"client_secret": secret}}},
			"plain": "age:" + secret, "ok": "shown", "configmap_secret_paths": []any{"Files/kubernetes/cm.yaml"}}
		in.VIMConnections = map[string]desired.VIMConnection{"v": {AccessInfo: map[string]string{
			"password": secret, "bearer_token": secret, "client_secret": secret, "ssl_key": "-----BEGIN PRIVATE KEY-----" + secret}}}
		in.Extensions = map[string]any{"apiToken": secret}
	})
	for _, before := range []*desired.Instance{nil, {VnfdID: "d1", Package: "p1", Flavour: "simple", Params: in.Params}, {VnfdID: "other"}} {
		typ, params, ok := lcm.Classify(before, in)
		if !ok || strings.Contains(string(params), secret) {
			t.Errorf("%s: %s", typ, params)
		}
		if typ == lcm.Instantiate && (!strings.Contains(string(params), "shown") || !strings.Contains(string(params), "cm.yaml")) {
			t.Errorf("%s hides what is no secret: %s", typ, params)
		}
	}
}
