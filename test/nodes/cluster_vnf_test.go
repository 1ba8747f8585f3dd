package nodes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// The VDUs of the example package of a cluster.
const (
	masterVDU = "MasterVDU"
	workerVDU = "WorkerVDU"
)

// vnf is an instance of the example package whose machines are a real cluster: its management
// driver reaches them over SSH, and runs the package's script there. The test is Heat: it
// makes machines, and takes them away.
type vnf struct {
	*testing.T
	*Cluster
	pkg      string // a copy of the package, with the pod network in it
	metadata map[string]any
	units    []hooks.Target // that live
	hosts    map[string]*netns.Host
	last     netip.Addr // that a machine was given
}

func TestAClusterThatKubeadmMadeOfMachinesGrowsShrinksAndHealsUnderTraffic(t *testing.T) {
	testenv.Chaos(t, "machines")
	v := newVNF(t, "10.207.2.0/24")
	v.sub("InstantiateMakesAMasterAndTwoWorkers", instantiate)
	url := v.workload()
	v.sub("ScaleOutJoinsAWorkerThatRunsContainers", func(v *vnf) { v.watched(url, scaleOut) })
	v.sub("ScaleInMovesPodsAsTheirBudgetAllowsAndLosesNoRequest", func(v *vnf) { v.watched(url, scaleIn) })
	v.sub("AWorkerThatIsHealedIsReplacedAndLosesNoRequest", func(v *vnf) { v.watched(url, heal) })
	v.sub("AWorkerThatDiedIsReplaced", healDead)
}

