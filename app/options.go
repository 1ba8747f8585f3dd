package app

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jibe-vnfm/jibe/app/api"
	"github.com/jibe-vnfm/jibe/app/entrance"
	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/app/listener"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/app/tracing"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// Options are what a person may set. Data and Log are required.
type Options struct {
	Data    string
	Listen  string // host:port of the API; port 0 picks one
	BaseURL string
	Remote  string
	Branch  string
	Poll    time.Duration
	// AcceptHead is a commit of the local desired repository that takes effect at the start even if it lacks what was in effect.
	AcceptHead string
	// PushInterval is how far apart pushes to Remote are at least; 0 doesn't keep them apart.
	PushInterval time.Duration
	// WebhookSecret is a reference (file:PATH or env:NAME) to what a forge signs its deliveries to
	// /webhook with. Without it none is taken, unless OpenWebhook takes them unsigned.
	WebhookSecret string
	OpenWebhook   bool
	// Forge says which forge is told what becomes of commits and pull requests of Remote.
	Forge forgesync.Options
	// Prometheus is asked by the gates of rollouts.
	Prometheus PrometheusOptions
	// InsecureDev lets everyone in without a token.
	InsecureDev bool
	Audit       entrance.AuditOptions
	// Started is what of the way in which the process was started gives power, for the audit log.
	Started  string
	Keystone Keystone
	OIDC     OIDC
	// ClientCA is a PEM file of the authorities whose certificates callers may show; "" is none.
	ClientCA        string
	TLSCert, TLSKey string
	// AllowPlainHTTP lets a server without a certificate listen where other machines reach it.
	AllowPlainHTTP bool
	// OpenMetrics lets anyone read /metrics, and the reasons of /readyz, which are for viewers of all
	// projects otherwise.
	OpenMetrics bool
	// Unmeasured has nothing measured that happens again and again: operations, passes, requests, git, store and
	// notifications. It is for finding out what measuring costs.
	Unmeasured bool
	// Connections bound those of the API; its zero value is the defaults.
	Connections           listener.Connections
	Timeout, StartTimeout time.Duration
	// Timeouts replace Timeout for the types of operation that they name.
	Timeouts map[lcm.Type]time.Duration
	Workers  int
	// KeepOperations are the ended operations that aren't removed; its zero value keeps all.
	KeepOperations oplog.Keep
	// HookTimeout bounds one run of a hook; 0 is the reconciler's default. HookUser is the
	// user that hooks run as where Jibe is root, as [hooks.Runner.User] has it.
	HookTimeout time.Duration
	HookUser    string
	// AllowHooks are the package repositories whose hooks this host lets run; none by default.
	AllowHooks hooks.Allowed
	// Confinement says how hooks are kept apart from the machine; its Launcher and Secret are
	// filled in.
	Confinement hooks.Confinement
	Notify      NotifyOptions
	// Egress bounds which addresses others may have this process call; its Log is set here.
	Egress egress.Options
	// Reach bounds what references in the desired repository may make this process read;
	// its directories default to one in the data directory, which is made.
	Reach secret.Reach
	// Key says what keeps the key of the secrets.
	Key secret.LockOptions
	// Binary is the path of jibe itself, for the push hook of the repository; "" installs
	// none.
	Binary            string
	Version, Revision string // of this process: its version, and the commit that it was built of
	Log               *slog.Logger
	// Given is what others keep for the data directory.
	Given Given
	// Packages says how packages are uploaded.
	Packages PackageOptions
	// Verify are the signatures that the host demands, whatever git says.
	Verify VerifyOptions
	// ShareDesired lets who may read some projects fetch the desired repository, which shows all.
	ShareDesired bool
	Page         api.PageOptions
	// Cloud is what VIMs of type sim run on; nil makes one.
	Cloud *sim.Cloud
	// Store says where records are kept.
	Store replicas.StoreOptions
	// Trace says whether operations are traced.
	Trace tracing.Options
	// Ready is called once, when requests are served.
	Ready func(*Server)
}

// shared says that other replicas may serve this installation beside this one.
func (o Options) shared() bool { return replicas.Shares(o.Store, o.Remote) }

// checkShared refuses what would not hold with several replicas.
func (o Options) checkShared() error {
	if o.shared() && o.Confinement.Unconfined && o.AllowHooks.String() != "" {
		return errors.New("--unconfined-hooks: with --store and --remote, other replicas may serve beside this one, and hooks must have a launcher that ends them when their Jibe is stopped: leave it out, or leave out --allow-hooks")
	}
	return nil
}

// listening says where the API listens, and how.
func (o Options) listening() listener.Options {
	return listener.Options{Address: o.Listen, CertFile: o.TLSCert, KeyFile: o.TLSKey, AllowPlainHTTP: o.AllowPlainHTTP, InsecureDev: o.InsecureDev, Connections: o.Connections, Log: o.Log}
}

// webhooks says which deliveries of a forge are taken.
func (o Options) webhooks(e *entrance.Entrance) forgesync.WebhookConfig {
	return forgesync.WebhookConfig{Secret: o.WebhookSecret, Open: o.OpenWebhook, Anyone: o.InsecureDev, Log: o.Log,
		From: func(r *http.Request) string { return entrance.AddressText(e.Source(r)) }}
}
