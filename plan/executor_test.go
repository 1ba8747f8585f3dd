package plan_test

import (
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/plan"
)

// story is what happens to one instance: operations one after the other at one
// VIM, and what must be remembered of them to judge the next step.
type story struct {
	w     *world
	views []plan.Observed
	// noted are the incarnations whose deletion was ever written down to be done.
	noted map[string]bool
	// owed are the addresses that the next Service of the key must take over.
	owed map[string]string
}

// look is a view of what is there now.
func (s *story) look(t *rapid.T) plan.Observed {
	s.views = append(s.views, s.w.observe(t))
	return s.views[len(s.views)-1]
}

// happen lets one thing happen by itself.
func (s *story) happen(t *rapid.T) {
	if moves := s.w.moves(); len(moves) > 0 {
		moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]()
	}
}

// settle lets everything happen that happens by itself.
func (s *story) settle() {
	s.w.release()
	for moves := s.w.moves(); len(moves) > 0; moves = s.w.moves() {
		moves[0]()
	}
}

// executor is the least that a reconciler can be: it carries out a prefix of the
// first batch and writes down what the VIM can't tell, before it does it.
type executor struct {
	*story
	d     plan.Desired
	j     plan.Journal
	ran   []string // hooks, in the order in which they ran
	aimed bool
	first int // the view that it began with
}

// begin is an operation that brings d about; unfinished is the one whose place it
// takes, or nil. A request aims when it is made, a push when it is looked at.
func (s *story) begin(t *rapid.T, d plan.Desired, unfinished *executor) *executor {
	e := &executor{story: s, d: d, first: len(s.views)}
	e.j.Operation = rapid.SampledFrom([]string{"INSTANTIATE", "SCALE", "HEAL", "TERMINATE", "OTHER"}).Draw(t, "operation")
	e.j.Rollback = rapid.Bool().Draw(t, "rollback")
	if unfinished != nil {
		e.j = e.j.Inherit(unfinished.j)
	} else {
		clear(s.owed)
	}
	o := s.look(t)
	if rapid.Bool().Draw(t, "asked for by a request") {
		e.aim(o)
	}
	return e
}

func (e *executor) aim(o plan.Observed) {
	if !e.aimed {
		e.j = e.j.Aim(e.d, o)
		e.j.Known = slices.Clone(o.Units)
		e.aimed = true
		for _, x := range o.Objects {
			if x.Keep != "" && e.d.Condemned[x.Key] == x.Incarnation && wants(e.d, x.Key) {
				e.owed[x.Key] = x.Keep
			}
		}
	}
}

// oldest is the oldest view that a stale cache may still show. A cache never goes
// back behind what a heal was made of.
func (e *executor) oldest() int {
	if len(e.d.Condemned) > 0 {
		return e.first
	}
	return max(0, len(e.views)-4)
}

// round takes a view, plans, and carries out as much of the first batch as it
// gets to before it crashes.
func (e *executor) round(t *rapid.T, o plan.Observed, fresh bool) {
	if !e.aimed {
		if !fresh {
			return
		}
		e.aim(o)
	}
	batch, failed := e.next(t, o)
	if failed {
		return // it is up to a person now
	}
	if fresh {
		e.mustTell(t, batch)
	}
	crash := rapid.IntRange(-1, 2*len(batch)+1).Draw(t, "crash after")
	if crash < 0 {
		return
	}
	e.note(batch)
	for i, s := range batch {
		if i == crash {
			return
		}
		e.step(t, o, s)
	}
}

