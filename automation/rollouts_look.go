package automation

import (
	"cmp"
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

// look finds out what there is of the rollout's instances. claims are the instances that other
// rollouts have, to which it adds its own.
func (r *Rollouts) look(ctx context.Context, x *loaded, claims map[string]string) (*seen, error) {
	s := &seen{loaded: x, heads: map[string]desired.Head{}}
	product := ""
	if x.l == nil || x.l.Ended == nil {
		for _, q := range x.r.After.Prometheus {
			if why := r.Queries.Unasked(q); why != "" {
				return nil, fmt.Errorf("%s: after.prometheus: %s", x.file, why)
			}
		}
		var err error
		if product, err = r.pin(ctx, s); err != nil {
			return nil, err
		}
	}
	var attempts map[string][]desired.Attempt
	var proposal *desired.RolloutProposal
	if x.l != nil {
		attempts, proposal = x.l.Attempts, x.l.Proposal
	}
	if open := x.l == nil || x.l.Ended == nil; open && r.Pulls == nil && (x.r.Proposes() || proposal != nil) {
		return nil, fmt.Errorf("%s: write: %s needs a forge: give jibe serve --remote and --forge-token, or remove it", x.file, desired.WritePullRequest)
	}
	s.at = r.Repo.Head()
	for h := range r.Repo.Heads("") {
		e, _ := r.Oplog.InstanceEntry(h.Instance)
		if e == nil {
			e = &oplog.InstanceEntry{}
		}
		tried := attempts[h.Instance]
		selected := x.r.Selects(h.Dir, e.VNF.ProductName)
		offered := proposal.Has(h.Instance)
		if !selected && len(tried) == 0 && !offered {
			continue
		}
		reached, labelled, err := r.reached(ctx, x.r, h)
		if err != nil {
			return nil, err
		}
		if selected = selected && labelled; !selected && len(tried) == 0 && !offered {
			continue
		}
		if selected {
			if first, claimed := claims[h.Instance]; claimed && s.overlaps == "" {
				s.overlaps = first
			}
		}
		f := rollout.Fact{Instance: h.Instance, Dir: h.Dir, VIM: h.VIM, Selected: selected, Reached: reached, Away: r.away(h.VIM)}
		if selected && !f.Reached {
			if f.Passed, err = r.passed(ctx, h, e, product); err != nil {
				return nil, err
			}
			f.Busy = busy(h, e)
		}
		f.Behind = desired.IsInstantiated(h.State) && e.Settled.Tree != h.Tree
		if offered {
			if err := r.arrived(ctx, &f, proposal, h); err != nil {
				return nil, err
			}
		}
		if len(tried) > 0 && !tried[len(tried)-1].Retried {
			if err := r.find(ctx, &f, tried, h, e); err != nil {
				return nil, err
			}
			at := slices.IndexFunc(tried, func(a desired.Attempt) bool { return a.Target == x.l.Target && !a.Back && !a.Retried })
			if at >= 0 {
				f.Back = tried[at].Tree != "" && h.Tree == tried[at].Prior
			}
			if at >= 0 && (x.r.Failures.Then != desired.ThenHalt || x.r.State == desired.RolloutAborted) {
				if err := r.returns(ctx, &f, x.r.Failures.Then, tried[:at+1], h, e); err != nil {
					return nil, err
				}
			}
		}
		s.heads[h.Instance] = h
		s.facts = append(s.facts, f)
	}
	for id := range attempts {
		if _, known := s.heads[id]; !known {
			s.facts = append(s.facts, rollout.Fact{Instance: id, Dir: id, Found: rollout.Superseded, Reason: "the instance is gone", Stays: "it is gone"})
		}
	}
	if proposal != nil {
		for id := range proposal.Instances {
			if _, known := s.heads[id]; !known && attempts[id] == nil {
				s.facts = append(s.facts, rollout.Fact{Instance: id, Dir: id})
			}
		}
	}
	if x.l == nil {
		s.decision = rollout.Decision{Phase: rollout.Running, Waits: "its start"}
		if x.r.State != desired.RolloutRunning {
			s.decision = rollout.Decision{Phase: rollout.Phase(x.r.State), Waits: "state: running"}
		}
	} else {
		decided := x.r
		if len(s.pins) > 0 || s.overlaps != "" { // first the pin; who overlaps begins nothing
			paused := *x.r
			paused.State = cmp.Or(map[bool]string{true: desired.RolloutAborted}[x.r.State == desired.RolloutAborted], desired.RolloutPaused)
			decided = &paused
		}
		said, err := r.said(ctx, s)
		if err != nil {
			return nil, err
		}
		if s.decision = rollout.Decide(decided, x.l, s.facts, said, r.Now()); s.decision.Ask {
			said.Checked = r.checks.ask(ctx, x.r.After.Prometheus, r.Now())
			s.decision = rollout.Decide(decided, x.l, s.facts, said, r.Now())
		}
	}
	if s.overlaps != "" {
		s.decision.Waits = "the end of rollout " + s.overlaps + ", which selects some of the same instances"
	} else if x.l == nil || x.l.Ended == nil {
		for _, f := range s.facts {
			if f.Selected {
				claims[f.Instance] = x.r.Name
			}
		}
	}
	return s, nil
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
	ours := f.Reached || h.Tree == a.Tree
	if op == nil {
		switch {
		case e.Open == "" && e.Operated.Tree == a.Tree && e.Settled.Tree == a.Tree:
			f.Found = rollout.Completed // nothing had to be done
		case ours || r.Now().Sub(a.Began) < unknownAfter:
			f.Found = rollout.Waiting
			f.Unbegun = h.Tree == a.Tree && e.Open == "" && !requested(e)
		case h.Tree == a.Prior && e.Operated.Tree == h.Tree && e.Settled.Tree == h.Tree && e.Open == "" && !requested(e):
			f.Found, f.Reason = rollout.Superseded, rollout.LeftReason // before anything began
		default:
			f.Found, f.Reason = rollout.Unknown, "no operation of the rollout's commit is known"
		}
		return nil
	}
	f.Ended = op.StateEntered
	if op.Error != nil {
		f.Reason = clipped(op.Error.Detail)
	}
	switch {
	case op.State == lcm.Completed && (ours || op.After.Tree == a.Tree):
		f.Found, f.Reason = rollout.Completed, ""
	case op.SupersededBy != "", op.State == lcm.Completed:
		f.Found = rollout.Superseded
	case op.Unseen && (requested(e) || h.Tree == op.After.Tree && e.Operated.Tree != h.Tree):
		f.Found = rollout.UnderWay // git is still to get its end
	case op.Unseen:
		f.Found = rollout.Unseen
	case op.State == lcm.FailedTemp && !op.GaveWay:
		f.Found = rollout.FailedTemp
	case op.State.Ended():
		f.Found = rollout.Failed
	default:
		_, waits := op.Waiting()
		f.Found, f.Unbegun = rollout.UnderWay, op.State == lcm.Starting && waits && h.Tree == a.Tree && !requested(e)
	}
	return nil
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
