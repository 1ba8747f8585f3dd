package automation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// seen is a rollout with what is known of its instances, and what comes next.
type seen struct {
	*loaded
	at       string             // the head of the branch, or an older one: heads and facts have all of it
	pins     []desired.KeyValue // what the file is still to say of its target
	starts   string             // what the version is that is pinned, for the commit's subject
	heads    map[string]desired.Head
	facts    []rollout.Fact
	decision rollout.Decision
	overlaps string // the rollout that goes first
}

// look finds out what there is of the rollout's instances, and decides what comes next. claims are the instances that
// other rollouts have, to which it adds its own.
func (r *Rollouts) look(ctx context.Context, x *loaded, claims map[string]string) (*seen, error) {
	s := &seen{loaded: x, heads: map[string]desired.Head{}}
	product := ""
	if x.open() {
		if err := r.equipped(x); err != nil {
			return nil, err
		}
		var err error
		if product, err = r.pin(ctx, s); err != nil {
			return nil, err
		}
	}

	s.at = r.Repo.Head()
	for h := range r.Repo.Heads("") {
		if err := r.lookAt(ctx, s, h, product, claims); err != nil {
			return nil, err
		}
	}
	s.addGone()

	if err := r.decide(ctx, s); err != nil {
		return nil, err
	}
	s.claim(claims)
	return s, nil
}

// open reports whether the rollout hasn't ended.
func (x *loaded) open() bool { return x.l == nil || x.l.Ended == nil }

// attempts are all attempts at the rollout's instances, by instance.
func (x *loaded) attempts() map[string][]desired.Attempt {
	if x.l == nil {
		return nil
	}
	return x.l.Attempts
}

// proposal is the rollout's pull request, nil without one.
func (x *loaded) proposal() *desired.RolloutProposal {
	if x.l == nil {
		return nil
	}
	return x.l.Proposal
}

// equipped returns what this installation lacks to carry the rollout out, nil where it lacks nothing.
func (r *Rollouts) equipped(x *loaded) error {
	for _, q := range x.r.After.Prometheus {
		if why := r.Queries.Unasked(q); why != "" {
			return fmt.Errorf("%s: after.prometheus: %s", x.file, why)
		}
	}
	if r.Pulls == nil && (x.r.Proposes() || x.proposal() != nil) {
		return fmt.Errorf("%s: write: %s needs a forge: give jibe serve --remote and --forge-token, or remove it", x.file, desired.WritePullRequest)
	}
	return nil
}

// lookAt adds the fact of one instance, where the rollout has to do with it.
func (r *Rollouts) lookAt(ctx context.Context, s *seen, h desired.Head, product string, claims map[string]string) error {
	e, _ := r.Oplog.InstanceEntry(h.Instance)
	if e == nil {
		e = &oplog.InstanceEntry{}
	}
	tried, offered := s.attempts()[h.Instance], s.proposal().Has(h.Instance)
	concerned := len(tried) > 0 || offered
	selected := s.r.Selects(h.Dir, e.VNF.ProductName)
	if !selected && !concerned {
		return nil
	}
	reached, labelled, err := r.reached(ctx, s.r, h)
	if err != nil {
		return err
	}
	if selected = selected && labelled; !selected && !concerned {
		return nil
	}
	if first, claimed := claims[h.Instance]; claimed && selected && s.overlaps == "" {
		s.overlaps = first
	}

	f := rollout.Fact{Instance: h.Instance, Dir: h.Dir, VIM: h.VIM, Selected: selected, Reached: reached, Away: r.away(h.VIM)}
	f.Behind = desired.IsInstantiated(h.State) && e.Settled.Tree != h.Tree
	if selected && !f.Reached {
		if f.Passed, err = r.passed(ctx, h, e, product); err != nil {
			return err
		}
		f.Busy = busy(h, e)
	}
	if offered {
		if err := r.arrived(ctx, &f, s.proposal(), h); err != nil {
			return err
		}
	}
	if len(tried) > 0 && !tried[len(tried)-1].Retried {
		if err := r.lookBack(ctx, s.loaded, &f, tried, h, e); err != nil {
			return err
		}
	}

	s.heads[h.Instance] = h
	s.facts = append(s.facts, f)
	return nil
}

