package plan_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/reconciler/plan"
)

// catalogue is every object that an instance in these tests may be made of, in
// the order of creation.
func catalogue() []plan.Object {
	return []plan.Object{
		{Key: "Namespace/amf", Wave: 0},
		{Key: "ConfigMap/amf/cfg", Wave: 1},
		{Key: "Deployment/amf/vdu1", Wave: 2},
		{Key: "Deployment/amf/vdu2", Wave: 2},
		{Key: "StatefulSet/amf/db", Wave: 2},
		{Key: "DaemonSet/amf/agent", Wave: 2},
		{Key: "Pod/amf/bare", Wave: 3},
	}
}

// drawDesired makes an intent; condemned may be anything that exists in o.
func drawDesired(t *rapid.T, o plan.Observed) plan.Desired {
	var d plan.Desired
	if rapid.IntRange(0, 4).Draw(t, "nothing desired") == 0 {
		return d
	}
	for _, x := range catalogue() {
		if !rapid.Bool().Draw(t, x.Key) {
			continue
		}
		x.Digest = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "digest")
		d.Objects = append(d.Objects, x)
		g := plan.Group{VDU: x.Key, Owner: x.Key}
		switch kindOf(x.Key) {
		case "Deployment", "StatefulSet":
			g.Count = rapid.IntRange(0, 3).Draw(t, "count")
		case "Pod":
			g.Count = 1
		case "DaemonSet":
			g.Free = true
		default:
			continue
		}
		d.Groups = append(d.Groups, g)
	}
	condemn := func(key, incarnation string) {
		if rapid.IntRange(0, 5).Draw(t, "condemn "+key) == 0 {
			if d.Condemned == nil {
				d.Condemned = map[string]string{}
			}
			d.Condemned[key] = incarnation
		}
	}
	for _, x := range o.Objects {
		condemn(x.Key, x.Incarnation)
	}
	for _, u := range o.Units {
		condemn(u.Key, u.ID)
	}
	return d
}

// sound checks what must hold of every plan, whatever it is made of.
func sound(t *rapid.T, d plan.Desired, o plan.Observed, j plan.Journal, steps []plan.Step) {
	t.Helper()
	again := plan.Observed{Objects: o.Objects, Units: slices.Clone(o.Units)}
	slices.Reverse(again.Units)
	if other := plan.Compute(d, again, j); !reflect.DeepEqual(steps, other) {
		t.Fatalf("the order of units changes the plan:\n%s\nand\n%s", render(steps), render(other))
	}
	keys := map[string]bool{}
	stage := 0
	for i, s := range steps {
		if keys[s.Key()] {
			t.Fatalf("key %q stands twice in the plan:\n%s", s.Key(), render(steps))
		}
		keys[s.Key()] = true
		if s.Stage != stage && s.Stage != stage+1 {
			t.Fatalf("stages don't count up by one:\n%s", render(steps))
		}
		stage = s.Stage
		wanted := slices.ContainsFunc(d.Objects, func(x plan.Object) bool { return x.Key == s.Object })
		condemned := s.Incarnation != "" && d.Condemned[s.Object] == s.Incarnation
		switch {
		case s.Action == plan.Grant && (i != 0 || j.Granted || j.Operation == ""):
			t.Fatalf("the grant isn't first, or isn't due:\n%s", render(steps))
		case s.Action == plan.Hook && j.Operation == "":
			t.Fatalf("a hook without an operation:\n%s", render(steps))
		case s.Action == plan.Delete && wanted && !condemned, s.Action == plan.DeleteUnit && !condemned:
			t.Fatalf("%s would delete what is desired:\n%s", s, render(steps))
		case (s.Action == plan.Delete || s.Action == plan.DeleteUnit) && s.Incarnation == "":
			t.Fatalf("%s names no incarnation:\n%s", s, render(steps))
		}
	}
	if j.Operation == "" && (len(steps) == 0) != (equal(d, o) == nil) {
		t.Fatalf("the plan says converged: %v; the reference says: %v\n%s", len(steps) == 0, equal(d, o), render(steps))
	}
}

// executor is the least that a reconciler can be: it carries out a prefix of the
// first batch and writes down what the VIM can't tell.
type executor struct {
	w   *world
	d   plan.Desired
	j   plan.Journal
	ran []string // hooks, in the order in which they ran
}

func (e *executor) step(t *rapid.T, o plan.Observed, s plan.Step) {
	start := plan.HookName(e.j.Operation, e.j.Rollback, "start")
	if s.Action != plan.Grant && s.Action != plan.Wait && !e.j.Granted {
		t.Fatalf("%s is carried out before the grant", s)
	}
	if s.Action != plan.Grant && s.Action != plan.Wait && s.Action != plan.Hook {
		if start != "" && !slices.Contains(e.ran, start) {
			t.Fatalf("%s is carried out before the preamble", s)
		}
		e.j.Issued = append(e.j.Issued, s.Key())
	}
	switch s.Action {
	case plan.Grant:
		e.j.Granted = true
	case plan.Hook:
		if s.Object != start {
			if err := equal(e.d, o); err != nil {
				t.Fatalf("the postamble runs although %v", err)
			}
		}
		e.ran = append(e.ran, s.Object)
		e.j.Hooks = append(e.j.Hooks, s.Object)
	case plan.Delete:
		if e.d.Condemned[s.Object] != s.Incarnation {
			if err := ready(e.d, o); err != nil {
				t.Fatalf("%s is pruned although %v", s.Object, err)
			}
		}
		e.w.do(s, e.d)
	default:
		e.w.do(s, e.d)
	}
}

