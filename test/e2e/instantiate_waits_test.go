package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAnInstantiationWaitsForAnInstanceThatTerminatesAndHasItsObjectsStill(t *testing.T) {
	b := newBench(t, usual)
	old, file, d := b.pushed(plain, "")
	b.awaitPods(1)
	b.awaitHistory(old, "INSTANTIATE COMPLETED")
	b.finalize("Deployment/web", true) // it can't go yet
	dir := strings.TrimSuffix(file, "/vnf.yaml")
	d.Pull()
	d.Git("rm", "-r", "--quiet", dir)
	d.Push("Remove it")
	const fresh = "f2e50000-0000-4000-8000-000000000000"
	id := fresh[:24] + b.namespace[len(b.namespace)-8:] + "0000"
	d.Pull()
	d.Write("instances/again/"+b.namespace+"/vnf.yaml", fmt.Sprintf("id: %s\nname: again-%[2]s\nvnfdId: %[3]s\nflavour: simple\nparams: {namespace: %[2]s}\n", id, b.namespace, plain))
	d.Push("The same again, as another VNF")
	b.awaitHistory(old, "INSTANTIATE COMPLETED, TERMINATE PROCESSING")
	kit.Eventually(t, func() error {
		ops := b.history(t, id)
		if len(ops) != 1 {
			return fmt.Errorf("%d operations", len(ops))
		}
		story, _, _ := b.cli(t, "get", "operation", ops[0].text("id"))
		if want := "wait for the termination of VNF instance " + old; !strings.Contains(story, want) {
			return fmt.Errorf("the operation doesn't say %q:\n%s", want, story)
		}
		return nil
	})
	b.finalize("Deployment/web", false)
	b.awaitHistory(old, "INSTANTIATE COMPLETED, TERMINATE COMPLETED")
	b.awaitHistory(id, "INSTANTIATE COMPLETED")
	b.awaitPods(1)
}