// lookBack tells what became of the attempts at an instance, and whether it can be rolled back.
func (r *Rollouts) lookBack(ctx context.Context, x *loaded, f *rollout.Fact, tried []desired.Attempt, h desired.Head, e *oplog.InstanceEntry) error {
	if err := r.find(ctx, f, tried, h, e); err != nil {
		return err
	}
	at := slices.IndexFunc(tried, func(a desired.Attempt) bool { return a.Target == x.l.Target && !a.Back && !a.Retried })
	if at < 0 {
		return nil
	}
	f.Back = tried[at].Tree != "" && h.Tree == tried[at].Prior
	if x.r.Failures.Then == desired.ThenHalt && x.r.State != desired.RolloutAborted {
		return nil // nothing is rolled back
	}
	return r.returns(ctx, f, x.r.Failures.Then, tried[:at+1], h, e)
}

// addGone adds the facts of instances that head doesn't have any more.
func (s *seen) addGone() {
	attempts := s.attempts()
	for id := range attempts {
		if _, known := s.heads[id]; !known {
			s.facts = append(s.facts, rollout.Fact{Instance: id, Dir: id, Found: rollout.Superseded, Reason: "the instance is gone", Stays: "it is gone"})
		}
	}
	if s.proposal() == nil {
		return
	}
	for id := range s.proposal().Instances {
		if _, known := s.heads[id]; !known && attempts[id] == nil {
			s.facts = append(s.facts, rollout.Fact{Instance: id, Dir: id})
		}
	}
}

// decide has the package rollout say what comes next, and asks Prometheus where that needs it.
func (r *Rollouts) decide(ctx context.Context, s *seen) error {
	if s.l == nil {
		s.decision = rollout.Decision{Phase: rollout.Running, Waits: "its start"}
		if s.r.State != desired.RolloutRunning {
			s.decision = rollout.Decision{Phase: rollout.Phase(s.r.State), Waits: "state: running"}
		}
		return nil
	}

	decided := s.r
	if first := len(s.pins) > 0 || s.overlaps != ""; first && s.r.State != desired.RolloutAborted { // one that overlaps begins nothing
		paused := *s.r
		paused.State = desired.RolloutPaused
		decided = &paused
	}
	said, err := r.said(ctx, s)
	if err != nil {
		return err
	}
	if s.decision = rollout.Decide(decided, s.l, s.facts, said, r.Now()); s.decision.Ask {
		said.Checked = r.checks.ask(ctx, s.r.After.Prometheus, r.Now())
		s.decision = rollout.Decide(decided, s.l, s.facts, said, r.Now())
	}
	return nil
}

// claim notes the rollout's instances as its own, unless another rollout goes first.
func (s *seen) claim(claims map[string]string) {
	if s.overlaps != "" {
		s.decision.Waits = "the end of rollout " + s.overlaps + ", which selects some of the same instances"
		return
	}
	if !s.open() {
		return
	}
	for _, f := range s.facts {
		if f.Selected {
			claims[f.Instance] = s.r.Name
		}
	}
}

// pin finds out which package the target names, and what of that its file doesn't say yet.
func (r *Rollouts) pin(ctx context.Context, s *seen) (product string, err error) {
	to := s.r.To
	set := func(key string, value any) {
		s.pins = append(s.pins, desired.KeyValue{Path: []string{"to", key}, Value: value})
	}
	if to.Version != "" {
		vnfdID, tree, version, err := r.Best(s.r.Select.Product, to.Version)
		if err != nil {
			return "", fmt.Errorf("%s: version %s of %s: %w", s.file, to.Version, s.r.Select.Product, err)
		}
		set("version", nil)
		set("vnfdId", vnfdID)
		set("package", tree)
		s.starts = fmt.Sprintf(" to version %s (%s)", version, to.Version)
		return s.r.Select.Product, nil
	}
	if to.VnfdID == "" {
		return "", nil // whatever runs goes on to run
	}
	tree, product, err := r.Package(ctx, to.VnfdID, to.Package)
	if err != nil {
		return "", fmt.Errorf("%s: package of vnfdId %s: %w", s.file, to.VnfdID, err)
	}
	if tree != to.Package {
		set("package", tree)
	}
	return product, nil
}

// away is why the VIM is away, "" where it is there or nobody can tell.
func (r *Rollouts) away(vim string) string {
	if r.Away == nil || vim == "" {
		return ""
	}
	return clipped(r.Away(vim))
}

