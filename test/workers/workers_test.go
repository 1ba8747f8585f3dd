package workers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// One cluster for all that is asserted: its start is most of the time.
func TestHostsBecomeNodesOfARealCluster(t *testing.T) {
	testenv.Chaos(t, "machines")
	c := newCluster(t, "10.206.1.0/24")
	var workers []*netns.Host
	for i := range 3 {
		workers = append(workers, c.host(fmt.Sprintf("worker-%d", i)))
	}
	sub := func(name string, do func(*cluster)) {
		t.Helper()
		ok := t.Run(name, func(t *testing.T) {
			own := *c
			own.T = t
			do(&own)
		})
		if !ok {
			t.FailNow()
		}
	}
	sub("AWrongHashOrTokenIsRefused", func(c *cluster) { refusals(c, workers[0]) })
	sub("WorkersJoinAndAreReady", func(c *cluster) { joins(c, workers) })
	sub("JoiningAgainIsFine", func(c *cluster) { again(c, workers[0]) })
	sub("AKubeletMayWriteItsOwnNodeAlone", func(c *cluster) { restricted(c, workers[0]) })
	sub("PodsRunAndAreEvictedAsTheirBudgetAllows", func(c *cluster) { evictions(c, workers) })
	sub("AWorkerThatGoesLeavesNothing", func(c *cluster) { goes(c, workers[2]) })
	sub("AHostOfTheSameNameTakesTheFreedPlace", func(c *cluster) { replaced(c, workers[1]) })
	sub("TenJoinAtOnce", ten)
	sub("AResetMasterHasNoClusterAnyMore", reset)
}

func refusals(c *cluster, h *netns.Host) {
	other := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	c.refused(h, goodToken, "another hash", append(c.joining(goodToken), "JIBE_K8S_CA_HASH="+other)...)
	const why = "wrong or has expired"
	wrong := "abcdef.fedcba9876543210"
	c.refused(h, wrong, why, c.joining(wrong)...)
	expired := c.addToken("expire", "0123456789abcdef", time.Now().Add(-time.Minute))
	c.refused(h, expired, why, c.joining(expired)...)
	c.eventually("the expired token is removed", func() (bool, error) {
		_, err := c.CoreV1().Secrets("kube-system").Get(c.Context(), "bootstrap-token-expire", metav1.GetOptions{})
		return gone(err)
	})
}

