package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAPushInstantiatesScalesAndTerminates(t *testing.T) {
	b := newBench(t, usual)
	d := b.clone(t, "desired.git")
	dir := "instances/lifecycle/" + b.namespace
	file := dir + "/vnf.yaml"
	d.Write(file, fmt.Sprintf("# the comment stays\nname: %s\nvnfdId: %s\nflavour: simple\nlevels: {vdu1_aspect: 1} # and this one\nparams: {namespace: %s}\n", b.namespace, webapp, b.namespace))
	d.Push("Run")
	b.awaitPods(3)
	id := b.idOf(b.namespace)
	b.awaitHistory(id, "INSTANTIATE COMPLETED")
	d.Pull()
	for _, want := range []string{"# the comment stays", "# and this one", "id: " + id, "package: "} {
		if !strings.Contains(d.Read(file), want) {
			t.Errorf("the file has no %q:\n%s", want, d.Read(file))
		}
	}
	d.Replace(file, "vdu1_aspect: 1", "vdu1_aspect: 3")
	d.Push("Scale out")
	b.awaitPods(5)
	ops := b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE COMPLETED")
	if n := len(ops[1].list("resourceChanges", "affectedVnfcs")); n != 2 {
		t.Errorf("%d affected VNFCs, want 2: %v", n, ops[1])
	}
	d.Pull()
	d.Replace(file, "vdu1_aspect: 3", "vdu1_aspect: 0")
	d.Push("Scale in")
	b.awaitPods(2)
	b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE COMPLETED, SCALE COMPLETED")
	d.Pull()
	d.Write(file, d.Read(file)+"state: notInstantiated\n")
	d.Push("Stop")
	b.awaitPods(0)
	b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE COMPLETED, SCALE COMPLETED, TERMINATE COMPLETED")
	if s := b.show(t, id).text("instantiationState"); s != "NOT_INSTANTIATED" {
		t.Errorf("the instance is %s", s)
	}
	d.Pull()
	d.Replace(file, "state: notInstantiated\n", "")
	d.Push("Run again")
	b.awaitPods(2)
	d.Pull()
	d.Git("rm", "-r", "--quiet", dir)
	d.Push("Remove")
	b.awaitPods(0)
	kit.Eventually(t, func() error {
		if a := b.rest(t, "GET", instances+"/"+id, nil); a.Status != 404 {
			return fmt.Errorf("the removed instance is still shown: %d", a.Status)
		}
		return nil
	})
	var notes string
	kit.Eventually(t, func() error {
		d.Git("fetch", "--quiet", "origin", "+refs/notes/*:refs/notes/*")
		notes = d.Git("log", "--notes=jibe", "--format=%N", "--", dir)
		for _, want := range []string{"INSTANTIATE COMPLETED", "SCALE COMPLETED", "TERMINATE COMPLETED"} {
			if !strings.Contains(notes, want) {
				return fmt.Errorf("the notes don't tell of %s:\n%s", want, notes)
			}
		}
		return nil
	})
}

// idOf is the id of the instance with the name.
func (b *bench) idOf(name string) string {
	b.Helper()
	var id string
	kit.Eventually(b, func() error {
		a := b.must(b, 200, "GET", instances+"?filter=(eq,vnfInstanceName,"+name+")", nil)
		list := decodeList(b.T, a.Body)
		if len(list) != 1 {
			return fmt.Errorf("%d instances are named %s", len(list), name)
		}
		id = list[0].text("id")
		return nil
	})
	return id
}

// awaitHistory waits until the instance's operations read so.
func (b *bench) awaitHistory(id, want string) []object {
	b.Helper()
	var ops []object
	kit.Eventually(b, func() error {
		ops = b.history(b.T, id)
		var states []string
		for _, op := range ops {
			states = append(states, op.text("operation")+" "+op.text("operationState"))
		}
		if got := strings.Join(states, ", "); got != want {
			err := fmt.Errorf("operations are %s, want %s", got, want)
			if len(ops) > 0 {
				if why := ops[len(ops)-1].text("error", "detail"); why != "" {
					err = fmt.Errorf("%w (the last one failed: %s)", err, why)
				}
			}
			return err
		}
		return nil
	})
	return ops
}
