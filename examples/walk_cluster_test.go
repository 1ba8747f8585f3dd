package examples_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/nodes"
	"github.com/jibe-vnfm/jibe/test/process"
)

// clusterWalk is the way of a VNF that is a Kubernetes cluster, whose nodes run containers.
type clusterWalk struct {
	*vmWalk
	inside kubernetes.Interface
	master *netns.Host
	vim    string // what the cluster is called
	tenant string // the instance that runs on the cluster
}

// tenantImage is that of the VNF that runs on clusters. What runs is a test program, which tells
// the name.
const tenantImage = "nginx:1.27-alpine"

// onNodes begins the walk of a cluster on machines that can be real nodes, which is the VIM of
// that name. A copy of the package has the pod network of this place; outfit may add to the machines.
func onNodes(t *testing.T, example, pkg, vim, subnet string, outfit ...func(*netns.Spec)) *clusterWalk {
	t.Helper()
	machines := nodes.Need(t, tenantImage)
	t.Parallel()
	begun := newWalk(t, example)
	// A machine that is healed keeps its address: its predecessor, whose end takes long with all
	// its containers, must be gone before the cloud says that the successor is there.
	begun.delay = 5 * time.Second
	c := &clusterWalk{vmWalk: onOpenStack(begun, subnet, append([]func(*netns.Spec){machines.Outfit}, outfit...)...), vim: vim}
	c.flags, c.patience = []string{"--timeout", "30m"}, vmPatience
	at := filepath.Join(t.TempDir(), pkg)
	if err := os.CopyFS(at, os.DirFS(filepath.Join("packages", pkg))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "network.yaml"), nodes.Manifest(), 0o644); err != nil {
		t.Fatal(err)
	}
	c.copies[pkg] = at
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(netns.DefaultUser.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	c.edits[`file:/var/lib/jibe/secrets/machine-password`] = "file:" + password
	c.edits[`ssh: {accept_new: true}`] = "ssh: {accept_new: true}\n    cni: network.yaml\n    ignore_preflight_errors: " + nodes.IgnoreErrors
	return c
}

// vnfc is one of the cluster's, as the API shows it.
type vnfc struct {
	ID      string `json:"id"`
	VDU     string `json:"vduId"`
	Compute struct {
		ID string `json:"resourceId"`
	} `json:"computeResource"`
}

// shown is the instance as the API shows it.
func (c *clusterWalk) shown() (vnfcs []vnfc, nodes map[string]string) {
	c.Helper()
	var in struct {
		Info struct {
			VNFCs []vnfc `json:"vnfcResourceInfo"`
		} `json:"instantiatedVnfInfo"`
		Metadata struct {
			Nodes map[string]string `json:"kubernetesNodes"`
		} `json:"metadata"`
	}
	c.server.Want(c.T, http.StatusOK, http.MethodGet, process.Instances+"/"+c.instance, nil, &in)
	return in.Info.VNFCs, in.Metadata.Nodes
}

// nodesAre fails unless the cluster has so many nodes, all Ready.
func (c *clusterWalk) nodesAre(n int) {
	c.Helper()
	var list *corev1.NodeList
	kit.Eventually(c, func() (err error) { // masters may be electing who leads
		list, err = c.inside.CoreV1().Nodes().List(c.Context(), metav1.ListOptions{})
		return err
	})
	var ready []string
	for _, n := range list.Items {
		for _, is := range n.Status.Conditions {
			if is.Type == corev1.NodeReady && is.Status == corev1.ConditionTrue && !n.Spec.Unschedulable {
				ready = append(ready, n.Name)
			}
		}
	}
	if len(list.Items) != n || len(ready) != n {
		c.Errorf("the cluster has %d nodes, and %q are Ready; want %d", len(list.Items), ready, n)
	}
}

// ready are the workload's pods that are Ready, by node, and how many.
func (c *clusterWalk) ready(ctx context.Context) (map[string]int, int, error) {
	list, err := c.inside.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return nil, 0, err
	}
	on, n := map[string]int{}, 0
	for _, p := range list.Items {
		for _, is := range p.Status.Conditions {
			if is.Type == corev1.PodReady && is.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				on[p.Spec.NodeName]++
				n++
			}
		}
	}
	return on, n, nil
}