// next plans, and judges the plan. failed says that waiting is in vain.
func (e *executor) next(t *rapid.T, o plan.Observed) (batch []plan.Step, failed bool) {
	steps := plan.Compute(e.d, o, e.j)
	sound(t, e.d, o, e.j, steps)
	batch = plan.Next(steps)
	for _, s := range batch {
		if s.Failure == "" {
			continue
		}
		failed = true
		if strings.Contains(s.Failure, "was replaced") {
			if e.w.alive(s.Incarnation) || !e.w.taken[s.Incarnation] || e.noted[s.Incarnation] && slices.ContainsFunc(e.j.Issued, func(k plan.StepKey) bool { return strings.Contains(string(k), "@"+s.Incarnation) }) {
				t.Fatalf("nobody but this operation replaced %s:\n%s", s.Incarnation, render(steps))
			}
		} else if !slices.ContainsFunc(o.Objects, func(x plan.ObservedObject) bool { return x.Key == s.Object && x.Dead != "" }) {
			t.Fatalf("%s fails and nothing of it is dead:\n%s", s.Object, render(steps))
		}
	}
	if failed && slices.ContainsFunc(batch, func(s plan.Step) bool { return s.Action != plan.Wait }) {
		t.Fatalf("something is done beside a failure:\n%s", render(steps))
	}
	return batch, failed
}

// mustTell checks that a target that was replaced stops the operation: not one that is gone with all
// that could have replaced it.
func (e *executor) mustTell(t *rapid.T, batch []plan.Step) {
	if len(batch) > 0 && (batch[0].Action == plan.Grant || batch[0].Action == plan.Hook) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(e.d.Condemned)) {
		if slices.Contains(e.j.Targets, plan.TargetOf(key, e.d.Condemned[key])) && !e.w.alive(e.d.Condemned[key]) && !e.toMake(key) {
			t.Fatalf("%s was replaced and the plan doesn't tell:\n%s", key, render(batch))
		}
	}
}

// toMake says whether nothing of what makes the condemned incarnation of the key is there, and the plan makes it.
func (e *executor) toMake(key string) bool {
	maker := key
	for _, u := range e.j.Known {
		if u.Key == key && u.ID == e.d.Condemned[key] {
			maker = u.Owner
		}
	}
	return wants(e.d, maker) && e.w.find(maker) == nil
}

// note makes it durable that the batch is about to be done.
func (e *executor) note(batch []plan.Step) {
	var durable []plan.Step
	for _, s := range batch {
		if s.Action == plan.Grant || s.Action == plan.Hook {
			continue
		}
		durable = append(durable, s)
		if s.Action == plan.Delete || s.Action == plan.DeleteUnit {
			e.noted[s.Incarnation] = true
		}
	}
	e.j, _ = e.j.Issue(durable)
}

func (e *executor) step(t *rapid.T, o plan.Observed, s plan.Step) {
	start := plan.HookName(e.j.Operation, e.j.Rollback, "start")
	if s.Action != plan.Grant && s.Action != plan.Wait && !e.j.Granted {
		t.Fatalf("%s is carried out before the grant", s)
	}
	if s.Action != plan.Grant && s.Action != plan.Wait && s.Action != plan.Hook && start != "" && !slices.Contains(e.ran, start) {
		t.Fatalf("%s is carried out before the preamble", s)
	}
	switch s.Action {
	case plan.Grant:
		e.j.Granted = true
		return
	case plan.Hook:
		if s.Object != start {
			if err := equal(e.d, o); err != nil {
				t.Fatalf("the postamble runs although %v", err)
			}
		}
		e.ran = append(e.ran, s.Object)
		e.j.Hooks = append(e.j.Hooks, s.Object)
		return
	case plan.Delete:
		if e.d.Condemned[s.Object] != s.Incarnation && !(wants(e.d, s.Object) && dead(o, s)) {
			if err := ready(e.d, o); err != nil {
				t.Fatalf("%s is pruned although %v", s.Object, err)
			}
			e.noneCondemned(t, s)
		}
		e.mayDelete(t, s)
	case plan.DeleteUnit:
		if e.w.alive(s.Incarnation) && e.d.Condemned[s.Object] != s.Incarnation {
			t.Fatalf("unit %s is deleted and isn't condemned", s)
		}
	case plan.Apply, plan.Scale:
		e.noneCondemned(t, s)
		if address, ok := e.owed[s.Object]; ok && s.Action == plan.Apply && e.w.find(s.Object) == nil {
			if s.Keep != address {
				t.Fatalf("%s is made anew with %q, its predecessor had %q", s.Object, s.Keep, address)
			}
			delete(e.owed, s.Object)
		}
	}
	e.w.do(s, e.d)
}

