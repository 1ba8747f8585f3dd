package grant_test

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/grant"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/published"
)

func TestAnInstantiationAsksForItsUnitsWithTheirPortsDisksAndNetworks(t *testing.T) {
	published.Held(t)
	f := instantiation(t)
	r := f.Request()
	want := map[string]int{"COMPUTE VDU1": 2, "COMPUTE VDU2": 1, "LINKPORT CP1": 2, "LINKPORT CP2": 1, "STORAGE VDU2-storage": 1}
	if got := kinds(r.Add); !maps.Equal(got, want) {
		t.Errorf("addResources are %v, want %v", got, want)
	}
	body := wire(t, r)
	if body["instantiationLevelId"] == "" || body["flavourId"] != "simple" || body["isAutomaticInvocation"] != false {
		t.Errorf("got %v", body)
	}
	if !reflect.DeepEqual(r.AdditionalParams, map[string]any{"color": "blue"}) {
		t.Errorf("additionalParams are %v", r.AdditionalParams)
	}
	if len(r.Placement) != 2 || r.Placement[0].Kind != "ANTI_AFFINITY" || r.Placement[0].Scope != "NFVI_NODE" || len(r.Placement[0].Resource) != 2 || len(r.Placement[1].Resource) != 3 {
		t.Errorf("placementConstraints are %+v", r.Placement)
	}
	if len(r.VIMConstraints) != 1 || len(r.VIMConstraints[0].Resource) != 2 {
		t.Errorf("vimConstraints are %+v: only VDU1 has several units", r.VIMConstraints)
	}
	if r.Links.VnfLcmOpOcc.Href != "https://vnfm.example:9890/vnflcm/v2/vnf_lcm_op_occs/"+operation {
		t.Errorf("links are %+v", r.Links)
	}
}

// An answer that is lost is asked for again: the NFVO must see that nothing new is asked.
func TestARequestThatIsRepeatedIsTheSameByteForByte(t *testing.T) {
	first, _ := json.Marshal(instantiation(t).Request())
	again, _ := json.Marshal(instantiation(t).Request())
	if string(first) != string(again) {
		t.Errorf("%s\n%s", first, again)
	}
	other := instantiation(t)
	other.Operation.ID = "5d7e0c1b-43de-4f1c-bb3c-6b1a9b0e7c55"
	if a, b := instantiation(t).Request().Add[0].ID, other.Request().Add[0].ID; a == b {
		t.Error("two operations ask for the same resource")
	}
}

func TestPodsHaveNoPortsThatAreGranted(t *testing.T) {
	f := instantiation(t)
	f.Instance.VIM = "kube"
	if got := kinds(f.Request().Add); got["LINKPORT CP1"] != 0 || got["COMPUTE VDU1"] != 2 {
		t.Errorf("addResources are %v", got)
	}
}

func TestNewUnitsAreBoundToThoseThatStay(t *testing.T) {
	r := scaleOut(t).Request()
	wire(t, r)
	apart := r.Placement[0].Resource
	if len(apart) != 2 || apart[0].IDType != "GRANT" || apart[1].IDType != "RES_MGMT" || apart[1].ResourceID != "server-1" || apart[1].VIMConnectionID != "cloud-a" {
		t.Errorf("got %+v", apart)
	}
}

func TestATerminationAsksToRemoveAllThatTheVNFHas(t *testing.T) {
	published.Held(t)
	f := scaleOut(t)
	f.Operation.Type, f.Operation.Params = lcm.Terminate, json.RawMessage(`{"terminationType":"FORCEFUL"}`)
	f.Moves = plan.Moves{Leaving: []string{"server-1@1", "server-2@1"}}
	f.Seen.Resources = []plan.Resource{
		{Kind: plan.LinkPort, ID: "port-1", Type: "OS::Neutron::Port", Name: "CP1", Unit: "Server/stack:VDU1/server-1"},
		{Kind: plan.VirtualLink, ID: "net-1", Type: "OS::Neutron::Net", Name: "internal"},
		{Kind: plan.VirtualLink, ID: "net-2", Type: "OS::Neutron::Net", Name: "outside", External: true},
	}
	r := f.Request()
	body := wire(t, r)
	if got, want := kinds(r.Remove), map[string]int{"COMPUTE VDU1": 1, "COMPUTE VDU2": 1, "LINKPORT CP1": 1, "VL internal": 1}; !maps.Equal(got, want) {
		t.Errorf("removeResources are %v, want %v", got, want)
	}
	if body["addResources"] != nil || r.Remove[0].Resource.ResourceID != "server-1" {
		t.Errorf("got %v", body)
	}
}

