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

	"github.com/google/uuid"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/workers"
)

// clusterWalk is the way of a VNF that is a Kubernetes cluster.
type clusterWalk struct {
	*vmWalk
	inside kubernetes.Interface
	tenant string // the instance that runs on the cluster
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

// nodesAre fails unless the cluster has so many workers beside its master, all Ready.
func (c *clusterWalk) nodesAre(workers int) {
	c.Helper()
	list, err := c.inside.CoreV1().Nodes().List(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	var ready []string
	for _, n := range list.Items {
		for _, is := range n.Status.Conditions {
			if is.Type == corev1.NodeReady && is.Status == corev1.ConditionTrue && !n.Spec.Unschedulable {
				ready = append(ready, n.Name)
			}
		}
	}
	if len(list.Items) != workers+1 || len(ready) != workers+1 {
		c.Errorf("the cluster has %d nodes, and %q are Ready; want %d workers and a master", len(list.Items), ready, workers)
	}
}

// onNodes are the workload's pods that are Ready, by node.
func (c *clusterWalk) onNodes(ctx context.Context) (map[string]int, int, error) {
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

// occupy runs the example's VNF on the cluster, with a budget of so many pods of its three.
func (c *clusterWalk) occupy(least int) {
	c.Helper()
	text := strings.Replace(string(c.file("k8s-cluster", "on-edge.yaml")), "name:", "id: "+uuid.NewString()+"\nname:", 1)
	c.server.PushFiles(c.T, map[string]string{"instances/site-a/web-on-edge/vnf.yaml": text})
	c.tenant = c.done("INSTANTIATE").Instance
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
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			on, n, err := c.onNodes(ctx)
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

// scale asks for it, kills the server once a hook of the operation has written the line,
// starts another on the same data, lets the hook go on, and waits until the operation is
// done. What it tells must match each of steps.
func (c *clusterWalk) scale(body, line string, goOn func(), steps ...string) {
	c.Helper()
	a := c.server.Want(c.T, http.StatusAccepted, http.MethodPost, process.Instances+"/"+c.instance+"/scale", json.RawMessage(body), nil)
	kit.EventuallyWithin(c, c.patience, func() error {
		for said := range strings.Lines(c.server.Log()) {
			if strings.Contains(said, "hook wrote") && strings.Contains(said, a.ID()) && strings.Contains(said, line) {
				return nil
			}
		}
		return fmt.Errorf("operation %s doesn't get to %q", a.ID(), line)
	})
	data := c.server.Data
	c.server.Kill()
	c.server = process.Start(c.T, data)
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

// provided is the VIM that the cluster is, "" where it is none.
func (c *clusterWalk) provided() string {
	c.Helper()
	text, err := process.Git(c.Context(), c.server.Desired(), "ls-tree", "-r", "--name-only", "HEAD", desired.VIMFile("edge"))
	if err != nil {
		c.Fatal(err)
	}
	if text == "" {
		return ""
	}
	if text, err = process.Git(c.Context(), c.server.Desired(), "show", "HEAD:"+desired.VIMFile("edge")); err != nil {
		c.Fatal(err)
	}
	return text
}

func TestAClusterOfMachinesGrowsAndShrinksUnderLoadAndRunsAnotherVNF(t *testing.T) {
	tools := workers.Need(t)
	t.Parallel()
	v := onOpenStack(newWalk(t, "k8s-cluster"), "10.203.5.0/24", tools.Outfit)
	c := &clusterWalk{vmWalk: v}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(netns.DefaultUser.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	c.edits[`file:/var/lib/jibe/secrets/machine-password`] = "file:" + password
	c.edits[`ssh: {accept_new: true}`] = "ssh: {accept_new: true}\n    drain_timeout: 20s"
	c.run("k8s-cluster", "k8s-cluster-1.0", "rolling-1.0")
	c.connect()
	c.nodesAre(1)
	if vim := c.provided(); !strings.Contains(vim, "instance: "+c.instance) || strings.Contains(vim, "BEGIN RSA") || strings.Contains(vim, "PRIVATE KEY") {
		t.Errorf("the VIM is %q", vim)
	}

	c.occupy(2)
	stop := c.guard(2)

	release, err := tools.Hold()
	if err != nil {
		t.Fatal(err)
	}
	// Machines that were asked to join do so also where nobody waits for it any more.
	c.scale(string(c.file("k8s-cluster", "scale_out.json")), "joins as node",
		func() {
			if err := release(); err != nil {
				t.Fatal(err)
			}
		},
		`(?s) is Ready .* is Ready .*2 nodes joined the cluster`)
	c.nodesAre(3)
	c.machines(4)

	// The worker that goes is named: the first one, where all pods are.
	vnfcs, nodes := c.shown()
	on, _, err := c.onNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(vnfcs, func(x vnfc) bool { return on[nodes[x.Compute.ID]] > 0 })
	if i < 0 || len(vnfcs) != 4 || len(nodes) != 4 {
		t.Fatalf("VNFCs %v, nodes %v, pods on %v", vnfcs, nodes, on)
	}
	victim := vnfcs[i]
	c.stuck(victim)
	c.nodesAre(3)
	c.machines(4)
	c.budget(3)
	c.scale(`{"type": "SCALE_IN", "aspectId": "worker_instance", "additionalParams": {"vnfcInstanceId": ["`+victim.ID+`"]}}`, "has to wait",
		func() { c.budget(2) },
		`takes no more pods`, `drained of`, `its node `+nodes[victim.Compute.ID]+` is deleted`)
	c.nodesAre(2)
	for _, a := range c.machines(3) {
		if a.Labels["server"] == victim.Compute.ID {
			t.Errorf("the machine that was named is there yet: %v", a)
		}
	}
	if left, now := c.shown(); len(left) != 3 || len(now) != 3 || now[victim.Compute.ID] != "" {
		t.Errorf("afterwards VNFCs %v, nodes %v", left, now)
	}
	kit.Eventually(t, func() error {
		on, n, err := c.onNodes(t.Context())
		if err == nil && (n != 3 || on[nodes[victim.Compute.ID]] > 0) {
			err = fmt.Errorf("%d pods, on %v", n, on)
		}
		return err
	})
	if looks := stop(); looks < 50 {
		t.Errorf("the budget was looked at %d times: too few to prove anything", looks)
	}

	// The cluster stays as long as somebody runs on it.
	c.server.Want(t, http.StatusConflict, http.MethodPost, process.Instances+"/"+c.instance+"/terminate", json.RawMessage(`{"terminationType": "FORCEFUL"}`), nil)
	clone := process.NewClone(t, c.server.Desired())
	if err := clone.Remove(c.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := clone.Commit(t.Context(), "Close the edge"); err != nil {
		t.Fatal(err)
	}
	if err := clone.Push(t.Context()); err == nil || !strings.Contains(err.Error(), "instances/site-a/web-on-edge") {
		t.Errorf("a push that ends the cluster gets %v", err)
	}
	cluster := c.instance
	c.instance = c.tenant
	c.ask(http.MethodPost, "/terminate", []byte(`{"terminationType": "FORCEFUL"}`))
	c.instance = cluster
	c.terminate()
	kit.Eventually(t, func() error {
		if vim := c.provided(); vim != "" {
			return fmt.Errorf("the VIM is there yet: %s", vim)
		}
		return nil
	})
	if strings.Contains(c.server.Log(), netns.DefaultUser.Password+`"`) || strings.Contains(c.server.Log(), "PRIVATE KEY") {
		t.Error("the log shows a secret")
	}
}

// connect finds the cluster by its master.
func (c *clusterWalk) connect() {
	c.Helper()
	for _, h := range c.network.Hosts() {
		if h.Spec.Labels["jibe_vdu"] == "MasterVDU" {
			c.inside = workers.Connect(c, h)
			return
		}
	}
	c.Fatal("there is no master")
}