// mayDelete judges the deletion of an object by what it would hit.
func (e *executor) mayDelete(t *rapid.T, s plan.Step) {
	x := e.w.find(s.Object)
	if x == nil || x.inc != s.Incarnation {
		return
	}
	wanted := wants(e.d, x.key)
	kept := x.retention == plan.RetainAlways || x.retention == plan.RetainWithInstance && len(e.d.Objects) > 0
	if e.d.Condemned[x.key] != x.inc && !x.dead && (wanted || kept) {
		t.Fatalf("%s is neither condemned nor dead nor superfluous, and is deleted", x.key)
	}
	if wanted && x.keep != "" && !x.deleting {
		e.owed[x.key] = x.keep
	}
}

// noneCondemned checks that all that is condemned is gone before anything else is done.
func (e *executor) noneCondemned(t *rapid.T, s plan.Step) {
	for key, incarnation := range e.d.Condemned {
		if e.w.alive(incarnation) {
			t.Fatalf("%s while %s (%s) is condemned and still there", s, key, incarnation)
		}
	}
}

// finish carries plans out, undisturbed, until nothing is left to do. It answers
// false where the operation can't be finished because a target was replaced. What
// died again is retried, as a reconciler would after a pause.
func (e *executor) finish(t *rapid.T) bool {
	for range 60 {
		e.settle()
		o := e.look(t)
		e.aim(o)
		batch, failed := e.next(t, o)
		if failed {
			if slices.ContainsFunc(batch, func(s plan.Step) bool { return strings.Contains(s.Failure, "was replaced") }) {
				return false
			}
			e.j.Issued = nil
			continue
		}
		e.mustTell(t, batch)
		if len(batch) == 0 {
			if err := equal(e.d, o); err != nil {
				t.Fatalf("converged although %v", err)
			}
			return true
		}
		e.note(batch)
		for _, s := range batch {
			e.step(t, o, s)
		}
	}
	t.Fatalf("still not converged; left to do:\n%s", render(plan.Compute(e.d, e.w.observe(t), e.j)))
	return false
}

// rest sees that nothing is left to do with no operation open, whatever becomes
// of the tombstones, and that what people do then is found and mended.
func (s *story) rest(t *rapid.T, d plan.Desired) {
	without := d
	without.Condemned = nil
	for _, again := range []plan.Desired{d, without, d} {
		if left := plan.Compute(again, s.w.observe(t), plan.Journal{}); len(left) > 0 {
			t.Fatalf("at rest after the operation, yet:\n%s", render(left))
		}
	}
	drifts := rapid.IntRange(0, 4).Draw(t, "drifts")
	for range drifts {
		s.w.meddle(t)
		for range rapid.IntRange(0, 3).Draw(t, "moves") {
			s.happen(t)
		}
		o := s.w.observe(t)
		sound(t, d, o, plan.Journal{}, plan.Compute(d, o, plan.Journal{}))
	}
	s.settle()
	o := s.look(t)
	drift := plan.Compute(d, o, plan.Journal{})
	sound(t, d, o, plan.Journal{}, drift)
	if len(drift) == 0 {
		return
	}
	if first := plan.Next(drift)[0]; first.Action == plan.Wait {
		t.Fatalf("nothing moves, and nobody mends it:\n%s", render(drift))
	}
	e := s.begin(t, d, nil)
	e.j.Operation, e.j.Rollback = "HEAL", false
	if !e.finish(t) {
		t.Fatal("a repair has no targets that could be replaced")
	}
}
