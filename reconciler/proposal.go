package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// Proposals are the pull requests that propose what requests ask for. Its methods are safe for concurrent use; Keep
// and Withdraw never block.
type Proposals interface {
	// FetchBranch has this process have the objects of a branch of the remote, or returns [desired.ErrNotFound].
	FetchBranch(ctx context.Context, branch string) (string, error)
	// Reaches says whether the history that ends at tip has the commit, as far as is known here; where it hasn't, it
	// has the branch fetched.
	Reaches(ctx context.Context, tip, commit string) (bool, error)
	// Keep has a pull request be there for the operation's branch, opened once, and returns what is known of it by
	// now. tell is called when more is known.
	Keep(op *lcm.Operation, tell func()) PullRequest
	// Withdraw closes what is open for the operation's branch, and removes the branch. done says that nothing is
	// left of either; until then it is called again, and tell is called when that is worth it.
	Withdraw(op *lcm.Operation, tell func()) (done bool, err error)
	// Forget is for an operation that another member looks after now.
	Forget(operation string)
}

// PullRequest is what is known of one.
type PullRequest struct {
	// Number is 0 while none is known to have been opened. Link is the URL of its page.
	Number int64
	Link   string
	// Merged is the commit that brought it into the desired branch, "" where none has; Closed says that somebody
	// has closed it instead.
	Merged string
	Closed bool
	// Trouble is why the forge couldn't be asked or told last, for people; "" where it was.
	Trouble string
}

// proposalAgain is how often an operation is looked at at the least that waits for its pull request: whatever moves,
// on the forge or in git, has it looked at before.
const proposalAgain = time.Minute

// proposalGate has the operation of one instance wait until the change that it proposes is in the desired branch,
// and ends it where it won't be. Git alone says whether a change was merged, and the forge whether it was refused.
// It asks no VIM.
type proposalGate struct {
	id        string
	log       *slog.Logger
	oplog     *oplog.Log
	repo      desired.Repo
	revisions revisions
	forge     Proposals // nil where no forge is told
	commits   committer
	clocks    clocks
	outcomes  *outcomes
	intents   *intentReader
	gate      gate
	waiting   *proposed
	phases    *phases
	enqueue   func(instance string)
	merged    func(ctx context.Context, op *lcm.Operation, by string)
}

// fate is what became of a change that was proposed.
type fate int

const (
	pending   fate = iota // what was operated on last stands
	arrived               // the desired branch has it
	overtaken             // the desired branch has something else
)

// fate compares the desired branch with what an operation proposes and with what was operated on last.
func (g *proposalGate) fate(ctx context.Context, inst *lcm.Instance, op *lcm.Operation) (fate, desired.Revision, error) {
	head, exists := g.repo.Lookup(g.id)
	switch {
	case !exists:
		return overtaken, desired.Revision{Instance: g.id, Dir: op.Before.Dir, Commit: g.repo.Head()}, nil
	case head.Tree == op.After.Tree:
		return arrived, head, nil
	case head.Tree == inst.Operated.Tree:
		return pending, head, nil
	}
	now, err := g.revisions.read(ctx, head)
	if errors.Is(err, desired.ErrUnavailable) {
		return pending, head, err
	}
	if err != nil {
		return pending, head, nil //nolint:nilerr // what can't be read isn't obeyed, and is shown as a problem
	}
	before, err := g.revisions.read(ctx, inst.Operated)
	if err != nil {
		return pending, head, err
	}
	if _, differs, err := g.intents.birth(ctx, inst, inst.Operated, head, before, now); err != nil || !differs {
		return pending, head, err
	}
	after, err := g.revisions.proposing(op).read(ctx, op.After)
	if err != nil {
		return pending, head, err
	}
	if _, differs, err := g.intents.birth(ctx, inst, op.After, head, after, now); err != nil || differs {
		return overtaken, head, err
	}
	return arrived, head, nil
}

// readable makes sure that what is proposed can be read here: another member may have made its branch, and a restored
// repository lacks it.
func (g *proposalGate) readable(ctx context.Context, op *lcm.Operation) error {
	_, err := g.revisions.proposing(op).read(ctx, op.After)
	if err == nil || g.forge == nil || errors.Is(err, desired.ErrUnavailable) {
		return err
	}
	branch := lcm.ProposalBranch(op.ID)
	_, ferr := commitOf(ctx, g.commits, "fetch of "+branch, func(ctx context.Context) (string, error) { return g.forge.FetchBranch(ctx, branch) })
	if errors.Is(ferr, desired.ErrNotFound) {
		return nil // what is in the desired branch tells, by its tree
	}
	return ferr
}

