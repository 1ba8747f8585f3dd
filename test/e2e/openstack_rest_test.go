package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestRESTBringsVirtualMachinesThroughTheirLife(t *testing.T) {
	c := newFakeCloud(t, grouped1, grouped2)
	id := c.own(c.create(grouped1))
	c.step("instantiate")
	op := c.run(t, id, "instantiate", object{
		"flavourId": "simple", "vimConnectionInfo": object{"core": c.inline()}, "extVirtualLinks": []object{link("front", "net0", "CP1", "CP2")},
	})
	c.affected(op, "ADDED", "VDU1", "VDU2")
	c.shown(id)
	c.stack(id, "vnf-"+id)

	c.step("scale out by two")
	first := c.serversOf(id, "VDU1")
	op = c.run(t, id, "scale", scale("SCALE_OUT", "VDU1_aspect", 2))
	c.affected(op, "ADDED", "VDU1", "VDU1")
	c.shown(id)
	three := c.serversOf(id, "VDU1")
	if len(three) != 3 || !slices.Contains(three, first[0]) {
		t.Fatalf("after scaling out there are %v, and there was %v", three, first)
	}

	c.step("scale in, and name the first")
	op = c.run(t, id, "scale", object{"type": "SCALE_IN", "aspectId": "VDU1_aspect", "numberOfSteps": 1,
		"additionalParams": object{"vnfcInstanceId": []string{first[0]}}})
	c.affected(op, "REMOVED", "VDU1")
	c.shown(id)
	two := c.serversOf(id, "VDU1")
	if len(two) != 2 || slices.Contains(two, first[0]) {
		t.Errorf("after scaling in without %v there are %v", first, two)
	}

	c.step("heal one VNFC")
	sick, volume := c.vnfcs(id, "VDU2")[0], c.volumes(id)
	op = c.run(t, id, "heal", object{"vnfcInstanceId": []string{sick.text("id")}, "cause": "hangs"})
	well := c.vnfcs(id, "VDU2")[0]
	if well.text("computeResource", "resourceId") == sick.text("computeResource", "resourceId") {
		t.Errorf("the healed VNFC still is %v", well)
	}
	if got := changes(op); !slices.Equal(got, []string{"ADDED VDU2", "REMOVED VDU2"}) {
		t.Errorf("a heal of %v affected %v", sick, got)
	}
	if now := c.volumes(id); !slices.Equal(now, volume) {
		t.Errorf("a heal of the VNFC alone made of the volumes %v %v", volume, now)
	}
	c.shown(id)

	c.step("heal it with its volume")
	c.run(t, id, "heal", object{"vnfcInstanceId": []string{well.text("id")}, "additionalParams": object{"all": true}})
	if now := c.volumes(id); len(now) != 1 || slices.Equal(now, volume) {
		t.Errorf("a heal with all made of the volumes %v %v", volume, now)
	}
	c.shown(id)
	if now := c.serversOf(id, "VDU1"); !slices.Equal(now, two) {
		t.Errorf("heals of VDU2 made of VDU1 %v %v", two, now)
	}
	c.rolls(id)

	c.step("scale in, whoever goes")
	before := c.machines(id)
	before = slices.DeleteFunc(before, func(m machine) bool { return m.vdu != "VDU1" })
	c.run(t, id, "scale", scale("SCALE_IN", "VDU1_aspect", 1))
	// Nova tells the time by the second: of two that were made in one, neither is the older.
	now := c.serversOf(id, "VDU1")
	if len(now) != 1 || !slices.ContainsFunc(before, func(m machine) bool { return m.id == now[0] && m.created == before[0].created }) {
		t.Errorf("of %v (oldest first) %v are left", before, now)
	}
	c.shown(id)
	c.withoutSecrets(id, c.secret(), "pw-of-a-machine")

	c.step("terminate")
	const grace = 3 * time.Second
	begun := time.Now() // it can't begin sooner
	path := c.begin(t, id, "terminate", object{"terminationType": "GRACEFUL", "gracefulTerminationTimeout": grace.Seconds()})
	for left := grace; left > 0; left = grace - time.Since(begun) {
		s := c.do("heat", "GET", nil, "stacks", "vnf-"+id).text("stack", "stack_status")
		if after := time.Since(begun); strings.HasPrefix(s, "DELETE") && after < grace {
			t.Fatalf("%s after %v, and there were %v to wait", s, after, grace)
		}
		kit.Pause(t.Context(), 250*time.Millisecond)
	}
	c.await(t, path, "COMPLETED")
	c.nothingIsLeft(id)
	c.must(t, 204, "DELETE", instances+"/"+id, nil)
	c.step("done")
}

