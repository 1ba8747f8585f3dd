package examples_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

func TestRollingRenewsOneVirtualMachineAfterTheOtherAndConfiguresEach(t *testing.T) {
	t.Parallel()
	v := onOpenStack(newWalk(t, "vm-rolling"), subnet(1))
	v.run("vm-rolling", "vm-asg-1.0", "vm-asg-1.1")
	before := v.machines(3)
	v.ask(http.MethodPost, "/change_vnfpkg", v.file("vm-rolling", "change_vnfpkg.json"))
	after := v.machines(3)
	for addr, a := range after {
		if a.Config["version"] != "1.1" || a.Config["role"] != "active" || a.Config["vdu"] != a.Labels["jibe_vdu"] {
			t.Errorf("%s is configured as %v", addr, a.Config)
		}
		if a.Labels["jibe_vdu"] == "VDU1" && a.Labels["image"] != "img2" {
			t.Errorf("%s has the image %s", addr, a.Labels["image"])
		}
	}
	// Heat rebuilds a server of an image in place, though its nested file has another name
	// now, and makes another one for another disk.
	if was, is := ids(before, "VDU1"), ids(after, "VDU1"); !slices.Equal(was, is) || len(is) != 2 {
		t.Errorf("the servers of VDU1 were %v and are %v", was, is)
	}
	if was, is := ids(before, "VDU2"), ids(after, "VDU2"); slices.Equal(was, is) || len(is) != 1 {
		t.Errorf("the servers of VDU2 were %v and are %v", was, is)
	}
	v.terminate()
}

func TestATemplateWithPlainParametersIsUpgradedByARequestInTheFormOfOtherManagers(t *testing.T) {
	t.Parallel()
	v := onOpenStack(newWalk(t, "vm-sample"), subnet(4))
	f := v.balancer(address(4, 50))
	v.edits[`ext_network_id: net0`] = "ext_network_id: " + v.network.Name
	v.run("vm-sample", "vm-sample-1.0", "vm-sample-1.1")
	old := v.machines(1)
	f.put(old)
	request := strings.ReplaceAll(string(v.file("vm-sample", "change_vnfpkg.json")), "10.10.0.50", address(4, 50))
	v.ask(http.MethodPost, "/change_vnfpkg", []byte(request))
	now := v.machines(1)
	f.sendsTo(now, "1.1")
	for addr, a := range now {
		if _, same := old[addr]; same || a.Labels["edition"] != "1.1" {
			t.Errorf("%s is %v, and was %v", addr, a.Labels, old)
		}
	}
	v.terminate()
}

func TestOneVNFHasPodsAndAVirtualMachine(t *testing.T) {
	kubeconfig := kubeenv.Kubeconfig(t)
	t.Parallel()
	w := newWalk(t, "vm-mixed")
	w.onKubernetes(kubeconfig)
	v := onOpenStack(w, subnet(3))
	v.run("vm-mixed", "mixed-1.0")
	v.imagesAre(2, "nginx:1.27-alpine")
	if machines := v.machines(1); len(ids(machines, "DB")) != 1 {
		t.Errorf("the machine is %v", machines)
	}
	v.ask(http.MethodPost, "/scale", []byte(`{"type": "SCALE_OUT", "aspectId": "db_aspect", "numberOfSteps": 1}`))
	v.machines(2)
	v.imagesAre(2, "nginx:1.27-alpine")
	v.terminate()
	if pods := v.pods(); len(pods) != 0 {
		t.Errorf("pods are left: %v", slices.Collect(maps.Keys(pods)))
	}
}