// round observes or takes a stale view, plans, and carries out as many steps of
// the first batch as it gets to before it crashes.
func (e *executor) round(t *rapid.T, o plan.Observed) {
	steps := plan.Compute(e.d, o, e.j)
	sound(t, e.d, o, e.j, steps)
	batch := plan.Next(steps)
	crash := rapid.IntRange(0, 2*len(batch)+1).Draw(t, "crash after")
	for i, s := range batch {
		if i == crash {
			return
		}
		e.step(t, o, s)
	}
}

// finish carries plans out, undisturbed, until nothing is left to do.
func (e *executor) finish(t *rapid.T) {
	for range 60 {
		for moves := e.w.moves(); len(moves) > 0; moves = e.w.moves() {
			moves[0]()
		}
		o := e.w.observe(t)
		steps := plan.Compute(e.d, o, e.j)
		sound(t, e.d, o, e.j, steps)
		if len(steps) == 0 {
			if err := equal(e.d, o); err != nil {
				t.Fatalf("converged although %v", err)
			}
			return
		}
		for _, s := range plan.Next(steps) {
			e.step(t, o, s)
		}
	}
	t.Fatalf("still not converged; left to do:\n%s", render(plan.Compute(e.d, e.w.observe(t), e.j)))
}

// TestEveryOperationConvergesThroughCrashesAndFaults runs operation after
// operation on one instance. Processes crash between any two steps, views are
// stale, pods come and go, people meddle. Once that stops, every operation must
// come to its right end.
func TestEveryOperationConvergesThroughCrashesAndFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{nodes: 2}
		views := []plan.Observed{w.observe(t)}
		for n := range rapid.IntRange(1, 3).Draw(t, "operations") {
			e := &executor{w: w, d: drawDesired(t, w.observe(t))}
			e.j.Operation = rapid.SampledFrom([]string{"INSTANTIATE", "SCALE", "HEAL", "TERMINATE", "OTHER"}).Draw(t, fmt.Sprint("operation ", n))
			e.j.Rollback = rapid.Bool().Draw(t, "rollback")
			for range rapid.IntRange(0, 25).Draw(t, "rounds") {
				switch rapid.SampledFrom([]string{"act", "act on a stale view", "happen", "happen", "happen", "fault"}).Draw(t, "next") {
				case "act":
					views = append(views, w.observe(t))
					e.round(t, views[len(views)-1])
				case "act on a stale view":
					e.round(t, views[rapid.IntRange(max(0, len(views)-4), len(views)-1).Draw(t, "view")])
				case "happen":
					if moves := w.moves(); len(moves) > 0 {
						moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]()
					}
				case "fault":
					w.fault(t)
				}
			}
			e.finish(t)
			var due []string
			for _, side := range []string{"start", "end"} {
				if name := plan.HookName(e.j.Operation, e.j.Rollback, side); name != "" {
					due = append(due, name)
				}
			}
			if !slices.Equal(e.ran, due) {
				t.Fatalf("hooks ran: %v; due were %v", e.ran, due)
			}
			// At rest again, the same intent needs nothing, with no operation open.
			if left := plan.Compute(e.d, w.observe(t), plan.Journal{}); len(left) > 0 {
				t.Fatalf("at rest after the operation, yet:\n%s", render(left))
			}
		}
	})
}

// TestPlansOfAnyViewAreSound feeds Compute with views that no history led to.
func TestPlansOfAnyViewAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{nodes: 1}
		for _, x := range catalogue() {
			if rapid.Bool().Draw(t, "exists "+x.Key) {
				w.objects = append(w.objects, &thing{
					key: x.Key, inc: w.incarnation(), count: -1, retention: retentionOf(x.Key),
					digest:   rapid.SampledFrom([]string{"a", "b"}).Draw(t, "stands"),
					ready:    rapid.Bool().Draw(t, "ready"),
					deleting: rapid.IntRange(0, 4).Draw(t, "deleting") == 0,
				})
				last := w.objects[len(w.objects)-1]
				if k := kindOf(x.Key); k == "Deployment" || k == "StatefulSet" {
					last.count = rapid.IntRange(0, 3).Draw(t, "asks for")
				}
				for range rapid.IntRange(0, 3).Draw(t, "units") {
					w.spawn(last)
				}
			}
		}
		for _, u := range w.units {
			u.ready = rapid.Bool().Draw(t, "unit ready")
			u.deleting = rapid.IntRange(0, 3).Draw(t, "unit deleting") == 0
		}
		o := w.observe(t)
		for i := range o.Objects {
			if rapid.Bool().Draw(t, "fails") {
				o.Objects[i].Failure = "given up"
			}
		}
		d := drawDesired(t, o)
		j := plan.Journal{
			Operation: rapid.SampledFrom([]string{"", "SCALE", "OTHER"}).Draw(t, "operation"),
			Granted:   rapid.Bool().Draw(t, "granted"),
			Rollback:  rapid.Bool().Draw(t, "rollback"),
		}
		issued := map[string]bool{}
		for _, x := range catalogue() {
			if issued[x.Key] = rapid.Bool().Draw(t, "issued"); issued[x.Key] {
				j.Issued = append(j.Issued, plan.Step{Action: plan.Apply, Object: x.Key}.Key())
			}
		}
		wasObjects, wasUnits, wasCondemned := slices.Clone(o.Objects), slices.Clone(o.Units), maps.Clone(d.Condemned)
		steps := plan.Compute(d, o, j)
		sound(t, d, o, j, steps)
		for _, s := range steps {
			if s.Failure != "" && (s.Action != plan.Wait || !issued[s.Object]) {
				t.Fatalf("%s fails by what this attempt didn't cause:\n%s", s, render(steps))
			}
		}
		if !slices.Equal(o.Objects, wasObjects) || !reflect.DeepEqual(o.Units, wasUnits) || !maps.Equal(d.Condemned, wasCondemned) {
			t.Fatal("Compute changed what it was given")
		}
	})
}