func TestAChangeOfPackageReplacesTheUnitsAndNamesBothVNFDs(t *testing.T) {
	f := scaleOut(t)
	f.Operation.Type, f.FromVNFD = lcm.ChangePackage, "b1bb0ce7-ebca-4fa7-95ed-4840d7000000"
	f.Moves = plan.Moves{
		Going:  []plan.Number{{VDU: "VDU1", Owner: "stack", Count: 1, AtMost: true}},
		Coming: []plan.Number{{VDU: "VDU1", Owner: "stack", Count: 1, AtMost: true}},
	}
	r := f.Request()
	wire(t, r)
	if r.VnfdID != f.FromVNFD || r.DstVnfdID != f.Instance.VnfdID || kinds(r.Remove)["COMPUTE VDU1"] != 1 || kinds(r.Add)["COMPUTE VDU1"] != 1 {
		t.Errorf("got %+v", r)
	}
	if r.Remove[0].VnfdID != f.FromVNFD || r.Add[0].VnfdID != f.Instance.VnfdID {
		t.Errorf("definitions are of %s and %s", r.Remove[0].VnfdID, r.Add[0].VnfdID)
	}
}

func TestAChangeOfNetworksUpdatesTheUnitsAndTheirPorts(t *testing.T) {
	f := scaleOut(t)
	f.Operation.Type = lcm.ChangeExtConn
	f.Operation.ExtLinks = []desired.ExtVirtualLink{{ID: "net", ResourceID: "n1", ExtCps: []desired.ExtCp{{CpdID: "CP1"}}}}
	f.Seen.Resources = []plan.Resource{{Kind: plan.LinkPort, ID: "port-1", Type: "OS::Neutron::Port", Name: "CP1"}, {Kind: plan.LinkPort, ID: "port-2", Name: "CP2"}}
	f.Moves = plan.Moves{Going: []plan.Number{{VDU: "VDU1", Owner: "stack", Count: 1, AtMost: true}}, Coming: []plan.Number{{VDU: "VDU1", Owner: "stack", Count: 1, AtMost: true}}}
	r := f.Request()
	wire(t, r)
	if got, want := kinds(r.Update), map[string]int{"COMPUTE VDU1": 1, "LINKPORT CP1": 1}; !maps.Equal(got, want) || len(r.Add)+len(r.Remove) > 0 {
		t.Errorf("updateResources are %v, want %v; added %v, removed %v", got, want, r.Add, r.Remove)
	}
}

func TestAStopInPlaceAsksToUpdateTheUnits(t *testing.T) {
	f := scaleOut(t)
	f.Operation.Type, f.Moves = lcm.Operate, plan.Moves{}
	if r := f.Request(); len(r.Update) != 2 {
		t.Errorf("got %+v", r)
	}
}

func TestThePolicyRefusesByNameOfItsRule(t *testing.T) {
	for name, c := range map[string]struct {
		rule   desired.GrantRule
		refuse bool
	}{
		"operation":       {desired.GrantRule{Name: "r", Operations: []string{"INSTANTIATE"}, Deny: true}, true},
		"other operation": {desired.GrantRule{Name: "r", Operations: []string{"SCALE"}, Deny: true}, false},
		"VIM":             {desired.GrantRule{Name: "r", VIMs: []string{"cloud-a"}, Deny: true}, true},
		"other VIM":       {desired.GrantRule{Name: "r", VIMs: []string{"cloud-b"}, Deny: true}, false},
		"flavour":         {desired.GrantRule{Name: "r", Flavours: []string{"simple"}, MaxVNFCs: 2}, true},
		"enough VNFCs":    {desired.GrantRule{Name: "r", MaxVNFCs: 3}, false},
		"instances":       {desired.GrantRule{Name: "r", MaxInstances: 2}, true},
		"more instances":  {desired.GrantRule{Name: "r", MaxInstances: 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := instantiation(t)
			err := f.Judge([]desired.GrantRule{c.rule}, func(picks func(*desired.Instance) bool) (int, error) {
				n := 0
				for _, vim := range []string{"cloud-a", "cloud-b"} {
					if picks(&desired.Instance{VnfdID: "x", State: desired.Instantiated, VIM: vim}) {
						n++
					}
				}
				return n, nil
			})
			var denied *grant.Denied
			refused := errors.As(err, &denied)
			if refused != c.refuse || refused && denied.Status != 403 {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A limit that was set when more were there already keeps nobody from having fewer.
func TestALimitNeverRefusesToHaveFewer(t *testing.T) {
	f := scaleOut(t)
	f.Moves = plan.Moves{Leaving: []string{"server-1@1"}}
	if err := f.Judge([]desired.GrantRule{{Name: "none", MaxVNFCs: 1}}, nil); err != nil {
		t.Error(err)
	}
	f.Moves = plan.Moves{}
	if err := f.Judge([]desired.GrantRule{{Name: "none", MaxVNFCs: 1}}, nil); err != nil {
		t.Error(err)
	}
}
