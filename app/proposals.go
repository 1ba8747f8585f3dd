package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/forge/proposal"
	"github.com/jibe-vnfm/jibe/internal/markdown"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/ui"
)

// proposals are the branches and pull requests on which requests are proposed.
type proposals struct {
	s      *Server
	keeper *proposal.Keeper
}

// newProposals makes them; nil where no forge is told.
func (s *Server) newProposals() *proposals {
	if s.forge == nil {
		return nil
	}
	return &proposals{s, proposal.New(proposal.Config{
		Client: s.forge, Base: cmp.Or(s.Branch, "main"), Poll: s.Poll, Remove: s.repo.RemoveBranch, Log: s.Log,
	})}
}

// proposed is what requests are proposed by; nil where no forge is told.
func (s *Server) proposed() sol.Proposals {
	if s.proposals == nil {
		return nil
	}
	return s.proposals
}

// Propose implements [sol.Proposals].
func (p *proposals) Propose(ctx context.Context, branch string, w desired.Write) (desired.Revision, error) {
	rev, err := p.s.repo.Propose(ctx, branch, w)
	if err == nil {
		audit.Note(ctx, func(r *audit.Record) { r.Commit = rev.Commit })
	}
	return rev, err
}

// Proposed implements [sol.Proposals].
func (p *proposals) Proposed(ctx context.Context, branch, instance string) (desired.Revision, error) {
	tip, err := p.s.repo.FetchBranch(ctx, branch)
	if err != nil {
		return desired.Revision{}, err
	}
	rev, err := p.s.at(ctx, tip, instance)
	if err == nil && rev.Tree == "" {
		err = fmt.Errorf("%w: instance %s on branch %s", desired.ErrNotFound, instance, branch)
	}
	return rev, err
}

// FetchBranch implements [reconciler.Proposals].
func (p *proposals) FetchBranch(ctx context.Context, branch string) (string, error) {
	return p.s.repo.FetchBranch(ctx, branch)
}

// Reaches implements [reconciler.Proposals].
func (p *proposals) Reaches(ctx context.Context, tip, commit string) (bool, error) {
	has, err := p.s.repo.Reaches(ctx, tip, commit)
	if has || ctx.Err() != nil {
		return has, err
	}
	p.s.repo.Poke() // the forge has merged it, and the delivery that says so may be lost
	return false, nil
}

// Keep implements [reconciler.Proposals].
func (p *proposals) Keep(op *lcm.Operation, tell func()) reconciler.PullRequest {
	is := p.keeper.Keep(proposal.Wanted{
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
func (p *proposals) text(op *lcm.Operation) string {
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
func (p *proposals) named(op *lcm.Operation) string {
	if p.s.Page.Off {
		return "`" + op.ID + "`"
	}
	return fmt.Sprintf("[%s](%s)", op.ID, strings.TrimSuffix(p.s.BaseURL, "/")+ui.Root+"/operations/"+url.PathEscape(op.ID))
}

// Withdraw implements [reconciler.Proposals].
func (p *proposals) Withdraw(op *lcm.Operation, tell func()) (done bool, err error) {
	why := ""
	switch {
	case op.State.Ended():
		why = fmt.Sprintf("Operation %s ended %s: this isn't wanted any more.", p.named(op), op.State)
	case op.State != "":
		why = fmt.Sprintf("The branch has this change already, and operation %s goes on.", p.named(op))
	}
	return p.keeper.Withdraw(lcm.ProposalBranch(op.ID), why, tell)
}

// Forget implements [reconciler.Proposals].
func (p *proposals) Forget(operation string) { p.keeper.Forget(lcm.ProposalBranch(operation)) }
