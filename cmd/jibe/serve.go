package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/ui"
)

func newServe() *cobra.Command {
	o := app.Options{Version: built().Version, Revision: built().Commit, KeepOperations: oplog.DefaultKeep()}
	var level, format string
	var inCluster bool
	cmd := &cobra.Command{
		Use:   "serve --data DIR",
		Short: "Run the VNF manager",
		Long: "Run the VNF manager on a data directory. On first start it makes the directory, the\n" +
			"desired repository, a package repository, an API token and an encryption key.",
		Example: "  jibe serve --data /var/lib/jibe\n" +
			"  jibe serve --data /var/lib/jibe --listen 0.0.0.0:9890 --tls-cert tls.crt --tls-key tls.key\n" +
			"  jibe serve --data /var/lib/jibe --remote https://git.example.org/noc/vnfs.git",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLog(level, format)
			if err != nil {
				return err
			}
			o.Log = log
			if err := checkPushInterval(o); err != nil {
				return err
			}
			if err := checkMetrics(cmd, &o); err != nil {
				return err
			}
			if inCluster {
				o.Reach.ServiceAccount = secret.ServiceAccountDir
			}
			if err := checkInCluster(inCluster, &o.Reach); err != nil {
				return err
			}
			klog.SetSlogLogger(log) // client-go's own messages
			maintenance.BoundMemory(cmd.Context(), log)
			if o.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("path of this program, for the repository's push hook: %w", err)
			}
			welcome := cmd.OutOrStdout()
			if o.Audit.File == "-" {
				welcome = cmd.ErrOrStderr() // the standard output is for records alone
			}
			o.Ready = func(s *app.Server) { s.Welcome(welcome) }
			o.Started = given(cmd.Flags())
			return app.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Data, "data", os.Getenv("JIBE_DATA"), "data directory (or $JIBE_DATA)")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:9890", "address of the API")
	f.StringVar(&o.BaseURL, "base-url", "", "URL by which clients reach the API (default: the listen address)")
	f.StringVar(&o.Remote, "remote", "", "URL of a desired repository on a forge; default is a local one in the data directory")
	f.StringVar(&o.Branch, "branch", "main", "branch of the desired repository")
	f.StringVar(&o.AcceptHead, "accept-head", "", "commit of the local desired repository to go on from, although it lacks the one that was in effect: what it ends is terminated")
	f.DurationVar(&o.Poll, "poll", 30*time.Second, "how often remote repositories are fetched (a webhook makes it at once)")
	f.DurationVar(&o.PushInterval, "push-interval", 0, "how far apart pushes to --remote are at least, for a forge that limits them (six a minute: 10s); up to 1m")
	f.StringVar(&o.WebhookSecret, "webhook-secret", "", "secret of the forge's webhook, as file:PATH or env:NAME: /webhook then takes only what the forge has signed with it, each delivery once (default: it takes nothing)")
	f.BoolVar(&o.OpenWebhook, "open-webhook", false, "take calls of /webhook without a signature: any caller has Jibe fetch")
	forgeFlags(f, &o.Forge)
	f.StringVar(&o.Prometheus.URL, "prometheus", "", "URL of the Prometheus that the gates of rollouts ask (after.prometheus)")
	f.StringVar(&o.Prometheus.Token, "prometheus-token", "", "bearer token for --prometheus, as file:PATH or env:NAME")
	f.StringVar(&o.Packages.Trust, "package-trust", "", "file of certificates in PEM by which the signatures of uploaded packages are checked")
	f.BoolVar(&o.Packages.RequireSignatures, "require-signatures", false, "refuse uploaded packages that aren't signed; needs --package-trust")
	f.StringVar(&o.Verify.Desired, "verify-desired", "", "file of trusted keys (allowed signers, OpenPGP keys) by which each commit of the desired repository must be signed to be obeyed")
	f.BoolVar(&o.Verify.Pusher, "require-signed-push", false, "refuse a push to the desired branch unless its pusher has signed each commit: the principal (user id) of the key in the file of --verify-desired is the pusher's name")
	f.StringToStringVar(&o.Verify.Packages, "verify-packages", nil, "file of trusted keys (allowed signers, OpenPGP keys, certificates) by which the packages of a repository must be signed, whatever repositories.yaml says, as core=keys.txt; may be repeated; *=FILE is for those that have none")
	f.BoolVar(&o.Packages.LocalSources, "local-package-sources", false, "let packages be fetched from this machine and link-local addresses, too")
	f.BoolVar(&o.InsecureDev, "insecure-dev", false, "accept API requests without a token: for trying things out only")
	f.StringVar(&o.Keystone.URL, "keystone", "", "URL of the OpenStack Keystone whose tokens are taken in X-Auth-Token, beside those of tokens.yaml")
	f.StringVar(&o.Keystone.CAFile, "keystone-ca", "", "PEM file of the CA of Keystone's certificate (default: those that the system trusts)")
	f.StringArrayVar(&o.Keystone.Roles, "keystone-role", nil, "which role here a role of Keystone's stands for, as member=operator or member=operator@PROJECT,PROJECT; may be repeated, or hold several with commas")
	f.StringArrayVar(&o.Keystone.Projects, "keystone-project", nil, "project whose tokens are taken, by id or as name@domain; may be repeated; * is all projects")
	f.StringVar(&o.OIDC.Issuer, "oidc-issuer", "", "URL of the issuer of OpenID Connect or OAuth 2.0 whose JWTs are taken, beside the tokens of tokens.yaml")
	f.StringVar(&o.OIDC.Audience, "oidc-audience", "", "what its tokens must be for (the claim aud)")
	f.StringVar(&o.OIDC.CAFile, "oidc-ca", "", "PEM file of the CA of the issuer's certificate (default: those that the system trusts)")
	f.StringVar(&o.OIDC.NameClaim, "oidc-name-claim", "", "claim that is the caller's name (default: sub)")
	f.StringVar(&o.OIDC.RolesClaim, "oidc-roles-claim", "", "claim with the caller's roles; dots lead into objects, as realm_access.roles (default: roles)")
	f.StringVar(&o.OIDC.ProjectsClaim, "oidc-projects-claim", "", "claim with the names of the projects in which the caller's roles count (default: all projects that --oidc-role says)")
	f.StringArrayVar(&o.OIDC.Roles, "oidc-role", nil, "which role here one of the issuer's stands for, as noc=operator or noc=operator@PROJECT,PROJECT; may be repeated, or hold several with commas")
	f.StringVar(&o.OIDC.RolesFile, "oidc-roles", "", "YAML file with more of them: roles: [{theirs, role, projects}]")
	f.BoolVar(&o.OIDC.IDTokens, "oidc-id-tokens", false, "take ID tokens as well, for an issuer that gives its clients no access token for an API")
	f.StringVar(&o.ClientCA, "client-ca", "", "PEM file of the authorities whose certificates callers may show in place of a token: see certificates in tokens.yaml")
	f.StringVar(&o.Audit.File, "audit", "", "file for the records of writes, refusals and failed logins; - is the standard output (default: audit.jsonl in the data directory)")
	f.BoolVar(&o.Audit.AllowUnaudited, "allow-unaudited", false, "make changes also while no record of them can be written")
	f.StringSliceVar(&o.Audit.TrustedProxies, "trusted-proxies", nil, "addresses or networks of proxies whose X-Forwarded-For is believed; may be repeated, or hold several with commas")
	f.BoolVar(&o.ShareDesired, "share-desired", false, "let who may read some projects fetch the desired repository by git, which shows all of them")
	f.BoolVar(&o.Page.Off, "no-ui", false, "leave the web page (/ui) out")
	f.DurationVar(&o.Page.Session, "ui-session", ui.DefaultSession, "how long a session of the web page lasts at most")
	f.DurationVar(&o.Page.Idle, "ui-idle", ui.DefaultIdle, "how long a session of the web page lasts without a request that a person has made")
	f.StringVar(&o.TLSCert, "tls-cert", "", "PEM file of the API's certificate")
	f.StringVar(&o.TLSKey, "tls-key", "", "PEM file of its key")
	f.BoolVar(&o.AllowPlainHTTP, "allow-plain-http", false, "listen without a certificate where other machines reach the API, whose tokens then pass in clear")
	metricsFlags(cmd, &o)
	f.IntVar(&o.Connections.All, "max-connections", 4096, "how many connections the API has at once")
	f.IntVar(&o.Connections.Each, "max-connections-per-address", 512, "how many of them one address may have; this machine and trusted proxies may have all")
	f.DurationVar(&o.Timeout, "timeout", 500*time.Second, "how long one attempt of an operation may take")
	f.Var((*timeouts)(&o.Timeouts), "timeout-for", "another --timeout for a type of operation, as HEAL=2m; may be repeated, or hold several with commas")
	f.DurationVar(&o.StartTimeout, "start-timeout", 60*time.Second, "how long an operation may stay in STARTING")
	f.DurationVar(&o.HookTimeout, "hook-timeout", 10*time.Minute, "how long one run of a hook of a package may take")
	hookFlags(f, &o)
	f.StringArrayVar(&o.Reach.Dirs, "secret-dir", nil, "directory whose files \"file:\" references may name; may be repeated (default: secrets/ in the data directory)")
	f.StringArrayVar(&o.Reach.Env, "secret-env", nil, "environment variable that \"env:\" references may name beside those that begin with "+secret.EnvPrefix+"; may be repeated")
	f.BoolVar(&o.Reach.SkipVerification, "allow-skip-certificate-verification", false, "obey interfaceInfo.skipCertificateVerification of requests: the VIM's certificate isn't checked then")
	f.BoolVar(&o.Reach.KubeconfigExec, "allow-kubeconfig-exec", false, "use kubeconfigs that name commands, which are run as this process's user, files and proxies")
	f.BoolVar(&inCluster, "in-cluster", false, "let files under vims/ say inCluster: the VIM is the cluster that Jibe runs in, with the service account of its pod")
	f.StringSliceVar(&o.Reach.Namespaces, "in-cluster-namespaces", nil, "namespaces in which that service account has rights: VIMs that say inCluster are used in these alone; may be repeated, or hold several with commas (default: all)")
	f.StringVar(&o.Given.Seed, "seed", "", "directory with the first content of a new desired repository: vims/, projects/, repositories.yaml, peers.yaml, granting.yaml; of no account once the repository has a commit")
	f.StringVar(&o.Given.Tokens, "tokens", "", "token file that is kept elsewhere, as in a Secret (default: tokens.yaml in the data directory)")
	f.StringVar(&o.Given.Identity, "identity", "", "file with the key (identity.age) that a data directory without one begins with")
	f.DurationVar(&o.Notify.Retention, "notify-retention", notify.DefaultRetention, "how long a notification is kept, and sent again, that its subscriber doesn't take")
	f.StringVar(&o.Notify.Cert, "notify-client-cert", "", "PEM file of the certificate that subscribers and their token endpoints are shown")
	f.StringVar(&o.Notify.Key, "notify-client-key", "", "PEM file of its key")
	f.StringVar(&o.Notify.CA, "notify-ca", "", "PEM file of the authorities of subscribers' certificates (default: the system's)")
	f.StringVar(&o.Trace.Endpoint, "otlp-endpoint", "", "URL of a collector that takes traces by OTLP over HTTP, as https://collector.example:4318 (default: nothing is traced)")
	f.StringVar(&o.Trace.HeadersFile, "otlp-headers-file", "", "file of the headers that it is sent, a line each, as Authorization: Bearer TOKEN")
	storeFlags(f, &o.Store)
	f.Float64Var(&o.Trace.Ratio, "trace-ratio", 1, "share of the operations that are traced, above 0 and at most 1")
	egressFlags(f, &o.Egress)
	keyFlags(f, "key", &o.Key)
	f.IntVar(&o.Workers, "workers", 64, "how many instances are worked on at once")
	f.Var(&o.KeepOperations, "keep-operations", "how long an ended operation is kept, and how many of each instance however old; or all")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&format, "log-format", "text", "text or json")
	return cmd
}

