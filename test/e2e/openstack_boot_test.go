package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

// Two versions of one package, made of the sample grouped1: what starts from an image in the
// first starts from a volume in the second, and the other way round. VDU1 is on a network of
// the VNF's own as well.
const (
	byImage  = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b42"
	byVolume = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b43"
)

// publishBoots adds the two versions to the package repository.
func (c *cloud) publishBoots() {
	c.Helper()
	d := c.clone(c.T, "packages/packages.git")
	for _, id := range []string{byImage, byVolume} {
		name := "boot-" + id[len(id)-2:]
		c.lay(filepath.Join(d.Dir(), name), grouped1)
		for _, file := range []string{"vm_asg_top.vnfd.yaml", "vm_asg_types.yaml"} {
			file = name + "/Definitions/" + file
			d.Write(file, strings.ReplaceAll(d.Read(file), grouped1, id))
		}
		nested := name + "/BaseHOT/simple/nested/"
		first, second := d.Read(nested+"VDU1.yaml"), d.Read(nested+"VDU2.yaml")
		if id == byVolume {
			first, second = strings.ReplaceAll(second, "VDU2", "VDU1"), strings.ReplaceAll(first, "VDU1", "VDU2")
			first, second = strings.ReplaceAll(first, "CP2", "CP1"), strings.ReplaceAll(second, "CP1", "CP2")
		}
		first = strings.Replace(first, "parameters:\n", "parameters:\n  inner: { type: string }\n", 1)
		first = strings.Replace(first, "        - port: { get_resource: CP1 }\n", "        - port: { get_resource: CP1 }\n        - port: { get_resource: inside }\n", 1)
		first += "\n  inside:\n    type: OS::Neutron::Port\n    properties:\n      network: { get_param: inner }\n"
		d.Write(nested+"VDU1.yaml", first)
		d.Write(nested+"VDU2.yaml", second)
		top := name + "/BaseHOT/simple/top.yaml"
		d.Replace(top, "resources:\n", "resources:\n  inner:\n    type: OS::Neutron::Net\n\n  inner_subnet:\n    type: OS::Neutron::Subnet\n    properties:\n      network: { get_resource: inner }\n      cidr: 10.206.0.0/24\n\n")
		// Heat doesn't see that members of the group are on the network, and so need its subnet.
		d.Replace(top, "    type: OS::Heat::AutoScalingGroup\n", "    type: OS::Heat::AutoScalingGroup\n    depends_on: inner_subnet\n")
		d.Replace(top, "          network: { get_param: [nfv, CP, CP1, network] }\n", "          network: { get_param: [nfv, CP, CP1, network] }\n          inner: { get_resource: inner }\n")
	}
	d.Push("Publish two ways to start")
	for _, id := range []string{byImage, byVolume} {
		c.process.AwaitPackages(c, id)
	}
}

// told is what the API tells of the instance that a change of package updates.
type told struct {
	vnfdID, stack   string
	servers         map[string]string // by VDU and VNFC; VDU2 has one
	disks, networks []string
	ports           map[string]string // connection point and VNFC -> port
}

func (c *cloud) told(id string) told {
	c.Helper()
	v := c.show(c.T, id)
	info, ok := v["instantiatedVnfInfo"].(map[string]any)
	if !ok {
		c.Fatalf("there is nothing instantiated: %v", v)
	}
	out := told{vnfdID: v.text("vnfdId"), stack: object(info).text("metadata", "stack_id"), servers: map[string]string{}, ports: map[string]string{}}
	there := map[string]string{} // port -> server, as Neutron has it
	for _, p := range c.do("neutron", "GET", nil, "ports").list("ports") {
		there[p.text("id")] = p.text("device_id")
	}
	handles := map[string]string{}
	for _, l := range append(object(info).list("extVirtualLinkInfo"), object(info).list("vnfVirtualLinkResourceInfo")...) {
		for _, p := range append(l.list("extLinkPorts"), l.list("vnfLinkPorts")...) {
			handles[p.text("id")] = p.text("resourceHandle", "resourceId")
		}
	}
	for _, r := range object(info).list("vnfcResourceInfo") {
		key := r.text("vduId") + " " + r.text("metadata", "parent_resource_name")
		server := r.text("computeResource", "resourceId")
		out.servers[key] = server
		for _, cp := range r.list("vnfcCpInfo") {
			port := cp.text("vnfLinkPortId")
			for _, ext := range object(info).list("extCpInfo") {
				if ext.text("id") == cp.text("vnfExtCpId") {
					port = ext.text("extLinkPortId")
				}
			}
			port = handles[port]
			out.ports[cp.text("cpdId")+" of "+key] = port
			if there[port] != server {
				c.Errorf("the API shows port %q at %s, and Neutron has it at %q", port, server, there[port])
			}
		}
	}
	for _, s := range object(info).list("virtualStorageResourceInfo") {
		out.disks = append(out.disks, s.text("storageResource", "resourceId"))
	}
	for _, l := range object(info).list("vnfVirtualLinkResourceInfo") {
		out.networks = append(out.networks, l.text("networkResource", "resourceId"))
	}
	slices.Sort(out.disks)
	if now := c.volumes(id); !slices.Equal(now, out.disks) {
		c.Errorf("the API shows the volumes %v, and there are %v", out.disks, now)
	}
	c.shown(id)
	return out
}

// same are the keys under which both have the same.
func same(a, b map[string]string) (keys []string) {
	for _, k := range slices.Sorted(maps.Keys(a)) {
		if a[k] == b[k] {
			keys = append(keys, k)
		}
	}
	return keys
}

