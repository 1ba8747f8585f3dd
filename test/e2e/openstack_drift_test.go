package e2e

import (
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

// repaired waits for the automatic operation n (from 0) of the instance.
func (c *cloud) repaired(id string, n int) {
	c.Helper()
	if op := c.outcome(id, n, "HEAL COMPLETED"); op["isAutomaticInvocation"] != true {
		c.Errorf("the repair is %v", op)
	}
	c.shown(id)
}

func TestWhatOthersDoToVirtualMachinesIsShownAndRepaired(t *testing.T) {
	testenv.Chaos(t, "git")
	c := newFakeCloud(t, indexed1)
	id, file, d := c.pushed(indexed1, "drift: report\n", link("front", "net0", "CP1", "CP2"))
	front, store := c.serversOf(id, "VDU1")[0], c.serversOf(id, "VDU2")[0]

	c.step("a server is deleted, and shown to be missing")
	c.do("nova", "DELETE", nil, "servers", front)
	c.drifted(id, "Server/VDU1/0", "reported")
	if err := c.counted(id, 1); err != nil {
		t.Error(err)
	}
	c.step("and is made anew when that is wanted")
	c.amend(d, file, "Repair", "drift: report\n", "")
	c.repaired(id, 1)
	if now := c.serversOf(id, "VDU1"); len(now) != 1 || now[0] == front {
		t.Errorf("there was %s, and there are %v", front, now)
	}
	if now := c.serversOf(id, "VDU2"); len(now) != 1 || now[0] != store {
		t.Errorf("there was %s, and there are %v", store, now)
	}

	c.step("a server in ERROR")
	volume := c.volumes(id)
	c.fake.BreakServer(store, "its host burnt down")
	c.repaired(id, 2)
	if now := c.serversOf(id, "VDU2"); len(now) != 1 || now[0] == store {
		t.Errorf("there was %s, and there are %v", store, now)
	}
	if now := c.volumes(id); fmt.Sprint(now) != fmt.Sprint(volume) {
		t.Errorf("there were volumes %v, and there are %v", volume, now)
	}

	c.step("a template that is changed")
	stack := c.stack(id, "vnf-"+id)
	template := c.do("heat", "GET", nil, "stacks", "vnf-"+id, stack, "template")
	files := c.do("heat", "GET", nil, "stacks", "vnf-"+id, stack, "files")
	resources, _ := template["resources"].(map[string]any)
	resources["backdoor"] = object{"type": "OS::Neutron::Port", "properties": object{"network": "net0"}}
	c.do("heat", "PATCH", object{"template": template, "files": files, "existing": true}, "stacks", "vnf-"+id, stack)
	c.repaired(id, 3)
	template = c.do("heat", "GET", nil, "stacks", "vnf-"+id, stack, "template")
	if resources, _ = template["resources"].(map[string]any); resources["backdoor"] != nil {
		t.Error("what somebody added to the template is still in it")
	}

	c.step("a stack that is deleted")
	c.do("heat", "DELETE", nil, "stacks", "vnf-"+id, stack)
	c.repaired(id, 4)
	if now := c.stack(id, "vnf-"+id); now == stack {
		t.Errorf("the stack still is %s", now)
	}
	c.undrifted(id)

	c.step("terminate")
	d.Pull()
	d.Git("rm", "-r", "--quiet", "instances/site-a")
	d.Push("Terminate")
	c.outcome(id, 5, "TERMINATE COMPLETED")
	c.nothingIsLeft(id)
	c.step("done")
}
