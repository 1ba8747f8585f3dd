package kubecluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/jibe-vnfm/jibe/hooks/ssh"
	"github.com/jibe-vnfm/jibe/internal/kubeconfig"
)

const (
	// searchTime is how long masters are tried, one after the other, and searchPause is
	// between two rounds.
	searchTime  = 20 * time.Second
	searchPause = 2 * time.Second
	// apiTime bounds one request to the API server.
	apiTime = 20 * time.Second
	// maxConf bounds a kubeconfig, in bytes.
	maxConf = 1 << 20
)

// errNoConf is returned for a machine that has no kubeconfig of an admin's: it is no master
// yet.
var errNoConf = errors.New("it has no kubeconfig")

// cluster is a cluster of which a master answers.
type cluster struct {
	*clients
	master machine
	way    *tunnel
	// endpoint is host:port of the API server, caHash that of the cluster's CA, as kubeadm
	// writes it.
	endpoint, caHash string
	admin            *rest.Config // the connection as the master's kubeconfig has it
}

func (c *cluster) close() { c.way.close() }

// find looks for a master that answers. The error names each, and why it doesn't.
func (d *driver) find(ctx context.Context) (*cluster, error) {
	masters := d.masters()
	if len(masters) == 0 {
		return nil, fmt.Errorf("the VNF has no master that could be asked: there is no unit of VDU %v with an address", d.master.vdus)
	}
	for began := time.Now(); ; {
		var why []error
		again := false
		for _, m := range masters {
			c, err := d.ask(ctx, m)
			if err == nil {
				return c, nil
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("ask %s: %w", m, ctx.Err())
			}
			why = append(why, err)
			again = again || passing(err)
		}
		if !again || time.Since(began) > searchTime {
			return nil, fmt.Errorf("no master of the cluster can be reached: %w", joined(why))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no master of the cluster can be reached: %w", joined(why))
		case <-time.After(searchPause):
		}
	}
}

// passing says whether another try may help.
func passing(err error) bool {
	var key *ssh.HostKeyError
	var login *ssh.LoginError
	return !errors.As(err, &key) && !errors.As(err, &login)
}

// ask logs in to a master, and looks whether its API server is ready.
func (d *driver) ask(ctx context.Context, m machine) (*cluster, error) {
	way := &tunnel{open: func(ctx context.Context) (*ssh.Conn, error) { return d.dial(ctx, m, 0) }}
	c := &cluster{master: m, way: way}
	err := c.connect(ctx, d)
	if err != nil {
		way.close()
		return nil, err
	}
	return c, nil
}

func (c *cluster) connect(ctx context.Context, d *driver) error {
	conn, err := c.way.conn(ctx)
	if err != nil {
		return err
	}
	text, err := conn.Output(ctx, ssh.Command{Cmd: ssh.Quote("sh", "-c", asRoot, "sh", "sh", "-c",
		`[ -f "$1" ] || exit 44; exec cat "$1"`, "sh", d.Kubeconfig)}, maxConf)
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit) && exit.Status == 44:
		return fmt.Errorf("%s: %w: there is no %s", c.master, errNoConf, d.Kubeconfig)
	case err != nil:
		return fmt.Errorf("%s: read %s: %w", c.master, d.Kubeconfig, err)
	}
	config, caHash, err := readConf(text)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", c.master, d.Kubeconfig, err)
	}
	d.keepSecret(config.BearerToken)
	c.admin = rest.CopyConfig(config)
	config.Dial = c.way.dial
	config.QPS = -1
	config.Timeout = apiTime
	c.caHash = caHash
	var why []error
	// The endpoint of all masters may end at one that is down, or go through it.
	for _, endpoint := range []string{config.Host, net.JoinHostPort(c.master.nodeAddress(), port(config.Host))} {
		config.Host = endpoint
		if c.endpoint == endpoint {
			break
		}
		c.endpoint = endpoint
		if c.clients, err = newClients(withScheme(config)); err != nil {
			return fmt.Errorf("%s: %s: %w", c.master, d.Kubeconfig, err)
		}
		err = c.ready(ctx)
		if err == nil {
			return nil
		}
		why = append(why, fmt.Errorf("the API server at %s: %w", endpoint, err))
	}
	return fmt.Errorf("%s: %w", c.master, joined(why))
}

