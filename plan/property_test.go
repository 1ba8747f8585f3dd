package plan_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/plan"
)

// claim is the one that the package itself lists.
const claim = "PersistentVolumeClaim/amf/data"

// catalogue is every object that an instance in these tests may be made of, in
// the order of creation.
func catalogue() []plan.Object {
	return []plan.Object{
		{Key: "Namespace/amf", Wave: 0},
		{Key: "ConfigMap/amf/cfg", Wave: 1},
		{Key: claim, Wave: 1},
		{Key: "Service/amf/svc", Wave: 1},
		{Key: "Deployment/amf/vdu1", Wave: 2},
		{Key: "Deployment/amf/vdu2", Wave: 2},
		{Key: "StatefulSet/amf/db", Wave: 2},
		{Key: "DaemonSet/amf/agent", Wave: 2},
		{Key: "Pod/amf/bare", Wave: 3},
	}
}

// drawDesired makes an intent. It may heal anything that exists in o: chosen
// incarnations or all of the VNF; tombstones of before may stand in it still.
func drawDesired(t *rapid.T, o plan.Observed, before plan.Desired) plan.Desired {
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
	if rapid.Bool().Draw(t, "tombstones stay") {
		d.Condemned = maps.Clone(before.Condemned)
	}
	heal := rapid.SampledFrom([]string{"nothing", "nothing", "some", "units", "whole", "whole with data"}).Draw(t, "heal")
	condemn := func(key, incarnation string) {
		if d.Condemned == nil {
			d.Condemned = map[string]string{}
		}
		d.Condemned[key] = incarnation
	}
	for _, x := range o.Objects {
		whole := !x.Deleting && (x.Retention == plan.RetainNot && (heal == "whole" || heal == "whole with data") ||
			x.Retention == plan.RetainData && heal == "whole with data")
		if whole || heal == "some" && rapid.IntRange(0, 5).Draw(t, "condemn "+x.Key) == 0 {
			condemn(x.Key, x.Incarnation)
		}
	}
	for _, u := range o.Units {
		if (heal == "some" || heal == "units") && rapid.IntRange(0, 2).Draw(t, "condemn "+u.Key) == 0 {
			condemn(u.Key, u.ID)
		}
	}
	return d
}

// passes checks that what is left of a plan, when the VIM shows nothing of its head, is what
// would be computed then.
func passes(t *rapid.T, d plan.Desired, o plan.Observed, j plan.Journal, steps []plan.Step) {
	t.Helper()
	for len(steps) > 0 && slices.Contains([]plan.Action{plan.Grant, plan.Hook, plan.Drain}, steps[0].Action) {
		head := steps[0]
		j, steps = j.Pass(steps)
		again := plan.Compute(d, o, j)
		first := 0
		if len(steps) > 0 {
			first = steps[0].Stage
		}
		for i := range again {
			again[i].Stage += first
		}
		if len(again) != len(steps) || len(steps) > 0 && !reflect.DeepEqual(again, steps) {
			t.Fatalf("after %s, left is\n%s\nand computed is\n%s", head, render(steps), render(again))
		}
	}
}

// sound checks what must hold of every plan, whatever it is made of.
func sound(t *rapid.T, d plan.Desired, o plan.Observed, j plan.Journal, steps []plan.Step) {
	t.Helper()
	again := plan.Observed{Objects: o.Objects, Units: slices.Clone(o.Units)}
	slices.Reverse(again.Units)
	if other := plan.Compute(d, again, j); !reflect.DeepEqual(steps, other) {
		t.Fatalf("the order of units changes the plan:\n%s\nand\n%s", render(steps), render(other))
	}
	passes(t, d, o, j, steps)
	keys := map[plan.StepKey]bool{}
	stage := 0
	for i, s := range steps {
		if keys[s.Key()] && s.Action != plan.Wait { // one may be waited for between renewals
			t.Fatalf("key %q stands twice in the plan:\n%s", s.Key(), render(steps))
		}
		keys[s.Key()] = true
		if s.Stage != stage && s.Stage != stage+1 {
			t.Fatalf("stages don't count up by one:\n%s", render(steps))
		}
		stage = s.Stage
		wanted := wants(d, s.Object)
		condemned := s.Incarnation != "" && d.Condemned[s.Object] == s.Incarnation
		switch {
		case s.Action == plan.Grant && (i != 0 || j.Granted || j.Operation == ""):
			t.Fatalf("the grant isn't first, or isn't due:\n%s", render(steps))
		case s.Action == plan.Hook && j.Operation == "":
			t.Fatalf("a hook without an operation:\n%s", render(steps))
		case s.Action == plan.Delete && wanted && !condemned && !dead(o, s), s.Action == plan.DeleteUnit && !condemned && !outdated(o, s):
			t.Fatalf("%s would delete what is desired:\n%s", s, render(steps))
		case (s.Action == plan.Delete || s.Action == plan.DeleteUnit) && s.Incarnation == "":
			t.Fatalf("%s names no incarnation:\n%s", s, render(steps))
		}
	}
	if j.Operation == "" && (len(steps) == 0) != (equal(d, o) == nil) {
		t.Fatalf("the plan says converged: %v; the reference says: %v\n%s", len(steps) == 0, equal(d, o), render(steps))
	}
}

