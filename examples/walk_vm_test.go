package examples_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

// vmPatience is for a cloud that other tests use at the same time.
const vmPatience = 15 * time.Minute

// vmWalk is an example's way through a cloud whose servers one reaches at the addresses
// that it reports.
type vmWalk struct {
	*walk
	network *netns.Network
}

// onOpenStack gives the walk a network of its own and the VIM openstack-a: the real cloud
// where one is given and all is to be done there, else one inside this process. outfit may add to the machines.
func onOpenStack(w *walk, subnet string, outfit ...func(*netns.Spec)) *vmWalk {
	w.Helper()
	var cloud osenv.Cloud
	v := &vmWalk{walk: w}
	how := netns.Followed{Spec: func(_ netns.Server, spec *netns.Spec) {
		for _, add := range outfit {
			add(spec)
		}
	}}
	if atRealCloud() {
		osenv.NeedFull(w)
		cloud = osenv.OpenStack(w)
		v.network = netns.StartOpenStack(w, cloud, subnet, how)
		w.patience = vmPatience
	} else {
		fake := openstacktest.New(w, openstacktest.Options{Delay: cmp.Or(w.delay, time.Second)})
		fake.AddNetwork("front", "front", subnet)
		cloud = cloudsFile(w.T, fake.VIM())
		how.Every = 50 * time.Millisecond
		v.network = netns.FollowOpenStack(w, cloud, subnet, "front", how)
	}
	netns.NeedParamiko(w)
	w.vims["vims/openstack-a.yaml"] = cloud.VIM()
	w.edits[`resourceId: net0`] = "resourceId: " + v.network.Name
	// Its id follows from its directory else, and others walk at the same cloud.
	w.edits[`\Aname:`] = "id: " + uuid.NewString() + "\nname:"
	// A walk that fails half-way leaves no stack, on whose servers the network's end hangs.
	w.Cleanup(v.clear)
	return v
}

// atRealCloud tells whether a cloud is given to walk at.
func atRealCloud() bool {
	_, err := osenv.FindCloud()
	return err == nil || os.Getenv(osenv.EnvRequireCloud) == "1"
}

// subnet is the one of a number, which no other test has. One walk may be under way at a real
// cloud and at one inside the process at once, as in "make test-all": each has its own.
func subnet(number int) string { return address(number, 0) + "/24" }

// address is a host's in the subnet of that number.
func address(number, host int) string {
	second := 203
	if atRealCloud() {
		second = 213
	}
	return fmt.Sprintf("10.%d.%d.%d", second, number, host)
}

// cloudsFile writes a clouds.yaml that leads to the VIM.
func cloudsFile(t *testing.T, vim drivers.VIM) osenv.Cloud {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	text := fmt.Sprintf("clouds: {fake: {region_name: %s, auth: {auth_url: %q, username: %s, password: %s, project_name: %s, "+
		"user_domain_name: %s, project_domain_name: %s}}}\n", vim.Region, vim.Endpoint, vim.Username, vim.Password, vim.Project, vim.UserDomain, vim.ProjectDomain)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return osenv.Cloud{File: file, Name: "fake"}
}

// clear takes the stacks of a walk that failed away.
func (v *vmWalk) clear() {
	if v.instance == "" || !v.Failed() {
		return
	}
	v.server.Kill()
	ctx := context.WithoutCancel(v.Context())
	heat, err := openstack.NewOrchestrationV1(v.network.Provider, v.network.Where)
	if err != nil {
		v.Error(err)
		return
	}
	err = kit.Poll(ctx, kit.Patience, func() error {
		var body struct {
			Stacks []struct {
				Name string `json:"stack_name"`
				ID   string `json:"id"`
			} `json:"stacks"`
		}
		resp, err := heat.Get(ctx, heat.ServiceURL("stacks"), &body, nil)
		if err != nil {
			return err
		}
		resp.Body.Close()
		left := 0
		for _, s := range body.Stacks {
			if !strings.HasPrefix(s.Name, "vnf-"+v.instance) {
				continue
			}
			left++
			if resp, err := heat.Delete(ctx, heat.ServiceURL("stacks", s.Name, s.ID), nil); err == nil {
				resp.Body.Close()
			}
		}
		if left > 0 {
			return fmt.Errorf("%d stacks of %s are left", left, v.instance)
		}
		return nil
	})
	if err != nil {
		v.Error(err)
	}
}

// machines waits until there are n that serve, and returns what they answer, by address.
func (v *vmWalk) machines(n int) map[string]netns.Answer {
	v.Helper()
	var machines map[string]netns.Answer
	kit.Eventually(v, func() error {
		machines = map[string]netns.Answer{}
		for _, h := range v.network.Hosts() {
			if h.Spec.NoWeb {
				continue // the load balancer
			}
			a, err := netns.Ask(v.Context(), h.URL())
			if err != nil {
				return err
			}
			machines[h.Addr().String()] = a
		}
		if len(machines) != n {
			return fmt.Errorf("%d machines serve, want %d: %v", len(machines), n, machines)
		}
		return nil
	})
	return machines
}