// reached says whether the instance asks for the target already, and whether it has the labels that the
// rollout selects by. Its file is read only where the rollout looks at more than its package.
func (r *Rollouts) reached(ctx context.Context, ro *desired.Rollout, h desired.Head) (reached, labelled bool, err error) {
	if !ro.Select.ByLabels() && !ro.To.Beside() {
		return h.VnfdID == ro.To.VnfdID && h.Package == ro.To.Package, true, nil
	}
	in, err := r.Repo.Read(ctx, h.Revision)
	if err != nil {
		return false, false, err
	}
	return ro.To.Reached(in), ro.Select.Labelled(in.Metadata), nil
}

// passed is why the instance is passed over, "" where it isn't.
func (r *Rollouts) passed(ctx context.Context, h desired.Head, e *oplog.InstanceEntry, product string) (string, error) {
	switch {
	case h.Suspend:
		return "it is suspended", nil
	case h.Held != "":
		return "it is held", nil
	case !desired.IsInstantiated(h.State):
		return "it isn't instantiated", nil
	case e.VNF.ProductName != "" && product != "" && e.VNF.ProductName != product:
		return fmt.Sprintf("it runs %s, and the package is of %s", e.VNF.ProductName, product), nil
	}
	in, err := r.Repo.Read(ctx, h.Revision)
	if err != nil {
		return "", err
	}
	if in.Follow.Versions != "" {
		return "it follows its package by itself", nil
	}
	return "", nil
}

// busy is why nothing can be begun with the instance now.
func busy(h desired.Head, e *oplog.InstanceEntry) string {
	switch {
	case e.Open != "":
		return "operation " + e.Open + " is under way"
	case e.Proposed != "":
		return "operation " + e.Proposed + " waits for its pull request"
	case e.Prepared != "" || e.OutstandingCommit != "":
		return "a request or its end isn't in git yet"
	case e.Operated.Tree != h.Tree:
		return "its last commit hasn't been operated on"
	}
	return ""
}

// requested says that a request of the instance, or the end of one, isn't in git yet.
func requested(e *oplog.InstanceEntry) bool { return e.Prepared != "" || e.OutstandingCommit != "" }

// returns tells whether the instance can be taken back to where it was before the last of the attempts.
func (r *Rollouts) returns(ctx context.Context, f *rollout.Fact, then string, tried []desired.Attempt, h desired.Head, e *oplog.InstanceEntry) error {
	a := tried[len(tried)-1]
	switch {
	case a.Tree == "":
		return nil
	case h.Tree == a.Prior:
		f.Back = true
		return nil
	case a.Edited:
		f.Stays = "it was merged otherwise than proposed"
	case h.Held != "":
		f.Stays = "it is held"
	case h.Suspend:
		f.Stays = "it is suspended"
	case a.Failed() && then == desired.ThenRollback && e.Open == "" && e.Settled.Tree == h.Tree:
		f.Stays = "somebody has healed it"
	case h.Tree != a.Tree: // unless an NFVO's grant has moved it
		op, err := r.operationOf(ctx, f.Instance, tried)
		if err != nil {
			return err
		}
		if op == nil || op.After.Tree != h.Tree {
			f.Stays = "somebody changed it since"
		}
	}
	if f.Stays == "" && (f.Found != rollout.FailedTemp || requested(e)) {
		f.Busy = busy(h, e)
	}
	return nil
}

// find tells what became of the instance's latest attempt.
func (r *Rollouts) find(ctx context.Context, f *rollout.Fact, tried []desired.Attempt, h desired.Head, e *oplog.InstanceEntry) error {
	a := tried[len(tried)-1]
	switch {
	case a.Tree == "": // refused before anything was written
		return nil
	case a.Outcome != "" && e.Open == "":
		return nil // it is written down, and takes no place
	}
	op, err := r.operationOf(ctx, f.Instance, tried)
	if op == nil && err == nil && a.Back {
		err = r.rolledBack(ctx, f, tried)
	}
	if err != nil || f.Found != rollout.Nothing {
		return err
	}

	if op == nil {
		r.findUnbegun(f, a, h, e)
		return nil
	}
	f.Ended = op.StateEntered
	if op.Error != nil {
		f.Reason = clipped(op.Error.Detail)
	}
	if f.Found = foundOf(op, f, a, h, e); f.Found == rollout.Completed {
		f.Reason = ""
	}
	_, waits := op.Waiting()
	f.Unbegun = f.Found == rollout.UnderWay && !op.Unseen && op.State == lcm.Starting && waits && h.Tree == a.Tree && !requested(e)
	return nil
}