// outdated says whether the step acts on a unit that its owner leaves as it was.
func outdated(o plan.Observed, s plan.Step) bool {
	return slices.ContainsFunc(o.Units, func(u plan.Unit) bool {
		return u.Key == s.Object && u.ID == s.Incarnation && u.Outdated != ""
	})
}

// dead says whether the step acts on an incarnation that will never run again, or
// never as it should.
func dead(o plan.Observed, s plan.Step) bool {
	return slices.ContainsFunc(o.Objects, func(x plan.ObservedObject) bool {
		return x.Key == s.Object && x.Incarnation == s.Incarnation && (x.Dead != "" || x.Outgrown != "")
	})
}

func wants(d plan.Desired, key string) bool {
	return slices.ContainsFunc(d.Objects, func(x plan.Object) bool { return x.Key == key })
}

// TestEveryOperationConvergesThroughCrashesAndMeddling runs operation after
// operation on one instance, and heals among them. Processes crash between any
// two steps, views are stale, operations take the place of unfinished ones, pods
// come and go, people meddle. Once that stops, every operation must come to its
// right end.
func TestEveryOperationConvergesThroughCrashesAndMeddling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &story{w: &world{nodes: 2}, noted: map[string]bool{}, owed: map[string]string{}}
		var d plan.Desired
		for range rapid.IntRange(1, 3).Draw(t, "operations") {
			d = drawDesired(t, s.w.observe(t), d)
			e := s.begin(t, d, nil)
			for range rapid.IntRange(0, 25).Draw(t, "rounds") {
				switch rapid.SampledFrom([]string{"act", "act", "act on a stale view", "happen", "happen", "happen", "meddle", "supersede"}).Draw(t, "next") {
				case "act":
					e.round(t, s.look(t), true)
				case "act on a stale view":
					e.round(t, s.views[rapid.IntRange(e.oldest(), len(s.views)-1).Draw(t, "view")], false)
				case "happen":
					s.happen(t)
				case "meddle":
					s.w.meddle(t)
				case "supersede":
					if rapid.Bool().Draw(t, "a wholly new intent") {
						d = drawDesired(t, s.w.observe(t), d)
					}
					e = s.begin(t, d, e)
				}
			}
			for !e.finish(t) {
				// It failed, as somebody else had replaced what it should heal. The
				// next intent has no spent tombstones and comes through.
				d.Condemned = s.w.observe(t).Unspent(d.Condemned)
				e = s.begin(t, d, e)
			}
			var due []string
			for _, side := range []string{"start", "end"} {
				if name := plan.HookName(e.j.Operation, e.j.Rollback, side); name != "" {
					due = append(due, name)
				}
			}
			if !slices.Equal(e.ran, due) {
				t.Fatalf("hooks ran: %v; due were %v", e.ran, due)
			}
			s.rest(t, d)
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
				last.dead = kindOf(x.Key) == "Pod" && !last.ready
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
		d := drawDesired(t, o, plan.Desired{Condemned: map[string]string{"Pod/amf/long-gone": "u0"}})
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
		for _, key := range slices.Sorted(maps.Keys(d.Condemned)) {
			if incarnation := d.Condemned[key]; rapid.Bool().Draw(t, "target "+key) {
				j.Targets = append(j.Targets, plan.TargetOf(key, incarnation))
			}
		}
		wasObjects, wasUnits, wasCondemned := slices.Clone(o.Objects), slices.Clone(o.Units), maps.Clone(d.Condemned)
		steps := plan.Compute(d, o, j)
		sound(t, d, o, j, steps)
		for _, s := range steps {
			target := slices.Contains(j.Targets, plan.TargetOf(s.Object, s.Incarnation)) && !o.Has(s.Object, s.Incarnation)
			if s.Failure != "" && (s.Action != plan.Wait || !issued[s.Object] && !target) {
				t.Fatalf("%s fails by what this attempt didn't cause:\n%s", s, render(steps))
			}
		}
		if !reflect.DeepEqual(o.Objects, wasObjects) || !reflect.DeepEqual(o.Units, wasUnits) || !maps.Equal(d.Condemned, wasCondemned) {
			t.Fatal("Compute changed what it was given")
		}
	})
}
