package plan_test

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/plan"
)

// drawRelease is what a package makes of an instance in the generation. Its workloads
// may have other names than those of another release, some may be missing, and it may
// be broken.
func drawRelease(t *rapid.T, version, generation string) plan.Desired {
	d := plan.Desired{
		Generation:    generation,
		CoordinateNew: rapid.Bool().Draw(t, "coordinate new"),
		CoordinateOld: rapid.Bool().Draw(t, "coordinate old"),
		Drain:         rapid.Bool().Draw(t, "drain"),
	}
	suffix := ""
	if generation != "0" {
		suffix = "-" + generation
	}
	worse := ""
	if rapid.IntRange(0, 5).Draw(t, "broken") == 0 {
		worse = broken
	}
	workload := func(key string, wave int, g plan.Group) {
		d.Objects = append(d.Objects, plan.Object{Key: key + suffix, Wave: wave, Digest: version + worse})
		g.VDU, g.Owner = vduOf(key), key+suffix
		d.Groups = append(d.Groups, g)
	}
	count := func() int { return rapid.IntRange(1, 3).Draw(t, "count") }
	d.Objects = append(d.Objects,
		plan.Object{Key: "Namespace/amf", Digest: "namespace"},
		plan.Object{Key: "ConfigMap/amf/cfg" + suffix, Wave: 1, Digest: version})
	if rapid.IntRange(0, 3).Draw(t, "service") > 0 {
		d.Objects = append(d.Objects, plan.Object{Key: "Service/amf/svc", Wave: 1, Digest: "to " + generation, Directs: true})
	}
	if rapid.Bool().Draw(t, "another service") {
		d.Objects = append(d.Objects, plan.Object{Key: "Service/amf/extra", Wave: 1, Digest: version + " to " + generation, Directs: true})
	}
	web := rapid.SampledFrom([]string{"Deployment/amf/web", "Deployment/amf/web-renamed"}).Draw(t, "name")
	workload(web, 2, plan.Group{Count: count()})
	if rapid.Bool().Draw(t, "autoscaled") {
		workload("Deployment/amf/auto", 2, plan.Group{Free: true})
	}
	if rapid.Bool().Draw(t, "replica set") {
		workload("ReplicaSet/amf/set", 2, plan.Group{Count: count()})
	}
	if rapid.IntRange(0, 2).Draw(t, "bare pod") == 0 {
		workload("Pod/amf/bare", 3, plan.Group{Count: 1})
	}
	return d
}

// healthy is the digest of what isn't broken.
func healthy(digest string) string { return strings.TrimSuffix(digest, broken) }

// change is an operation that changes the package, and may be rolled back.
type change struct {
	w        *world
	from, to plan.Desired
	j        plan.Journal
	views    []plan.Observed
	floor    int // the oldest view that a cache may still show
	ran      []string
	// before are the incarnations of what stood when it began.
	before map[string]string
	// pruned says that a step that deletes what stood before was carried out.
	pruned bool
	// crashed and rough say that a process crashed, and that units failed by themselves.
	crashed, rough bool
}

func beginChange(t *rapid.T, w *world, from, to plan.Desired) *change {
	c := &change{w: w, from: from, to: to, before: map[string]string{}}
	c.j.Operation = "CHANGE_VNFPKG"
	for _, x := range w.objects {
		c.before[x.key] = x.inc
	}
	o := c.look(t)
	c.j = c.j.Aim(to, o)
	c.j.Known = slices.Clone(o.Units)
	return c
}

func (c *change) desired() plan.Desired {
	if c.j.Rollback {
		d := c.from
		d.CoordinateNew, d.CoordinateOld, d.Drain = c.to.CoordinateNew, c.to.CoordinateOld, c.to.Drain
		return d
	}
	return c.to
}

// look is a view of what is there now.
func (c *change) look(t *rapid.T) plan.Observed {
	c.views = append(c.views, c.w.observe(t))
	return c.views[len(c.views)-1]
}

