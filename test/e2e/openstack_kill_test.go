package e2e

import (
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// dies kills the server as kill -9 does, and starts it again on its data.
func (c *cloud) dies() {
	c.Helper()
	c.process.Kill()
	c.start(c.data)
}

// awaitStack waits until the cloud has a stack of the instance.
func (c *cloud) awaitStack(id string) {
	c.Helper()
	kit.Eventually(c.T, func() error {
		if all, err := c.stacks(c.Context(), id); err != nil || len(all) == 0 {
			return fmt.Errorf("no stack yet (%w)", err)
		}
		return nil
	})
}

// scene tells apart the stages of what goes on at an instance: what its stack does, how its
// servers are, and how often the script was called.
func (c *cloud) scene(id string) string {
	c.Helper()
	s := c.do("heat", "GET", nil, "stacks", "vnf-"+id).get("stack")
	stack, _ := s.(map[string]any)
	text := fmt.Sprintf("stack %v, script %d, servers", stack["stack_status"], len(c.calls.all()))
	for _, m := range c.machines(id) {
		text += " " + m.vdu + " " + m.status
	}
	return text
}

// TestAKilledServer has two instances at one VIM, so that they don't mix up either.
func TestAKilledServerCarriesVirtualMachinesOnWhereverItWas(t *testing.T) {
	testenv.Chaos(t, "git")
	c := newFakeCloud(t, grouped1, grouped2)
	d := c.clone(t, "desired.git")
	file := func(name string) string { return "instances/site-a/" + name + "/vnf.yaml" }
	for _, name := range []string{"one", "two"} {
		d.Write(file(name), machinesFile(name, grouped1, "openstack-a", "", link("front", "net0", "CP1", "CP2")))
	}
	d.Push("Run two")
	ids := []string{c.own(c.idOf("one")), c.own(c.idOf("two"))}
	c.awaitStack(ids[0])
	c.step("killed where a stack was just asked for")
	c.dies()
	for _, id := range ids {
		c.outcome(id, 0, "INSTANTIATE COMPLETED")
		c.stack(id, "vnf-"+id)
		c.shown(id)
	}

	before := c.machines(ids[0])
	d.Pull()
	for _, name := range []string{"one", "two"} {
		d.Replace(file(name), grouped1, grouped2)
		d.Write(file(name), d.Read(file(name))+"update: {coordinate: {new: Scripts/tell.sh, old: Scripts/tell.sh}}\n")
	}
	d.Push("Upgrade both")
	const most = 6
	kills, last := 0, c.scene(ids[0])
	kit.Eventually(t, func() error {
		if ops := c.history(t, ids[0]); kills == most || len(ops) == 2 && ops[1].text("operationState") == "COMPLETED" {
			return nil
		}
		if now := c.scene(ids[0]); now != last {
			c.step("killed at: %s", now)
			last = now
			kills++
			c.dies()
		}
		return fmt.Errorf("killed %d times, and it is at: %s", kills, last)
	})
	if kills < 3 {
		t.Errorf("it was killed %d times: too few to prove anything", kills)
	}
	for _, id := range ids {
		c.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
		c.stack(id, "vnf-"+id)
		c.shown(id)
		if n := len(c.machines(id)); n != 2 {
			t.Errorf("%s has %d servers, want 2", id, n)
		}
	}
	for i, m := range c.machines(ids[0]) {
		if was := before[i]; m.vdu == "VDU1" && (m.id != was.id || m.image == was.image) || m.vdu == "VDU2" && m.id == was.id {
			t.Errorf("there was %+v, and there is %+v", was, m)
		}
	}
	units := map[string]bool{}
	for _, call := range c.calls.all() {
		units[call.text("instance", "id")+" "+call.text("target", "unit", "name")] = true
	}
	for _, id := range ids {
		for _, m := range c.machines(id) {
			if !units[id+" "+m.id] {
				t.Errorf("the hook never got %+v, only of %v", m, units)
			}
		}
	}

	c.step("terminate both")
	d.Pull()
	d.Git("rm", "-r", "--quiet", "instances/site-a")
	d.Commit("Terminate")
	if out, err := d.TryPush("terminate=2"); err != nil {
		t.Fatalf("push: %v\n%s", err, out)
	}
	for _, id := range ids {
		c.outcome(id, 2, "TERMINATE COMPLETED")
		c.nothingIsLeft(id)
	}
	c.step("done")
}
