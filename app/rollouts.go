package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/sol"
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
func (s *Server) newRollouts() (*automation.Rollouts, error) {
	queries, err := newPrometheusQueries(s.Prometheus, s.repo.Settings, s.keeper.For(secret.ForVIMs()).Resolve, s.egress.ForConfigured())
	if err != nil {
		return nil, err
	}
	var pulls automation.RolloutPulls // without a forge it is nil, and not a nil keeper
	if s.proposals != nil {
		pulls = s.proposals.Keeper
	}
	return automation.NewRollouts(automation.RolloutConfig{
		Pulls: pulls,
		Repo:  rolloutRepo{s.repo, s.recon.View()}, Oplog: s.oplog, Log: s.Log, Now: time.Now, Queries: queries, Away: s.recon.View().Away,
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
			return s.recon.View().Prepare(ctx, before, after)
		},
		Refused: func(err error) bool {
			_, _, refused := reconciler.Refused(err)
			return refused
		},
	}), nil
}

// listRollouts answers with where all rollouts stand ([automation.RolloutStatus]).
func (s *Server) listRollouts(w http.ResponseWriter, r *http.Request) {
	list, err := s.rollouts.List(r.Context())
	if err != nil {
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer.JSON(w, http.StatusOK, list)
}

// RolloutAsked is the body of a request for a rollout. Gate is needed to approve: what the caller saw.
// Instance is the one to retry; without it, all that have failed.
type RolloutAsked struct {
	Gate     string `json:"gate,omitempty"`
	Instance string `json:"instance,omitempty"`
}

// RolloutAnswer names the commit that a request for a rollout made, "" for none.
type RolloutAnswer struct {
	Commit string `json:"commit"`
}

// askRollout does with a rollout what the caller asks for, by a commit of the caller's.
func (s *Server) askRollout(w http.ResponseWriter, r *http.Request) {
	var asked RolloutAsked
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&asked); err != nil && !errors.Is(err, io.EOF) {
		answer.Problem(w, http.StatusBadRequest, err.Error())
		return
	}
	name, action := r.PathValue("name"), r.PathValue("action")
	if !slices.Contains(automation.RolloutActions(), action) {
		answer.Problem(w, http.StatusNotFound, "a rollout can't be asked to "+action+"; it can be asked to: "+strings.Join(automation.RolloutActions(), ", "))
		return
	}
	who := auth.From(r.Context())
	commit, err := pageRollouts{s}.Ask(r.Context(), automation.RolloutAsk{Name: name, Action: action, Gate: asked.Gate, Instance: asked.Instance, By: who.String(), Author: sol.Author(who)})
	switch {
	case errors.Is(err, automation.ErrNoRollout):
		answer.Problem(w, http.StatusNotFound, err.Error())
	case errors.Is(err, automation.ErrRolloutState):
		answer.Problem(w, http.StatusConflict, err.Error())
	case err != nil:
		answer.Unreviewed(w, err)
	default:
		answer.JSON(w, http.StatusOK, RolloutAnswer{Commit: commit})
	}
}

// pageRollouts are the rollouts as the web page and the API ask for them.
type pageRollouts struct{ s *Server }

// List implements [ui.Rollouts].
func (p pageRollouts) List(ctx context.Context) ([]automation.RolloutStatus, error) {
	return p.s.rollouts.List(ctx)
}

// One implements [ui.Rollouts].
func (p pageRollouts) One(ctx context.Context, name string) (automation.RolloutStatus, []byte, error) {
	return p.s.rollouts.One(ctx, name)
}

// Draft implements [ui.Rollouts].
func (p pageRollouts) Draft(ctx context.Context, a automation.RolloutAsk) (*automation.RolloutDraft, error) {
	if err := p.refresh(ctx); err != nil {
		return nil, err
	}
	return p.s.rollouts.Draft(ctx, a)
}

// Ask implements [ui.Rollouts]. It notes for the audit log what was asked.
func (p pageRollouts) Ask(ctx context.Context, a automation.RolloutAsk) (string, error) {
	err := p.refresh(ctx)
	commit := ""
	if err == nil {
		commit, err = p.s.rollouts.Ask(ctx, a)
	}
	audit.Note(ctx, func(rec *audit.Record) {
		rec.Action, rec.Object, rec.Commit = "rollout "+a.Action, desired.RolloutFile(a.Name), commit
	})
	return commit, err
}

// refresh has what was pushed a moment ago count.
func (p pageRollouts) refresh(ctx context.Context) error {
	if p.s.Remote != "" {
		return nil
	}
	return p.s.repo.Refresh(ctx)
}

// rolled is what a proposed rollout would make of the instances that it selects.
func (s *Server) rolled(ctx context.Context, file string, ro *desired.Rollout) ([]admission.Rolled, error) {
	list, err := s.rollouts.Rolled(ctx, file, ro)
	out := make([]admission.Rolled, 0, len(list))
	for _, x := range list {
		out = append(out, admission.Rolled(x))
	}
	return out, err
}
