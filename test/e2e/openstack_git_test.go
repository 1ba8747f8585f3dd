package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// machinesFile is the text of a vnf.yaml; more is YAML that it has beside.
func machinesFile(name, vnfd, vim, more string, links ...object) string {
	text, err := json.Marshal(links)
	if err != nil {
		panic(err) // never: they are maps of strings
	}
	// Its id follows from its folder else, and other tests have the same ones.
	return fmt.Sprintf("id: "+uuid.NewString()+"\nname: %s\nvnfdId: %s\nflavour: simple\nvim: %s\nextVirtualLinks: %s\n%s", name, vnfd, vim, text, more)
}

// pushed defines and instantiates an instance by a push.
func (c *cloud) pushed(vnfd, more string, links ...object) (id, file string, d *process.WorkTree) {
	c.Helper()
	id, file, d = c.push(vnfd, more, links...)
	c.outcome(id, 0, "INSTANTIATE COMPLETED")
	d.Pull()
	return id, file, d
}

// push is pushed while the instantiation is under way.
func (c *cloud) push(vnfd, more string, links ...object) (id, file string, d *process.WorkTree) {
	c.Helper()
	d = c.clone(c.T, "desired.git")
	file = "instances/site-a/vnf/vnf.yaml"
	d.Write(file, machinesFile("pushed", vnfd, "openstack-a", more, links...))
	d.Push("Run")
	return c.own(c.idOf("pushed")), file, d
}

// portsOf are the networks of the instance's ports of the connection point.
func (c *cloud) portsOf(id, cp string) (networks []string) {
	c.Helper()
	for _, p := range c.do("neutron", "GET", nil, "ports").list("ports") {
		name, fixed := p.text("name"), p.list("fixed_ips")
		if !strings.Contains(name, id) || !strings.Contains(name, cp) {
			continue
		}
		if len(fixed) == 0 {
			c.Errorf("port %s has no address", name)
		}
		networks = append(networks, p.text("network_id"))
	}
	slices.Sort(networks)
	return slices.Compact(networks)
}

func TestCommitsBringVirtualMachinesThroughTheirLife(t *testing.T) {
	c := newCloud(t, indexed1, indexed2)
	ext := c.network("10.204.0.0/24")
	c.step("instantiate")
	id, file, d := c.push(indexed1, "levels: {VDU1_aspect: 1}\n", link("front", "net0", "CP1"), link("back", "net0", "CP2"))
	c.step("killed where a stack was just asked for")
	c.awaitStack(id)
	c.dies()
	c.outcome(id, 0, "INSTANTIATE COMPLETED")
	d.Pull()
	blue := c.stack(id, "vnf-"+id)
	c.shown(id)
	if n := len(c.machines(id)); n != 3 {
		t.Fatalf("there are %d servers, want 3", n)
	}

	c.step("another level, and who is to go")
	var victim string
	var launched string
	for _, server := range c.serversOf(id, "VDU1") {
		shown := c.do("nova", "GET", nil, "servers", server)
		if strings.Contains(shown.text("server", "name"), "VDU1-0-") { // the resource that Heat calls it after
			victim = server
			launched, _, _ = strings.Cut(shown.text("server", "OS-SRV-USG:launched_at"), ".")
		}
	}
	incarnation := victim + "@" + launched
	c.amend(d, file, "Scale in", "levels: {VDU1_aspect: 1}", "levels: {VDU1_aspect: 0}\ncondemned: {Server/VDU1/0: "+incarnation+"}")
	c.outcome(id, 1, "SCALE COMPLETED")
	if now := c.serversOf(id, "VDU1"); len(now) != 1 || now[0] == victim {
		t.Errorf("after scaling in without %s there are %v", victim, now)
	}
	c.shown(id)
	d.Pull()
	c.turns(id, file, d, blue)
	c.connects(id, file, d, ext)

	c.step("terminate")
	d.Pull()
	d.Git("rm", "-r", "--quiet", filepath.Dir(file))
	before := len(c.history(t, id))
	d.Push("Terminate")
	c.outcome(id, before, "TERMINATE COMPLETED")
	c.nothingIsLeft(id)
	c.step("done")
}

