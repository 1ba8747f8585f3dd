package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestANewerPushTakesThePlaceOfAnOperationThatOnlyWaits(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	heard := newReceiver(t)
	b.subscribe(heard, object{"vnfInstanceSubscriptionFilter": object{"vnfInstanceNames": []string{b.namespace}}})
	d := b.clone(t, "desired.git")
	dir := "instances/newer/" + b.namespace
	file := dir + "/vnf.yaml"
	level := func(from, to int) {
		t.Helper()
		d.Pull()
		d.Replace(file, fmt.Sprintf("web_aspect: %d", from), fmt.Sprintf("web_aspect: %d", to))
		d.Push(fmt.Sprintf("Level %d", to))
	}
	d.Write(file, fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nlevels: {web_aspect: 0}\nparams: {namespace: %[1]s}\n", b.namespace, byHand))
	d.Push("Run")
	b.bind(b.waiting())
	id := b.idOf(b.namespace)
	b.awaitHistory(id, "INSTANTIATE COMPLETED")

	level(0, 1)
	b.waiting()
	b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE PROCESSING")
	level(1, 2)
	ops := b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE FAILED, SCALE PROCESSING")
	if said := fmt.Sprint(ops[1]["error"]); !strings.Contains(said, "gives way to the newer commit") {
		t.Errorf("the first one says %s", said)
	}
	if p := fmt.Sprint(ops[2]["operationParams"]); !strings.Contains(p, "numberOfSteps:2") {
		t.Errorf("the second one, which begins at what was completed, is %s", p)
	}
	for range 2 {
		b.bind(b.waiting())
	}
	b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE FAILED, SCALE COMPLETED")
	hears(t, heard, id, "Creation, INSTANTIATE STARTING, INSTANTIATE PROCESSING, INSTANTIATE COMPLETED, "+
		"SCALE STARTING, SCALE PROCESSING, SCALE FAILED_TEMP, SCALE FAILED, SCALE STARTING, SCALE PROCESSING, SCALE COMPLETED")

	// What was before is the rollback, and a removal goes first too.
	level(2, 3)
	b.waiting()
	level(3, 2)
	b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE FAILED, SCALE COMPLETED, SCALE ROLLED_BACK")
	b.awaitPods(3)
	level(2, 3)
	b.waiting()
	d.Pull()
	d.Git("rm", "-r", "--quiet", dir)
	d.Push("Remove")
	b.awaitPods(0)
	ops = b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE FAILED, SCALE COMPLETED, SCALE ROLLED_BACK, SCALE FAILED, TERMINATE COMPLETED")
	if by := ops[4]["error"]; by == nil {
		t.Errorf("the scaling that the removal took the place of has no error: %v", ops[4])
	}
}