// rolls changes the package of an instance with three VNFCs: first a script fails at the
// second, and the change is rolled back; then it succeeds.
func (c *cloud) rolls(id string) {
	c.Helper()
	param := object{"cp-name": "CP1", "username": "u", "password": "pw-of-a-machine"}
	other := object{"cp-name": "CP2", "username": "u", "password": "pw-of-a-machine"}
	vdus := []object{
		{"vdu_id": "VDU1", "old_vnfc_param": param, "new_vnfc_param": param},
		{"vdu_id": "VDU2", "old_vnfc_param": other, "new_vnfc_param": other},
	}
	body := func(vdus []object) object {
		return object{"vnfdId": grouped2, "additionalParams": object{"upgrade_type": "RollingUpdate",
			"lcm-operation-coordinate-new-vnf": "Scripts/tell.sh", "lcm-operation-coordinate-old-vnf": "Scripts/tell.sh", "vdu_params": vdus}}
	}
	before := c.machines(id)

	c.step("a change that names one of two VDUs that differ is refused")
	a := c.must(c.T, 400, "POST", instances+"/"+id+"/change_vnfpkg", body(vdus[:1]))
	if said := a.object(c.T).text("detail"); !strings.Contains(said, "VDU VDU2 can't stay with its package") {
		c.Errorf("the refusal says %q", said)
	}

	c.step("a change of package fails")
	c.calls.failAt(2)
	path := c.begin(c.T, id, "change_vnfpkg", body(vdus))
	op := c.await(c.T, path, "FAILED_TEMP")
	if said := op.text("error", "detail"); !strings.Contains(said, "the machine is angry") {
		c.Errorf("the error is %q", said)
	}
	if n := len(c.calls.all()); n != 2 {
		c.Errorf("the script was called %d times", n)
	}
	c.step("and is rolled back")
	c.must(c.T, 202, "POST", path+"/rollback", nil)
	c.await(c.T, path, "ROLLED_BACK")
	for i, m := range c.machines(id) {
		if was := before[i]; was.image != m.image || was.vdu != m.vdu || m.vdu == "VDU1" && was.id != m.id {
			c.Errorf("before the change there was %+v, and now there is %+v", was, m)
		}
	}
	if c.show(c.T, id).text("vnfdId") != grouped1 {
		c.Errorf("the package is %s", c.show(c.T, id).text("vnfdId"))
	}
	c.shown(id)

	c.step("another one succeeds")
	first := len(c.calls.all())
	before = c.machines(id)
	c.run(c.T, id, "change_vnfpkg", body(vdus))
	after := c.machines(id)
	for i, m := range after {
		was := before[i]
		switch m.vdu {
		case "VDU1":
			if m.id != was.id || m.image == was.image {
				c.Errorf("%+v was to be rebuilt in place and is %+v", was, m)
			}
		case "VDU2":
			if m.id == was.id {
				c.Errorf("%+v was to be replaced, as it starts from a volume", was)
			}
		}
	}
	c.shown(id)
	addresses := c.addresses(id)
	seen := map[string]bool{}
	for _, call := range c.calls.all()[first:] {
		unit, address := call.text("target", "unit", "name"), call.text("target", "address")
		if addresses[unit] == "" || addresses[unit] != address || call.text("target", "password") != "pw-of-a-machine" {
			c.Errorf("the hook got %v at %s, which has %s", unit, address, addresses[unit])
		}
		if seen[unit] {
			c.Errorf("the script was run twice for %s", unit)
		}
		seen[unit] = true
	}
	if len(seen) != len(after) {
		c.Errorf("the script was run for %d of %d VNFCs", len(seen), len(after))
	}
}

// addresses are the first addresses of the instance's servers, by their ids.
func (c *cloud) addresses(id string) map[string]string {
	c.Helper()
	all := map[string]string{}
	for _, m := range c.machines(id) {
		all[m.id] = ""
	}
	for _, p := range c.do("neutron", "GET", nil, "ports").list("ports") {
		if _, mine := all[p.text("device_id")]; mine {
			all[p.text("device_id")] = p.list("fixed_ips")[0].text("ip_address")
		}
	}
	return all
}
