package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/sol"
)

// followOperations measures and traces operations from now on. It returns nil where they aren't measured.
func (s *state) followOperations() *reconciler.Metrics {
	var measured *reconciler.Metrics
	if !s.Unmeasured {
		measured = reconciler.NewMetrics(s.tracing.Tracer)
		s.oplog.OnChange(func(op *lcm.Operation) { measured.Operation(op) })
	}
	s.meters.Register(measured.Collectors()...)
	s.tracing.Follow(s.oplog)
	return measured
}

// newReconciler makes the reconciler. proposals is nil where no forge is told.
func (s *state) newReconciler(ctx context.Context, proposals *forgesync.Proposals, rebuilder *replicas.Rebuilder, measured *reconciler.Metrics) (*reconciler.Reconciler, error) {
	if s.Cloud == nil {
		s.Cloud = sim.NewCloud()
	}
	installation, err := s.data.Installation(s.keeper.Derive("installation"))
	if err != nil {
		return nil, err
	}

	config := reconciler.Config{
		Repo: s.tracing.Repo(s.repo), Trace: s.tracing.Tracer, Store: s.replica.Records, Oplog: s.oplog, Packages: s.packages, Secrets: secrets{s.keeper}, Permit: secrets{s.keeper}.Permit, Prove: s.Store.URL != "",
		Driver: s.drivers(installation), Log: s.Log, Metrics: measured,
		Member: s.replica.Member(), Whole: rebuilder.Whole, Workers: s.Workers,
		Resolve: func(ctx context.Context, op *lcm.Operation) error {
			// The member may have pushed the commit, and told nobody.
			if err := s.repo.Fetch(ctx); err != nil {
				return err
			}
			_, err := sol.Resolve(ctx, s.repo, proposalsOf(proposals), s.at, s.oplog, s.Log, op)
			return err
		},
		Overridden: s.audit.Overridden,
		Timeout:    s.Timeout, StartTimeout: s.StartTimeout, Timeouts: s.Timeouts,
		NFVO: &nfvo{resolve: s.nfvoSettings}, BaseURL: func() string { return strings.TrimSuffix(s.BaseURL, "/") },
		Hooks: s.meters.Hooks(s.hookRunner(ctx, s.replica.Silence())), Reveal: secrets{s.keeper}.Reveal, Seals: s.seals(), Doors: s.Remote == "", HookTimeout: s.HookTimeout,
		Peers: s.peer, Namespace: ownNamespace(), InCluster: s.Reach.Namespaces, ProposalMerged: s.audit.Merged,
	}
	if proposals != nil {
		config.Proposals = proposals
	}
	return reconciler.New(config)
}

// recover ends or carries on the requests that a former process left unfinished. Where the store is shared, the owner of
// the instance does so, once the member is gone.
func (s *state) recover(ctx context.Context, proposals *forgesync.Proposals) error {
	if s.shared() {
		return nil
	}
	if _, err := sol.Recover(ctx, s.repo, proposalsOf(proposals), s.at, s.oplog, s.Log); err != nil {
		return fmt.Errorf("requests that a former process left unfinished: %w", err)
	}
	return nil
}

// proposalsOf is what requests are proposed by; nil where no forge is told.
func proposalsOf(p *forgesync.Proposals) sol.Proposals {
	if p == nil {
		return nil
	}
	return p
}
