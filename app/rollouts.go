package app

import (
	"context"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// rolloutRepo is the desired repository as rollouts write to it: within the quotas of projects.
type rolloutRepo struct {
	*gitrepo.Repo
	view *reconciler.View
}

// WriteMany implements [automation.RolloutRepo].
func (r rolloutRepo) WriteMany(ctx context.Context, w desired.WriteMany) (desired.Written, error) {
	return r.view.WriteMany(ctx, r.Repo, w, r.Repo.WriteMany)
}

// ProposeMany implements [automation.RolloutRepo].
func (r rolloutRepo) ProposeMany(ctx context.Context, branch string, w desired.WriteMany) (desired.Written, error) {
	return r.view.WriteMany(ctx, r.Repo, w, func(ctx context.Context, w desired.WriteMany) (desired.Written, error) {
		return r.Repo.ProposeMany(ctx, branch, w)
	})
}

// newRollouts makes the runner of rollouts.
func (s *state) newRollouts(view *reconciler.View, proposals *forgesync.Proposals) (*automation.Rollouts, error) {
	queries, err := newPrometheusQueries(s.Prometheus, s.repo.Settings, s.keeper.For(secret.ForVIMs()).Resolve, s.egress.ForConfigured())
	if err != nil {
		return nil, err
	}
	var pulls automation.RolloutPulls // without a forge it is nil, and not a nil keeper
	if proposals != nil {
		pulls = proposals.Keeper
	}
	return automation.NewRollouts(automation.RolloutConfig{
		Pulls: pulls,
		Repo:  rolloutRepo{s.repo, view}, Oplog: s.oplog, Log: s.Log, Now: time.Now, Queries: queries, Away: view.Away,
		Package: func(ctx context.Context, vnfdID, pinned string) (tree, product string, err error) {
			if pinned != "" {
				if pkg, err := s.packages.Open(ctx, pinned); err == nil && pkg.VNFD.ID == vnfdID {
					return pinned, pkg.VNFD.ProductName, nil
				} else if err != nil && ctx.Err() != nil {
					return "", "", err
				}
			}
			if tree, err = s.packages.Newest(vnfdID); err != nil {
				return "", "", err
			}
			pkg, err := s.packages.Open(ctx, tree)
			if err != nil {
				return "", "", err
			}
			return tree, pkg.VNFD.ProductName, nil
		},
		Best: func(product, versions string) (vnfdID, tree, version string, err error) {
			v, err := s.packages.Best(product, versions)
			if err != nil {
				return "", "", "", err
			}
			return v.VnfdID, v.Tree, v.Semver.Original(), nil
		},
		Prepare: func(ctx context.Context, before, after *desired.Instance) ([]desired.KeyValue, error) {
			return view.Prepare(ctx, before, after)
		},
		Refused: func(err error) bool {
			_, _, refused := reconciler.Refused(err)
			return refused
		},
	}), nil
}

// rolledBy says what a proposed rollout would make of the instances that it selects.
func rolledBy(rollouts *automation.Rollouts) func(ctx context.Context, file string, ro *desired.Rollout) ([]admission.Rolled, error) {
	return func(ctx context.Context, file string, ro *desired.Rollout) ([]admission.Rolled, error) {
		list, err := rollouts.Rolled(ctx, file, ro)
		out := make([]admission.Rolled, 0, len(list))
		for _, x := range list {
			out = append(out, admission.Rolled(x))
		}
		return out, err
	}
}
