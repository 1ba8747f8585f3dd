// Package app puts the parts of a Jibe process together: the data directory, the
// repositories, the store, the reconciler and the listeners. It owns their
// start, their order and their end; it has no logic of VNFs.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/admission/packagecheck"
	"github.com/jibe-vnfm/jibe/app/api"
	"github.com/jibe-vnfm/jibe/app/entrance"
	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/app/githooks"
	"github.com/jibe-vnfm/jibe/app/listener"
	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/app/metrics"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/app/tracing"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/report"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
	"github.com/jibe-vnfm/jibe/ui"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
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

// Server is a running process.
type Server struct {
	Options
	data      *datadir.Dir
	first     bool
	keeper    *secret.Keeper
	egress    *egress.Guard
	repo      *gitrepo.Repo
	packages  *catalogue
	replica   *replicas.Replica
	freshness *replicas.Freshness
	uploads   *replicas.Uploads // nil unless the store is shared
	disk      *maintenance.Disk
	backups   *maintenance.Backups
	doctor    *maintenance.Doctor
	oplog     *oplog.Log
	rebuilder *replicas.Rebuilder
	recon     *reconciler.Reconciler
	problems  *api.Problems
	reviewer  *admission.Reviewer
	follower  *automation.Follower
	rollouts  *automation.Rollouts
	notify    *notify.Service
	auth      auth.Authenticator
	audit     *entrance.Recorder
	entrance  *entrance.Entrance
	webhook   *forgesync.Webhook
	forge     forge.Client         // nil where no forge is told
	reporter  *report.Reporter     // likewise
	proposals *forgesync.Proposals // likewise
	delivered *forgesync.Delivered // likewise
	hooks     *githooks.Hooks
	git       *githooks.Service
	ending    <-chan struct{} // closed when the process is told to end
	// identities and clientCAs are nil where everyone is let in, or no certificate is asked for.
	identities *auth.Identities
	clientCAs  *auth.ClientCAs
	meters     *metrics.Meters
	tracing    *tracing.Tracing
	trust      csar.Trust
	pkgm       *vnfpkgm.Service
	told       *api.Told
	listener   *listener.Listener
}

// Run starts everything, calls Ready, and works until ctx ends. Then it stops
// in an order that loses nothing and returns nil.
func Run(ctx context.Context, o Options) error {
	s := &Server{Options: o, meters: metrics.New(metrics.Config{
		Version: o.Version, Revision: o.Revision, Off: o.Unmeasured, Unconfined: o.Confinement.Unconfined && o.AllowHooks.String() != "",
	})}
	// The parts outlive ctx for the moment that an orderly end takes.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.ending = ctx.Done()
	if err := s.open(work); errors.Is(err, replicas.ErrEnded) {
		return s.close(ctx)
	} else if err != nil {
		return errors.Join(err, s.close(ctx))
	}
	err := s.run(ctx, work)
	stop()
	return errors.Join(err, s.close(ctx))
}