// ids are the servers that stand behind the machines of a VDU, in order.
func ids(machines map[string]netns.Answer, vdu string) []string {
	var all []string
	for _, a := range machines {
		if a.Labels["jibe_vdu"] == vdu {
			all = append(all, a.Labels["server"])
		}
	}
	slices.Sort(all)
	return all
}

// terminate ends the instance, and fails where a machine is left.
func (v *vmWalk) terminate() {
	v.Helper()
	v.ask(http.MethodPost, "/terminate", []byte(`{"terminationType": "FORCEFUL"}`))
	v.machines(0)
}

// clients ask the address without a pause, each time with a connection of its own, until
// stopped, and fail the test for every request that isn't answered.
func (v *vmWalk) clients(url string) (stop func() (answers int)) {
	ctx, cancel := context.WithCancel(v.Context())
	var all sync.WaitGroup
	n := 0
	all.Go(func() {
		for ; ctx.Err() == nil; kit.Pause(ctx, 50*time.Millisecond) {
			if _, err := netns.AskOnce(v.Context(), url); err != nil {
				v.Error(err)
			}
			n++
		}
	})
	return func() int { cancel(); all.Wait(); return n }
}

// front is a load balancer, where an operator has put the machines that run behind it.
type front struct {
	*vmWalk
	balancer *netns.Host
	url      string
}

// balancer makes one that sends traffic nowhere yet, at the address.
func (v *vmWalk) balancer(addr string) *front {
	v.Helper()
	h, err := v.network.AddBalancer(v.Context(), netip.MustParseAddr(addr), netns.Spec{Name: "lb"})
	if err != nil {
		v.Fatal(err)
	}
	return &front{vmWalk: v, balancer: h, url: "http://" + h.At(netns.BalancerPort) + "/"}
}

// put puts machines behind the balancer.
func (f *front) put(machines map[string]netns.Answer) {
	f.Helper()
	config, err := f.balancer.ReadFile("/etc/haproxy/haproxy.cfg")
	if err != nil {
		f.Fatal(err)
	}
	for i, addr := range slices.Sorted(maps.Keys(machines)) {
		config = fmt.Appendf(config, "    server first-%d %s:%d\n", i, addr, netns.WebPort)
	}
	if err := f.balancer.WriteFile("/etc/haproxy/haproxy.cfg", config, 0); err != nil {
		f.Fatal(err)
	}
	if _, err := f.balancer.Run(f.Context(), nil, "sh", "-c", "kill -USR2 $(cat /run/haproxy.pid)"); err != nil {
		f.Fatal(err)
	}
	kit.Eventually(f, func() error { _, err := netns.Ask(f.Context(), f.url); return err })
}

// sendsTo fails unless the balancer sends traffic to the machines alone, whose application is
// configured for the version.
func (f *front) sendsTo(to map[string]netns.Answer, version string) {
	f.Helper()
	known := map[string]bool{}
	for _, m := range to {
		known[m.Labels["server"]] = true
	}
	for range 2 * len(to) {
		a, err := netns.AskOnce(f.Context(), f.url)
		if err != nil {
			f.Fatal(err)
		}
		if !known[a.Labels["server"]] || a.Config["version"] != version {
			f.Errorf("the balancer sent traffic to %+v, want one of version %s among %v", a, version, to)
		}
	}
}

func TestBlueGreenMovesTheBalancerToASecondStackAndBack(t *testing.T) {
	t.Parallel()
	v := onOpenStack(newWalk(t, "vm-blue-green"), subnet(2))
	f := v.balancer(address(2, 50))
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("ubuntu"), 0o600); err != nil {
		t.Fatal(err)
	}
	v.edits[`file:/var/lib/jibe/secrets/[a-z]+-password`] = "file:" + password
	v.edits[`10\.10\.0\.50`] = address(2, 50)
	v.run("vm-blue-green", "vm-blue-green-1.0", "vm-blue-green-1.1")
	f.put(v.machines(2))
	stop := v.clients(f.url)

	v.push("CHANGE_VNFPKG", vnfdID(t, "vm-blue-green-1.0"), vnfdID(t, "vm-blue-green-1.1"))
	green := v.machines(2)
	f.sendsTo(green, "1.1")
	v.revert("CHANGE_VNFPKG")
	blue := v.machines(2)
	f.sendsTo(blue, "1.0")
	for image, machines := range map[string]map[string]netns.Answer{"img2": green, "img1": blue} {
		for addr, a := range machines {
			if a.Labels["image"] != image {
				t.Errorf("%s has the image %s, want %s", addr, a.Labels["image"], image)
			}
		}
	}
	if n := stop(); n < 20 {
		t.Errorf("the clients got %d answers: too few to prove anything", n)
	}
	v.terminate()
}