// begin is for an operation that is only proposed, whose pull request isn't asked for yet: at says that it is to be
// looked at as any other, up to its grant; again is when to look again where it isn't.
func (g *proposalGate) begin(ctx context.Context, op *lcm.Operation) (at bool, again time.Duration, err error) {
	if err := g.readable(ctx, op); err != nil {
		return false, 0, err
	}
	inst, err := g.oplog.Instance(ctx, g.id)
	if err != nil {
		return false, 0, fmt.Errorf("record of instance %s: %w", g.id, err)
	}
	became, head, err := g.fate(ctx, inst, op)
	switch {
	case err != nil:
		return false, 0, err
	case became == overtaken:
		return false, 0, g.outcomes.unmerged(ctx, op, causeConflict, g.overtook(op, head))
	case became == arrived:
		_, again, err := g.take(ctx, inst, op, head)
		return false, again, err
	}
	return true, 0, nil
}

// park has the operation wait for its pull request, now that it may be carried out.
func (g *proposalGate) park(ctx context.Context, a *attempt) error {
	op, err := g.oplog.Park(ctx, a.op.ID, func(op *lcm.Operation) {
		op.Journal = a.journal
		op.AddWait(g.clocks.now(), "its pull request to be opened")
	})
	if err != nil {
		return fmt.Errorf("record that operation %s waits for its pull request: %w", a.op.ID, err)
	}
	g.clocks.ended()
	a.op = op
	g.enqueue(g.id)
	return nil
}

// look sees what became of what the instance's operation proposes. The record of the instance is returned as it is
// then. waits says that the change is in the desired branch, and that its operation isn't begun yet: nothing else may
// begin by it. again is when to look again at the latest.
func (g *proposalGate) look(ctx context.Context, inst *lcm.Instance) (next *lcm.Instance, waits bool, again time.Duration, err error) {
	op, err := g.oplog.Operation(ctx, inst.Proposed)
	if err != nil {
		return nil, false, 0, fmt.Errorf("operation %s: %w", inst.Proposed, err)
	}
	if err := g.readable(ctx, op); errors.As(err, new(*drivers.RefusedError)) {
		g.done(op.ID)
		if err := g.outcomes.unmerged(ctx, op, causeRefused, &lcm.ProblemDetails{Status: http.StatusConflict, Title: title(op), Detail: sentence(err)}); err != nil {
			return nil, false, 0, err
		}
		inst, err := g.oplog.Instance(ctx, g.id)
		return inst, false, 0, err
	} else if err != nil {
		return nil, false, 0, err
	}
	tip := g.repo.Head() // before the directory is looked up: what this has, that has
	became, head, err := g.fate(ctx, inst, op)
	if err != nil {
		return nil, false, 0, err
	}
	ended := func(why cause, p *lcm.ProblemDetails) (*lcm.Instance, bool, time.Duration, error) {
		g.done(op.ID)
		if err := g.outcomes.unmerged(ctx, op, why, p); err != nil {
			return nil, false, 0, err
		}
		inst, err := g.oplog.Instance(ctx, g.id)
		return inst, false, 0, err
	}
	switch became {
	case overtaken:
		return ended(causeConflict, g.overtook(op, head))
	case arrived:
		waits, again, err := g.take(ctx, inst, op, head)
		if err != nil {
			return nil, false, 0, err
		}
		if !waits {
			g.done(op.ID)
		}
		inst, err := g.oplog.Instance(ctx, g.id)
		return inst, waits, again, err
	}
	g.phases.enter(op, phaseMerge)
	if g.forge == nil {
		g.waiting.tell(op, false)
		return inst, false, proposalAgain, g.tell(ctx, op, PullRequest{}, "its pull request to be merged; this process tells no forge (--forge-token)")
	}
	is := g.forge.Keep(op, func() { g.enqueue(g.id) })
	if is.Closed {
		return ended(causeRefused, g.refused(op, is, "was closed without being merged"))
	}
	if is.Merged != "" {
		has, err := g.forge.Reaches(ctx, tip, is.Merged)
		if err != nil {
			return nil, false, 0, err
		}
		if has {
			return ended(causeConflict, g.refused(op, is, fmt.Sprintf("was merged (commit %.12s), and what was asked for isn't in the branch", is.Merged)))
		}
	}
	g.waiting.tell(op, is.Trouble != "")
	return inst, false, proposalAgain, g.tell(ctx, op, is, waitsFor(op, is))
}

// waitsFor says what the operation waits for.
func waitsFor(op *lcm.Operation, is PullRequest) string {
	what := "its pull request to be opened"
	if n := max(is.Number, op.Proposal.Number); n != 0 {
		what = "the merge of " + pullRequest(n, op.Proposal.Link, is.Link)
	}
	if is.Merged != "" {
		what = fmt.Sprintf("commit %.12s, as which pull request %d was merged", is.Merged, is.Number)
	}
	if is.Trouble != "" {
		what += "; " + is.Trouble
	}
	return what
}

// pullRequest is a pull request as people call it.
func pullRequest(number int64, links ...string) string {
	what := fmt.Sprintf("pull request %d", number)
	for _, link := range links {
		if link != "" {
			return what + " (" + link + ")"
		}
	}
	return what
}