func newVNF(t *testing.T, subnet string) *vnf {
	t.Helper()
	v := &vnf{
		T: t, Cluster: &Cluster{machines: Need(t, "local/web:1.0")}, pkg: t.TempDir(),
		metadata: map[string]any{}, hosts: map[string]*netns.Host{},
	}
	v.Lab = netns.Start(t, subnet)
	v.last = v.Lab.Gateway
	if err := os.CopyFS(v.pkg, os.DirFS("../../examples/packages/k8s-cluster-1.0")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(v.pkg, "Files", "network.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, Manifest(), 0o644); err != nil {
		t.Fatal(err)
	}
	return v
}

// sub runs a part; without it, the parts that follow are of no use.
func (v *vnf) sub(name string, do func(*vnf)) {
	v.Helper()
	if !v.T.Run(name, func(t *testing.T) {
		outer := v.T
		v.T = t
		defer func() { v.T = outer }()
		do(v)
	}) {
		v.FailNow()
	}
}

// machine makes one and its unit, which isn't the VNF's yet.
func (v *vnf) machine(vdu string) hooks.Target {
	v.Helper()
	v.last = v.last.Next()
	name := fmt.Sprintf("server-%d", v.last.As4()[3])
	v.boot(name, v.last)
	cp := map[string]string{masterVDU: "masterNode_CP1", workerVDU: "workerNode_CP1"}[vdu]
	return hooks.Target{VduID: vdu, Unit: hooks.Unit{
		ID: name + "@1", Name: name, Address: v.last.String(), Addresses: map[string][]string{cp: {v.last.String()}}, Ready: true,
	}}
}

func (v *vnf) boot(name string, at netip.Addr) {
	v.Helper()
	spec := netns.Spec{Name: name, Addrs: []netip.Addr{at}, NoWeb: true}
	v.machines.Outfit(&spec)
	h, err := v.Lab.Add(v.Context(), spec)
	if err != nil {
		v.Fatal(err)
	}
	v.hosts[name] = h
}

// remove is what Heat does.
func (v *vnf) remove(t hooks.Target) {
	v.hosts[t.Unit.Name].Remove()
	v.units = slices.DeleteFunc(slices.Clone(v.units), func(u hooks.Target) bool { return u.Unit.ID == t.Unit.ID })
}

// run runs a hook of an operation, and returns what it hands over. What it finds out is kept,
// as the end of an operation does.
func (v *vnf) run(hook string, handOver json.RawMessage, added, removed []hooks.Target) json.RawMessage {
	v.Helper()
	user := netns.DefaultUser
	p := &hooks.Package{VnfdID: "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b90", Tree: "here", Dir: v.pkg}
	in := hooks.Input{
		Version: hooks.Version, Hook: hook, HandOver: handOver, Added: added, Removed: removed, Before: p, After: p,
		Operation: hooks.Operation{ID: "an-operation", Type: "SCALE", Attempt: 1},
		Instance:  hooks.Instance{ID: "an-instance", Flavour: "simple", Metadata: v.metadata},
		Params: map[string]any{"k8s_cluster_installation_param": map[string]any{
			"script_path": "Scripts/install_k8s_cluster.sh", "cni": "Files/network.yaml", "ignore_preflight_errors": IgnoreErrors,
			"master_node": map[string]any{
				"vdu_id": masterVDU, "ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1", "cluster_cp_name": "masterNode_CP1",
				"username": user.Name, "password": user.Password, "pod_cidr": PodCIDR, "cluster_cidr": "10.96.0.0/16",
			},
			"worker_node": map[string]any{
				"aspect_id": "worker_instance", "ssh_cp_name": "workerNode_CP1", "nic_cp_name": "workerNode_CP1",
				"username": user.Name, "password": user.Password,
			},
			"ssh": map[string]any{"accept_new": true}, "force_after": "10s",
		}},
	}
	for _, vdu := range []string{masterVDU, workerVDU} {
		is := hooks.VDU{ID: vdu}
		for _, t := range v.units {
			if t.VduID == vdu {
				is.Old = append(is.Old, t.Unit)
			}
		}
		for _, t := range added {
			if t.VduID == vdu {
				is.New = append(is.New, t.Unit)
			}
		}
		in.VDUs = append(in.VDUs, is)
	}
	text, err := json.Marshal(in)
	if err != nil {
		v.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	began := time.Now()
	err = kubecluster.Run(v.Context(), bytes.NewReader(text), &stdout, &stderr)
	v.Logf("%s took %v: %v\n%s", hook, time.Since(began).Round(100*time.Millisecond), err, &stderr)
	var out hooks.Output
	if e := json.Unmarshal(stdout.Bytes(), &out); e != nil || err != nil {
		v.Fatalf("%s: %v, %v", hook, err, e)
	}
	for name, value := range out.Metadata {
		v.metadata[name] = value
	}
	return out.HandOver
}

// ready are the names of the nodes that are Ready and take pods, by address.
func (v *vnf) ready() map[string]string {
	v.Helper()
	list, err := v.Client.CoreV1().Nodes().List(v.Context(), metav1.ListOptions{})
	if err != nil {
		v.Fatal(err)
	}
	all := map[string]string{}
	for _, n := range list.Items {
		for _, is := range n.Status.Conditions {
			if is.Type == corev1.NodeReady && is.Status == corev1.ConditionTrue && !n.Spec.Unschedulable {
				all[n.Status.Addresses[0].Address] = n.Name
			}
		}
	}
	return all
}

// want fails unless the living units, and they alone, are nodes that are Ready.
func (v *vnf) want(number int) {
	v.Helper()
	is := v.ready()
	for _, t := range v.units {
		if is[t.Unit.Address] == "" {
			v.Errorf("machine %s at %s is no Ready node: %v", t.Unit.Name, t.Unit.Address, is)
		}
	}
	if len(is) != number || len(v.units) != number {
		v.Errorf("%d nodes are Ready: %v; want %d", len(is), is, number)
	}
}

func instantiate(v *vnf) {
	v.run("instantiate_start", nil, nil, nil)
	added := []hooks.Target{v.machine(workerVDU), v.machine(masterVDU), v.machine(workerVDU)}
	v.run("instantiate_end", nil, added, nil)
	v.units = added
	v.Master = v.hosts[added[1].Unit.Name]
	admin, err := v.Master.ReadFile(adminConf)
	if err != nil {
		v.Fatal(err)
	}
	if v.Config, err = clientcmd.RESTConfigFromKubeConfig(admin); err != nil {
		v.Fatal(err)
	}
	v.Config.QPS = -1
	if v.Client, err = kubernetes.NewForConfig(rest.CopyConfig(v.Config)); err != nil {
		v.Fatal(err)
	}
	v.want(3)
	kit.Eventually(v, func() error { return v.Cluster.ready(v.Context(), 3) })
}

// workload runs containers behind a Service, of which a budget lets one be away, and
// returns where the Service is.
func (v *vnf) workload() string {
	v.Helper()
	labels := map[string]string{"app": "web"}
	web := container("local/web:1.0")
	web.Env = []corev1.EnvVar{{Name: "DRAIN_SECONDS", Value: "5"}}
	web.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/usr/local/bin/web", "drain"}}}}
	replicas, least := int32(3), intstr.FromInt32(2)
	if _, err := v.Client.AppsV1().Deployments("default").Create(v.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{web},
				TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.ScheduleAnyway,
					LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
				}},
			},
		}},
	}, metav1.CreateOptions{}); err != nil {
		v.Fatal(err)
	}
	if _, err := v.Client.PolicyV1().PodDisruptionBudgets("default").Create(v.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{}); err != nil {
		v.Fatal(err)
	}
	s, err := v.Client.CoreV1().Services("default").Create(v.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}, metav1.CreateOptions{})
	if err != nil {
		v.Fatal(err)
	}
	v.serving(3)
	url := "http://" + s.Spec.ClusterIP + "/"
	// Rules for the Service come to the master's kube-proxy in their own time.
	kit.Eventually(v, func() error { return ask(v.Context(), v.HTTP(), url, &answer{}) })
	return url
}