func bootRequest(vnfdID, how string) object {
	contact := func(cp string) object { return object{"cp_name": cp, "username": "u", "password": "pw-of-a-machine"} }
	return object{"vnfdId": vnfdID, "additionalParams": object{"upgrade_type": how,
		"lcm-operation-coordinate-new-vnf": "./Scripts/tell.sh", "lcm-operation-coordinate-old-vnf": "./Scripts/tell.sh",
		"vdu_params": []object{
			{"vdu_id": "VDU1", "old_vnfc_param": contact("CP1"), "new_vnfc_param": contact("CP1")},
			{"vdu_id": "VDU2", "old_vnfc_param": contact("CP2"), "new_vnfc_param": contact("CP2")},
		}}}
}

// fails begins a change whose script fails at that call, and rolls it back.
func (c *cloud) fails(id string, body object, call int) {
	c.Helper()
	c.calls.failAt(len(c.calls.all()) + call)
	path := c.begin(c.T, id, "change_vnfpkg", body)
	op := c.await(c.T, path, "FAILED_TEMP")
	if said := op.text("error", "detail"); !strings.Contains(said, "the machine is angry") {
		c.Errorf("the error is %q", said)
	}
	c.must(c.T, 409, "POST", instances+"/"+id+"/change_vnfpkg", body)
	c.must(c.T, 202, "POST", path+"/rollback", nil)
	c.await(c.T, path, "ROLLED_BACK")
}

func TestChangesOfPackageMoveServersBetweenImagesAndVolumes(t *testing.T) {
	testenv.Chaos(t, "git")
	c := newFakeCloud(t, grouped1)
	c.publishBoots()
	c.must(t, 404, "POST", instances+"/"+grouped1+"/change_vnfpkg", bootRequest(byVolume, "RollingUpdate"))
	id := c.own(c.create(byImage))
	c.step("instantiate")
	c.run(t, id, "instantiate", object{
		"flavourId": "simple", "vimConnectionInfo": object{"core": c.inline()}, "extVirtualLinks": []object{link("front", "net0", "CP1", "CP2")},
	})
	c.run(t, id, "scale", scale("SCALE_OUT", "VDU1_aspect", 1))
	first := c.told(id)
	if len(first.servers) != 3 || len(first.disks) != 1 || len(first.networks) != 1 {
		t.Fatalf("there is %+v", first)
	}

	c.step("rolling: VDU1 from image to volume, VDU2 from volume to image; it fails and is rolled back")
	c.fails(id, bootRequest(byVolume, "RollingUpdate"), 2)
	back := c.told(id)
	if back.vnfdID != byImage || len(back.disks) != 1 || !maps.Equal(back.ports, first.ports) || back.stack != first.stack {
		t.Errorf("there was %+v, and after the rollback there is %+v", first, back)
	}
	if n := len(same(first.servers, back.servers)); n != 1 {
		t.Errorf("after the rollback %d servers are those of before, want the one that wasn't reached: %v %v", n, first.servers, back.servers)
	}

	c.step("rolling, to its end")
	before := len(c.calls.all())
	c.run(t, id, "change_vnfpkg", bootRequest(byVolume, "RollingUpdate"))
	rolled := c.told(id)
	// A server that starts from another kind of disk is another one, at the port of the former.
	if rolled.vnfdID != byVolume || len(same(back.servers, rolled.servers)) > 0 || !maps.Equal(back.ports, rolled.ports) ||
		rolled.stack != first.stack || !slices.Equal(rolled.networks, first.networks) || len(rolled.disks) != 2 {
		t.Errorf("there was %+v, and there is %+v", back, rolled)
	}
	if slices.Contains(rolled.disks, back.disks[0]) {
		t.Errorf("the volumes are %v, and %v was that of a server that starts from an image now", rolled.disks, back.disks)
	}
	var scripts []string
	for _, call := range c.calls.all()[before:] {
		scripts = append(scripts, call.text("hook")+" "+call.text("target", "unit", "name"))
	}
	var want []string
	for _, server := range rolled.servers {
		want = append(want, "coordinate_new "+server)
	}
	slices.Sort(scripts)
	slices.Sort(want)
	if !slices.Equal(scripts, want) {
		t.Errorf("the scripts were %v, want %v", scripts, want)
	}

	c.step("blue-green: VDU1 from volume to image, VDU2 from image to volume; it fails and is rolled back")
	c.fails(id, bootRequest(byImage, "Blue-Green"), 1)
	if now := c.told(id); fmt.Sprint(now) != fmt.Sprint(rolled) {
		t.Errorf("there was %+v, and after the rollback there is %+v", rolled, now)
	}

	c.step("blue-green, to its end")
	c.run(t, id, "change_vnfpkg", bootRequest(byImage, "Blue-Green"))
	green := c.told(id)
	if green.vnfdID != byImage || green.stack == rolled.stack || !strings.HasPrefix(green.stack, "vnf-"+id+"-") || len(green.servers) != 3 ||
		len(green.disks) != 1 || slices.Contains(rolled.disks, green.disks[0]) || len(green.networks) != 1 || slices.Equal(green.networks, rolled.networks) {
		t.Errorf("there was %+v, and there is %+v", rolled, green)
	}
	for what, both := range map[string][2]map[string]string{"servers": {rolled.servers, green.servers}, "ports": {rolled.ports, green.ports}} {
		old := slices.Collect(maps.Values(both[0]))
		if len(both[1]) != len(both[0]) || slices.ContainsFunc(slices.Collect(maps.Values(both[1])), func(x string) bool { return slices.Contains(old, x) }) {
			t.Errorf("the %s were %v and are %v", what, both[0], both[1])
		}
	}
	if name, stack, _ := strings.Cut(green.stack, "/"); c.stack(id, name) != stack {
		t.Errorf("the API shows stack %s", green.stack)
	}

	c.step("terminate")
	c.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	c.nothingIsLeft(id)
	c.step("done")
}
