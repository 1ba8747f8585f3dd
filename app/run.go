package app

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/app/api"
	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/app/githooks"
	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/app/metrics"
)

// run starts the parts in the order in which they need each other, and serves until ctx ends; work is what they live in.
func (s *state) run(ctx, work context.Context) error {
	parts, stop := context.WithCancel(work)
	defer stop()
	branch := cmp.Or(s.Branch, "main")

	proposals := forgesync.NewProposals(forgesync.ProposalsConfig{Client: s.forge, Repo: s.repo, Branch: branch, Poll: s.Poll, At: s.at, Page: s.pageOf, Log: s.Log})
	if err := s.recover(work, proposals); err != nil {
		return err
	}
	measured := s.followOperations()
	// Not before: what is dealt to a member waits for it.
	if err := s.replica.Join(work); err != nil {
		return err
	}
	member := s.replica.Member()
	rebuilder := s.replica.Rebuilder(work, s.repo, s.oplog, s.packages.Open)
	recon, err := s.newReconciler(work, proposals, rebuilder, measured)
	if err != nil {
		return err
	}
	view := recon.View()

	follower := s.newFollower(view)
	s.follow(follower.OperationChanged)
	rollouts, err := s.newRollouts(view, proposals)
	if err != nil {
		return err
	}
	s.follow(rollouts.OperationChanged)
	problems := s.newProblems(view, rollouts)
	reviewer := s.newReviewer(view, rollouts)
	reporter := forgesync.NewReporter(forgesync.ReporterConfig{
		Client: s.forge, Repo: reportRepo{s.repo, s.repo.Reader()}, Oplog: s.oplog, Store: s.replica.Records, Branch: branch, Poll: s.Poll, Reviewer: reviewer, Rollouts: rollouts,
		Refused: func(instance string) bool { return len(problems.Of(instance)) > 0 }, Page: s.pageOf, Log: s.Log,
	})
	delivered := s.newDelivered(reporter, proposals)

	git := s.newGit(reviewer)
	disk := maintenance.NewDisk(s.repo, s.replica.Records, s.Log, s.data.Path, s.data.Desired())
	health := func() error { return errors.Join(s.repo.Health(), disk.Health(), s.replica.Health(), s.audit.Health()) }
	backups, doctor := s.newBackups(), s.newDoctor(health)

	if err := s.listener.Listen(s.data, s.entrance.Trusts); err != nil {
		return err
	}
	s.BaseURL = cmp.Or(s.BaseURL, s.listener.URL())
	told := &api.Told{Identities: s.identities, Repo: s.repo}
	notifications, err := s.newNotify(told)
	if err != nil {
		return err
	}
	uploads := s.newUploads()
	s.freshness.Of(s.repo, s.packages, uploads)
	served := s.newAPI(api.Config{
		View: view, Reconciler: recon, Problems: problems, Reviewer: reviewer, Notify: notifications, Rollouts: rollouts, Proposals: proposalsOf(proposals), Whole: rebuilder.Guard,
		Git: git.Handler(), Webhook: s.webhook.Handler(func() { s.repo.Poke(); delivered.Take() }), Backups: backups, Doctor: doctor, Health: health,
	}, uploads)
	told.Packages = served.PackageService()
	handler, err := served.Handler()
	if err != nil {
		return err
	}
	s.measure(metrics.Sources{View: view, Subscriptions: notifications, Rollouts: rollouts, Problems: problems.List, Writable: disk.Health, Owned: recon.Owned, Reporter: reporter})
	socket := http.NewServeMux()
	git.Routes(socket)
	socket.HandleFunc("POST "+maintenance.BackupPath, git.HostOnly("backup", backups.Take))
	socket.HandleFunc("GET "+maintenance.DoctorPath, git.HostOnly("", doctor.ServeHTTP))
	socket.HandleFunc("POST "+maintenance.BackupKeptPath, git.HostOnly("", backups.Kept))
	local, hooks, err := githooks.Listen(s.data.Socket(), socket)
	if err != nil {
		return err
	}
	server := s.listener.Server(handler, s.callersCertificates())

	packages := served.PackageService()
	sync := func(ctx context.Context) error { return errors.Join(s.syncPackages(ctx), packages.Announce(ctx)) }
	arrived := func(context.Context) {
		recon.EnqueueUnobeyed() // the packages that they name may be there now
		follower.PackagesChanged()
	}
	moved := func(ctx context.Context) func(ids []string, settings bool) {
		return func(ids []string, settings bool) {
			s.tracing.Seen(s.repo.Head(), ids)
			for _, id := range ids {
				recon.Moved(id)
			}
			follower.InstancesChanged(ids...)
			if reporter != nil {
				reporter.Moved(ids...)
			}
			if settings {
				s.warnUnfetched(ctx, sync(ctx))
				follower.SettingsChanged()
				recon.EnqueueAll()
			}
		}
	}

	g, gctx := errgroup.WithContext(parts)
	start := func(parts ...func(context.Context) error) {
		for _, part := range parts {
			g.Go(func() error { return part(gctx) })
		}
	}
	only := func(job string, run func(context.Context) error) {
		start(func(ctx context.Context) error { return member.Only(ctx, job, run) })
	}
	start(recon.Run,
		func(ctx context.Context) error { return rebuilder.Run(ctx, recon.EnqueueAll) },
		func(ctx context.Context) error { return s.repo.Watch(ctx, moved(ctx)) },
		func(ctx context.Context) error {
			return s.watchPackages(ctx, func(ctx context.Context) {
				s.warnUnfetched(ctx, sync(ctx))
				arrived(ctx)
			})
		},
		problems.Run, notifications.Run, packages.Run, disk.Run, s.replica.Ended, s.audit.Run, s.tracing.Run, s.listener.Run)
	only("follow", follower.Run)
	only("rollouts", rollouts.Run)
	only("prune", (&maintenance.Pruner{Oplog: s.oplog, Keep: s.KeepOperations, Log: s.Log}).Run)
	if s.forge != nil {
		only("report", reporter.Run)
		start(proposals.Run, delivered.Run)
		only("strays", (&forgesync.Strays{Repo: s.repo, Oplog: s.oplog, Proposals: proposals, Whole: rebuilder.Whole, Log: s.Log}).Run)
	}
	if s.shared() {
		start(s.oplog.Follow, uploads.Run, func(ctx context.Context) error {
			return s.freshness.FollowPackages(ctx, func(ctx context.Context) {
				if err := packages.Announce(ctx); err != nil {
					s.Log.ErrorContext(ctx, "subscribers aren't told of packages yet", "error", err)
				}
				arrived(ctx)
			})
		})
		only("announce-packages", func(ctx context.Context) error { return s.replica.Announce(ctx, sync) })
	}
	if page := served.WebPage(); page != nil {
		server.RegisterOnShutdown(page.Close)
		start(page.Run)
	}
	g.Go(func() error { return closed(local.Serve(hooks)) })
	g.Go(func() error { return s.listener.Serve(server) })
	g.Go(func() error { return shutDown(ctx, gctx, stop, server, local) })
	if s.Ready != nil {
		s.Ready(&Server{s})
	}
	err = g.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// shutDown ends the servers once the process is told to end, or a part of it has ended. Requests under way are answered
// before the parts that answer them stop.
func shutDown(ctx, parts context.Context, stop func(), server, local *http.Server) error {
	select {
	case <-ctx.Done():
	case <-parts.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := errors.Join(server.Shutdown(grace), local.Shutdown(grace))
	stop()
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(server.Close(), local.Close())
	}
	return err
}

func closed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
