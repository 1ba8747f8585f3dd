package multi_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/multi"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// mixed is the example of a front end in pods and a database in servers. main says which
// of the two VIMs the instance names; the other VDU is placed.
func mixed(t *testing.T, main string) (*multi.Driver, drivers.Source) {
	t.Helper()
	path := kubeenv.Kubeconfig(t)
	kubeconfig, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := kubernetes.New(drivers.VIM{Name: "kube-a", Type: kubernetes.Type, Kubeconfig: kubeconfig}, kubernetes.Options{Egress: egress.Anywhere(), DigestKey: []byte("0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	cloud := openstacktest.New(t, openstacktest.Options{Delay: 20 * time.Millisecond})
	machines, err := openstack.New(cloud.VIM(), openstack.Options{Egress: egress.Anywhere(), Busy: 5 * time.Millisecond, Rest: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pods.Close()
		if err := machines.Close(); err != nil {
			t.Error(err)
		}
	})
	files, err := fs.Sub(os.DirFS("../.."), "examples/packages/mixed-1.0")
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := vnfd.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	pkg.Tree = "9f31c2aa4b7d0e5c6f8091a2b3c4d5e6f7081920"
	in := &desired.Instance{
		ID: uuid.NewString(), Name: "mixed", State: desired.Instantiated, Flavour: "simple", Drift: desired.DriftCorrect,
		Params: map[string]any{"namespace": kubeenv.Namespace(t, path)},
		ExtVirtualLinks: []desired.ExtVirtualLink{{ID: "net", ResourceID: cloud.AddNetwork("ext", "extsubnet", "10.77.0.0/16"),
			ExtCps: []desired.ExtCp{{CpdID: "DB_CP", CpConfig: map[string]desired.ExtCpConfig{"DB_CP_1": {}}}}}},
	}
	kube, stacks := multi.Part{Name: "kube-a", Driver: pods}, multi.Part{Name: "os-b", Driver: machines}
	if main == "kube-a" {
		in.Placement = map[string]string{"DB": "os-b"}
		return multi.New(kube, stacks), drivers.Source{Instance: in, Package: pkg}
	}
	in.Placement = map[string]string{"WEB": "kube-a"}
	return multi.New(stacks, kube), drivers.Source{Instance: in, Package: pkg}
}

// carry works as the reconciler does until nothing is left to do, and returns what is seen.
func carry(t *testing.T, d *multi.Driver, src drivers.Source, operation string) plan.Observed {
	t.Helper()
	journal := plan.Journal{Operation: operation, Granted: true, Hooks: []string{plan.HookName(operation, false, "start"), plan.HookName(operation, false, "end")}}
	var seen plan.Observed
	kit.Eventually(t, func() error {
		want := drivers.Rendering{Source: src}
		if src.Package != nil {
			var err error
			if want, err = d.Render(src); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if seen, err = d.Observe(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		steps := plan.Compute(want.Desired, seen, journal)
		if len(steps) == 0 {
			return nil
		}
		batch := plan.Next(steps)
		journal, _ = journal.Issue(batch)
		batch = slices.DeleteFunc(slices.Clone(batch), func(s plan.Step) bool { return s.Action == plan.Wait })
		if len(batch) > 0 {
			if err := d.Do(t.Context(), want, batch...); err != nil {
				t.Fatalf("%v: %v", batch, err)
			}
		}
		return fmt.Errorf("left to do: %v", steps)
	})
	return seen
}

// kinds counts units by VDU, VIM and kind.
func kinds(o plan.Observed) map[string]int {
	n := map[string]int{}
	for _, u := range o.Units {
		n[fmt.Sprintf("%s at %s: %s", u.VDU, u.VIM, u.Kind)]++
	}
	return n
}

func TestOneInstanceHasPodsAtKubernetesAndServersAtOpenStack(t *testing.T) {
	for _, main := range []string{"kube-a", "os-b"} {
		t.Run("mainly at "+main, func(t *testing.T) {
			d, src := mixed(t, main)
			seen := carry(t, d, src, "INSTANTIATE")
			if got, want := kinds(seen), map[string]int{"WEB at kube-a: Deployment": 1, "DB at os-b: OS::Nova::Server": 1}; !maps.Equal(got, want) {
				t.Errorf("units are %v, want %v", got, want)
			}
			scaled := *src.Instance
			scaled.Levels = map[string]int{"web_aspect": 2, "db_aspect": 1}
			src.Instance = &scaled
			seen = carry(t, d, src, "SCALE_TO_LEVEL")
			if got, want := kinds(seen), map[string]int{"WEB at kube-a: Deployment": 3, "DB at os-b: OS::Nova::Server": 2}; !maps.Equal(got, want) {
				t.Errorf("units are %v, want %v", got, want)
			}
			ports := 0
			for _, r := range seen.Resources {
				if r.Kind != plan.LinkPort {
					continue
				}
				ports++
				if r.VIM != "os-b" || !slices.ContainsFunc(seen.Units, func(u plan.Unit) bool { return u.Key == r.Unit }) {
					t.Errorf("port %+v belongs to no unit that is seen", r)
				}
			}
			if ports != 2 {
				t.Errorf("%d ports, want one for each server", ports)
			}
			healed := heal(t, d, src, seen)
			files, err := d.Access()
			if err != nil || len(files["KUBECONFIG"]) == 0 || len(files["OS_CLIENT_CONFIG_FILE"]) == 0 {
				t.Errorf("hooks find %d files (%v)", len(files), err)
			}
			gone := *healed.Instance
			gone.State = desired.NotInstantiated
			if seen = carry(t, d, drivers.Source{Instance: &gone}, "TERMINATE"); len(seen.Objects)+len(seen.Units) > 0 {
				t.Errorf("left are %v and %v", seen.Objects, seen.Units)
			}
		})
	}
}

// heal condemns one VNFC of each VDU in one go, and sees that others take their place.
func heal(t *testing.T, d *multi.Driver, src drivers.Source, seen plan.Observed) drivers.Source {
	t.Helper()
	sick := *src.Instance
	sick.Condemned = map[string]string{}
	of := map[string]bool{}
	for _, u := range seen.Units {
		if !of[u.VDU] {
			of[u.VDU] = true
			sick.Condemned[u.Key] = u.ID
		}
	}
	src.Instance = &sick
	after := carry(t, d, src, "HEAL")
	if !maps.Equal(kinds(seen), kinds(after)) {
		t.Errorf("%v before the heal and %v after it", kinds(seen), kinds(after))
	}
	for key, incarnation := range sick.Condemned {
		if after.Has(key, incarnation) {
			t.Errorf("%s still runs as %s", key, incarnation)
		}
	}
	if n := len(of); n != 2 || !strings.Contains(strings.Join(slices.Collect(maps.Keys(sick.Condemned)), " "), ":") {
		t.Errorf("condemned were %v, want one of each VDU, and one at another VIM", sick.Condemned)
	}
	return src
}
