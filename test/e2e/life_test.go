package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

// flavoured is the example package with two flavours.
const flavoured = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bf1"

// changesOf counts the affected VNFCs by change and VDU.
func changesOf(op object) map[string]int {
	n := map[string]int{}
	for _, v := range op.list("resourceChanges", "affectedVnfcs") {
		n[v.text("changeType")+" "+v.text("vduId")]++
	}
	return n
}

func (b *bench) state(id string) string {
	b.Helper()
	return b.show(b.T, id).text("instantiatedVnfInfo", "vnfState")
}

// A VNF is scaled to levels, stopped, started and given another flavour, by requests and by
// commits, and subscribers hear of all of it.
func TestAVNFIsStoppedStartedAndGivenAnotherFlavour(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	r := newReceiver(t)
	b.subscribe(r, object{"operationTypes": []string{"OPERATE", "CHANGE_FLAVOUR", "SCALE_TO_LEVEL"}})
	id := b.create(flavoured)
	b.server.run(t, id, "instantiate", object{"flavourId": "small", "additionalParams": object{
		"namespace": b.namespace, "lcm-kubernetes-def-files": []string{"Files/kubernetes/web.yaml"}}})
	b.awaitPods(1)
	op := b.server.run(t, id, "scale_to_level", object{"instantiationLevelId": "busy"})
	if n := changesOf(op); !maps.Equal(n, map[string]int{"ADDED VDU1": 2}) {
		t.Errorf("scaled: %v", n)
	}

	op = b.server.run(t, id, "operate", object{"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 60})
	if n := changesOf(op); !maps.Equal(n, map[string]int{"REMOVED VDU1": 3}) || b.state(id) != "STOPPED" {
		t.Errorf("stopped: %v, %s", n, b.state(id))
	}
	b.awaitPods(0)
	if a := b.rest(t, "POST", instances+"/"+id+"/operate", object{"changeStateTo": "STOPPED"}); a.Status != 409 {
		t.Errorf("a second stop: %d %s", a.Status, a.Body)
	}

	// The rest by git, where it is the same.
	d := b.clone(t, "desired.git")
	file := strings.TrimPrefix(b.fileOf(id), "/")
	d.Replace(file, "state: stopped", "state: instantiated")
	out, errs, code := b.cli(t, "plan", d.Dir())
	if code != 2 || !strings.Contains(out, "OPERATE") || !strings.Contains(out, "Deployment/"+b.namespace+"/web 0 -> 3") {
		t.Errorf("jibe plan: %d\n%s%s", code, out, errs)
	}
	d.Push("Start it")
	ops := b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE_TO_LEVEL COMPLETED, OPERATE COMPLETED, OPERATE COMPLETED")
	if n := changesOf(ops[3]); !maps.Equal(n, map[string]int{"ADDED VDU1": 3}) || b.state(id) != "STARTED" {
		t.Errorf("started: %v, %s", n, b.state(id))
	}
	b.awaitPods(3)

	op = b.server.run(t, id, "change_flavour", object{"newFlavourId": "large", "additionalParams": object{
		"lcm-kubernetes-def-files": []string{"Files/kubernetes/web.yaml", "Files/kubernetes/cache.yaml"}}})
	if n := changesOf(op); n["ADDED VDU2"] != 1 || len(b.pods()) != 3 {
		t.Errorf("another flavour: %v, %d pods", n, len(b.pods()))
	}
	if got := b.show(t, id).text("instantiatedVnfInfo", "flavourId"); got != "large" {
		t.Errorf("the flavour is %s", got)
	}
	d.Pull()
	d.Replace(file, "flavour: large", "flavour: small\nlevels: {web_aspect: 1}")
	d.Replace(file, "    - Files/kubernetes/cache.yaml\n", "")
	d.Push("The small one again")
	ops = b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE_TO_LEVEL COMPLETED, OPERATE COMPLETED, OPERATE COMPLETED, CHANGE_FLAVOUR COMPLETED, CHANGE_FLAVOUR COMPLETED")
	if n := changesOf(ops[5]); n["REMOVED VDU2"] != 1 {
		t.Errorf("back: %v", n)
	}
	b.awaitPods(2)
	hears(t, r, id, "Creation, SCALE_TO_LEVEL STARTING, SCALE_TO_LEVEL PROCESSING, SCALE_TO_LEVEL COMPLETED, "+
		strings.Repeat("OPERATE STARTING, OPERATE PROCESSING, OPERATE COMPLETED, ", 2)+
		strings.TrimSuffix(strings.Repeat("CHANGE_FLAVOUR STARTING, CHANGE_FLAVOUR PROCESSING, CHANGE_FLAVOUR COMPLETED, ", 2), ", "))
	b.server.run(t, id, "operate", object{"changeStateTo": "STOPPED", "stopType": "FORCEFUL"})
	b.server.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	b.awaitPods(0)
}

// A flavour that doesn't come up is rolled back to the one that ran.
func TestAChangeOfFlavourThatFailsIsRolledBack(t *testing.T) {
	b := newBench(t, impatient)
	id := b.create(flavoured)
	b.inTime(b.begin(t, id, "instantiate", object{"flavourId": "small", "additionalParams": object{
		"namespace": b.namespace, "lcm-kubernetes-def-files": []string{"Files/kubernetes/web.yaml"}}}))
	before := slices.Sorted(maps.Keys(b.pods()))
	b.quota("1")
	op := b.begin(t, id, "change_flavour", object{"newFlavourId": "large", "additionalParams": object{
		"lcm-kubernetes-def-files": []string{"Files/kubernetes/web.yaml", "Files/kubernetes/cache.yaml"}}})
	b.await(t, op, "FAILED_TEMP")
	b.must(t, 202, "POST", op+"/rollback", nil)
	b.await(t, op, "ROLLED_BACK")
	b.awaitPods(1)
	v := b.show(t, id)
	if got := slices.Sorted(maps.Keys(b.pods())); !slices.Equal(got, before) || v.text("instantiatedVnfInfo", "flavourId") != "small" {
		t.Errorf("after the rollback flavour %s runs in %q, before it was %q", v.text("instantiatedVnfInfo", "flavourId"), got, before)
	}
}

// fileOf is the file of an instance that the API made.
func (b *bench) fileOf(id string) string {
	return fmt.Sprintf("instances/%s/%s/%s/vnf.yaml", id[:2], id[2:3], id)
}
