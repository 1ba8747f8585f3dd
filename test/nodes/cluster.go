package nodes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
)

// Options say what a cluster has.
type Options struct {
	// Workers is the number of nodes beside the master. Without any, the master takes pods.
	Workers int
	// Images are the names of images that all nodes have: test programs (test/nodes/web), which tell
	// their image's name and its tag as the version. Pods must not be told to pull always.
	Images []string
}

// Cluster is what kubeadm has made of machines.
type Cluster struct {
	Client kubernetes.Interface
	// Config is an administrator's, without a limit of requests; Kubeconfig a file of the same.
	Config     *rest.Config
	Kubeconfig string
	Lab        *netns.Lab
	// Master is the node "master", at the second address of the subnet; Workers are the nodes
	// "worker-1" and so on, at those that follow.
	Master  *netns.Host
	Workers []*netns.Host

	machines *Machines
}

// Start makes a cluster for the time of a test, whose nodes are at addresses of the subnet
// (such as 10.207.1.0/24, which no other test has) and Ready, and whose DNS answers. Where that can't
// be, see [Need].
func Start(t testing.TB, subnet string, o Options) *Cluster {
	t.Helper()
	c := &Cluster{machines: Need(t, o.Images...)}
	c.Lab = netns.Start(t, subnet)
	began := time.Now()
	c.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.grow(t.Context(), o.Workers); err != nil {
		t.Fatal(err)
	}
	t.Logf("kubeadm made a cluster of %d nodes in %v", 1+o.Workers, time.Since(began).Round(100*time.Millisecond))
	if o.Workers == 0 {
		if _, err := c.Master.Run(t.Context(), nil, "kubectl", "--kubeconfig", adminConf, "taint", "node", "master", "node-role.kubernetes.io/control-plane-"); err != nil {
			t.Fatal(err)
		}
	}
	kit.Eventually(t, func() error { return c.ready(t.Context(), 1+o.Workers) })
	t.Logf("its nodes were Ready and its DNS answered after %v", time.Since(began).Round(100*time.Millisecond))
	return c
}

// adminConf is the administrator's kubeconfig on a master.
const adminConf = "/etc/kubernetes/admin.conf"

// host makes the machine of the n-th address after this machine's.
func (c *Cluster) host(ctx context.Context, name string, n int) (*netns.Host, error) {
	at := c.Lab.Gateway
	for range n {
		at = at.Next()
	}
	spec := netns.Spec{Name: name, Addrs: []netip.Addr{at}, NoWeb: true}
	c.machines.Outfit(&spec)
	return c.Lab.Add(ctx, spec)
}

func (c *Cluster) init(ctx context.Context) error {
	var err error
	if c.Master, err = c.host(ctx, "master", 1); err != nil {
		return err
	}
	at := c.Master.Addr().String()
	if out, err := c.Master.Run(ctx, nil, "kubeadm", "init", "--node-name", "master", "--apiserver-advertise-address", at,
		"--control-plane-endpoint", at+":6443", "--pod-network-cidr", PodCIDR, "--skip-token-print", "--ignore-preflight-errors", IgnoreErrors); err != nil {
		return failed(c.Master, out, err)
	}
	if _, err := c.Master.Run(ctx, nil, "kubectl", "--kubeconfig", adminConf, "apply", "-f", Network); err != nil {
		return err
	}
	admin, err := c.Master.ReadFile(adminConf)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.Kubeconfig, admin, 0o600); err != nil {
		return err
	}
	if c.Config, err = clientcmd.RESTConfigFromKubeConfig(admin); err != nil {
		return err
	}
	c.Config.QPS = -1
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

// failed tells the end of what kubeadm wrote before it failed, and of what the kubelet did.
func failed(h *netns.Host, out string, err error) error {
	log, _ := h.ReadFile("/var/log/kubelet.log") // there is none before it is started
	end := func(text string) string { return text[max(0, len(text)-2000):] }
	return fmt.Errorf("%w\n…%s\nkubelet: …%s", err, end(out), end(string(log)))
}

// grow has n workers join, side by side.
func (c *Cluster) grow(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	join, err := c.Master.Run(ctx, nil, "kubeadm", "token", "create", "--print-join-command")
	if err != nil {
		return err
	}
	c.Workers = make([]*netns.Host, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			name := fmt.Sprintf("worker-%d", i+1)
			h, err := c.host(ctx, name, i+2)
			if err == nil {
				c.Workers[i] = h
				var out string
				if out, err = h.Run(ctx, nil, append(strings.Fields(join), "--node-name", name, "--ignore-preflight-errors", IgnoreErrors)...); err != nil {
					err = failed(h, out, err)
				}
			}
			errs[i] = err
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ready says what a cluster of n nodes waits for.
func (c *Cluster) ready(ctx context.Context, n int) error {
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(nodes.Items) != n {
		return fmt.Errorf("the cluster has %d nodes, not %d", len(nodes.Items), n)
	}
	for _, node := range nodes.Items {
		for _, cond := range node.Status.Conditions {
			if cond.Type == corev1.NodeReady && cond.Status != corev1.ConditionTrue {
				return fmt.Errorf("node %s isn't Ready: %s", node.Name, cond.Message)
			}
		}
	}
	dns, err := c.Client.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
	if err == nil && dns.Status.ReadyReplicas == 0 {
		err = fmt.Errorf("no pod of the cluster's DNS is Ready")
	}
	return err
}

// HTTP is a client that is on the master: it reaches cluster IPs of Services, pods, and node ports. It keeps
// no connection, so that each request goes where the cluster leads it then.
func (c *Cluster) HTTP() *http.Client {
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.Master.Dial(ctx, network, address)
		}},
	}
}
