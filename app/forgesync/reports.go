package forgesync

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/report"
	"github.com/jibe-vnfm/jibe/store"
)

// ReporterConfig says what the forge is told, and of what.
type ReporterConfig struct {
	Client   forge.Client
	Repo     PlannedRepo
	Oplog    *oplog.Log
	Store    store.Store
	Branch   string
	Poll     time.Duration
	Reviewer Reviewer
	Rollouts Rollouts
	// Refused reports whether an instance's file is not in effect.
	Refused func(instance string) bool
	// Page is the address of a page, "" where there is none.
	Page func(kind, id string) string
	Log  *slog.Logger
}

// PlannedRepo is the desired repository whose branches are planned.
type PlannedRepo interface {
	report.Repo
	Head() string
	Lookup(instance string) (desired.Revision, bool)
	Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error)
	FetchBranch(ctx context.Context, name string) (string, error)
	DraftOf(ctx context.Context, commit string) (*gitrepo.Draft, error)
}

// Reviewer plans proposals.
type Reviewer interface {
	Review(ctx context.Context, p *admission.Proposal, steps bool) (*admission.Verdict, error)
}

// Rollouts knows where rollouts stand.
type Rollouts interface {
	One(ctx context.Context, name string) (automation.RolloutStatus, []byte, error)
}

// NewReporter makes the reporter; it is nil where no forge is told.
func NewReporter(c ReporterConfig) *report.Reporter {
	if c.Client == nil {
		return nil
	}
	page := func(kind string) func(string) string {
		return func(id string) string { return c.Page(kind, id) }
	}
	return report.New(report.Config{
		Client: c.Client, Repo: c.Repo, Oplog: c.Oplog, Store: c.Store, Branch: c.Branch,
		Refused: c.Refused,
		Plan:    planner{c.Repo, c.Reviewer}.branch,
		Rollout: func(ctx context.Context, name string) (report.Rollout, error) {
			st, _, err := c.Rollouts.One(ctx, name)
			if errors.Is(err, automation.ErrNoRollout) {
				err = report.ErrNoRollout
			}
			return reportedRollout(st), err
		},
		OperationLink: page("/operations/"), CommitLink: page("/git/commits/"), RolloutLink: page("/rollouts/"),
		Poll: c.Poll, Log: c.Log,
	})
}

// reportedRollout is what the forge is told of where a rollout stands. What a VIM says of a failure is not for
// whoever may read the forge.
func reportedRollout(st automation.RolloutStatus) report.Rollout {
	c := st.Counts
	r := report.Rollout{Phase: string(st.Phase), State: forge.Pending, NotObeyed: st.Problem != "",
		Wave: st.Wave, Waves: st.Waves, Selected: c.Selected, Done: c.Completed + c.Already, Failures: c.Failed}
	switch st.Phase {
	case rollout.Done:
		r.State, r.Ended = forge.Success, true
	case rollout.RolledBack, rollout.Aborted:
		r.State, r.Ended = forge.Failure, true
	case rollout.Halted, rollout.RollingBack, rollout.Aborting:
		r.State = forge.Failure
	case rollout.Running:
		if st.Wave == 0 {
			r.Phase = "not begun yet"
		}
	}
	for _, x := range st.Failed {
		r.Failed = append(r.Failed, x.Dir)
	}
	return r
}
