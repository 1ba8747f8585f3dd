// Package kubernetes is the driver for Kubernetes.
//
// It applies the objects of an instance (package manifest renders them) server-side under
// one field manager, and reports from watches (package watched) what exists. It owns the
// labels under [manifest.Domain]. It never waits, never decides, never takes an object that
// is not the instance's, and never recognises units by their names.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/confine"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/kubeconfig"
)

// Type is the vimType of ETSI NFV-SOL003 for Kubernetes.
const Type = "ETSINFV.KUBERNETES.V_1"

// Options tune a driver. The zero value serves.
type Options struct {
	// Log should carry the VIM's name already.
	Log *slog.Logger
	// QPS and Burst bound the requests a second that the client sends by itself.
	// 0 is no bound: a server that is busy says so (429), and is heeded.
	QPS   float32
	Burst int
	// Parallel bounds the requests of the driver that are under way; 0 is 32.
	Parallel int
	// DigestKey keys the digests that stand in annotations. It must not change:
	// every object would be applied anew. Without it, whoever may read a Secret's
	// annotations but not its data could test guesses at the data.
	DigestKey []byte
	// Installation is the id of this installation of Jibe. Objects that another one made are
	// never touched. "" makes no difference between installations.
	Installation string
	// KubeconfigExec lets a kubeconfig name commands, files and proxies, which are then
	// run, read and used. Without it such a one is refused.
	KubeconfigExec bool
	// Egress says which addresses an API server may have; nil is the strictest guard.
	Egress *egress.Guard
	// Wrap, where it isn't nil, is put around what sends each request, to observe it.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Driver speaks for one Kubernetes API server.
type Driver struct {
	vim          drivers.VIM
	began        time.Time
	installation manifest.Installation
	log          *slog.Logger
	client       dynamic.Interface // with the VIM's own credentials
	mapper       *mapper
	slots        chan struct{}

	renderer *manifest.Renderer
	checker  *confine.Checker
	watches  *watched.Cache
	// accounts are those as which projects have objects written.
	accounts *accounts
	// transport is what all requests go through, and ends with the driver.
	transport *transport
	// takeovers marks what earlier versions made as this installation's.
	takeovers *takeovers
	// verdicts remembers what the API server would take, and rights what the credentials
	// may write everywhere.
	verdicts *verdicts
	rights   rights
	// schemas are of custom resources that were written a moment ago.
	schemas *schemas
	// complete remembers which sets of managed fields were found complete, and
	// findings what suspects were found to be.
	complete *lru.Cache[fieldsKey, bool]
	findings *findings
}

var (
	_ drivers.Driver     = (*Driver)(nil)
	_ drivers.Watcher    = (*Driver)(nil)
	_ drivers.Identifier = (*Driver)(nil)
	_ drivers.Surveyor   = (*Driver)(nil)
)

// New makes a driver for the VIM. It asks the VIM nothing yet: an error means
// that what it was given can't be a connection.
func New(vim drivers.VIM, o Options) (*Driver, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Parallel <= 0 {
		o.Parallel = 32
	}
	installation := manifest.Installation(o.Installation)
	if errs := validation.IsValidLabelValue(o.Installation); len(errs) > 0 {
		return nil, fmt.Errorf("installation %q: %s", o.Installation, strings.Join(errs, ", "))
	}
	config, err := restConfig(vim, o.KubeconfigExec)
	if err != nil {
		return nil, fmt.Errorf("VIM %s: %w", vim.Name, err)
	}
	config.QPS, config.Burst = o.QPS, o.Burst
	if o.QPS == 0 {
		config.QPS = -1
	}
	config.UserAgent = "jibe"
	config.WarningHandler = rest.NoWarnings{}
	guard(config, o.Egress)
	through, err := newTransport(config, o.Wrap)
	if err != nil {
		return nil, fmt.Errorf("VIM %s: %w", vim.Name, err)
	}
	client, err := dynamic.NewForConfigAndClient(config, &http.Client{Transport: through, CheckRedirect: egress.SameServer, Timeout: config.Timeout})
	if err != nil {
		return nil, fmt.Errorf("VIM %s: %w", vim.Name, err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, &http.Client{Transport: through, CheckRedirect: egress.SameServer, Timeout: discoveryPatience})
	if err != nil {
		return nil, fmt.Errorf("VIM %s: %w", vim.Name, err)
	}
	cached := memory.NewMemCacheClient(disco)
	d := &Driver{
		vim: vim, began: time.Now(), installation: installation, log: o.Log, renderer: manifest.NewRenderer(o.DigestKey).For(installation), client: client, transport: through,
		mapper:   &mapper{deferred: restmapper.NewDeferredDiscoveryRESTMapper(cached)},
		slots:    make(chan struct{}, o.Parallel),
		findings: newFindings(),
		rights:   rights{known: map[rightKey]right{}},
	}
	if d.checker, err = confine.New(); err != nil {
		return nil, err
	}
	if d.accounts, err = newAccounts(config, through); err != nil {
		return nil, err
	}
	if d.verdicts, err = newVerdicts(); err != nil {
		return nil, err
	}
	if d.schemas, err = newSchemas(); err != nil {
		return nil, err
	}
	if d.complete, err = lru.New[fieldsKey, bool](maxComplete); err != nil {
		return nil, err
	}
	d.watches = watched.NewCache(d.client, d.mapper, installation, vim.Namespaces, d.log)
	if d.takeovers, err = newTakeovers(d); err != nil {
		return nil, err
	}
	return d, nil
}

// Close ends the watches and returns when they have ended. No request is sent
// afterwards: the driver's methods return an error that wraps
// [drivers.ErrUnavailable]. Twice is the same as once.
func (d *Driver) Close() error {
	d.transport.close()
	d.takeovers.close()
	d.watches.Close()
	d.transport.closeIdle()
	return nil
}

func restConfig(vim drivers.VIM, exec bool) (*rest.Config, error) {
	if len(vim.Kubeconfig) > 0 {
		if !exec {
			if _, err := kubeconfig.Load(vim.Kubeconfig); err != nil {
				return nil, fmt.Errorf("kubeconfig: %w", err)
			}
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(vim.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("kubeconfig: %w", err)
		}
		return config, nil
	}
	if vim.Endpoint == "" {
		return nil, errors.New("neither endpoint nor kubeconfig is given")
	}
	if !strings.HasPrefix(vim.Endpoint, "https://") && !strings.HasPrefix(vim.Endpoint, "http://") {
		return nil, fmt.Errorf("endpoint %q is not an http(s) URL", vim.Endpoint)
	}
	return clientcmd.NewDefaultClientConfig(*connection(vim), nil).ClientConfig()
}

// slot waits for leave to send a request.
func (d *Driver) slot(ctx context.Context) (release func(), err error) {
	select {
	case d.slots <- struct{}{}:
		return func() { <-d.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