func withScheme(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.Host = "https://" + config.Host
	return c
}

func port(endpoint string) string {
	_, p, _ := net.SplitHostPort(endpoint)
	return p
}

// ready asks the API server whether it is.
func (c *cluster) ready(ctx context.Context) error {
	_, err := c.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Raw()
	return err
}

// readConf reads a kubeconfig that a machine shows. It refuses one that could do harm here,
// and takes from the others where the cluster is and the credentials that they hold. Host is
// host:port.
func readConf(text []byte) (*rest.Config, string, error) {
	conf, err := kubeconfig.Load(text)
	if err != nil {
		return nil, "", err
	}
	at := conf.Contexts[conf.CurrentContext]
	if at == nil {
		return nil, "", errors.New("its current-context isn't there")
	}
	there, who := conf.Clusters[at.Cluster], conf.AuthInfos[at.AuthInfo]
	if there == nil || who == nil {
		return nil, "", errors.New("its current-context names a cluster or a user that isn't there")
	}
	server, err := url.Parse(there.Server)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" {
		return nil, "", fmt.Errorf("its server %q isn't https://host:port", there.Server)
	}
	hash, err := hashOf(there)
	if err != nil {
		return nil, "", err
	}
	if len(who.ClientCertificateData) == 0 && who.Token == "" {
		return nil, "", errors.New("its user has neither client-certificate-data nor a token in it")
	}
	return &rest.Config{
		Host: net.JoinHostPort(server.Hostname(), cmp.Or(server.Port(), "443")), BearerToken: who.Token,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: there.CertificateAuthorityData, CertData: who.ClientCertificateData, KeyData: who.ClientKeyData, ServerName: there.TLSServerName,
		},
	}, hash, nil
}

// hashOf returns what kubeadm calls --discovery-token-ca-cert-hash.
func hashOf(c *clientcmdapi.Cluster) (string, error) {
	all, err := cert.ParseCertsPEM(c.CertificateAuthorityData)
	if err != nil {
		return "", fmt.Errorf("its certificate-authority-data: %w", err)
	}
	sum := sha256.Sum256(all[0].RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// nodes lists all nodes.
func (c *cluster) nodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	return list.Items, nil
}

// tunnel connects to what a master reaches, through the master's SSH server, as this machine
// may not reach the cluster itself. It is made again when it is lost.
type tunnel struct {
	open func(context.Context) (*ssh.Conn, error)

	mu   sync.Mutex
	c    *ssh.Conn
	gone bool
}

func (t *tunnel) conn(ctx context.Context) (*ssh.Conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil, net.ErrClosed
	}
	if t.c == nil {
		c, err := t.open(ctx)
		if err != nil {
			return nil, err
		}
		t.c = c
	}
	return t.c, nil
}

// drop forgets a connection that was lost.
func (t *tunnel) drop(c *ssh.Conn) {
	c.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c == c {
		t.c = nil
	}
}

func (t *tunnel) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
	if t.c != nil {
		t.c.Close()
	}
}

func (t *tunnel) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for tries := 1; ; tries++ {
		c, err := t.conn(ctx)
		if err != nil {
			return nil, err
		}
		to, err := c.DialContext(ctx, network, address)
		var refused *xssh.OpenChannelError
		switch {
		case err == nil:
			return to, nil
		case errors.As(err, &refused) && refused.Reason == xssh.Prohibited:
			// The SSH server forwards nothing: perhaps there is a direct way.
			return new(net.Dialer).DialContext(ctx, network, address)
		case errors.Is(err, ssh.ErrLost) && tries == 1:
			t.drop(c)
			continue
		}
		return nil, err
	}
}
