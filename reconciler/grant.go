package reconciler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/grant"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
)

// grantSteps obtains the grant of one instance's operation: by the policy in git, and from the
// NFVO. What the NFVO decided becomes a commit, which the operation then brings about. It asks
// no VIM.
type grantSteps struct {
	id        string
	log       *slog.Logger
	oplog     *oplog.Log
	repo      desired.Repo
	revisions revisions
	nfvo      NFVO // nil where none can be asked
	calls     *grantCalls
	commits   committer
	clocks    clocks
	deadlines deadlines
	outcomes  *outcomes
	metrics   *Metrics
	traces    *traces
	seals     Seals
	base      func() string
	enqueue   func(instance string)
}

// obtain obtains the right to do the steps. ready is false where the answer is awaited, or where
// it has changed what the operation is to bring about; again then says when to look at the latest
// (0: when it is there). A refusal is a [*grant.Denied], an answer that can't be followed a
// [*grant.WrongError].
func (g *grantSteps) obtain(ctx context.Context, a *attempt, admit func() error) (ready bool, again time.Duration, err error) {
	if a.op.Grant.Given() {
		ready, err = g.commit(ctx, a)
		return ready, 0, err
	}
	facts, err := g.facts(ctx, a)
	if err != nil {
		return false, 0, err
	}
	rules := facts.Settings.Granting
	// A rule is for what somebody asks for: a repair brings back what was allowed.
	if !a.op.Automatic && len(rules.Policy) > 0 {
		if err := facts.Judge(rules.Policy, g.instantiated(ctx)); err != nil {
			g.metrics.granted("policy", "refused", 0)
			return false, 0, err
		}
	}
	if !due(rules, a.op, facts.Moves) {
		return true, 0, nil
	}
	if g.nfvo == nil {
		return false, 0, &drivers.RefusedError{Reason: "this process can't ask the NFVO that " + desired.GrantingFile + " names"}
	}
	return g.ask(ctx, a, facts, admit)
}

// due says whether the NFVO is to be asked. A repair that makes nothing anew uses what was
// granted before.
func due(rules desired.Granting, op *lcm.Operation, moves plan.Moves) bool {
	still := len(moves.Leaving) == 0 && len(moves.Going) == 0 && len(moves.Coming) == 0
	return rules.NFVO != nil && !(op.Automatic && (still || rules.Repairs == desired.RepairsLocal))
}