// called is the operation's pull request as people call it.
func called(op *lcm.Operation) string {
	if op.Proposal.Number == 0 {
		return "the branch " + lcm.ProposalBranch(op.ID)
	}
	return pullRequest(op.Proposal.Number, op.Proposal.Link)
}

func (g *proposalGate) overtook(op *lcm.Operation, head desired.Revision) *lcm.ProblemDetails {
	return &lcm.ProblemDetails{Status: http.StatusConflict, Title: title(op), Detail: fmt.Sprintf(
		"commit %.12s changes the instance in another way than %s proposes, as a push or a merge with edits does: what it asks for is an operation of its own", head.Commit, called(op))}
}

func (g *proposalGate) refused(op *lcm.Operation, is PullRequest, how string) *lcm.ProblemDetails {
	return &lcm.ProblemDetails{Status: http.StatusConflict, Title: title(op), Detail: pullRequest(is.Number, is.Link, op.Proposal.Link) + " " + how}
}

// tell records the operation's pull request, and what it waits for.
func (g *proposalGate) tell(ctx context.Context, op *lcm.Operation, is PullRequest, what string) error {
	now, told := op.Waiting()
	if told && now.For == what && (is.Number == 0 || op.Proposal.Number == is.Number && op.Proposal.Link == is.Link) {
		return nil
	}
	_, err := g.oplog.Record(ctx, op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		if op.State != lcm.Starting || !op.Proposed() {
			return nil // it was cancelled meanwhile
		}
		if is.Number != 0 {
			p := *op.Proposal
			p.Number, p.Link = is.Number, is.Link
			op.Proposal = &p
		}
		op.AddWait(g.clocks.now(), what)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record what operation %s waits for: %w", op.ID, err)
	}
	g.log.InfoContext(ctx, "operation waits", "operation", op.ID, "type", op.Type, "for", what)
	return nil
}

// take begins what was proposed, as the desired branch has it at head. waits says that something has to end before.
func (g *proposalGate) take(ctx context.Context, inst *lcm.Instance, op *lcm.Operation, head desired.Revision) (waits bool, again time.Duration, err error) {
	if !op.Proposal.Anytime {
		window, why, err := g.gate.ask(ctx, g.id, head.Dir, op.Type)
		if err != nil {
			return false, 0, err
		}
		if why != "" {
			g.waiting.tell(op, false)
			return true, min(window.Again(g.clocks.now(), headAgain), proposalAgain), g.tell(ctx, op, PullRequest{}, called(op)+" is merged; it can't begin now: "+why)
		}
	}
	by, err := g.repo.Author(ctx, head)
	if err != nil {
		g.log.WarnContext(ctx, "who has merged a pull request isn't known", "operation", op.ID, "revision", head.Commit, "error", err)
	}
	begun, err := g.oplog.Merged(ctx, op.ID, head, func(op *lcm.Operation) error {
		now := g.clocks.now()
		op.AttemptStarted = now.UTC()
		op.AddToStory(now, fmt.Sprintf("%s is merged: commit %.12s", called(op), head.Commit))
		if op.Type == lcm.ModifyInfo { // no grant is asked for
			return op.Advance(lcm.Granted, now, nil)
		}
		return nil
	})
	if errors.As(err, new(oplog.ErrBusy)) {
		return true, proposalAgain, g.tell(ctx, op, PullRequest{}, called(op)+" is merged; a repair is under way, and ends first")
	}
	if err != nil {
		return false, 0, err
	}
	if begun.State.Ended() {
		return false, 0, nil // it was cancelled meanwhile
	}
	g.log.InfoContext(ctx, "what was proposed is merged, its operation goes on", "operation", op.ID, "type", op.Type, "revision", head.Commit)
	g.merged(ctx, begun, by)
	g.enqueue(g.id)
	return false, 0, nil
}

func (g *proposalGate) done(operation string) {
	g.waiting.done(g.id)
	if g.forge != nil {
		g.forge.Forget(operation)
	}
}

// tidy has the pull requests and branches go of operations that have ended or were merged. It waits for nothing.
func (g *proposalGate) tidy(ctx context.Context, inst *lcm.Instance) error {
	if g.forge == nil {
		return nil
	}
	for _, id := range inst.Withdraw {
		op, err := g.oplog.Operation(ctx, id)
		if err != nil {
			op = &lcm.Operation{ID: id, Instance: g.id} // it was pruned
		}
		done, err := g.forge.Withdraw(op, func() { g.enqueue(g.id) })
		if err != nil {
			g.log.DebugContext(ctx, "the pull request of an operation is still to be closed", "operation", id, "error", err)
		}
		if !done {
			continue
		}
		if err := g.oplog.Withdrawn(ctx, g.id, id); err != nil {
			return fmt.Errorf("record that the pull request of operation %s is closed: %w", id, err)
		}
	}
	return nil
}
