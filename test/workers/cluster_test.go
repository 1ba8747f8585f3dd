package workers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
)

// goodToken is one of the cluster's from its start on.
const goodToken = "abcdef.0123456789abcdef"

// cluster is a lab with a master, and what is known of its cluster.
type cluster struct {
	*testing.T
	kubernetes.Interface
	lab    *netns.Lab
	tools  *Tools
	master *netns.Host
	// endpoint is host:port of the API server; hash its CA's.
	endpoint, hash string
	last           *netip.Addr // that a host was given
}

// newCluster makes a master, by the script, with a user's rights over SSH alone.
func newCluster(t *testing.T, subnet string) *cluster {
	t.Helper()
	c := &cluster{T: t, lab: netns.Start(t, subnet)}
	c.last = new(netip.Addr)
	*c.last = c.lab.Gateway
	if out, err := exec.CommandContext(t.Context(), "../need", "sshpass", "sshpass").CombinedOutput(); err != nil {
		t.Fatalf("sshpass: %v: %s", err, out)
	}
	c.tools = Need(t)
	c.master = c.host("master")
	start := time.Now()
	c.must(c.master, "init", "JIBE_K8S_POD_CIDR=10.244.0.0/16", "JIBE_K8S_TOKEN="+goodToken)
	t.Logf("init took %v", time.Since(start).Round(100*time.Millisecond))
	c.endpoint = c.master.At(6443)
	if got, want := Config(t, c.master).Host, "https://"+c.endpoint; got != want {
		t.Fatalf("admin.conf leads to %s, not to the master's address %s", got, want)
	}
	c.Interface = Connect(t, c.master)
	hash, err := c.master.Run(t.Context(), nil, "/opt/jibe-test/join", "hash", "-conf", "/etc/kubernetes/admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	c.hash = strings.TrimSpace(hash)
	return c
}

// host makes one with the tools, at the next address.
func (c *cluster) host(name string) *netns.Host {
	c.Helper()
	*c.last = c.last.Next()
	spec := netns.Spec{Name: name, Addrs: []netip.Addr{*c.last}, NoWeb: true}
	c.tools.Outfit(&spec)
	h, err := c.lab.Add(c.Context(), spec)
	if err != nil {
		c.Fatal(err)
	}
	return h
}

// install runs the script on a host, as a package's hook would: over SSH, as a user who
// may become root. More settings are NAME=value. It returns what the script said.
func (c *cluster) install(ctx context.Context, h *netns.Host, action string, settings ...string) (string, error) {
	var text strings.Builder
	// Through standard input, so that no list of processes shows the token.
	fmt.Fprintf(&text, "export JIBE_K8S_ACTION=%s JIBE_K8S_NODE_NAME=%s JIBE_K8S_NODE_ADDRESS=%s\n", action, h.Spec.Name, h.Addr())
	for _, s := range settings {
		fmt.Fprintf(&text, "export %s\n", s)
	}
	text.Write(Install(c))
	cmd := exec.CommandContext(ctx, "sshpass", "-e", "ssh", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", netns.DefaultUser.Name+"@"+h.Addr().String(), "sudo -n bash -s")
	cmd.Env = append(os.Environ(), "SSHPASS="+netns.DefaultUser.Password)
	cmd.Stdin = strings.NewReader(text.String())
	out, err := cmd.CombinedOutput()
	c.Logf("%s on %s: %s", action, h.Spec.Name, out)
	if err != nil {
		err = fmt.Errorf("%s on %s: %w: %s", action, h.Spec.Name, err, out)
	}
	return string(out), err
}

func (c *cluster) must(h *netns.Host, action string, settings ...string) {
	c.Helper()
	if _, err := c.install(c.Context(), h, action, settings...); err != nil {
		c.Fatal(err)
	}
}

// joining are the settings of a worker's join.
func (c *cluster) joining(token string) []string {
	return []string{"JIBE_K8S_ENDPOINT=" + c.endpoint, "JIBE_K8S_CA_HASH=" + c.hash, "JIBE_K8S_TOKEN=" + token}
}

// refused asserts that a host doesn't join and says why, and that the token isn't shown.
func (c *cluster) refused(h *netns.Host, token, why string, settings ...string) {
	c.Helper()
	out, err := c.install(c.Context(), h, "join-worker", settings...)
	if err == nil || !strings.Contains(out, why) {
		c.Errorf("%s joined, or not because %q: %v, %s", h.Spec.Name, why, err, out)
	}
	if strings.Contains(out, token) {
		c.Errorf("the token is shown: %s", out)
	}
	if _, err := c.CoreV1().Nodes().Get(c.Context(), h.Spec.Name, metav1.GetOptions{}); err == nil {
		c.Errorf("%s is a node all the same", h.Spec.Name)
	}
}

// eventually waits until what is so.
func (c *cluster) eventually(what string, is func() (bool, error)) {
	c.Helper()
	kit.Eventually(c, func() error {
		ok, err := is()
		if err == nil && !ok {
			err = errors.New("it isn't so")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// addToken makes a bootstrap token of the cluster's.
func (c *cluster) addToken(id, secret string, expires time.Time) string {
	c.Helper()
	_, err := c.CoreV1().Secrets("kube-system").Create(c.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
			"expiration": expires.UTC().Format(time.RFC3339),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return id + "." + secret
}

func readyNode(n *corev1.Node) bool {
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}
