package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// halted is what comes of a rollout that begins nothing more: what the file asks for then is taken
// back, and the rest waits for a person.
func (d *decider) halted() Decision {
	waits := "a person: jibe rollout resume " + d.r.Name + ", or abort (" + d.l.Halted.Reason
	if d.r.Failures.Then != desired.ThenHalt && !d.l.Halted.Unknown && !d.l.Halted.Closed && d.r.State == desired.RolloutRunning {
		if unbegun := d.unbegun(); len(unbegun) > 0 && d.r.Failures.Then == desired.ThenRollbackAll {
			return Decision{Phase: RollingBack, Back: unbegun, Waits: withdraws(unbegun)}
		}
		out, failed, back := d.takeBack()
		switch {
		case failed >= d.r.Failures.Budget:
			waits += fmt.Sprintf("; %s couldn't be taken back", instances(failed))
		case out.Phase == RollingBack:
			return out
		case d.r.Failures.Then == desired.ThenRollbackAll:
			return d.end(RolledBack, RollingBack)
		case back > 0:
			waits += "; what has failed was taken back"
		}
	}
	return Decision{Phase: Halted, Waits: waits + ")"}
}

// takeBack picks who goes back now: what has failed first, then what was completed, the last one
// first. failed counts those that couldn't, and done what has failed and is back. The phase is
// RollingBack while anything is left to do.
func (d *decider) takeBack() (out Decision, failed, done int) {
	places := d.places()
	var rest []Fact
	place := make(map[string]int, len(d.facts)) // in the order of the rollout
	for i, f := range d.facts {
		place[f.Instance] = i
		switch a, back := d.l.Of(f.Instance, d.target), d.l.BackOf(f.Instance, d.target); {
		case back != nil && back.Failed():
			failed++
		case a != nil && a.Failed() && (f.Back || back != nil):
			done++
		}
		if d.returns(f) {
			rest = append(rest, f)
		}
	}
	active := d.active()
	if failed >= d.r.Failures.Budget || len(rest) == 0 && active == 0 {
		return Decision{}, failed, done
	}
	out.Phase = RollingBack
	slices.SortStableFunc(rest, func(a, b Fact) int {
		x, y := d.l.Of(a.Instance, d.target), d.l.Of(b.Instance, d.target)
		if x.Failed() != y.Failed() {
			return map[bool]int{true: -1, false: 1}[x.Failed()]
		}
		return cmp.Or(y.Began.Compare(x.Began), cmp.Compare(place[b.Instance], place[a.Instance]))
	})
	busy, gone := "", awayFrom{}
	for _, f := range rest {
		switch {
		case f.Busy != "":
			busy = cmp.Or(busy, f.Dir+": "+f.Busy)
		case f.Away != "" && !f.Found.Occupies():
			gone.add(f)
		case f.Found.Occupies() || places.take(f): // what waits in FAILED_TEMP has its place already
			out.Back = append(out.Back, f.Instance)
		}
	}
	if len(out.Back) > 0 && !d.r.Failures.RollbackAnytime {
		d.await(&out)
	}
	switch {
	case active+len(out.Back) > 0:
		out.Waits = fmt.Sprintf("the end of %s", operations(active+len(out.Back)))
	case out.Waits != "": // for its window
	case busy != "":
		out.Waits = "instances of which something else is under way (" + busy + ")"
	case gone.n > 0:
	default:
		out.Waits = "a place: all are taken by what waits for a person"
	}
	gone.tell(&out, d.now)
	return out, failed, done
}

// unbegun picks the instances with an attempt of which nothing has begun. Their commits can be taken back at any time:
// nothing runs, so that neither windows nor limits have a say.
func (d *decider) unbegun() (ids []string) {
	for _, f := range d.facts {
		if !f.Unbegun || f.Back || f.Stays != "" || !d.unended(f) {
			continue
		}
		list := d.l.Attempts[f.Instance]
		if a := list[len(list)-1]; a.Back || a.Target != d.target {
			continue
		}
		ids = append(ids, f.Instance)
	}

	return ids
}

// withdraws says what the commits of these instances wait for.
func withdraws(ids []string) string {
	return fmt.Sprintf("%s of which nothing has begun to be taken back", instances(len(ids)))
}

// returns says whether the instance is still to be taken back.
func (d *decider) returns(f Fact) bool {
	a := d.l.Of(f.Instance, d.target)
	switch {
	case a == nil || f.Back || f.Stays != "" || d.l.BackOf(f.Instance, d.target) != nil:
		return false
	case a.Outcome == desired.OutcomeFailed:
		return a.Tree != "" // else it was refused, and nothing was written
	}
	return a.Outcome == desired.OutcomeCompleted && d.r.Failures.Then == desired.ThenRollbackAll
}