// findUnbegun tells what became of an attempt of which no operation is known.
func (r *Rollouts) findUnbegun(f *rollout.Fact, a desired.Attempt, h desired.Head, e *oplog.InstanceEntry) {
	atRest := e.Open == "" && !requested(e)
	switch {
	case e.Open == "" && e.Operated.Tree == a.Tree && e.Settled.Tree == a.Tree:
		f.Found = rollout.Completed // nothing had to be done
	case f.Reached || h.Tree == a.Tree || r.Now().Sub(a.Began) < unknownAfter:
		f.Found = rollout.Waiting
		f.Unbegun = h.Tree == a.Tree && atRest
	case h.Tree == a.Prior && e.Operated.Tree == h.Tree && e.Settled.Tree == h.Tree && atRest:
		f.Found, f.Reason = rollout.Superseded, rollout.LeftReason // before anything began
	default:
		f.Found, f.Reason = rollout.Unknown, "no operation of the rollout's commit is known"
	}
}

// foundOf names what became of an attempt by its operation.
func foundOf(op *lcm.Operation, f *rollout.Fact, a desired.Attempt, h desired.Head, e *oplog.InstanceEntry) rollout.Found {
	ours := f.Reached || h.Tree == a.Tree
	toGit := requested(e) || h.Tree == op.After.Tree && e.Operated.Tree != h.Tree // git is still to get its end
	switch {
	case op.State == lcm.Completed && (ours || op.After.Tree == a.Tree):
		return rollout.Completed
	case op.SupersededBy != "", op.State == lcm.Completed:
		return rollout.Superseded
	case op.Unseen && !toGit:
		return rollout.Unseen
	case op.Unseen:
		return rollout.UnderWay
	case op.State == lcm.FailedTemp && !op.GaveWay:
		return rollout.FailedTemp
	case op.State.Ended():
		return rollout.Failed
	}
	return rollout.UnderWay
}

// rolledBack tells what became of an attempt to take an instance back that is the rollback of the
// operation before. It tells nothing where it isn't.
func (r *Rollouts) rolledBack(ctx context.Context, f *rollout.Fact, tried []desired.Attempt) error {
	for i := len(tried) - 2; i >= 0; i-- {
		if tried[i].Back {
			continue
		}
		op, err := r.operationOf(ctx, f.Instance, tried[:i+1])
		if op == nil || err != nil {
			return err
		}
		switch {
		case op.State == lcm.RolledBack:
			f.Found, f.Ended = rollout.Completed, op.StateEntered
		case op.State == lcm.RollingBack:
			f.Found = rollout.UnderWay
		case op.State == lcm.FailedTemp && op.Journal.Rollback: // it was tried, and has failed
			f.Found, f.Ended = rollout.FailedTemp, op.StateEntered
			if op.Error != nil {
				f.Reason = clipped(op.Error.Detail)
			}
		}
		return nil
	}
	return nil
}

// clipped keeps a reason short: thousands of them stand in one file.
func clipped(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		return string(r[:200]) + "…"
	}
	return s
}

// operationOf is the operation that the commit of the last attempt led to, nil where none is known. It is
// known by its trees: which commit brought a directory to its state isn't known for ever. One that an
// earlier attempt at the same tree led to began before that attempt had ended. What was merged otherwise than
// proposed may have begun from another tree, too.
func (r *Rollouts) operationOf(ctx context.Context, instance string, tried []desired.Attempt) (*lcm.Operation, error) {
	a := tried[len(tried)-1]
	var ended time.Time
	for _, before := range tried[:len(tried)-1] {
		if before.Tree == a.Tree && before.Ended.After(ended) {
			ended = before.Ended
		}
	}
	from := []string{a.Prior} // and what was begun since while the attempt waited for its window
	for e := range r.Oplog.OperationEntries(oplog.OperationQuery{Instance: instance, From: a.Began.Add(-unknownAfter)}) {
		if e.Automatic || !ended.IsZero() && !e.Started.After(ended) {
			continue
		}
		op, err := r.Oplog.Operation(ctx, e.ID)
		if err != nil {
			return nil, fmt.Errorf("operation %s of instance %s: %w", e.ID, instance, err)
		}
		follows := slices.Contains(from, op.Before.Tree)
		if op.Beside.Tree != "" && follows {
			from = append(from, op.After.Tree)
			continue
		}
		leads := op.After.Tree == a.Tree && (!a.Back || follows) // an earlier one may have led to where it goes back to
		if leads || a.Edited && op.Before.Tree != op.After.Tree && !op.Started.Before(a.Began) || follows && op.After.Tree != a.Prior && !op.Started.Before(a.Began) {
			return op, nil
		}
	}
	return nil, nil
}
