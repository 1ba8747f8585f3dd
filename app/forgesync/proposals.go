package forgesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/forge/proposal"
	"github.com/jibe-vnfm/jibe/internal/markdown"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// ProposalsConfig says where requests are proposed.
type ProposalsConfig struct {
	Client forge.Client
	Repo   ProposalsRepo
	Branch string
	Poll   time.Duration
	// At finds an instance as it stood at a commit.
	At func(ctx context.Context, commit, instance string) (desired.Revision, error)
	// Page is the address of a page, "" where there is none.
	Page func(kind, id string) string
	Log  *slog.Logger
}

// ProposalsRepo is the desired repository whose branches requests are proposed on.
type ProposalsRepo interface {
	Propose(ctx context.Context, branch string, w desired.Write) (desired.Revision, error)
	FetchBranch(ctx context.Context, name string) (string, error)
	Reaches(ctx context.Context, tip, commit string) (bool, error)
	RemoveBranch(ctx context.Context, name string) error
	Poke()
}

// Proposals are the branches and pull requests on which requests are proposed.
type Proposals struct {
	ProposalsConfig
	*proposal.Keeper
}

// NewProposals makes them; nil where no forge is told.
func NewProposals(c ProposalsConfig) *Proposals {
	if c.Client == nil {
		return nil
	}
	return &Proposals{c, proposal.New(proposal.Config{Client: c.Client, Base: c.Branch, Poll: c.Poll, Remove: c.Repo.RemoveBranch, Log: c.Log})}
}

// Propose implements [sol.Proposals].
func (p *Proposals) Propose(ctx context.Context, branch string, w desired.Write) (desired.Revision, error) {
	rev, err := p.Repo.Propose(ctx, branch, w)
	if err == nil {
		audit.Note(ctx, func(r *audit.Record) { r.Commit = rev.Commit })
	}
	return rev, err
}

// Proposed implements [sol.Proposals].
func (p *Proposals) Proposed(ctx context.Context, branch, instance string) (desired.Revision, error) {
	tip, err := p.Repo.FetchBranch(ctx, branch)
	if err != nil {
		return desired.Revision{}, err
	}
	rev, err := p.At(ctx, tip, instance)
	if err == nil && rev.Tree == "" {
		err = fmt.Errorf("%w: instance %s on branch %s", desired.ErrNotFound, instance, branch)
	}
	return rev, err
}

// FetchBranch implements [reconciler.Proposals].
func (p *Proposals) FetchBranch(ctx context.Context, branch string) (string, error) {
	return p.Repo.FetchBranch(ctx, branch)
}

// Reaches implements [reconciler.Proposals].
func (p *Proposals) Reaches(ctx context.Context, tip, commit string) (bool, error) {
	has, err := p.Repo.Reaches(ctx, tip, commit)
	if has || ctx.Err() != nil {
		return has, err
	}
	p.Repo.Poke() // the forge has merged it, and the delivery that says so may be lost
	return false, nil
}

// Keep implements [reconciler.Proposals].
func (p *Proposals) Keep(op *lcm.Operation, tell func()) reconciler.PullRequest {
	is := p.Keeper.Keep(proposal.Wanted{
		Branch: lcm.ProposalBranch(op.ID), Number: op.Proposal.Number, Link: op.Proposal.Link,
		Title: fmt.Sprintf("%s %s", op.Type, op.After.Dir), Text: p.text(op), Changed: tell,
	})
	return reconciler.PullRequest{Number: is.Number, Link: is.Link, Merged: is.Merged, Closed: is.Closed(), Trouble: trouble(is.Err)}
}

// trouble is what people are told of an error of the forge. It is the same for the same trouble: operations have a line
// for each change of it.
func trouble(err error) string {
	refusal := new(forge.Error)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, forge.ErrDenied):
		return "the forge denies it to Jibe's token"
	case errors.Is(err, forge.ErrAway), errors.Is(err, forge.ErrLimited), !errors.As(err, &refusal):
		return "the forge can't be asked now"
	}
	return fmt.Sprintf("the forge refuses it (%d %s)", refusal.Status, refusal.Message)
}

// text is what a pull request says when it is opened.
func (p *Proposals) text(op *lcm.Operation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of `%s` was asked for", op.Type, op.After.Dir)
	if op.RequestedBy != "" {
		fmt.Fprintf(&b, " by %s", markdown.Escape(op.RequestedBy))
	}
	fmt.Fprintf(&b, ", as operation %s. It waits in STARTING:\n\n", p.named(op))
	b.WriteString("* merging this begins it;\n* closing this ends it as ROLLED_BACK;\n* edits, or another change of the same directory meanwhile, end it as ROLLED_BACK, and what is merged then begins an operation of its own.\n")
	return b.String()
}

// named is an operation with a link to its page, where there is one.
func (p *Proposals) named(op *lcm.Operation) string {
	page := p.Page("/operations/", op.ID)
	if page == "" {
		return "`" + op.ID + "`"
	}
	return fmt.Sprintf("[%s](%s)", op.ID, page)
}

// Withdraw implements [reconciler.Proposals].
func (p *Proposals) Withdraw(op *lcm.Operation, tell func()) (done bool, err error) {
	why := ""
	switch {
	case op.State.Ended():
		why = fmt.Sprintf("Operation %s ended %s: this isn't wanted any more.", p.named(op), op.State)
	case op.State != "":
		why = fmt.Sprintf("The branch has this change already, and operation %s goes on.", p.named(op))
	}
	return p.Keeper.Withdraw(lcm.ProposalBranch(op.ID), why, tell)
}

// Forget implements [reconciler.Proposals].
func (p *Proposals) Forget(operation string) { p.Keeper.Forget(lcm.ProposalBranch(operation)) }