// facts are what the request is made of.
func (g *grantSteps) facts(ctx context.Context, a *attempt) (*grant.Facts, error) {
	settings, err := g.repo.Settings()
	if err != nil {
		return nil, fmt.Errorf("who grants operations: %w", err)
	}
	f := &grant.Facts{
		Operation: a.op, Instance: a.want.Source.Instance, Package: a.want.Source.Package, Settings: settings, Base: g.base(),
		Desired: a.want.Desired, Seen: a.seen, Moves: plan.MovesOf(a.want.Desired, a.seen, a.journal),
	}
	before, err := g.revisions.read(ctx, a.op.Before)
	if err != nil {
		return nil, err
	}
	after, err := g.revisions.read(ctx, a.op.After)
	if err != nil {
		return nil, err
	}
	if after != nil && desired.IsInstantiated(after.State) {
		f.Instance = after
	}
	if before != nil && a.op.Type == lcm.ChangePackage {
		f.FromVNFD = before.VnfdID
	}
	if f.Package == nil { // it ends
		if f.Package, err = g.revisions.packageOf(ctx, f.Instance); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// instantiated counts the other instances that are instantiated and picked.
func (g *grantSteps) instantiated(ctx context.Context) func(func(*desired.Instance) bool) (int, error) {
	return func(picks func(*desired.Instance) bool) (n int, err error) {
		for head := range g.repo.Heads("") {
			if head.Instance == g.id || !desired.IsInstantiated(head.State) {
				continue
			}
			in, err := g.revisions.read(ctx, head.Revision)
			if err != nil {
				return 0, err
			}
			if picks(in) {
				n++
			}
		}
		return n, nil
	}
}

// longestGrantPause bounds the pauses between questions that the NFVO doesn't answer.
const longestGrantPause = 30 * time.Second

// ask asks the NFVO, or sees what it said.
func (g *grantSteps) ask(ctx context.Context, a *attempt, facts *grant.Facts, admit func() error) (ready bool, again time.Duration, err error) {
	call, known := g.calls.get(a.op.ID)
	left := g.deadlines.timeLeft(a.op)
	switch {
	case known && call.running && left > 0:
		return false, left, nil
	case known && !call.running && call.next.IsZero():
		if ready, again, err = g.heard(ctx, a, facts, call); err != nil || ready || again == 0 {
			return ready, again, err
		}
		again = min(again, max(left, time.Millisecond))
		g.calls.rest(a.op.ID, g.clocks.now().Add(again))
		return false, again, nil
	case left <= 0:
		err := call.err
		if err == nil {
			err = errors.New("the NFVO hasn't decided yet")
		}
		g.metrics.granted("nfvo", "timeout", 0)
		return false, 0, g.outcomes.broke(ctx, a, causeGrant, g.deadlines.overdue(a.op, nil, err))
	case known && g.clocks.now().Before(call.next):
		return false, min(call.next.Sub(g.clocks.now()), left), nil
	case !known:
		if err := admit(); err != nil {
			return false, 0, err // nobody need be asked for what the VIM refuses
		}
		if _, waits := a.op.Waiting(); !waits {
			if err := g.awaits(ctx, a, facts, "", nil); err != nil {
				return false, 0, err
			}
		}
	}
	settings, location := facts.Settings, ""
	if a.op.Grant != nil {
		location = a.op.Grant.Location
	}
	request := facts.Request()
	started := g.clocks.now()
	asked := a.op
	g.calls.start(a.op.ID, func(ctx context.Context) (answer grant.Answer, err error) {
		ctx, span := g.traces.Start(g.traces.at(ctx, asked), "grant", trace.Client)
		defer func() { span.End(err != nil) }()
		if location != "" {
			answer, err = g.nfvo.Poll(ctx, settings, location)
		} else {
			answer, err = g.nfvo.Ask(ctx, settings, request)
		}
		g.metrics.granted("nfvo", outcomeOf(answer, err), g.clocks.now().Sub(started))
		return answer, err
	}, func() { g.enqueue(g.id) })
	return false, left, nil
}

// outcomeOf is what an answer counts as.
func outcomeOf(answer grant.Answer, err error) string {
	var denied *grant.Denied
	var wrong *grant.WrongError
	switch {
	case errors.As(err, &denied):
		return "refused"
	case errors.As(err, &wrong):
		return "wrong"
	case err != nil:
		return "unavailable"
	case answer.Grant == nil:
		return "later"
	}
	return "granted"
}

// heard deals with what the NFVO said. again is after how long to ask again; 0 where there is
// nothing to ask.
func (g *grantSteps) heard(ctx context.Context, a *attempt, facts *grant.Facts, call grantCall) (ready bool, again time.Duration, err error) {
	switch {
	case errors.Is(call.err, grant.ErrAway):
		pause := min(time.Second<<min(call.failures-1, 10), longestGrantPause)
		var later *grant.RetryError
		if errors.As(call.err, &later) {
			pause = max(pause, later.After)
		}
		g.log.WarnContext(ctx, "the NFVO gives no answer to a grant request", "operation", a.op.ID, "error", call.err)
		return false, pause, g.awaits(ctx, a, facts, ": "+sentence(call.err), nil)
	case errors.Is(call.err, context.Canceled):
		g.calls.drop(a.op.ID)
		return false, 0, nil // the process is stopping; the next one asks again
	case call.err != nil:
		g.calls.drop(a.op.ID)
		return false, 0, call.err
	case call.answer.Grant == nil:
		return false, call.answer.After, g.awaits(ctx, a, facts, ", who will decide later", &lcm.Grant{Location: call.answer.Location})
	}
	request := facts.Request()
	project, err := g.revisions.whose(facts.Instance)
	if err != nil {
		return false, 0, err
	}
	granted, notes, err := facts.Apply(request, call.answer.Grant, func(endpoint, clear string) (string, error) {
		return g.seals.Connection(project.Name, endpoint, clear)
	})
	if err != nil {
		g.metrics.granted("nfvo", "wrong", 0)
		return false, 0, err
	}
	text, err := granted.Format()
	if err != nil {
		return false, 0, err
	}
	given := &lcm.Grant{ID: call.answer.Grant.ID, Href: call.answer.Location, Uncommitted: a.op.Type != lcm.Terminate, Text: string(text)}
	tell := func(op *lcm.Operation) {
		op.AddToStory(g.clocks.now(), append([]string{"granted by the NFVO"}, notes...)...)
	}
	if err := g.record(ctx, a, given, tell); err != nil {
		return false, 0, err
	}
	g.calls.drop(a.op.ID)
	ready, err = g.commit(ctx, a)
	return ready, 0, err
}

// awaits records that the operation waits for the grant, and what the NFVO said so far. now is
// where the grant stands, nil where that hasn't changed.
func (g *grantSteps) awaits(ctx context.Context, a *attempt, facts *grant.Facts, said string, now *lcm.Grant) error {
	who := "the NFVO"
	if peer, err := facts.Settings.NFVO(); err == nil && peer != nil {
		who = peer.Name
	}
	return g.record(ctx, a, now, func(op *lcm.Operation) { op.AddWait(g.clocks.now(), "the grant of "+who+said) })
}

// record records where the grant stands, nil where that hasn't changed, with what tell adds to
// the operation's story.
func (g *grantSteps) record(ctx context.Context, a *attempt, now *lcm.Grant, tell func(*lcm.Operation)) error {
	op, err := g.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		if op.State != lcm.Starting {
			return nil // it was cancelled meanwhile
		}
		if now != nil {
			op.Grant = now
		}
		tell(op)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record the grant of operation %s: %w", a.op.ID, err)
	}
	a.op = op
	return nil
}

// errMovedOn is returned by a write's function where the directory is at another commit than the
// operation's.
var errMovedOn = errors.New("the directory has moved on")

// commit commits what was granted, and has the operation bring that about. ready says that there
// is nothing to commit: what was asked for stands as it was.
func (g *grantSteps) commit(ctx context.Context, a *attempt) (ready bool, err error) {
	if a.op.State != lcm.Starting {
		return false, nil
	}
	if !a.op.Grant.Uncommitted || a.op.Proposed() { // what is only proposed has no directory of its own yet
		return true, nil
	}
	asked, err := g.revisions.files(ctx, a.op.After)
	if err != nil {
		return false, fmt.Errorf("files of instance %s that operation %s is to bring about: %w", g.id, a.op.ID, err)
	}
	wanted := granted(asked, a.op.Grant.Text)
	rev := a.op.After
	if !sameFiles(asked, wanted) {
		w := desired.Write{
			Instance: g.id, Dir: a.op.After.Dir,
			Subject: fmt.Sprintf("Keep what was granted to %s of %s", a.op.Type, a.op.After.Dir),
			Trailers: []desired.Trailer{
				{Key: desired.TrailerOperation, Value: a.op.ID},
				{Key: desired.TrailerType, Value: string(a.op.Type)},
				{Key: desired.TrailerGrant, Value: a.op.Grant.ID},
			},
			Change: func(at desired.Revision, now desired.Files) (desired.Files, error) {
				if at.Tree == a.op.After.Tree || sameFiles(now, wanted) || a.op.Beside.Tree != "" { // the second: before a crash
					return wanted, nil
				}
				if _, ok := besides(at.Dir, asked, now); ok && now != nil {
					return granted(now, a.op.Grant.Text), nil
				}
				return nil, errMovedOn
			},
			Beside: besideOf(ctx, g.repo, a.op, asked, nil),
		}
		rev, err = commitOf(ctx, g.commits, "what was granted to operation "+a.op.ID, func(ctx context.Context) (desired.Revision, error) { return g.repo.Write(ctx, w) })
		if errors.Is(err, errMovedOn) {
			return false, g.outcomes.broke(ctx, a, causeConflict, &lcm.ProblemDetails{Status: 409, Title: title(a.op),
				Detail: "a newer commit changed the instance while the grant was awaited: it takes this operation's place, and asks for a grant of its own"})
		}
		if err != nil {
			return false, fmt.Errorf("commit what was granted to operation %s: %w", a.op.ID, err)
		}
	}
	op, err := g.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, inst *lcm.Instance) error {
		if op.State != lcm.Starting {
			return nil
		}
		now := *op.Grant
		now.Uncommitted, now.Text = false, ""
		if rev.Tree != op.After.Tree {
			now.Asked = cmp.Or(now.Asked, op.After.Commit)
			if inst.Operated.Tree == op.After.Tree {
				inst.Operated = rev
			}
			op.After = rev
		}
		op.Grant = &now
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("record the grant of operation %s: %w", a.op.ID, err)
	}
	moved := op.After.Tree != a.op.After.Tree
	if a.op = op; moved {
		g.enqueue(g.id) // something else is rendered from now on
	}
	return !moved, nil
}

