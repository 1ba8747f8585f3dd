package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
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

// newRollouts makes the runner of rollouts.
func (s *Server) newRollouts() *automation.Rollouts {
	return automation.NewRollouts(automation.RolloutConfig{
		Repo: rolloutRepo{s.repo, s.recon.View()}, Oplog: s.oplog, Log: s.Log, Now: time.Now,
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
		Prepare: func(ctx context.Context, before, after *desired.Instance) ([]desired.KeyValue, error) {
			return s.recon.View().Prepare(ctx, before, after)
		},
		Refused: func(err error) bool {
			_, _, refused := reconciler.Refused(err)
			return refused
		},
	})
}

// listRollouts answers with where all rollouts stand ([automation.RolloutStatus]).
func (s *Server) listRollouts(w http.ResponseWriter, r *http.Request) {
	list, err := s.rollouts.List(r.Context())
	if err != nil {
		respondProblem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	respondJSON(w, http.StatusOK, list)
}

// RolloutAsked is the body of a request for a rollout. Gate is needed to approve: what the caller saw.
type RolloutAsked struct {
	Gate string `json:"gate,omitempty"`
}

// RolloutAnswer names the commit that a request for a rollout made, "" for none.
type RolloutAnswer struct {
	Commit string `json:"commit"`
}

// askRollout pauses, resumes, approves or aborts a rollout, by a commit of the caller's.
func (s *Server) askRollout(w http.ResponseWriter, r *http.Request) {
	var asked RolloutAsked
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&asked); err != nil && !errors.Is(err, io.EOF) {
		respondProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	name, action := r.PathValue("name"), r.PathValue("action")
	switch action {
	case automation.RolloutPause, automation.RolloutResume, automation.RolloutApprove, automation.RolloutAbort:
	default:
		respondProblem(w, http.StatusNotFound, "a rollout can be asked to pause, resume, approve or abort, not to "+action)
		return
	}
	if s.Remote == "" {
		// What was pushed a moment ago counts.
		if err := s.repo.Refresh(r.Context()); err != nil {
			respondUnreviewed(w, err)
			return
		}
	}
	who := auth.From(r.Context())
	commit, err := s.rollouts.Ask(r.Context(), name, action, asked.Gate, who.String(), sol.Author(who))
	audit.Note(r.Context(), func(rec *audit.Record) {
		rec.Action, rec.Object, rec.Commit = "rollout "+action, desired.RolloutFile(name), commit
	})
	switch {
	case errors.Is(err, automation.ErrNoRollout):
		respondProblem(w, http.StatusNotFound, err.Error())
	case errors.Is(err, automation.ErrRolloutState):
		respondProblem(w, http.StatusConflict, err.Error())
	case err != nil:
		respondUnreviewed(w, err)
	default:
		respondJSON(w, http.StatusOK, RolloutAnswer{Commit: commit})
	}
}

// rolloutMetrics are the metrics of rollouts that haven't ended, and of those whose files aren't obeyed.
type rolloutMetrics struct {
	list             func(ctx context.Context) ([]automation.RolloutStatus, error)
	state, instances *prometheus.Desc
}

func newRolloutMetrics(s *Server) *rolloutMetrics {
	return &rolloutMetrics{
		list:      func(ctx context.Context) ([]automation.RolloutStatus, error) { return s.rollouts.List(ctx) },
		state:     prometheus.NewDesc("jibe_rollout_phase", "1 for the phase in which a rollout is that hasn't ended; \"problem\" is one whose file isn't obeyed.", []string{"rollout", "phase"}, nil),
		instances: prometheus.NewDesc("jibe_rollout_instances", "VNF instances of a rollout that hasn't ended, by what has become of them.", []string{"rollout", "state"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *rolloutMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.state
	ch <- c.instances
}

// maxRollouts bounds the rollouts that metrics tell of one by one.
const maxRollouts = 200

// Collect implements prometheus.Collector.
func (c *rolloutMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTime) //nolint:contextcheck // a scrape has none
	defer cancel()
	list, err := c.list(ctx)
	if err != nil {
		return // the next scrape counts on
	}
	told := 0
	for _, st := range list {
		if st.Phase == rollout.Done || st.Phase == rollout.Aborted || told == maxRollouts {
			continue
		}
		told++
		phase := string(st.Phase)
		if st.Problem != "" {
			phase = "problem"
		}
		ch <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, 1, st.Name, phase)
		for state, n := range map[string]int{"completed": st.Counts.Completed, "already": st.Counts.Already, "failed": st.Counts.Failed,
			"underWay": st.Counts.UnderWay, "pending": st.Counts.Pending, "passed": st.Counts.Passed} {
			ch <- prometheus.MustNewConstMetric(c.instances, prometheus.GaugeValue, float64(n), st.Name, state)
		}
	}
}