// checkPushInterval refuses a --push-interval that nothing would follow, or that requests couldn't
// wait for.
func checkPushInterval(o app.Options) error {
	switch d := o.PushInterval; {
	case d < 0 || d > gitrepo.MaxPushInterval:
		return fmt.Errorf("--push-interval %s: want a duration of 0 (pushes aren't kept apart) to %s", d, gitrepo.MaxPushInterval)
	case d > 0 && o.Remote == "":
		return fmt.Errorf("--push-interval %s: there is no --remote to push to: give it, or leave the interval out", d)
	}
	return nil
}

// forgeFlags say which forge is told what becomes of commits and pull requests.
func forgeFlags(f *pflag.FlagSet, o *forgesync.Options) {
	f.StringVar(&o.Token, "forge-token", "", "access token of the forge that --remote is on, as file:PATH or env:NAME: it is told what becomes of commits and pull requests")
	f.StringVar(&o.Kind, "forge", "", "which forge that is: gitea (Forgejo, too), github or gitlab (default: by the host, where it is github.com or gitlab.com)")
	f.StringVar(&o.URL, "forge-url", "", "its URL, as people open it (default: https and the host of --remote)")
	f.StringVar(&o.Repository, "forge-repository", "", "the repository there, as OWNER/NAME (default: that of --remote)")
	f.Float64Var(&o.Rate, "forge-rate", forgesync.DefaultRate, "how many requests a second it is sent at most")
}

