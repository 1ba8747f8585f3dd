package sol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
)

func TestAnInstanceTellsOfItsFailedOperationAndWhyItsFileIsNotObeyed(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	path := api + "/vnf_instances/" + id
	status := func() *sol.InstanceStatus {
		t.Helper()
		var v sol.VnfInstance
		e.want(200, "GET", path, "").json(t, &v)
		return v.Jibe
	}
	problem := desired.Problem{File: "instances/a/vnf.yaml", Line: 4, Message: "too many", Remedy: "ask for fewer"}
	e.view.mu.Lock()
	e.view.problems[id] = []desired.Problem{problem}
	e.view.mu.Unlock()
	if d := cmp.Diff(&sol.InstanceStatus{DriftPolicy: "correct", Problems: []desired.Problem{problem}}, status()); d != "" {
		t.Error(d)
	}
	e.view.mu.Lock()
	delete(e.view.problems, id)
	e.view.mu.Unlock()
	op := e.begun(e.want(202, "POST", path+"/scale", `{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}`))
	if got := status(); got != nil {
		t.Errorf("while it goes on: %+v", got)
	}
	e.move(op, nil, lcm.Broke)
	got := status()
	if got == nil || got.Failed == nil || got.Failed.Reason == "" {
		t.Fatalf("after it failed: %+v", got)
	}
	want := &sol.InstanceStatus{DriftPolicy: "correct", Failed: &sol.FailedOperation{ID: op, Operation: lcm.Scale, Reason: got.Failed.Reason}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestOneInstanceIsShownWithTheWorkloadsOfItsVDUsAndListsAreNot(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	created := e.create()
	workloads := map[string]any{"VDU1": map[string]any{"kind": "Deployment", "spec": map[string]any{"replicas": 2.0}}}
	e.view.mu.Lock()
	e.view.workloads[id], e.view.workloads[created] = workloads, workloads
	e.view.mu.Unlock()
	told := func(v *sol.VnfInstance) any {
		if v.InstantiatedVnfInfo == nil {
			return nil
		}
		return v.InstantiatedVnfInfo.Metadata["vdu_reses"]
	}
	var one, other sol.VnfInstance
	e.want(200, "GET", api+"/vnf_instances/"+id, "").json(t, &one)
	if d := cmp.Diff(any(workloads), told(&one)); d != "" {
		t.Error(d)
	}
	e.want(200, "GET", api+"/vnf_instances/"+created, "").json(t, &other)
	if got := told(&other); got != nil {
		t.Errorf("of one that doesn't run: %v", got)
	}
	var list []sol.VnfInstance
	e.want(200, "GET", api+"/vnf_instances?all_fields", "").json(t, &list)
	for i := range list {
		if got := told(&list[i]); got != nil {
			t.Errorf("in a list: %v", got)
		}
	}
	e.view.mu.Lock()
	e.view.stale = true
	e.view.mu.Unlock()
	var stale sol.VnfInstance
	e.want(200, "GET", api+"/vnf_instances/"+id, "").json(t, &stale)
	if got := told(&stale); got != nil || stale.InstantiatedVnfInfo.Metadata["stale"] != true {
		t.Errorf("while they aren't known: %v", stale.InstantiatedVnfInfo.Metadata)
	}
}
