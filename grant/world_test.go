package grant_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/grant"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/published"
	"github.com/jibe-vnfm/jibe/vnfd"
)

const (
	instance  = "4f2a6c1e-7c5b-4d0e-9a53-0d9f1b1c8e11"
	operation = "9b1d0f52-1f6e-4b3a-8f14-6a3c5e7d9f20"
)

// indexed is the example whose VDUs are two virtual machines, one with a disk, with a rule of
// which of them stand apart.
func indexed(t testing.TB) *vnfd.Package {
	t.Helper()
	pkg, err := vnfd.Load(os.DirFS("../examples/packages/vm-indexed-1.0"))
	if err != nil {
		t.Fatal(err)
	}
	pkg.VNFD.Flavours[0].Affinities = []vnfd.Affinity{
		{ID: "apart", Anti: true, Scope: "nfvi_node", VDUs: []string{"VDU1"}},
		{ID: "together", Scope: "zone", VDUs: []string{"VDU1", "VDU2"}},
	}
	return pkg
}

func settings() *desired.Settings {
	return &desired.Settings{VIMs: map[string]*desired.VIM{
		"cloud-a": {Name: "cloud-a", ID: "vim-id-a", Type: desired.VIMOpenStack, Default: true, Endpoint: "https://a.example:5000/v3"},
		"cloud-b": {Name: "cloud-b", Type: desired.VIMOpenStack, Endpoint: "https://b.example:5000/v3"},
		"kube":    {Name: "kube", Type: desired.VIMKubernetes, Endpoint: "https://kube.example:6443"},
	}}
}

// instantiation are the facts of an instantiation with two units of VDU1 and one of VDU2.
func instantiation(t testing.TB) *grant.Facts {
	t.Helper()
	pkg := indexed(t)
	return &grant.Facts{
		Operation: &lcm.Operation{ID: operation, Instance: instance, Type: lcm.Instantiate, Params: json.RawMessage(`{"flavourId":"simple","additionalParams":{"color":"blue"}}`)},
		Instance:  &desired.Instance{ID: instance, VnfdID: pkg.VNFD.ID, State: desired.Instantiated, Flavour: "simple", VIM: "cloud-a"},
		Package:   pkg, Settings: settings(), Base: "https://vnfm.example:9890",
		Moves: plan.Moves{Coming: []plan.Number{{VDU: "VDU1", Owner: "stack", Count: 2}, {VDU: "VDU2", Owner: "stack", Count: 1}}},
	}
}

// scaleOut are the facts of a scale-out by one unit of VDU1, of which one runs.
func scaleOut(t testing.TB) *grant.Facts {
	f := instantiation(t)
	f.Operation.Type = lcm.Scale
	f.Operation.Params = json.RawMessage(`{"type":"SCALE_OUT","aspectId":"VDU1_aspect","numberOfSteps":1}`)
	f.Seen = plan.Observed{Units: []plan.Unit{
		{ID: "server-1@1", Key: "Server/stack:VDU1/server-1", VDU: "VDU1", Owner: "stack", Kind: "OS::Nova::Server", Ready: true},
		{ID: "server-2@1", Key: "Server/stack:VDU2/server-2", VDU: "VDU2", Owner: "stack", Kind: "OS::Nova::Server", Ready: true},
	}}
	f.Moves = plan.Moves{Coming: []plan.Number{{VDU: "VDU1", Owner: "stack", Count: 1}}}
	return f
}

// wire is the request as the NFVO gets it, held against the published definitions.
func wire(t testing.TB, r *grant.Request) map[string]any {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := published.Grants.Request("POST", "/grants", b); err != nil {
		t.Errorf("the request breaks the published definitions: %v\n%s", err, b)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// kinds counts the entries of a list by type and template.
func kinds(list []grant.ResourceDefinition) map[string]int {
	n := map[string]int{}
	for _, d := range list {
		n[d.Type+" "+d.TemplateID]++
	}
	return n
}
