package kubecluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/workers"
)

const (
	// password is that of the machines; it must not be shown.
	password   = "a-very-secret-password"
	packageDir = "../../examples/packages/k8s-cluster-1.0"
)

// site is machines that are, or may become, a cluster, and the VNF instance as it is known
// between operations.
type site struct {
	testing.TB
	kubernetes.Interface // the cluster's, once it is there
	lab                  *netns.Lab
	outfit               func(*netns.Spec) // what its machines have
	next                 *netip.Addr
	w                    *world
}

// world is what is the same for all subtests.
type world struct {
	jibe      string // the binary
	dir       string // of the package
	params    map[string]any
	metadata  map[string]any
	links     json.RawMessage // extVirtualLinks
	units     []hooks.Target  // that live
	mu        sync.Mutex      // guards hosts
	hosts     map[string]*netns.Host
	operation int
}

// newSite has machines on which stand-ins play kubeadm and what a node needs.
func newSite(t testing.TB, subnet string) *site {
	t.Helper()
	return newSiteOf(t, subnet, packageDir, workers.Need(t).Outfit)
}

func newSiteOf(t testing.TB, subnet, dir string, outfit func(*netns.Spec)) *site {
	t.Helper()
	s := &site{TB: t, lab: netns.Start(t, subnet), next: new(netip.Addr), outfit: outfit,
		w: &world{dir: dir, metadata: map[string]any{}, hosts: map[string]*netns.Host{}}}
	*s.next = s.lab.Gateway
	s.w.jibe = process.Binary(t)
	s.w.params = map[string]any{
		"script_path": "Scripts/install_k8s_cluster.sh", "vim_name": "kubernetes_vim",
		"master_node": map[string]any{
			"vdu_id": "MasterVDU", "ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1", "cluster_cp_name": "masterNode_CP1",
			"username": "ubuntu", "password": password, "pod_cidr": "10.244.0.0/16", "cluster_cidr": "10.96.0.0/16",
		},
		"worker_node": map[string]any{
			"aspect_id": "worker_instance", "ssh_cp_name": "workerNode_CP1", "nic_cp_name": "workerNode_CP1",
			"username": "ubuntu", "password": password,
		},
		"ssh":           map[string]any{"accept_new": true},
		"join_timeout":  "2m",
		"drain_timeout": "1m",
	}
	return s
}

// sub runs a part; without it, the parts that follow are of no use.
func (s *site) sub(name string, do func(*site)) {
	s.Helper()
	ok := s.TB.(*testing.T).Run(name, func(t *testing.T) {
		own := *s
		own.TB = t
		do(&own)
		s.Interface = own.Interface
	})
	if !ok {
		s.FailNow()
	}
}

// machine makes a host and its unit, which isn't the VNF's yet.
func (s *site) machine(vdu string) hooks.Target {
	s.Helper()
	return s.machines(vdu, 1)[0]
}

// machines makes n of them, side by side.
func (s *site) machines(vdu string, n int) []hooks.Target {
	s.Helper()
	var all []hooks.Target
	var made sync.WaitGroup
	for range n {
		*s.next = s.next.Next()
		name := fmt.Sprintf("server-%d", s.next.As4()[3])
		t := target(vdu, name, *s.next)
		all = append(all, t)
		made.Go(func() { s.boot(name, netip.MustParseAddr(t.Unit.Address)) })
	}
	made.Wait()
	return all
}

func target(vdu, name string, at netip.Addr) hooks.Target {
	cp := map[string]string{"MasterVDU": "masterNode_CP1", "WorkerVDU": "workerNode_CP1"}[vdu]
	return hooks.Target{VduID: vdu, Unit: hooks.Unit{
		ID: name + "@1", Name: name, Address: at.String(), Addresses: map[string][]string{cp: {at.String()}}, Ready: true,
	}}
}