// storeFlags say where records are kept.
func storeFlags(f *pflag.FlagSet, o *replicas.StoreOptions) {
	f.StringVar(&o.URL, "store", "", "URL of a Redis that keeps the records, as redis://HOST:6379/0, rediss://…, redis+sentinel://HOST:26379,…?master=NAME or redis+cluster://HOST:6379,… (default: a file in the data directory)")
	f.StringVar(&o.Password, "store-password", "", "password of Redis, as file:PATH or env:NAME")
	f.StringVar(&o.SentinelPassword, "store-sentinel-password", "", "password of Redis's sentinels, as file:PATH or env:NAME")
	f.IntVar(&o.Replicas, "redis-wait", 0, "how many replicas of Redis must have a write before it is answered")
}

// timeouts is the flag --timeout-for.
type timeouts map[lcm.Type]time.Duration

// timed are the types of operation that have a deadline of their own, by the
// names of SOL003 clause 5.5.4.3.
var timed = []lcm.Type{lcm.ChangeExtConn, lcm.ChangeFlavour, lcm.ChangePackage, lcm.Heal, lcm.Instantiate, lcm.ModifyInfo, lcm.Operate, lcm.Scale, lcm.ScaleToLevel, lcm.Terminate}

// Set implements pflag.Value: a bad entry refuses all of text.
func (t *timeouts) Set(text string) error {
	next := maps.Clone(*t)
	if next == nil {
		next = timeouts{}
	}
	for entry := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok {
			return fmt.Errorf("%q: want TYPE=DURATION, as HEAL=2m", entry)
		}
		if !slices.Contains(timed, lcm.Type(name)) {
			return fmt.Errorf("%q is no type of operation; there are %s", name, join(timed, ", "))
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s=%s: want a duration above zero, as 90s or 2m", name, value)
		}
		next[lcm.Type(name)] = d
	}
	*t = next
	return nil
}

// String implements pflag.Value.
func (t *timeouts) String() string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(*t)) {
		entries = append(entries, string(name)+"="+(*t)[name].String())
	}
	return strings.Join(entries, ",")
}

// Type implements pflag.Value: it is what the help calls the value.
func (t *timeouts) Type() string { return "TYPE=DURATION" }

func join(types []lcm.Type, by string) string {
	var names []string
	for _, t := range types {
		names = append(names, string(t))
	}
	return strings.Join(names, by)
}

func newLog(level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return nil, fmt.Errorf("--log-format %q: want text or json", format)
}

// checkInCluster refuses names of namespaces that can't be, and sorts the others.
func checkInCluster(inCluster bool, r *secret.Reach) error {
	if len(r.Namespaces) == 0 {
		return nil
	}
	if !inCluster {
		return errors.New("--in-cluster-namespaces is for the cluster that Jibe runs in: give --in-cluster, too, or name the namespaces in the files under vims/")
	}
	if err := desired.CheckNamespaces(r.Namespaces); err != nil {
		return fmt.Errorf("--in-cluster-namespaces: %w", err)
	}
	slices.Sort(r.Namespaces)
	return nil
}
