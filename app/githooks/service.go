// Package githooks is the server's side of pushes: the local repositories by HTTP, and what their hooks ask on a
// socket. It judges and records a push; what comes of the commit is found by those who follow the branch.
package githooks

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// Config says what pushes are held against, and who learns of them.
type Config struct {
	Repo     Repo
	Auth     auth.Authenticator
	Audit    Recorder
	Reviewer Reviewer
	Hooks    *Hooks
	// Remote is what the desired repository is a mirror of, "" where it is the only one. Branch is the desired one.
	Remote, Branch string
	// Desired is the desired repository, and Packages the directory of the package repositories.
	Desired, Packages string
	// ShareDesired lets who may read some projects fetch the desired repository, which shows all.
	ShareDesired bool
	// SignedByPusher demands that the pusher of the desired branch has signed each commit of the push, by a key
	// of the file Signers.
	SignedByPusher bool
	Signers        string
	// Describe says what a landing would change.
	Describe func(ctx context.Context, l admission.Landing, u check.RefUpdate, signers string) (*admission.Push, error)
	// Rejected is called for pushes that are refused, and Arrived for those to the branch that are taken.
	Rejected func(forbidden bool, problems []*desired.Problem)
	Arrived  func(branch string, updates []check.RefUpdate, began time.Time)
	// Register adds what is measured.
	Register func(...prometheus.Collector)
	Log      *slog.Logger
}

// Repo is what pushes need of the desired repository.
type Repo interface {
	Head() string
	Settings() (*desired.Settings, error)
	Refresh(ctx context.Context) error
	CatchUp(ctx context.Context) error
	Fetch(ctx context.Context) error
	Land(ctx context.Context, l gitrepo.Landing) (check.RefUpdate, error)
	Pushing(p read.Push) error
	DraftOwner(ctx context.Context, ref, commit string) (string, error)
	DraftMoved(u check.RefUpdate, owner string, rewritten bool) error
}

// Recorder records who pushed what.
type Recorder interface {
	Record(ctx context.Context, r audit.Record) error
	// Refused records a refusal, unless there are too many.
	Refused(ctx context.Context, r audit.Record)
	// Health returns why changes are refused for want of their records, and Unaudited whether they never are.
	Health() error
	Unaudited() bool
}

// Reviewer judges what a push would make of the branch.
type Reviewer interface {
	Review(ctx context.Context, p *admission.Proposal, steps bool) (*admission.Verdict, error)
}

// Service answers those who push and fetch, and the hooks of the repositories.
type Service struct {
	Config
	pushes pushes
}

// New makes it.
func New(c Config) *Service { return &Service{Config: c} }