// serving waits until so many pods of the workload are Ready, and returns where.
func (v *vnf) serving(number int) (on map[string]int) {
	v.Helper()
	kit.Eventually(v, func() error {
		list, err := v.Client.CoreV1().Pods("default").List(v.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		on = map[string]int{}
		n := 0
		for _, p := range list.Items {
			for _, is := range p.Status.Conditions {
				if is.Type == corev1.PodReady && is.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
					on[p.Spec.NodeName]++
					n++
				}
			}
		}
		if n != number {
			return fmt.Errorf("%d pods are Ready, on %v", n, on)
		}
		return nil
	})
	return on
}

// watched has a client ask the Service while something is done, and fails the test where one
// request gets no answer.
func (v *vnf) watched(url string, do func(*vnf)) {
	v.Helper()
	client, ctx := v.HTTP(), v.Context()
	client.Timeout = time.Minute // what counts is whether there is an answer
	stop := make(chan struct{})
	var all sync.WaitGroup
	var asked, lost int
	pods := map[string]int{}
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			var a answer
			asked++
			if err := ask(ctx, client, url, &a); err != nil {
				lost++
				v.Errorf("request %d, at %s: %v", asked, time.Now().Format(time.TimeOnly), err)
				continue
			}
			pods[a.Pod]++
		}
	})
	done := func() { close(stop); all.Wait() }
	defer func() {
		if stop != nil { // do has ended the test
			done()
		}
	}()
	do(v)
	done()
	stop = nil
	v.Logf("%d requests, %d without an answer, %v", asked, lost, pods)
	if asked < 50 || len(pods) < 2 {
		v.Errorf("%d requests that %d pods answered prove nothing", asked, len(pods))
	}
}

// occupied is a worker that has pods of the workload, and its node.
func (v *vnf) occupied() (hooks.Target, string) {
	v.Helper()
	on, nodes := v.serving(3), v.ready()
	for _, t := range v.units {
		if node := nodes[t.Unit.Address]; t.VduID == workerVDU && on[node] > 0 {
			return t, node
		}
	}
	v.Fatalf("no worker has pods: %v", on)
	return hooks.Target{}, ""
}

func scaleOut(v *vnf) {
	more := v.machine(workerVDU)
	left := v.run("scale_start", nil, nil, nil)
	v.run("scale_end", left, []hooks.Target{more}, nil)
	v.units = append(v.units, more)
	v.want(4)
	// A container runs there, and is reached by the pod network.
	p := pod(v.T, v.Cluster, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "first"},
		Spec:       corev1.PodSpec{NodeName: v.ready()[more.Unit.Address], Containers: []corev1.Container{container("local/web:1.0")}},
	})
	kit.Eventually(v, func() error {
		var a answer
		return ask(v.Context(), v.HTTP(), "http://"+p.Status.PodIP+":8080/", &a)
	})
	if err := v.Client.CoreV1().Pods("default").Delete(v.Context(), "first", metav1.DeleteOptions{}); err != nil {
		v.Fatal(err)
	}
}

func scaleIn(v *vnf) {
	victim, node := v.occupied()
	removed := []hooks.Target{victim}
	left := v.run("scale_start", nil, nil, removed)
	v.remove(victim)
	v.run("scale_end", left, nil, removed)
	v.want(3)
	if on := v.serving(3); on[node] > 0 {
		v.Errorf("pods are on %s, which is gone: %v", node, on)
	}
}

// replaced is the worker's successor: another machine of the same name and address.
func (v *vnf) replaced(old hooks.Target) hooks.Target {
	v.Helper()
	v.boot(old.Unit.Name, netip.MustParseAddr(old.Unit.Address))
	successor := old
	successor.Unit.ID = strings.TrimSuffix(old.Unit.ID, "@1") + "@2"
	return successor
}

func heal(v *vnf) {
	victim, _ := v.occupied()
	removed := []hooks.Target{victim}
	left := v.run("heal_start", nil, nil, removed)
	v.remove(victim)
	successor := v.replaced(victim)
	v.run("heal_end", left, []hooks.Target{successor}, removed)
	v.units = append(v.units, successor)
	v.want(3)
	v.serving(3)
}

func healDead(v *vnf) {
	victim, node := v.occupied()
	// Its power is gone: nobody says that its pods have ended.
	v.hosts[victim.Unit.Name].Remove()
	kit.Eventually(v, func() error {
		if is := v.ready(); is[victim.Unit.Address] != "" {
			return fmt.Errorf("node %s is Ready still", node)
		}
		return nil
	})
	removed := []hooks.Target{victim}
	removed[0].Unit.Ready = false
	left := v.run("heal_start", nil, nil, removed)
	v.remove(victim)
	successor := v.replaced(victim)
	v.run("heal_end", left, []hooks.Target{successor}, removed)
	v.units = append(v.units, successor)
	v.want(3)
	v.serving(3)
}