// open opens the parts, in the order in which they need each other.
func (s *Server) open(ctx context.Context) error {
	var err error
	if s.listener, err = listener.New(s.listening()); err != nil {
		return err
	}
	if err := errors.Join(s.listener.Check(), s.checkHooks(), s.checkGiven(), s.checkShared()); err != nil {
		return err
	}
	if err := s.loadTrust(); err != nil {
		return err
	}
	if s.data, err = datadir.Open(s.Data, s.Log); err != nil {
		return err
	}
	if err := s.data.CheckComplete(s.Remote); err != nil {
		return err
	}
	if !s.shared() {
		if err := s.data.MakePackages(ctx); err != nil {
			return fmt.Errorf("package repository: %w", err)
		}
	}
	if s.keeper, err = s.openKeeper(); err != nil {
		return err
	}
	if s.audit, err = entrance.Open(s.data.Path, s.keeper.Derive(datadir.AuditPurpose), s.Audit, s.Version, s.Started, s.Log); err != nil {
		return err
	}
	if s.entrance, err = entrance.New(s.Audit.TrustedProxies, s.audit, s.Log); err != nil {
		return err
	}
	if s.webhook, err = forgesync.NewWebhook(s.webhooks(s.entrance)); err != nil {
		return err
	}
	if s.auth, err = s.authenticator(); err != nil {
		return err
	}
	s.auth = entrance.Judged{Authenticator: s.auth}
	s.egress = s.newGuard()
	if s.forge, err = s.Forge.Client(s.Remote, s.egress.ForConfigured()); err != nil {
		return err
	}
	if s.tracing, err = tracing.Open(s.Trace, s.egress, s.Version, s.Log); err != nil {
		return err
	}
	fresh := !datadir.Exists(s.data.Desired())
	// Before the store: one without its repository is refused at the next start.
	if err := gitrepo.Create(ctx, s.data.Desired(), s.Branch); err != nil {
		return fmt.Errorf("desired repository: %w", err)
	}
	if s.replica, err = replicas.Open(ctx, replicas.Config{
		Data: s.data, Keeper: s.keeper, Store: s.Store, Remote: s.Remote, Branch: s.Branch, Version: s.Version, Meters: s.meters, Audit: s.audit, Defer: s.deferred, Ending: s.ending, Log: s.Log,
	}); err != nil {
		return err
	}
	if err := s.replica.Agree(ctx); err != nil {
		return err
	}
	if err := s.openLog(ctx); err != nil {
		return err
	}
	s.packages = &catalogue{
		Catalogue: packages.New(s.data.Desired(), s.data.Packages(), s.Log),
		ctx:       ctx,
		settings:  func() (*desired.Settings, error) { return s.repo.Settings() },
	}
	s.packages.JudgeBy(packagecheck.Judge)
	if s.shared() {
		s.packages.RemoteOnly()
		s.packages.Share(s.replica.PackageHead)
	}
	if s.Remote != "" {
		s.packages.NeverWrite(s.Remote)
	}
	if err := s.verifyPackages(); err != nil {
		return err
	}
	verify, err := s.verifyDesired()
	if err != nil {
		return err
	}
	s.packages.LimitHooks(s.AllowHooks.Barred)
	options := gitrepo.Options{
		Dir: s.data.Desired(), Branch: s.Branch, Remote: s.Remote, AcceptHead: s.AcceptHead, PollInterval: s.Poll, PushInterval: s.PushInterval, Log: s.Log, Operated: s.operated,
		NeededRepositories: s.packages.Needed, Verify: verify, Key: s.keeper.Derive(datadir.GitPurpose), Observe: s.meters.Git, Held: s.meters.Held,
	}
	s.replica.Together(&options)
	if s.repo, err = gitrepo.Open(ctx, options); err != nil {
		return fmt.Errorf("desired repository: %w", err)
	}
	if err := s.checkKnown(ctx); err != nil {
		if fresh { // the mirror of a wrong remote would be in the way of the right one
			err = errors.Join(err, s.repo.Close(), os.RemoveAll(s.data.Desired()))
			s.repo = nil
		}
		return err
	}
	// A repository without a commit is new, or its first start was cut short.
	s.first = s.repo.Head() == ""
	if err := s.seed(ctx); err != nil {
		return err
	}
	if err := s.replica.CheckPackages(s.repo.Settings); err != nil {
		return err
	}
	s.hooks = &githooks.Hooks{Binary: s.Binary, Socket: s.data.Socket(), Packages: s.data.Packages(), Repo: s.repo}
	if err := s.hooks.Install(s.data.Desired(), admission.DesiredRepository); err != nil {
		return fmt.Errorf("desired repository: %w", err)
	}
	if err := s.hooks.InstallPackages(); err != nil {
		return err
	}
	if err := s.syncPackages(ctx); err != nil {
		// The packages of an earlier fetch are there: one that is away is no reason not to start.
		s.Log.WarnContext(ctx, "package repositories were not all fetched", "error", err)
	}
	return s.wire(ctx)
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

// deferred tells those who ask meanwhile why the start waits for the store.
func (s *Server) deferred(err error) (stop func(), lerr error) {
	why := "starting: the store isn't reached yet\n"
	if s.OpenMetrics || s.InsecureDev {
		why = "starting: " + err.Error() + "\n"
	}
	return s.listener.Defer(s.data, why)
}

// webhooks says which deliveries of a forge are taken.
func (o Options) webhooks(e *entrance.Entrance) forgesync.WebhookConfig {
	return forgesync.WebhookConfig{Secret: o.WebhookSecret, Open: o.OpenWebhook, Anyone: o.InsecureDev, Log: o.Log,
		From: func(r *http.Request) string { return entrance.AddressText(e.Source(r)) }}
}

// pageOf is the address of a page, "" where there is none.
func (s *Server) pageOf(kind, id string) string {
	if s.Page.Off {
		return ""
	}
	return strings.TrimSuffix(s.BaseURL, "/") + ui.Root + kind + url.PathEscape(id)
}

// proposed is what requests are proposed by; nil where no forge is told.
func (s *Server) proposed() sol.Proposals {
	if s.proposals == nil {
		return nil
	}
	return s.proposals
}

// delivery is called when the forge says that something happened there.
func (s *Server) delivery() {
	s.repo.Poke()
	if s.delivered != nil {
		s.delivered.Take()
	}
}

// openLog opens the operation log.
func (s *Server) openLog(ctx context.Context) (err error) {
	options := []oplog.Option{oplog.WithLog(s.Log), oplog.WithMember(s.replica.Holder()), oplog.WithSealer(s.replica.Sealer())}
	if s.shared() {
		options = append(options, oplog.Shared())
	}
	if s.oplog, err = oplog.Open(ctx, s.replica.Records, time.Now, options...); err != nil {
		return err
	}
	s.freshness = s.replica.Freshness(s.oplog)
	return nil
}

// listening says where the API listens, and how.
func (o Options) listening() listener.Options {
	return listener.Options{Address: o.Listen, CertFile: o.TLSCert, KeyFile: o.TLSKey, AllowPlainHTTP: o.AllowPlainHTTP, InsecureDev: o.InsecureDev, Connections: o.Connections, Log: o.Log}
}

// operated are the revisions that were last operated on.
func (s *Server) operated(context.Context) ([]desired.Revision, error) {
	var revs []desired.Revision
	for inst := range s.oplog.InstanceEntries("") {
		if inst.Operated.Tree != "" {
			revs = append(revs, inst.Operated)
		}
	}
	return revs, nil
}

// wire makes the parts that hold no files.
func (s *Server) wire(ctx context.Context) error {
	s.proposals = forgesync.NewProposals(forgesync.ProposalsConfig{
		Client: s.forge, Repo: s.repo, Branch: cmp.Or(s.Branch, "main"), Poll: s.Poll, At: s.at, Page: s.pageOf, Log: s.Log,
	})
	if !s.shared() { // else the owner of the instance does so, once the member is gone
		if _, err := sol.Recover(ctx, s.repo, s.proposed(), s.at, s.oplog, s.Log); err != nil {
			return fmt.Errorf("requests that a former process left unfinished: %w", err)
		}
	}
	var measured *reconciler.Metrics
	if !s.Unmeasured {
		measured = reconciler.NewMetrics(s.tracing.Tracer)
		s.oplog.OnChange(func(op *lcm.Operation) { measured.Operation(op) })
	}
	s.meters.Register(measured.Collectors()...)
	s.tracing.Follow(s.oplog)
	if s.Cloud == nil {
		s.Cloud = sim.NewCloud()
	}
	installation, err := s.data.Installation(s.keeper.Derive("installation"))
	if err != nil {
		return err
	}
	// Not before: what is dealt to a member waits for it.
	if err := s.replica.Join(ctx); err != nil {
		return err
	}
	s.rebuilder = s.replica.Rebuilder(ctx, s.repo, s.oplog, s.packages.Open)
	config := reconciler.Config{
		Repo: s.tracing.Repo(s.repo), Trace: s.tracing.Tracer, Store: s.replica.Records, Oplog: s.oplog, Packages: s.packages, Secrets: secrets{s.keeper}, Permit: secrets{s.keeper}.Permit,
		Driver: s.drivers(installation), Log: s.Log, Metrics: measured,
		Member: s.replica.Member(), Whole: s.rebuilder.Whole, Workers: s.Workers,
		Resolve: func(ctx context.Context, op *lcm.Operation) error {
			// The member may have pushed the commit, and told nobody.
			if err := s.repo.Fetch(ctx); err != nil {
				return err
			}
			_, err := sol.Resolve(ctx, s.repo, s.proposed(), s.at, s.oplog, s.Log, op)
			return err
		},
		Overridden: s.audit.Overridden,
		Timeout:    s.Timeout, StartTimeout: s.StartTimeout, Timeouts: s.Timeouts,
		NFVO: &nfvo{resolve: s.nfvoSettings}, BaseURL: func() string { return strings.TrimSuffix(s.BaseURL, "/") },
		Hooks: s.meters.Hooks(s.hookRunner(ctx, s.replica.Silence())), Reveal: secrets{s.keeper}.Reveal, Seals: s.seals(), Doors: s.Remote == "", HookTimeout: s.HookTimeout,
		Peers: s.peer, Namespace: ownNamespace(), ProposalMerged: s.audit.Merged,
	}
	if s.proposals != nil {
		config.Proposals = s.proposals
	}
	if s.recon, err = reconciler.New(config); err != nil {
		return err
	}
	s.follower = s.newFollower()
	s.oplog.OnChange(s.follower.OperationChanged)
	s.oplog.OnFollowed(s.follower.OperationChanged)
	if s.rollouts, err = s.newRollouts(); err != nil {
		return err
	}
	s.oplog.OnChange(s.rollouts.OperationChanged)
	s.oplog.OnFollowed(s.rollouts.OperationChanged)
	s.problems = api.NewProblems(api.ProblemsConfig{
		Repo: s.repo, View: s.recon.View(), Packages: s.packages, Rollouts: s.rollouts, Log: s.Log,
		Forbidden: func() []*desired.Problem {
			settings, err := s.repo.Settings()
			if err != nil {
				return nil // the repository reports that itself
			}
			return forbiddenSettings(s.keeper, settings, nil)
		},
	})
	s.reviewer = admission.NewReviewer(admission.Config{
		Repo: s.repo, View: s.recon.View(), Packages: s.packages, FetchProposed: s.packages.fetchProposed,
		Forbidden: func(settings, known *desired.Settings) []*desired.Problem {
			return forbiddenSettings(s.keeper, settings, known)
		},
		Rolled: s.rolled, PullRequests: s.forge != nil,
	})
	if s.reporter = forgesync.NewReporter(forgesync.ReporterConfig{
		Client: s.forge, Repo: s.repo, Oplog: s.oplog, Store: s.replica.Records, Branch: cmp.Or(s.Branch, "main"), Poll: s.Poll, Reviewer: s.reviewer, Rollouts: s.rollouts,
		Refused: func(instance string) bool { return len(s.problems.Of(instance)) > 0 }, Page: s.pageOf, Log: s.Log,
	}); s.reporter != nil {
		s.oplog.OnChange(s.reporter.OperationChanged)
		s.oplog.OnFollowed(s.reporter.OperationChanged)
		s.delivered = forgesync.NewDelivered(forgesync.DeliveredConfig{
			Store: s.replica.Records, Oplog: s.oplog, Holder: s.replica.Holder(), Shared: s.shared(), Log: s.Log,
			Ask: func() {
				s.reporter.Delivered()
				s.proposals.Delivered()
			},
		})
	}
	s.git = githooks.New(githooks.Config{
		Repo: s.repo, Auth: s.auth, Audit: s.audit, Reviewer: s.reviewer, Hooks: s.hooks, Remote: s.Remote, Branch: cmp.Or(s.Branch, "main"), Desired: s.data.Desired(), Packages: s.data.Packages(),
		ShareDesired: s.ShareDesired, SignedByPusher: s.Verify.Pusher, Signers: s.Verify.Desired,
		Describe: func(ctx context.Context, l admission.Landing, u gitrepo.RefUpdate, signers string) (*admission.Push, error) {
			return admission.DescribeLanding(ctx, s.repo.Reader, l, u, signers)
		},
		Rejected: s.meters.RejectedPush, Arrived: s.tracing.Pushed, Register: s.meters.Register, Log: s.Log,
	})
	s.disk = maintenance.NewDisk(s.repo, s.replica.Records, s.Log, s.data.Path, s.data.Desired())
	s.backups = &maintenance.Backups{Log: s.Log, Source: backup.Source{Data: s.data.Path, Version: s.Version, Store: s.replica.Records, Place: s.Store.URL, Still: s.repo.Still}}
	if s.shared() {
		s.backups.Source.Follow = func(ctx context.Context) error { return s.replica.FollowAccepted(ctx, s.repo) }
	}
	s.doctor = &maintenance.Doctor{Place: s.place(s.egress.ForConfigured()), Settings: s.repo.Settings, Keeper: s.keeper, Audit: s.audit.File(), Health: s.health}
	s.doctor.Data, s.doctor.Show = s.data.Path, s.replica.Show
	if s.forge != nil {
		s.doctor.Token = s.forge.Check
	}
	if err := s.listener.Listen(s.data, s.entrance.Trusts); err != nil {
		return err
	}
	if s.BaseURL == "" {
		s.BaseURL = s.listener.URL()
	}
	if s.notify, err = s.newNotify(); err != nil {
		return err
	}
	if s.shared() {
		s.uploads = replicas.NewUploads(s.replica.Records, s.replica.Member(), s.Log)
	}
	s.freshness.Of(s.repo, s.packages, s.uploads)
	s.meters.Register(slices.Concat(s.entrance.Collectors(), s.audit.Collectors(), s.webhook.Collectors())...)
	s.meters.Scrape(s.sources())
	return nil
}

// newFollower makes the follower of package versions.
func (s *Server) newFollower() *automation.Follower {
	return automation.NewFollower(automation.Config{
		Repo: followerRepo{s.repo, s.recon.View().Counted(s.repo)}, Branch: cmp.Or(s.Branch, "main"), Oplog: s.oplog, Versions: s.packages.Versions, Log: s.Log,
		Check: func(ctx context.Context, before, after *desired.Instance) error {
			return s.recon.View().Check(ctx, nil, before, after)
		},
		Refused: func(err error) bool {
			_, _, refused := reconciler.Refused(err)
			return refused
		},
	})
}

// at finds an instance as it stood at a commit.
func (s *Server) at(ctx context.Context, commit, instance string) (desired.Revision, error) {
	snapshot, err := s.repo.At(ctx, commit)
	if err != nil {
		return desired.Revision{}, err
	}
	rev, ok := snapshot.Lookup(instance)
	if !ok {
		return desired.Revision{Instance: instance, Commit: commit}, nil
	}
	return rev, nil
}

var _ desired.Repo = (*gitrepo.Repo)(nil)