// turns changes the package blue-green: first the revert of a commit rolls back what
// failed, then the change succeeds.
func (c *cloud) turns(id, file string, d *process.WorkTree, blue string) {
	c.Helper()
	c.step("a blue-green change that fails")
	before, servers := len(c.history(c.T, id)), c.machines(id)
	d.Pull()
	d.Git("checkout", "--quiet", "-b", "upgrade")
	d.Replace(file, indexed1, indexed2)
	d.Write(file, d.Read(file)+"update: {strategy: blueGreen, coordinate: {new: Scripts/tell.sh, old: Scripts/tell.sh}}\n")
	d.Commit("Upgrade")
	kind, steps, _ := c.steps(d, filepath.Dir(file), "--commit", "upgrade")
	order := []string{"apply Stack/vnf-" + id + "-1", "hook coordinate_new", "hook coordinate_old", "delete Stack/vnf-" + id}
	at := -1
	for _, want := range order {
		i := slices.Index(steps, want)
		if i <= at {
			c.Fatalf("the preview of %s is %v, want %v in it", kind, steps, order)
		}
		at = i
	}
	c.calls.failAt(1)
	d.Git("checkout", "--quiet", "main")
	d.Git("merge", "--quiet", "upgrade")
	if out, err := d.TryPush(); err != nil {
		c.Fatalf("%v: %s", err, out)
	}
	op := c.outcome(id, before, "CHANGE_VNFPKG FAILED_TEMP")
	if said := op.text("error", "detail"); !strings.Contains(said, "the machine is angry") {
		c.Errorf("the error is %q", said)
	}
	both, err := c.stacks(c.Context(), id)
	if err != nil || len(both) != 2 || both["vnf-"+id] != blue {
		c.Errorf("the stacks are %v (%v)", both, err)
	}
	c.step("the revert rolls back")
	d.Git("fetch", "--quiet")
	upgrade := strings.TrimSpace(d.Git("rev-parse", "HEAD"))
	d.Pull()
	if out, err := process.Git(c.Context(), d.Dir(), "revert", "--no-edit", upgrade); err != nil {
		// Jibe completed the file: what it filled in goes as well.
		c.Logf("revert: %s", out)
		d.Git("revert", "--abort")
		d.Git("checkout", "--quiet", upgrade+"~", "--", file)
		d.Commit("Revert the upgrade")
	}
	if out, err := d.TryPush(); err != nil {
		c.Fatalf("%v: %s", err, out)
	}
	kit.Eventually(c.T, func() error {
		if now := c.history(c.T, id)[before].text("operationState"); now != "ROLLED_BACK" {
			return fmt.Errorf("the change is %s", now)
		}
		return nil
	})
	c.stack(id, "vnf-"+id)
	if now := c.machines(id); !slices.Equal(now, servers) {
		c.Errorf("before the change there were %v, and now %v", servers, now)
	}
	c.shown(id)

	c.step("a blue-green change")
	d.Pull()
	if n := len(c.history(c.T, id)); n != before+1 {
		c.Fatalf("%d operations, want %d", n, before+1)
	}
	d.Replace(file, indexed1, indexed2)
	if !strings.Contains(d.Read(file), "update:") {
		d.Write(file, d.Read(file)+"update: {strategy: blueGreen, coordinate: {new: Scripts/tell.sh, old: Scripts/tell.sh}}\n")
	}
	first := len(c.calls.all())
	d.Push("Upgrade again")
	c.outcome(id, before+1, "CHANGE_VNFPKG COMPLETED")
	all, err := c.stacks(c.Context(), id)
	if err != nil || len(all) != 1 || slices.Contains(slices.Collect(maps.Values(all)), blue) {
		c.Errorf("the stacks are %v (%v), and there was %s", all, err, blue)
	}
	for _, m := range c.machines(id) {
		if m.image == servers[0].image || slices.ContainsFunc(servers, func(was machine) bool { return was.id == m.id }) {
			c.Errorf("there still is %+v", m)
		}
	}
	var hooks []string
	for _, call := range c.calls.all()[first:] {
		hooks = append(hooks, call.text("hook"))
		for _, side := range []string{"old", "new"} {
			if n := len(call.list("targets", side)); n != len(servers) {
				c.Errorf("%s got %d %s machines", call.text("hook"), n, side)
			}
		}
	}
	if want := []string{"coordinate_new", "coordinate_old"}; !slices.Equal(hooks, want) {
		c.Errorf("the scripts were %v, want %v", hooks, want)
	}
	c.shown(id)
}

// connects changes how the VNF is connected: by a commit, and by a request that fails and
// is rolled back.
func (c *cloud) connects(id, file string, d *process.WorkTree, ext string) {
	c.Helper()
	c.step("change connectivity by a commit")
	before := len(c.history(c.T, id))
	d.Pull()
	text, err := json.Marshal([]object{link("front", ext, "CP1"), link("back", "net0", "CP2")})
	if err != nil {
		c.Fatal(err)
	}
	lines := strings.Split(d.Read(file), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "extVirtualLinks:") {
			lines[i] = "extVirtualLinks: " + string(text)
			for len(lines) > i+1 && strings.HasPrefix(lines[i+1], " ") || len(lines) > i+1 && strings.HasPrefix(lines[i+1], "-") {
				lines = slices.Delete(lines, i+1, i+2)
			}
			break
		}
	}
	d.Write(file, strings.Join(lines, "\n"))
	d.Push("Connect to another network")
	op := c.outcome(id, before, "CHANGE_EXT_CONN COMPLETED")
	if got := c.portsOf(id, "CP1"); !slices.Equal(got, []string{ext}) {
		c.Errorf("the ports of CP1 are at %v, want %s", got, ext)
	}
	old := c.portsOf(id, "CP2")
	if slices.Contains(old, ext) || op["changedExtConnectivity"] == nil {
		c.Errorf("the ports of CP2 are at %v; %v", old, op["changedExtConnectivity"])
	}
	c.shown(id)

	c.step("a change of connectivity by a request that fails")
	full := c.network("10.205.0.0/30") // its only address is the port's
	port := c.do("neutron", "POST", object{"port": object{"network_id": full}}, "ports").text("port", "id")
	c.Cleanup(func() { _, _ = c.ask(c.background(), "neutron", "DELETE", nil, "ports", port) }) // it may be gone
	path := c.begin(c.T, id, "change_ext_conn", object{"extVirtualLinks": []object{link("back", full, "CP2")}})
	op = c.await(c.T, path, "FAILED_TEMP")
	if said := op.text("error", "detail"); !strings.Contains(said, full) {
		c.Errorf("the error is %q", said)
	}
	c.must(c.T, 202, "POST", path+"/rollback", nil)
	c.await(c.T, path, "ROLLED_BACK")
	if got := c.portsOf(id, "CP2"); !slices.Equal(got, old) {
		c.Errorf("the ports of CP2 are at %v, and were at %v", got, old)
	}
	c.shown(id)
}
