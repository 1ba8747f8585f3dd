package automation

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// seen is a rollout with what is known of its instances, and what comes next.
type seen struct {
	*loaded
	tree     string // of the package, where the file doesn't have it yet
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
		tree, of, err := r.Package(ctx, x.r.To.VnfdID, x.r.To.Package)
		if err != nil {
			return nil, fmt.Errorf("%s: package of vnfdId %s: %w", x.file, x.r.To.VnfdID, err)
		}
		product = of
		if tree != x.r.To.Package {
			s.tree = tree
		}
	}
	var attempts map[string][]desired.Attempt
	if x.l != nil {
		attempts = x.l.Attempts
	}
	for h := range r.Repo.Heads("") {
		e, _ := r.Oplog.InstanceEntry(h.Instance)
		if e == nil {
			e = &oplog.InstanceEntry{}
		}
		tried := attempts[h.Instance]
		selected := x.r.Selects(h.Dir, e.VNF.ProductName)
		if !selected && len(tried) == 0 {
			continue
		}
		if selected {
			if first, claimed := claims[h.Instance]; claimed && s.overlaps == "" {
				s.overlaps = first
			}
		}
		f := rollout.Fact{Instance: h.Instance, Dir: h.Dir, VIM: h.VIM, Selected: selected,
			Reached: h.VnfdID == x.r.To.VnfdID && h.Package == x.r.To.Package}
		if selected && !f.Reached {
			var err error
			if f.Passed, err = r.passed(ctx, h, e, product); err != nil {
				return nil, err
			}
			f.Busy = busy(h, e)
		}
		if len(tried) > 0 {
			if err := r.find(ctx, &f, tried[len(tried)-1], h, e); err != nil {
				return nil, err
			}
		}
		s.heads[h.Instance] = h
		s.facts = append(s.facts, f)
	}
	for id := range attempts {
		if _, known := s.heads[id]; !known {
			s.facts = append(s.facts, rollout.Fact{Instance: id, Dir: id, Found: rollout.Superseded, Reason: "the instance is gone"})
		}
	}
	if x.l == nil {
		s.decision = rollout.Decision{Phase: rollout.Running, Waits: "its start"}
		if x.r.State != desired.RolloutRunning {
			s.decision = rollout.Decision{Phase: rollout.Phase(x.r.State), Waits: "state: running"}
		}
	} else {
		decided := x.r
		if s.tree != "" || s.overlaps != "" { // first the pin; who overlaps begins nothing
			paused := *x.r
			paused.State = cmp.Or(map[bool]string{true: desired.RolloutAborted}[x.r.State == desired.RolloutAborted], desired.RolloutPaused)
			decided = &paused
		}
		s.decision = rollout.Decide(decided, x.l, s.facts, r.Now())
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
	case e.Prepared != "" || e.OutstandingCommit != "":
		return "a request or its end isn't in git yet"
	case e.Operated.Tree != h.Tree:
		return "its last commit hasn't been operated on"
	}
	return ""
}

// find tells what became of the instance's latest attempt.
func (r *Rollouts) find(ctx context.Context, f *rollout.Fact, a desired.Attempt, h desired.Head, e *oplog.InstanceEntry) error {
	switch {
	case a.Tree == "": // refused before anything was written
		return nil
	case a.Outcome != "" && e.Open == "":
		return nil // it is written down, and takes no place
	}
	op, err := r.operationOf(ctx, f.Instance, a)
	if err != nil {
		return err
	}
	ours := f.Reached || h.Tree == a.Tree
	if op == nil {
		switch {
		case e.Open == "" && e.Operated.Tree == a.Tree && e.Settled.Tree == a.Tree:
			f.Found = rollout.Completed // nothing had to be done
		case ours || r.Now().Sub(a.Began) < unknownAfter:
			f.Found = rollout.Waiting
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
	case op.State == lcm.FailedTemp && !op.GaveWay:
		f.Found = rollout.FailedTemp
	case op.State.Ended():
		f.Found = rollout.Failed
	default:
		f.Found = rollout.UnderWay
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

// operationOf is the operation that the attempt's commit led to, nil where none is known. It is known
// by its trees: which commit brought a directory to its state isn't known for ever.
func (r *Rollouts) operationOf(ctx context.Context, instance string, a desired.Attempt) (*lcm.Operation, error) {
	for e := range r.Oplog.OperationEntries(oplog.OperationQuery{Instance: instance, From: a.Began.Add(-unknownAfter)}) {
		if e.Automatic {
			continue
		}
		op, err := r.Oplog.Operation(ctx, e.ID)
		if err != nil {
			return nil, fmt.Errorf("operation %s of instance %s: %w", e.ID, instance, err)
		}
		if op.After.Tree == a.Tree || op.Before.Tree == a.Prior && op.After.Tree != a.Prior && !op.Started.Before(a.Began) {
			return op, nil
		}
	}
	return nil, nil
}