// against is the view as a driver gives it for what is desired: it tells of a bare
// pod that can't be brought to it, and of a Service that only a mark keeps from it.
func against(o plan.Observed, d plan.Desired) plan.Observed {
	o.Objects = slices.Clone(o.Objects)
	for i := range o.Objects {
		x := &o.Objects[i]
		for _, want := range d.Objects {
			if want.Key == x.Key && kindOf(x.Key) == "Pod" && want.Digest != x.Digest {
				x.Outgrown = "its volumes changed"
			}
			x.Marked = x.Marked || want.Key == x.Key && marked(x.Digest) && x.Digest != want.Digest && !strings.HasSuffix(x.Digest, "to "+d.Generation)
		}
	}
	return o
}

// marked says whether a Service with the digest leads to a generation by its mark: neither a
// script nor a step that lets it switch the Service has been there.
func marked(digest string) bool { return strings.Contains(digest, "to ") }

// act plans by the view and carries out a part of the first batch; it answers how
// many steps the plan has, and whether it says that waiting is in vain.
func (c *change) act(t *rapid.T, o plan.Observed, mayCrash bool) (left int, failed bool) {
	d := c.desired()
	o = against(o, d)
	steps := plan.Compute(d, o, c.j)
	sound(t, d, o, c.j, steps)
	batch := plan.Next(steps)
	if i := slices.IndexFunc(batch, func(s plan.Step) bool { return s.Failure != "" }); i >= 0 {
		if strings.Contains(batch[i].Failure, "was replaced") && c.blueGreen() {
			t.Fatalf("a tombstone of a generation that goes as a whole is minded: %s", batch[i])
		}
		return len(steps), true
	}
	crash := len(batch) + 1
	if mayCrash {
		crash = rapid.IntRange(-1, 2*len(batch)+1).Draw(t, "crash after")
	}
	if crash < 0 {
		c.crash()
		return len(steps), false
	}
	c.j, _ = c.j.Issue(batch)
	for i, s := range batch {
		if i == crash {
			c.crash()
			break
		}
		c.step(t, d, o, s)
	}
	return len(steps), false
}

// crash is the end of a process: the next one's cache begins with what there is then.
func (c *change) crash() {
	c.crashed, c.floor = true, len(c.views)
}

func (c *change) step(t *rapid.T, d plan.Desired, o plan.Observed, s plan.Step) {
	switch s.Action {
	case plan.Grant:
		c.j.Granted = true
		return
	case plan.Hook, plan.Drain:
		c.hook(t, d, o, s)
		return
	case plan.Apply:
		if s.Directs {
			if err := ready(workloads(d), o); err != nil {
				t.Fatalf("%s although %v", s, err)
			}
		}
		if x := c.w.find(s.Object); kindOf(s.Object) == "Service" && x != nil && x.leads != d.Generation && !s.Directs {
			t.Fatalf("%s switches traffic to another generation and doesn't say so", s)
		}
		c.inherits(t, d, o, s)
	case plan.Delete:
		c.mayGo(t, d, o, s)
	case plan.DeleteUnit:
		c.mayRenew(t, d, o, s)
	}
	c.w.do(s, d)
}

// workloads is what is desired but for what directs traffic.
func workloads(d plan.Desired) plan.Desired {
	d.Objects = slices.DeleteFunc(slices.Clone(d.Objects), func(x plan.Object) bool { return x.Directs })
	return d
}

