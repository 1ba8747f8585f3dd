package app

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/app/githooks"
	"github.com/jibe-vnfm/jibe/app/listener"
	"github.com/jibe-vnfm/jibe/app/maintenance"
)

// run serves until ctx ends; work is what the parts live in.
func (s *Server) run(ctx, work context.Context) error {
	work, stop := context.WithCancel(work)
	defer stop()
	handler, err := s.handler()
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
	g.Go(func() error { return s.problems.run(gctx) })
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
	g.Go(func() error { return s.runTraces(gctx) })
	if s.page != nil {
		server.RegisterOnShutdown(s.page.Close)
		g.Go(func() error { return s.page.Run(gctx) })
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
		s.arrivals.seen(s.repo.Head(), ids)
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