func (s *site) boot(name string, at netip.Addr) {
	s.Helper()
	spec := netns.Spec{Name: name, Addrs: []netip.Addr{at}, NoWeb: true, Users: []netns.User{{Name: "ubuntu", Password: password}}}
	s.outfit(&spec)
	h, err := s.lab.Add(s.Context(), spec)
	if err != nil {
		s.Error(err)
		return
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.hosts[name] = h
}

func (s *site) host(m hooks.Target) *netns.Host { return s.w.hosts[m.Unit.Name] }

// input is an operation's; change may say it otherwise.
func (s *site) input(hook string, added, removed []hooks.Target) hooks.Input {
	dir, err := filepath.Abs(s.w.dir)
	if err != nil {
		s.Fatal(err)
	}
	p := &hooks.Package{VnfdID: "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b90", Tree: "here", Dir: dir}
	in := hooks.Input{
		Version: hooks.Version, Hook: hook, Rollback: strings.Contains(hook, "_rollback_"),
		Operation: hooks.Operation{ID: fmt.Sprintf("operation-%d", s.w.operation), Type: "SCALE", Attempt: 1},
		Instance:  hooks.Instance{ID: "an-instance", Flavour: "simple", Metadata: s.w.metadata, ExtVirtualLinks: s.w.links},
		Before:    p, After: p, Added: added, Removed: removed,
		Params: map[string]any{params.Name: s.w.params},
	}
	vdus := map[string]*hooks.VDU{}
	for _, t := range s.w.units {
		v := vdus[t.VduID]
		if v == nil {
			v = &hooks.VDU{ID: t.VduID}
			vdus[t.VduID] = v
		}
		v.Old = append(v.Old, t.Unit)
	}
	for _, t := range added {
		v := vdus[t.VduID]
		if v == nil {
			v = &hooks.VDU{ID: t.VduID}
			vdus[t.VduID] = v
		}
		if !slices.ContainsFunc(v.Old, func(u hooks.Unit) bool { return u.ID == t.Unit.ID }) {
			v.New = append(v.New, t.Unit)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(vdus)) {
		in.VDUs = append(in.VDUs, *vdus[id])
	}
	return in
}

// with is the input with other parameters.
func with(in hooks.Input, change map[string]any) hooks.Input {
	p := maps.Clone(in.Params[params.Name].(map[string]any))
	maps.Copy(p, change)
	in.Params = map[string]any{params.Name: p}
	return in
}

// begin is a new operation.
func (s *site) begin() { s.w.operation++ }

// run runs the driver here, and checks that it shows no secret.
func (s *site) run(in hooks.Input) (hooks.Output, error) {
	s.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		s.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	began := time.Now()
	err = Run(s.Context(), bytes.NewReader(text), &stdout, &stderr)
	took := time.Since(began).Round(time.Millisecond)
	var out hooks.Output
	if e := json.Unmarshal(stdout.Bytes(), &out); e != nil {
		s.Fatalf("standard output %q: %v", &stdout, e)
	}
	shown := out
	shown.VIMs = nil // the one place that has the cluster's credentials
	said := fmt.Sprintf("%v\n%s%+v", err, &stderr, shown)
	s.Logf("%s in %s: %s", in.Hook, took, said)
	if strings.Contains(said, password) || strings.Contains(said, "PRIVATE KEY") {
		s.Errorf("a secret is shown: %s", said)
	}
	return out, err
}

// must runs the driver, and keeps what it found out as the end of an operation does.
func (s *site) must(in hooks.Input) hooks.Output {
	s.Helper()
	out, err := s.run(in)
	if err != nil {
		s.Fatalf("%s: %v", in.Hook, err)
	}
	s.keep(out)
	return out
}

func (s *site) keep(out hooks.Output) {
	s.w.metadata = maps.Clone(s.w.metadata)
	for k, v := range out.Metadata {
		if s.w.metadata[k] = v; v == nil {
			delete(s.w.metadata, k)
		}
	}
}

// refused runs the driver and asserts that it fails for these reasons.
func (s *site) refused(in hooks.Input, reasons ...string) hooks.Output {
	s.Helper()
	out, err := s.run(in)
	if err == nil {
		s.Fatalf("%s succeeded, but %q was expected", in.Hook, reasons)
	}
	for _, r := range reasons {
		if !strings.Contains(err.Error(), r) {
			s.Errorf("the error doesn't tell %q: %v", r, err)
		}
	}
	return out
}

// killed runs the driver as a process of its own, and kills it as soon as when says so.
func (s *site) killed(in hooks.Input, when func() bool) {
	s.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.CommandContext(s.Context(), s.w.jibe, "driver", "kubernetes-cluster")
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &out
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	kit.Until(s, "the moment to kill it comes", func() bool {
		select {
		case err := <-done:
			s.Fatalf("it ended before it was killed: %v: %s", err, &out)
		default:
		}
		return when()
	})
	if err := cmd.Process.Kill(); err != nil {
		s.Fatal(err)
	}
	<-done
	s.Logf("killed after:\n%s", &out)
}

// connect connects to the cluster of a master.
func (s *site) connect(m hooks.Target) {
	s.Helper()
	s.Interface = workers.Connect(s, s.host(m))
}

// nodes are the names of the nodes that are Ready, "!" before those that aren't, and "-" after
// those that are cordoned.
func (s *site) nodes() string {
	s.Helper()
	list, err := s.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		n := &list.Items[i]
		name := n.Name
		if !isReady(n) {
			name = "!" + name
		}
		if n.Spec.Unschedulable {
			name += "-"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (s *site) want(nodes string) {
	s.Helper()
	names := strings.Fields(nodes)
	slices.Sort(names)
	if got := s.nodes(); got != strings.Join(names, " ") {
		s.Errorf("the nodes are %q, want %q", got, names)
	}
}

var web = map[string]string{"app": "web"}

// deploy runs pods, of which so many must be healthy, and waits until they are and the budget
// counts them.
func (s *site) deploy(replicas, least int32) {
	s.Helper()
	_, err := s.AppsV1().Deployments("default").Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: web}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: web},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "web", Image: "web"}},
				TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
					LabelSelector: &metav1.LabelSelector{MatchLabels: web},
				}},
			},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	n := intstr.FromInt32(least)
	if _, err := s.PolicyV1().PodDisruptionBudgets("default").Create(s.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "keep-web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &n, Selector: &metav1.LabelSelector{MatchLabels: web}},
	}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.healthy(replicas)
}