// gone is true where an object isn't there.
func gone(err error) (bool, error) {
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

func joins(c *cluster, workers []*netns.Host) {
	for _, h := range workers {
		start := time.Now()
		c.must(h, "join-worker", c.joining(goodToken)...)
		c.Logf("%s joined in %v", h.Spec.Name, time.Since(start).Round(time.Millisecond))
		n, err := c.CoreV1().Nodes().Get(c.Context(), h.Spec.Name, metav1.GetOptions{})
		if err != nil {
			c.Fatal(err)
		}
		want := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: h.Addr().String()}
		if !readyNode(n) || !slices.Contains(n.Status.Addresses, want) {
			c.Errorf("%s is Ready: %v, at %v", n.Name, readyNode(n), n.Status.Addresses)
		}
		c.eventually(n.Name+" has a pod subnet of the cluster's", func() (bool, error) { // the controller manager gives it one
			n, err := c.CoreV1().Nodes().Get(c.Context(), h.Spec.Name, metav1.GetOptions{})
			return err == nil && strings.HasPrefix(n.Spec.PodCIDR, "10.244."), err
		})
	}
	master, err := c.CoreV1().Nodes().Get(c.Context(), "master", metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	if _, ok := master.Labels["node-role.kubernetes.io/control-plane"]; !ok || !readyNode(master) {
		c.Errorf("the master's labels are %v, Ready: %v", master.Labels, readyNode(master))
	}
}

func again(c *cluster, h *netns.Host) {
	before, err := h.ReadFile("/etc/kubernetes/kubelet.conf")
	if err != nil {
		c.Fatal(err)
	}
	// A member needs no token.
	c.must(h, "join-worker", c.joining("")...)
	c.must(c.master, "init", "JIBE_K8S_TOKEN="+goodToken)
	if after, err := h.ReadFile("/etc/kubernetes/kubelet.conf"); err != nil || string(after) != string(before) {
		c.Errorf("the kubelet.conf is another one, %v", err)
	}
	nodes := c.CoreV1().Nodes()
	if err := nodes.Delete(c.Context(), h.Spec.Name, metav1.DeleteOptions{}); err != nil {
		c.Fatal(err)
	}
	// A host that has a place doesn't give it up by itself.
	c.refused(h, goodToken, "reset the machine", c.joining(goodToken)...)
	// A host that is reset is no member.
	c.must(h, "reset")
	c.must(h, "reset")
	if _, err := h.ReadFile("/etc/kubernetes/kubelet.conf"); !errors.Is(err, fs.ErrNotExist) {
		c.Errorf("after a reset, the kubelet.conf: %v", err)
	}
	c.must(h, "join-worker", c.joining(goodToken)...)
	if n, err := nodes.Get(c.Context(), h.Spec.Name, metav1.GetOptions{}); err != nil || !readyNode(n) {
		c.Errorf("the node that was deleted is not back: %v", err)
	}
}

func restricted(c *cluster, h *netns.Host) {
	data, err := h.ReadFile("/etc/kubernetes/kubelet.conf")
	if err != nil {
		c.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		c.Fatal(err)
	}
	kubelet, err := kubernetes.NewForConfig(rest.CopyConfig(config))
	if err != nil {
		c.Fatal(err)
	}
	nodes := kubelet.CoreV1().Nodes()
	if _, err := nodes.Patch(c.Context(), h.Spec.Name, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"own":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		c.Errorf("its own: %v", err)
	}
	_, err = nodes.Patch(c.Context(), "worker-1", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"own":"no"}}}`), metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		c.Errorf("another's: %v", err)
	}
}

// evictions has pods on the workers, of which the budget lets none go, and later one at a
// time.
func evictions(c *cluster, workers []*netns.Host) {
	app := map[string]string{"app": "web"}
	replicas := int32(len(workers))
	deployments := c.AppsV1().Deployments("default")
	_, err := deployments.Create(c.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: app}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: app},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "web", Image: "web"}},
			},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	least := intstr.FromInt32(replicas)
	budgets := c.PolicyV1().PodDisruptionBudgets("default")
	if _, err := budgets.Create(c.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: app}},
	}, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	c.eventually("all pods run, on workers", func() (bool, error) {
		pods, err := running(c, app)
		return err == nil && len(pods) == len(workers) && onNodes(pods)["master"] == 0, err
	})
	pods, err := running(c, app)
	if err != nil {
		c.Fatal(err)
	}
	node := pods[0].Spec.NodeName
	evict := func(pod corev1.Pod) error {
		return c.PolicyV1().Evictions("default").Evict(c.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
	}
	c.eventually("the budget counts the pods", func() (bool, error) {
		b, err := budgets.Get(c.Context(), "web", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy == replicas, err
	})
	if err := evict(pods[0]); !apierrors.IsTooManyRequests(err) {
		c.Errorf("a pod that the budget holds can be evicted: %v", err)
	}
	_, err = c.CoreV1().Nodes().Patch(c.Context(), node, "application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	if err != nil {
		c.Fatal(err)
	}
	if _, err := budgets.Patch(c.Context(), "web", "application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"minAvailable":%d}}`, replicas-1), metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
	c.eventually("the budget lets the node's pods go, and their successors run on other workers", func() (bool, error) {
		pods, err := running(c, app)
		if err != nil {
			return false, err
		}
		for _, pod := range pods {
			if pod.Spec.NodeName == node {
				return false, evict(pod)
			}
		}
		return len(pods) == len(workers) && onNodes(pods)["master"] == 0, nil
	})
	if err := errors.Join(
		deployments.Delete(c.Context(), "web", metav1.DeleteOptions{}),
		budgets.Delete(c.Context(), "web", metav1.DeleteOptions{}),
	); err != nil {
		c.Error(err)
	}
}