// occupy runs the example's VNF on the cluster.
func (c *clusterWalk) occupy() {
	c.Helper()
	text := strings.Replace(string(c.file("k8s-cluster", "on-edge.yaml")), "name:", "id: "+uuid.NewString()+"\nname:", 1)
	c.server.PushFiles(c.T, map[string]string{"instances/site-a/web-on-edge/vnf.yaml": strings.Replace(text, "vim: edge", "vim: "+c.vim, 1)})
	c.tenant = c.done("INSTANTIATE").Instance
}

// protect gives the workload a budget of so many pods of its three.
func (c *clusterWalk) protect(least int) {
	c.Helper()
	min := intstr.FromInt(least)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &min, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	if _, err := c.inside.PolicyV1().PodDisruptionBudgets("default").Create(c.Context(), budget, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// budget says how many pods must stay.
func (c *clusterWalk) budget(least int) {
	c.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"minAvailable": %d}}`, least)
	if _, err := c.inside.PolicyV1().PodDisruptionBudgets("default").Patch(c.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
}

// stuck asks for the victim to go while the budget lets none of its pods go, and takes that
// back.
func (c *clusterWalk) stuck(victim vnfc) {
	c.Helper()
	c.budget(3)
	a := c.server.Want(c.T, http.StatusAccepted, http.MethodPost, process.Instances+"/"+c.instance+"/scale",
		json.RawMessage(`{"type": "SCALE_IN", "aspectId": "worker_instance", "additionalParams": {"vnfcInstanceId": ["`+victim.ID+`"]}}`), nil)
	failed := c.server.AwaitWithin(c.T, c.patience, a.ID(), "FAILED_TEMP")
	for _, part := range []string{"not drained after", "PodDisruptionBudget default/web", "no node was deleted"} {
		if !strings.Contains(failed.Error.Detail, part) {
			c.Errorf("the operation failed with %q, which doesn't tell %q", failed.Error.Detail, part)
		}
	}
	c.server.Want(c.T, http.StatusAccepted, http.MethodPost, process.Operations+"/"+a.ID()+"/rollback", nil, nil)
	c.server.AwaitWithin(c.T, c.patience, a.ID(), "ROLLED_BACK")
	c.seen[a.ID()] = true
	c.budget(2)
}

// guard fails the test where fewer than least pods of the workload are Ready, until stopped.
func (c *clusterWalk) guard(least int) (stop func() (looks int)) {
	ctx, cancel := context.WithCancel(c.Context())
	var all sync.WaitGroup
	looks := 0
	all.Go(func() {
		for ; ctx.Err() == nil; kit.Pause(ctx, 100*time.Millisecond) {
			on, n, err := c.ready(ctx)
			if err != nil {
				continue // the test ends, or the machine is busy
			}
			if looks++; n < least {
				c.Errorf("%d pods are Ready, at %v: the budget says %d", n, on, least)
				return
			}
		}
	})
	return func() int { cancel(); all.Wait(); return looks }
}

// watch has a client ask the workload's Service, each time by a new connection, until stopped,
// and fails the test for every request that no container answers. It returns how many were
// answered, and by how many pods.
func (c *clusterWalk) watch() (stop func() (answers, pods int)) {
	c.Helper()
	s, err := c.inside.CoreV1().Services("default").Get(c.Context(), "web", metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Spec.ClusterIP+"/", nil)
	if err != nil {
		c.Fatal(err)
	}
	client := (&nodes.Cluster{Master: c.master}).HTTP()
	client.Timeout = time.Minute // what counts is whether there is an answer
	by := map[string]int{}
	ask := func() error {
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var is struct{ Pod, Image string }
		if err := json.NewDecoder(resp.Body).Decode(&is); err != nil {
			return fmt.Errorf("%s: %w", resp.Status, err)
		}
		if resp.StatusCode != http.StatusOK || is.Image != tenantImage {
			return fmt.Errorf("%s: %+v", resp.Status, is)
		}
		by[is.Pod]++
		return nil
	}
	// Rules for the Service come to the master in their own time.
	kit.Eventually(c, ask)
	var all sync.WaitGroup
	n := 0
	all.Go(func() {
		for ; ctx.Err() == nil; kit.Pause(ctx, 50*time.Millisecond) {
			if err := ask(); err != nil && ctx.Err() == nil {
				c.Errorf("request %d, at %s: %v", n, time.Now().Format(time.TimeOnly), err)
			}
			n++
		}
	})
	return func() (int, int) { cancel(); all.Wait(); return n, len(by) }
}

// scale asks for it, kills the server once a hook of the operation has written the line,
// starts another on the same data, lets the hook go on, and waits until the operation is
// done. What it tells must match each of steps.
func (c *clusterWalk) scale(body, line string, goOn func(), steps ...string) {
	c.Helper()
	a := c.server.Want(c.T, http.StatusAccepted, http.MethodPost, process.Instances+"/"+c.instance+"/scale", json.RawMessage(body), nil)
	kit.EventuallyWithin(c, c.patience, func() error {
		if c.server.Logged("hook wrote", a.ID(), line) > 0 {
			return nil
		}
		return fmt.Errorf("operation %s doesn't get to %q", a.ID(), line)
	})
	data := c.server.Data
	c.server.Kill()
	c.server = process.Start(c.T, data, append([]string{"--allow-hooks=packages"}, c.flags...)...)
	goOn()
	c.server.AwaitWithin(c.T, c.patience, a.ID(), "COMPLETED")
	c.seen[a.ID()] = true
	var story []lcm.StoryLine
	c.server.Want(c.T, http.StatusOK, http.MethodGet, "/jibe/v1/operations/"+a.ID()+"/story", nil, &story)
	var all strings.Builder
	for _, line := range story {
		fmt.Fprintln(&all, line.At.Format(time.TimeOnly), line.Text)
	}
	for _, step := range append(steps, "again, as it was cut short", "COMPLETED") {
		if !regexp.MustCompile(step).MatchString(all.String()) {
			c.Errorf("the operation tells nothing of %q:\n%s", step, &all)
		}
	}
}

// heal has the machine of a worker replaced: its pods move away before, and the one that comes
// joins.
func (c *clusterWalk) heal() {
	c.Helper()
	vnfcs, nodes := c.shown()
	on, _, err := c.ready(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	i := slices.IndexFunc(vnfcs, func(x vnfc) bool { return on[nodes[x.Compute.ID]] > 0 })
	if i < 0 {
		c.Fatalf("VNFCs %v, nodes %v, pods on %v", vnfcs, nodes, on)
	}
	old, err := c.inside.CoreV1().Nodes().Get(c.Context(), nodes[vnfcs[i].Compute.ID], metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	c.ask(http.MethodPost, "/heal", []byte(`{"vnfcInstanceId": ["`+vnfcs[i].ID+`"], "cause": "it is to be another"}`))
	c.nodesAre(3)
	after, now := c.shown()
	if n, err := c.inside.CoreV1().Nodes().Get(c.Context(), old.Name, metav1.GetOptions{}); err == nil && n.UID == old.UID {
		c.Errorf("the node %s is the one that was there before", n.Name)
	}
	if len(after) != 3 || len(now) != 3 {
		c.Errorf("afterwards VNFCs %v, nodes %v", after, now)
	}
}

// provided is the VIM that the cluster is, "" where it is none.
func (c *clusterWalk) provided() string {
	c.Helper()
	text, err := process.Git(c.Context(), c.server.Desired(), "ls-tree", "-r", "--name-only", "HEAD", desired.VIMFile(c.vim))
	if err != nil {
		c.Fatal(err)
	}
	if text == "" {
		return ""
	}
	if text, err = process.Git(c.Context(), c.server.Desired(), "show", "HEAD:"+desired.VIMFile(c.vim)); err != nil {
		c.Fatal(err)
	}
	return text
}

// end terminates the VNF on the cluster, then the cluster, which is no VIM any more.
func (c *clusterWalk) end() {
	c.Helper()
	cluster := c.instance
	c.instance = c.tenant
	c.ask(http.MethodPost, "/terminate", []byte(`{"terminationType": "FORCEFUL"}`))
	c.instance = cluster
	c.terminate()
	kit.Eventually(c, func() error {
		if vim := c.provided(); vim != "" {
			return fmt.Errorf("the VIM is there yet: %s", vim)
		}
		return nil
	})
}

func TestAClusterOfMachinesGrowsAndShrinksUnderLoadAndRunsAnotherVNF(t *testing.T) {
	c := onNodes(t, "k8s-cluster", "k8s-cluster-1.0", "edge", subnet(5))
	c.edits[`vim_name: edge`] = "drain_timeout: 20s\n    vim_name: edge"
	// It takes leave of its clients, and is no less Ready where it is slow.
	c.copies["rolling-1.0"] = process.NextVersion(t, "packages/rolling-1.0", "rolling-1.0", "image: "+tenantImage, "image: "+tenantImage+`
          lifecycle: {preStop: {exec: {command: [/usr/local/bin/web, drain]}}}`, "env:\n", `env:
            - {name: DRAIN_SECONDS, value: "8"}
`, "periodSeconds: 2", "periodSeconds: 2\n            timeoutSeconds: 10")
	c.run("k8s-cluster", "k8s-cluster-1.0", "rolling-1.0")
	c.connect()
	c.nodesAre(2)
	if vim := c.provided(); !strings.Contains(vim, "instance: "+c.instance) || strings.Contains(vim, "BEGIN RSA") || strings.Contains(vim, "PRIVATE KEY") {
		t.Errorf("the VIM is %q", vim)
	}

	c.occupy()
	c.protect(2)
	stop, done := c.guard(2), c.watch()

	// Machines that were asked to join do so also where nobody waits for it any more.
	c.scale(string(c.file("k8s-cluster", "scale_out.json")), "joins as node", func() {}, `(?s) is Ready .* is Ready .*2 nodes joined the cluster`)
	c.nodesAre(4)
	c.machines(4)

	// The worker that goes is named: the first one, where all pods are.
	vnfcs, nodes := c.shown()
	on, _, err := c.ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(vnfcs, func(x vnfc) bool { return on[nodes[x.Compute.ID]] > 0 })
	if i < 0 || len(vnfcs) != 4 || len(nodes) != 4 {
		t.Fatalf("VNFCs %v, nodes %v, pods on %v", vnfcs, nodes, on)
	}
	victim := vnfcs[i]
	c.stuck(victim)
	c.nodesAre(4)
	c.machines(4)
	// From here on pods have all the time that they need.
	c.push("CHANGE_VNFPKG", "drain_timeout: 20s", "drain_timeout: 10m")
	c.machines(4)
	c.budget(3)
	c.scale(`{"type": "SCALE_IN", "aspectId": "worker_instance", "additionalParams": {"vnfcInstanceId": ["`+victim.ID+`"]}}`, "has to wait",
		func() { c.budget(2) },
		`takes no more pods`, `drained of`, `its node `+nodes[victim.Compute.ID]+` is deleted`)
	c.nodesAre(3)
	for _, a := range c.machines(3) {
		if a.Labels["server"] == victim.Compute.ID {
			t.Errorf("the machine that was named is there yet: %v", a)
		}
	}
	if left, now := c.shown(); len(left) != 3 || len(now) != 3 || now[victim.Compute.ID] != "" {
		t.Errorf("afterwards VNFCs %v, nodes %v", left, now)
	}
	kit.Eventually(t, func() error {
		on, n, err := c.ready(t.Context())
		if err == nil && (n != 3 || on[nodes[victim.Compute.ID]] > 0) {
			err = fmt.Errorf("%d pods, on %v", n, on)
		}
		return err
	})
	c.heal()
	looks := stop()
	answers, pods := done()
	t.Logf("the budget was looked at %d times, and %d pods answered %d requests", looks, pods, answers)
	if looks < 50 || answers < 50 || pods < 4 {
		t.Error("that is too little to prove anything")
	}

	// The cluster stays as long as somebody runs on it.
	c.server.Want(t, http.StatusConflict, http.MethodPost, process.Instances+"/"+c.instance+"/terminate", json.RawMessage(`{"terminationType": "FORCEFUL"}`), nil)
	for {
		clone := process.NewClone(t, c.server.Desired())
		if err := clone.Remove(c.dir); err != nil {
			t.Fatal(err)
		}
		if _, err := clone.Commit(t.Context(), "Close the edge"); err != nil {
			t.Fatal(err)
		}
		err := clone.Push(t.Context())
		if err != nil && process.Overtaken(err) {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "instances/site-a/web-on-edge") {
			t.Errorf("a push that ends the cluster gets %v", err)
		}
		break
	}
	c.end()
	if strings.Contains(c.server.Log(), netns.DefaultUser.Password+`"`) || strings.Contains(c.server.Log(), "PRIVATE KEY") {
		t.Error("the log shows a secret")
	}
}

// connect finds the cluster by its master.
func (c *clusterWalk) connect() {
	c.Helper()
	for _, h := range c.network.Hosts() {
		if h.Spec.Labels["jibe_vdu"] != "MasterVDU" {
			continue
		}
		admin, err := h.ReadFile("/etc/kubernetes/admin.conf")
		if err != nil {
			c.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(admin)
		if err != nil {
			c.Fatal(err)
		}
		config.QPS = -1
		if c.inside, err = kubernetes.NewForConfig(config); err != nil {
			c.Fatal(err)
		}
		c.master = h
		return
	}
	c.Fatal("there is no master")
}