func (s *site) healthy(replicas int32) {
	s.Helper()
	kit.Until(s, "the budget counts all pods", func() bool {
		b, err := s.PolicyV1().PodDisruptionBudgets("default").Get(s.Context(), "keep-web", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy == replicas
	})
}

// budget changes how many pods must be healthy.
func (s *site) budget(least int32) {
	s.Helper()
	_, err := s.PolicyV1().PodDisruptionBudgets("default").Patch(s.Context(), "keep-web", "application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"minAvailable":%d}}`, least), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
	kit.Until(s, "the budget is known", func() bool {
		b, err := s.PolicyV1().PodDisruptionBudgets("default").Get(s.Context(), "keep-web", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation
	})
}

// occupied has the scheduler place all pods anew until some are on each of the nodes, as it
// is free not to spread them: a node that has just come may bear its taint a moment longer.
// All of them are healthy then.
func (s *site) occupied(nodes ...string) {
	s.Helper()
	old := map[types.UID]bool{}
	kit.Until(s, fmt.Sprintf("pods are on %q", nodes), func() bool {
		list, err := s.CoreV1().Pods("default").List(s.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			s.Fatal(err)
		}
		on, all := map[string]bool{}, true
		for i := range list.Items {
			p := &list.Items[i]
			on[p.Spec.NodeName] = true
			all = all && counts(p) && !old[p.UID]
		}
		if !all || len(list.Items) != 6 {
			return false
		}
		if !slices.ContainsFunc(nodes, func(n string) bool { return !on[n] }) {
			return true
		}
		for i := range list.Items {
			old[list.Items[i].UID] = true
		}
		if err := s.CoreV1().Pods("default").DeleteCollection(s.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"}); err != nil {
			s.Fatal(err)
		}
		return false
	})
	s.healthy(6)
}

// podsOn is how many pods of the workload are on a node.
func (s *site) podsOn(node string) int {
	s.Helper()
	list, err := s.CoreV1().Pods("default").List(s.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		s.Fatal(err)
	}
	return len(list.Items)
}

// watched counts the healthy pods at each change of one, until it is stopped, and returns the
// least that there were.
func (s *site) watched() (least func() int) {
	s.Helper()
	options := metav1.ListOptions{LabelSelector: "app=web"}
	list, err := s.CoreV1().Pods("default").List(s.Context(), options)
	if err != nil {
		s.Fatal(err)
	}
	healthy := map[string]bool{}
	for _, p := range list.Items {
		healthy[p.Name] = counts(&p)
	}
	options.ResourceVersion = list.ResourceVersion
	ctx, stop := context.WithCancel(s.Context())
	w, err := s.CoreV1().Pods("default").Watch(ctx, options)
	if err != nil {
		s.Fatal(err)
	}
	count := func() (n int) {
		for _, ok := range healthy {
			if ok {
				n++
			}
		}
		return n
	}
	lowest := count()
	var done sync.WaitGroup
	done.Go(func() {
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				if ctx.Err() == nil {
					s.Errorf("the watch ended: %v", e.Object)
				}
				return
			}
			healthy[p.Name] = e.Type != "DELETED" && counts(p)
			lowest = min(lowest, count())
		}
	})
	return func() int {
		// The last changes are on their way.
		kit.Pause(s.Context(), 200*time.Millisecond)
		stop()
		w.Stop()
		done.Wait()
		return lowest
	}
}

// counts says whether a budget counts a pod as healthy.
func counts(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