// running are the pods that are Ready and not on their way out.
func running(c *cluster, labels map[string]string) ([]corev1.Pod, error) {
	list, err := c.CoreV1().Pods("").List(c.Context(), metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning
	}), nil
}

func onNodes(pods []corev1.Pod) map[string]int {
	count := map[string]int{}
	for _, p := range pods {
		count[p.Spec.NodeName]++
	}
	return count
}

func goes(c *cluster, h *netns.Host) {
	name := h.Spec.Name
	_, err := c.CoreV1().Pods("default").Create(c.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{"app": "orphan"}},
		Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "it", Image: "it"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	c.eventually("the pod runs", func() (bool, error) {
		pods, err := running(c, map[string]string{"app": "orphan"})
		return len(pods) == 1, err
	})
	h.Remove()
	if _, err := c.master.Run(c.Context(), nil, "/usr/local/bin/kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "delete", "node", name); err != nil {
		c.Fatal(err)
	}
	c.eventually("its pods are gone", func() (bool, error) {
		pods, err := c.CoreV1().Pods("").List(c.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
		return err == nil && len(pods.Items) == 0, err
	})
	c.eventually("its lease is gone", func() (bool, error) {
		_, err := c.CoordinationV1().Leases("kube-node-lease").Get(c.Context(), name, metav1.GetOptions{})
		return gone(err)
	})
	if _, err := c.CoreV1().Nodes().Get(c.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		c.Errorf("it came back: %v", err)
	}
}

func replaced(c *cluster, h *netns.Host) {
	// As after a heal: the new server knows nothing of the former one's place.
	h.Remove()
	successor := c.host(h.Spec.Name)
	out, err := c.install(c.Context(), successor, "join-worker", c.joining(goodToken)...)
	if err == nil || !strings.Contains(out, "delete it") {
		c.Errorf("it took the name of a node that is Ready: %v, %s", err, out)
	}
	c.must(c.master, "remove-member", "JIBE_K8S_NODE_NAME="+h.Spec.Name)
	c.must(c.master, "remove-member", "JIBE_K8S_NODE_NAME="+h.Spec.Name)
	c.must(successor, "join-worker", c.joining(goodToken)...)
	n, err := c.CoreV1().Nodes().Get(c.Context(), h.Spec.Name, metav1.GetOptions{})
	if err != nil || !readyNode(n) || n.Status.Addresses[0].Address != successor.Addr().String() {
		c.Errorf("the successor is the node %v, %v", n, err)
	}
}

func ten(c *cluster) {
	var hosts []*netns.Host
	for i := range 10 {
		hosts = append(hosts, c.host(fmt.Sprintf("many-%d", i)))
	}
	start := time.Now()
	var all sync.WaitGroup
	for _, h := range hosts {
		all.Go(func() {
			begin := time.Now()
			if _, err := c.install(c.Context(), h, "join-worker", c.joining(goodToken)...); err != nil {
				c.Error(err)
			}
			c.Logf("%s joined in %v", h.Spec.Name, time.Since(begin).Round(time.Millisecond))
		})
	}
	all.Wait()
	c.Logf("ten joined at once in %v", time.Since(start).Round(time.Millisecond))
}

func reset(c *cluster) {
	c.must(c.master, "reset")
	c.must(c.master, "reset")
	ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		c.Error("the API server still answers")
	}
	left, err := c.master.Run(c.Context(), nil, "bash", "-c",
		"ls -d /etc/kubernetes/*.conf /var/lib/jibe-test-kubernetes 2>/dev/null; pgrep -l 'etcd|kube|kwok' || true")
	if err != nil || left != "" {
		c.Errorf("it left %q, %v", left, err)
	}
}
