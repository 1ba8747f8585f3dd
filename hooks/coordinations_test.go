package hooks_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// advised are the facts of a scaling of a VNF that coordinates by itself.
func advised(units ...plan.Unit) *hooks.Facts {
	pkg := &vnfd.Package{Tree: "t", VNFD: &vnfd.VNFD{ID: "d", Flavours: []vnfd.Flavour{{ID: "simple",
		CoordinationInterface: &vnfd.CoordinationInterface{Scheme: "https", Port: 8443, Path: "/vnf", VDUs: []string{"VDU1"}},
		Coordinations: map[string][]vnfd.Coordination{
			"scale_start":    {{Action: "drain", ByVNF: true, Inputs: map[string]any{"seconds": 30, "pool": "blue"}}},
			"coordinate_new": {{Action: "handover", ByVNF: true}},
			"scale_end":      {{Action: "balance"}},
		}}}}}
	side := hooks.Side{Instance: &desired.Instance{ID: "vnf", Flavour: "simple", Params: map[string]any{"seconds": 60, "other": 1}}, Package: pkg}
	return &hooks.Facts{Operation: &lcm.Operation{ID: "op", Type: lcm.Scale, UnitsBefore: units}, Subject: side, After: side, Before: side, Observed: plan.Observed{Units: units}}
}

func pod(name, vdu, ip string, ready bool) plan.Unit {
	return plan.Unit{Key: "Pod/ns/" + name, ID: name + "-uid", Name: name, VDU: vdu, Ready: ready, Metadata: map[string]string{"podIP": ip}}
}

func TestTheVNFCThatIsAskedIsTheOneThatItIsAboutOrOneThatIsReady(t *testing.T) {
	all := []plan.Unit{pod("a", "VDU1", "10.0.0.1", false), pod("b", "VDU1", "10.0.0.2", true), pod("c", "VDU1", "fd00::3", true), pod("d", "VDU2", "10.0.0.4", true)}
	for name, c := range map[string]struct{ hook, under, root, who string }{
		"for the whole VNF, the first that is ready":        {"scale_start:drain", "", "https://10.0.0.2:8443/vnf", "VDU1-b"},
		"for one of them, itself":                           {"coordinate_new:handover@Pod/ns/c", "", "https://[fd00::3]:8443/vnf", "VDU1-c"},
		"for one of another VDU, the first":                 {"coordinate_new:handover@Pod/ns/d", "", "https://10.0.0.2:8443/vnf", "VDU1-b"},
		"under way, the one that has accepted it":           {"scale_start:drain", "https://10.0.0.1:8443/vnf/lcmcoord/v1/coordinations/7", "https://10.0.0.1:8443/vnf", "VDU1-a"},
		"under way at one that is gone, as if it began now": {"scale_start:drain", "https://10.0.0.9:8443/vnf/lcmcoord/v1/coordinations/7", "https://10.0.0.2:8443/vnf", "VDU1-b"},
		"for one that isn't ready, nobody yet":              {"coordinate_new:handover@Pod/ns/a", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := advised(all...).Asking(c.hook, c.under)
			switch {
			case c.root == "":
				if err == nil || !strings.Contains(err.Error(), "VNFC Pod/ns/a isn't ready") {
					t.Errorf("%+v, %v", a, err)
				}
			case err != nil || a.VNF != c.root || a.Who != c.who:
				t.Errorf("%+v, %v; want %s of %s", a, err, c.root, c.who)
			}
		})
	}
	if _, err := advised(all[3]).Asking("scale_start:drain", ""); err == nil || !strings.Contains(err.Error(), "no VNFC of VDU VDU1 is ready") {
		t.Errorf("nobody has the interface: %v", err)
	}
}

func TestAnActionIsGivenTheParametersThatTheVNFDDeclares(t *testing.T) {
	a, err := advised(pod("b", "VDU1", "10.0.0.2", true)).Asking("scale_start:drain", "")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(a.Inputs); string(got) != `{"pool":"blue","seconds":60,"vnfcInstanceIds":[]}` {
		t.Errorf("inputs %s", got)
	}
	if a, err = advised(pod("b", "VDU1", "10.0.0.2", true)).Asking("scale_end:balance", ""); err != nil || a.VNF != "" {
		t.Errorf("the element manager: %+v, %v", a, err)
	}
	for _, gone := range []string{"scale_start:other", "heal_start:drain"} {
		if _, err := advised().Asking(gone, ""); err == nil || !strings.Contains(err.Error(), "has no LCM coordination action") {
			t.Errorf("%s: %v", gone, err)
		}
	}
}

func TestAnOperationNeedsAnElementManagerOnlyWhereItIsAsked(t *testing.T) {
	f := advised()
	known := &desired.Settings{Peers: []desired.Peer{{Name: "em-a", Type: desired.PeerEM, Endpoint: "https://em"}}}
	for name, c := range map[string]struct {
		settings *desired.Settings
		t        lcm.Type
		em       string
		want     string
	}{
		"it isn't asked":      {&desired.Settings{}, lcm.Heal, "", ""},
		"it is, by its name":  {known, lcm.Scale, "em-a", ""},
		"it is, and none is":  {&desired.Settings{}, lcm.Scale, "", "SCALE asks an element manager for balance (scale_end), and no em is known"},
		"no default is there": {known, lcm.Scale, "", "peers.yaml has no default: it has em-a of type em"},
		"another is named":    {known, lcm.Scale, "em-b", `em names "em-b", which isn't in peers.yaml`},
	} {
		t.Run(name, func(t *testing.T) {
			f.Subject.Instance.EM = c.em
			err := hooks.FindCoordinator(c.settings, c.t, f.Subject)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