// hook runs a program. That of the new VNF may switch Services by itself, and that
// of the old VNF back.
func (c *change) hook(t *rapid.T, d plan.Desired, o plan.Observed, s plan.Step) {
	c.ran = append(c.ran, s.Object)
	must := plan.Desired{}
	switch s.Object {
	case plan.CoordinateNew, plan.CoordinateRollback:
		must = workloads(d)
	case plan.CoordinateOld, "drain", "drain_rollback":
		must = d
	}
	if err := ready(must, o); err != nil {
		t.Fatalf("%s although %v", s, err)
	}
	switch s.Object {
	case plan.CoordinateRollback:
		if !slices.Contains(c.j.Begun, plan.CoordinateNew) && !slices.Contains(c.j.Begun, plan.CoordinateOld) {
			t.Fatalf("%s although no script was begun", s)
		}
	case "drain", "drain_rollback":
		if !c.j.Redirected {
			t.Fatalf("%s although no traffic was switched", s)
		}
		for _, x := range c.w.objects {
			if wants(d, x.key) && x.leads != "" && x.leads != d.Generation {
				t.Fatalf("%s although %s directs traffic to generation %s", s, x.key, x.leads)
			}
		}
	}
	c.j.Begun = append(c.j.Begun, s.Object)
	if s.Object == plan.CoordinateNew && !c.j.Rollback && rapid.Bool().Draw(t, "the script switches traffic") {
		if x := c.w.find("Service/amf/svc"); x != nil {
			seen := slices.ContainsFunc(o.Objects, func(y plan.ObservedObject) bool { return y.Key == x.key && y.Digest == x.digest })
			if seen && wants(d, x.key) && marked(x.digest) && x.leads != d.Generation {
				t.Fatalf("%s switches %s, whose mark still leads to generation %s, to no unit at all", s, x.key, x.leads)
			}
			x.leads, x.digest, x.ready = d.Generation, "by the script", false
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "the script is cut short") == 0 && s.Action == plan.Hook {
		c.crash()
		return
	}
	c.j.Hooks = append(c.j.Hooks, s.Object)
}

// inherits judges what a new autoscaled workload takes over.
func (c *change) inherits(t *rapid.T, d plan.Desired, o plan.Observed, s plan.Step) {
	free := slices.ContainsFunc(d.Groups, func(g plan.Group) bool { return g.Owner == s.Object && g.Free })
	if !free || s.Reason != "new" || s.Keep != "" {
		return
	}
	for _, u := range o.Units {
		if u.VDU == vduOf(s.Object) && u.Owner != s.Object && c.w.find(u.Owner) != nil {
			t.Fatalf("%s begins from nothing although %s has units", s, u.Owner)
		}
	}
}

// mayGo judges the deletion of an object by what is true.
func (c *change) mayGo(t *rapid.T, d plan.Desired, o plan.Observed, s plan.Step) {
	x := c.w.find(s.Object)
	if x == nil || x.inc != s.Incarnation || x.deleting {
		return
	}
	if c.before[x.key] == x.inc {
		c.pruned = true
	}
	if x.generation == d.Generation && (wants(d, x.key) || d.Condemned[x.key] == x.inc) {
		return // made anew, or what a person wants to go at once
	}
	for _, service := range c.w.objects {
		if wants(d, service.key) && !service.deleting && service.leads != "" && service.leads == x.generation && x.generation != d.Generation {
			t.Fatalf("%s while %s directs traffic to generation %s", s, service.key, x.generation)
		}
	}
	untouched := c.j.Rollback && !c.j.Redirected && !c.pruned
	if err := ready(d, o); err != nil && !untouched {
		t.Fatalf("%s although %v", s, err)
	}
	if x.generation == "" || x.generation == d.Generation {
		return
	}
	for _, name := range c.hooksBeforeTheEnd(d) {
		if !slices.Contains(c.j.Hooks, name) {
			t.Fatalf("%s before %s", s, name)
		}
	}
}

// blueGreen says whether the change is from one generation to another.
func (c *change) blueGreen() bool { return c.from.Generation != c.to.Generation }

// hooksBeforeTheEnd are those that must be done before a generation may go.
func (c *change) hooksBeforeTheEnd(d plan.Desired) (due []string) {
	add := func(name string, is bool) {
		if is {
			due = append(due, name)
		}
	}
	if c.j.Rollback {
		begun := slices.Contains(c.j.Begun, plan.CoordinateNew) || slices.Contains(c.j.Begun, plan.CoordinateOld)
		add(plan.CoordinateRollback, begun && d.CoordinateOld)
		add("drain_rollback", c.j.Redirected && d.Drain)
		return due
	}
	add(plan.CoordinateNew, d.CoordinateNew)
	add(plan.CoordinateOld, d.CoordinateOld)
	add("drain", c.j.Redirected && d.Drain)
	return due
}

// mayRenew judges the deletion of a unit that is outdated.
func (c *change) mayRenew(t *rapid.T, d plan.Desired, o plan.Observed, s plan.Step) {
	i := slices.IndexFunc(c.w.units, func(u *pod) bool { return u.id == s.Incarnation && !u.deleting && u.ready })
	if i < 0 {
		return // it is gone, or of no use
	}
	if g := c.w.units[i].generation; g != d.Generation {
		t.Fatalf("%s is of generation %s, which goes as a whole", s, g)
	}
	if d.Condemned[s.Object] == s.Incarnation {
		c.rough = true
		return
	}
	count := 0
	for _, g := range d.Groups {
		if g.Owner == s.Owner {
			count = g.Count
		}
	}
	serving := 0
	for _, u := range o.Units {
		if u.Owner == s.Owner && u.ID != s.Incarnation && !u.Deleting && (u.Ready || u.Outdated != "") {
			serving++
		}
	}
	if serving < count-1 {
		t.Fatalf("%s while %d of the other %d units serve:\n%+v", s, serving, count-1, o.Units)
	}
	if c.rough {
		return
	}
	serving = 0
	for _, u := range c.w.units {
		if u.owner == s.Owner && u.id != s.Incarnation && !u.deleting && u.ready {
			serving++
		}
	}
	if serving < count-1 {
		t.Fatalf("%s while in truth %d of the other %d units serve", s, serving, count-1)
	}
}

// settle lets everything happen that happens by itself.
func (c *change) settle() {
	for moves := c.w.moves(); len(moves) > 0; moves = c.w.moves() {
		moves[0]()
	}
}

// finish carries on, undisturbed, until nothing is left to do. It answers false where
// nothing moves any more and something is left.
func (c *change) finish(t *rapid.T) bool {
	for range 80 {
		c.settle()
		o := c.look(t)
		left, failed := c.act(t, o, false)
		if left == 0 {
			return true
		}
		if failed {
			return false
		}
	}
	d := c.desired()
	if slices.ContainsFunc(d.Objects, func(x plan.Object) bool { return strings.HasSuffix(x.Digest, broken) }) {
		return false
	}
	t.Fatalf("still not converged; left to do:\n%s", render(plan.Compute(d, against(c.w.observe(t), d), c.j)))
	return false
}

// rollBack begins the rollback: another attempt.
func (c *change) rollBack() {
	c.j.Rollback, c.j.Issued = true, nil
}

// ended judges what stands there at the end.
func (c *change) ended(t *rapid.T) {
	d := c.desired()
	o := against(c.look(t), d)
	if err := equal(d, o); err != nil {
		t.Fatalf("at the end %v", err)
	}
	for _, x := range c.w.objects {
		if x.generation != "" && x.generation != d.Generation || x.leads != "" && x.leads != d.Generation {
			t.Fatalf("at the end there is %+v, and generation %s should be alone", x, d.Generation)
		}
	}
	if left := plan.Compute(d, o, plan.Journal{}); len(left) > 0 {
		t.Fatalf("at rest after the operation, yet:\n%s", render(left))
	}
	if !c.j.Rollback {
		if want := c.hooksDue(); !slices.Equal(slices.Compact(c.ran), want) {
			t.Fatalf("hooks ran: %v; due were %v", c.ran, want)
		}
		return
	}
	if wants(c.from, "Service/amf/svc") && wants(c.to, "Service/amf/svc") && c.w.find("Service/amf/svc").inc != c.before["Service/amf/svc"] {
		t.Fatal("the Service was made anew")
	}
	if c.pruned {
		return
	}
	now := map[string]string{}
	for _, x := range c.w.objects {
		now[x.key] = x.inc
	}
	if fmt.Sprint(now) != fmt.Sprint(c.before) {
		t.Fatalf("rolled back before anything was deleted, there is %v, and was %v", now, c.before)
	}
}

// hooksDue are those of a change that was never rolled back.
func (c *change) hooksDue() []string {
	due := []string{"change_current_package_start"}
	if c.blueGreen() {
		due = append(due, c.hooksBeforeTheEnd(c.to)...)
	} else if c.to.CoordinateNew {
		due = append(due, plan.CoordinateNew)
	}
	return append(due, "change_current_package_end")
}
