package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol"
)

// listRollouts answers with where all rollouts stand ([automation.RolloutStatus]).
func (s *API) listRollouts(w http.ResponseWriter, r *http.Request) {
	list, err := s.Rollouts.List(r.Context())
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
func (s *API) askRollout(w http.ResponseWriter, r *http.Request) {
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
type pageRollouts struct{ s *API }

// List implements [ui.Rollouts].
func (p pageRollouts) List(ctx context.Context) ([]automation.RolloutStatus, error) {
	return p.s.Rollouts.List(ctx)
}

// One implements [ui.Rollouts].
func (p pageRollouts) One(ctx context.Context, name string) (automation.RolloutStatus, []byte, error) {
	return p.s.Rollouts.One(ctx, name)
}

// Draft implements [ui.Rollouts].
func (p pageRollouts) Draft(ctx context.Context, a automation.RolloutAsk) (*automation.RolloutDraft, error) {
	if err := p.refresh(ctx); err != nil {
		return nil, err
	}
	return p.s.Rollouts.Draft(ctx, a)
}

// Ask implements [ui.Rollouts]. It notes for the audit log what was asked.
func (p pageRollouts) Ask(ctx context.Context, a automation.RolloutAsk) (string, error) {
	err := p.refresh(ctx)
	commit := ""
	if err == nil {
		commit, err = p.s.Rollouts.Ask(ctx, a)
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
	return p.s.Repo.Refresh(ctx)
}