// granted are the files with another granted.yaml, "" being none.
func granted(files desired.Files, text string) desired.Files {
	next := maps.Clone(files)
	if delete(next, desired.GrantedFile); text != "" {
		next[desired.GrantedFile] = []byte(text)
	}
	return next
}

func sameFiles(a, b desired.Files) bool { return maps.EqualFunc(a, b, bytes.Equal) }

// grantWait is how long the NFVO may take, 0 where nobody says.
func (r *Reconciler) grantWait() time.Duration {
	settings, err := r.Repo.Settings()
	if err != nil || settings.Granting.NFVO == nil {
		return 0
	}
	return settings.Granting.NFVO.Wait
}

// refusedRest is how long a drift is left alone after the NFVO didn't grant its repair.
const refusedRest = time.Minute

// refusedLately is how long it is too early to begin another repair, as the last one wasn't
// granted.
func (r *driftRepair) refusedLately(ctx context.Context, inst *lcm.Instance) (time.Duration, error) {
	if inst.Last == "" || inst.LastState != lcm.RolledBack {
		return 0, nil
	}
	last, err := r.oplog.Operation(ctx, inst.Last)
	if err != nil || !last.Automatic || last.Journal.Granted {
		return 0, err
	}
	next := r.clocks.rests(last).Add(refusedRest)
	wait := next.Sub(r.clocks.now())
	if wait > 0 {
		r.drifts.state(r.id, DriftFailing, last.ID, next)
	}
	return max(wait, 0), nil
}
