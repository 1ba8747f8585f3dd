package app

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/api"
	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/app/githooks"
	"github.com/jibe-vnfm/jibe/app/listener"
	"github.com/jibe-vnfm/jibe/app/maintenance"
)

// run serves until ctx ends; work is what the parts live in.
func (s *Server) run(ctx, work context.Context) error {
	work, stop := context.WithCancel(work)
	defer stop()
	served := s.api()
	s.pkgm, s.told.Packages = served.PackageService(), served.PackageService()
	handler, err := served.Handler()
	if err != nil {
		return err
	}
	server := s.listener.Server(handler, s.callersCertificates())
	socket := http.NewServeMux()
	s.git.Routes(socket)
	socket.HandleFunc("POST "+maintenance.BackupPath, s.git.HostOnly("backup", s.backups.Take))
	socket.HandleFunc("GET "+maintenance.DoctorPath, s.git.HostOnly("", s.doctor.ServeHTTP))
	socket.HandleFunc("POST "+maintenance.BackupKeptPath, s.git.HostOnly("", s.backups.Kept))
	local, hooks, err := githooks.Listen(s.data.Socket(), socket)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(work)
	g.Go(func() error { return s.recon.Run(gctx) })
	g.Go(func() error { return s.rebuilder.Run(gctx, s.recon.EnqueueAll) })
	g.Go(func() error { return s.repo.Watch(gctx, s.moved(gctx)) })
	g.Go(func() error { return s.watchPackages(gctx) })
	g.Go(func() error { return s.problems.Run(gctx) })
	g.Go(func() error { return s.replica.Member().Only(gctx, "follow", s.follower.Run) })
	g.Go(func() error { return s.replica.Member().Only(gctx, "rollouts", s.rollouts.Run) })
	if s.reporter != nil {
		g.Go(func() error { return s.replica.Member().Only(gctx, "report", s.reporter.Run) })
	}
	if s.proposals != nil {
		g.Go(func() error { return s.proposals.Run(gctx) })
		g.Go(func() error {
			return s.replica.Member().Only(gctx, "strays", (&forgesync.Strays{Repo: s.repo, Oplog: s.oplog, Proposals: s.proposals, Whole: s.rebuilder.Whole, Log: s.Log}).Run)
		})
	}
	g.Go(func() error { return s.notify.Run(gctx) })
	g.Go(func() error { return s.pkgm.Run(gctx) })
	g.Go(func() error { return s.disk.Run(gctx) })
	g.Go(func() error { return s.replica.Ended(gctx) })
	if s.shared() {
		g.Go(func() error { return s.oplog.Follow(gctx) })
		g.Go(func() error { return s.freshness.FollowPackages(gctx, s.packagesArrived) })
		if s.delivered != nil {
			g.Go(func() error { return s.delivered.Run(gctx) })
		}
		g.Go(func() error { return s.uploads.Run(gctx) })
		g.Go(func() error {
			return s.replica.Member().Only(gctx, "announce-packages", func(ctx context.Context) error { return s.replica.Announce(ctx, s.syncPackages) })
		})
	}
	g.Go(func() error { return s.audit.Run(gctx) })
	g.Go(func() error { return s.tracing.Run(gctx) })
	if page := served.WebPage(); page != nil {
		server.RegisterOnShutdown(page.Close)
		g.Go(func() error { return page.Run(gctx) })
	}
	g.Go(func() error {
		return s.replica.Member().Only(gctx, "prune", (&maintenance.Pruner{Oplog: s.oplog, Keep: s.KeepOperations, Log: s.Log}).Run)
	})
	g.Go(func() error { return closed(local.Serve(hooks)) })
	g.Go(func() error { return s.listener.Run(gctx) })
	g.Go(func() error { return s.listener.Serve(server) })
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-gctx.Done():
		}
		// Requests under way are answered before the parts that answer them stop.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err := errors.Join(server.Shutdown(grace), local.Shutdown(grace))
		stop()
		if errors.Is(err, context.DeadlineExceeded) {
			err = errors.Join(server.Close(), local.Close())
		}
		return err
	})
	if s.Ready != nil {
		s.Ready(s)
	}
	err = g.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func closed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// api makes what answers requests.
func (s *Server) api() *api.API {
	c := api.Config{
		Repo: s.repo, View: s.recon.View(), Reconciler: s.recon, Oplog: s.oplog, Packages: s.packages.Catalogue, Problems: s.problems, Reviewer: s.reviewer, Plans: admission.NewMemory(api.MostPlanMemory),
		Notify: s.notify, Rollouts: s.rollouts, Keeper: s.keeper, Auth: s.auth, Entrance: s.entrance, Audit: s.audit, Tracing: s.tracing, Meters: s.meters, Store: s.replica.Records, Proposals: s.proposed(),
		Announces: s.replica.Announces, Members: s.replica.Members, Freshness: s.freshness, Whole: s.rebuilder.Guard, Git: s.git.Handler(), Webhook: s.webhook.Handler(s.delivery), Backups: s.backups, Doctor: s.doctor,
		Egress: s.egress.ForConfigured(), Sources: s.packageSources(), Trust: s.trust, UploadsDir: s.data.Uploads(), Health: s.health, Remote: s.Remote, Branch: cmp.Or(s.Branch, "main"), BaseURL: s.BaseURL, Version: s.Version,
		Page: s.Page, Keystone: s.Keystone.URL != "", InsecureDev: s.InsecureDev, OpenMetrics: s.OpenMetrics, Log: s.Log,
	}
	if s.uploads != nil {
		c.Claims = s.uploads
	}
	return api.New(c)
}

// callersCertificates ask callers for their certificates; nil where they need none.
func (s *Server) callersCertificates() listener.Callers {
	if s.clientCAs == nil {
		return nil
	}
	return s.clientCAs
}

// packagesArrived is called when another replica has written into the package repository.
func (s *Server) packagesArrived(ctx context.Context) {
	if err := s.pkgm.Announce(ctx); err != nil {
		s.Log.ErrorContext(ctx, "subscribers aren't told of packages yet", "error", err)
	}
	s.recon.EnqueueUnobeyed() // the packages that they name may be there now
	s.follower.PackagesChanged()
}

// moved is called when the desired repository's branch has moved.
func (s *Server) moved(ctx context.Context) func(ids []string, settings bool) {
	return func(ids []string, settings bool) {
		s.tracing.Seen(s.repo.Head(), ids)
		for _, id := range ids {
			s.recon.Moved(id)
		}
		s.follower.InstancesChanged(ids...)
		if s.reporter != nil {
			s.reporter.Moved(ids...)
		}
		if !settings {
			return
		}
		if err := s.syncPackages(ctx); err != nil {
			s.Log.WarnContext(ctx, "package repositories were not all fetched", "error", err)
		}
		s.follower.SettingsChanged()
		s.recon.EnqueueAll()
	}
}

func (s *Server) close(ctx context.Context) error {
	var errs []error
	if s.listener != nil {
		errs = append(errs, s.listener.Close())
	}
	if s.repo != nil {
		errs = append(errs, s.repo.Close())
	}
	if s.replica != nil {
		errs = append(errs, s.replica.Close(context.WithoutCancel(ctx)))
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	if s.data != nil {
		_ = os.Remove(s.data.Hooks()) // empty, or not there: no hook runs any more
		errs = append(errs, s.data.Close())
	}
	return errors.Join(errs...)
}

// Address is where the API listens.
func (s *Server) Address() string { return s.listener.Address() }
