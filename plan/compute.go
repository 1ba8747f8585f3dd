package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Compute answers what is left to do to make observed jibe with desired: the
// whole of it, in stages, of which only the first may be done before everything
// is observed and computed again. An empty answer means converged.
//
// The order is: grant, preamble hook, condemned incarnations, waves of objects,
// waiting until all is ready, switching traffic there, pruning of what is no longer
// desired, waiting until that is gone, postamble hook. Where two generations stand
// side by side, the coordination script of the new VNF runs before traffic is switched
// there, and that of the old one, and the drain, before the old generation goes. What
// directs traffic selects the same units by the package's own labels from just before the first
// of these scripts until traffic is switched, so that the script may switch it by them. A
// rollback from which traffic needn't be switched back takes the new one down first. Grant
// and hooks appear only while an operation is open. Waits that lie in the future
// (behind a step that hasn't been done) are part of the answer, so that a preview
// shows them. The plan of an operation whose journal was lost is empty where the VIM shows all that is
// wanted ([Journal.Rebuilt]).
func Compute(d Desired, o Observed, j Journal) []Step {
	p := newPlanner(d, o, j)
	p.begin()
	p.hasten()
	if p.busy() {
		p.finish()
		return p.steps
	}
	p.condemn()
	switch {
	case p.untouched():
		p.prune()
		p.waves()
		p.redirect()
	case p.twofold():
		p.holdTraffic()
		p.waves()
		p.letSwitch()
		p.coordinateArriving()
		p.redirect()
		p.coordinateLeaving()
		p.drain()
		p.prune()
	default:
		p.waves()
		p.redirect()
		p.prune()
		p.coordinateArriving()
	}
	p.finish()
	if j.blank() && !slices.ContainsFunc(p.steps, Step.shows) {
		return nil
	}
	return p.steps
}

// UserData is the hook that computes parameters ([Desired.UserData]).
const UserData = "user_data"

type planner struct {
	desired  Desired
	observed Observed
	journal  Journal

	objects map[string]ObservedObject
	groups  map[string][]Group // by owner
	sorted  []*Unit            // all units, in an order that no cache decides
	units   map[string][]*Unit // by owner, in the same order
	stage   int
	steps   []Step
	// moved are the keys of objects that this plan creates, changes or deletes:
	// whatever they are now, they must be waited for afterwards.
	moved map[string]bool
	// wanted are the keys of the desired objects.
	wanted map[string]bool
	// victims are the units that go because their number shrinks, by incarnation.
	victims map[string]bool
}

func newPlanner(d Desired, o Observed, j Journal) *planner {
	p := &planner{
		desired: d, observed: o, journal: j,
		objects: make(map[string]ObservedObject, len(o.Objects)),
		groups:  make(map[string][]Group, len(d.Groups)),
		units:   make(map[string][]*Unit),
		moved:   make(map[string]bool),
		wanted:  make(map[string]bool, len(d.Objects)),
	}
	if moot := o.moot(d); len(moot) > 0 {
		p.desired.Condemned = maps.Clone(d.Condemned)
		maps.DeleteFunc(p.desired.Condemned, func(key, _ string) bool { return moot[key] != "" })
	}
	for _, x := range d.Objects {
		p.wanted[x.Key] = true
	}
	for _, x := range o.Objects {
		p.objects[x.Key] = x
	}
	p.yield()
	for _, g := range p.desired.Groups {
		p.groups[g.Owner] = append(p.groups[g.Owner], g)
	}
	// A cache lists units in any order; the plan and its reasons must not depend on it.
	p.sorted = make([]*Unit, len(o.Units))
	for i := range o.Units {
		p.sorted[i] = &o.Units[i]
	}
	slices.SortFunc(p.sorted, func(a, b *Unit) int {
		if c := cmp.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return cmp.Compare(a.ID, b.ID)
	})
	for _, u := range p.sorted {
		p.units[u.Owner] = append(p.units[u.Owner], u)
	}
	p.victims = p.choose()
	return p
}

// yield leaves the number of units to what scales them at the VIM, where it does: it lets alone
// what has none, and what should have none is stopped.
func (p *planner) yield() {
	groups := slices.Clone(p.desired.Groups)
	for i, g := range groups {
		now := p.objects[g.Owner]
		if now.Autoscaled != "" && now.Counts == nil && now.Count > 0 && g.Count > 0 {
			groups[i].Count = now.Count
		}
	}
	p.desired.Groups = groups
}

// add puts the steps into a stage of their own.
func (p *planner) add(steps ...Step) {
	if len(steps) == 0 {
		return
	}
	for i := range steps {
		steps[i].Stage = p.stage
	}
	p.steps = append(p.steps, steps...)
	p.stage++
}

func (p *planner) begin() {
	if p.journal.Operation == "" {
		return
	}
	if !p.journal.Granted {
		p.add(Step{Action: Grant, Object: p.journal.Operation})
	}
	if p.desired.UserData && !p.journal.Rollback {
		p.once(Hook, UserData)
	}
	p.hook("start")
}

func (p *planner) finish() {
	if p.journal.Operation != "" {
		p.hook("end")
	}
}

func (p *planner) hook(side string) {
	name := HookName(p.journal.Operation, p.journal.Rollback, side)
	if name == "" {
		return
	}
	if side == "start" { // nothing is prepared for what may not begin
		p.ask(name)
	}
	p.once(Hook, name)
	if side == "end" {
		p.ask(name)
	}
}

// ask asks for the LCM coordination actions of a point.
func (p *planner) ask(point string) {
	for _, action := range p.desired.Coordinated[point] {
		p.once(Hook, CoordinationHook(point, action))
	}
}

// waves applies the objects wave by wave: the next one only when the earlier
// are ready (a namespace before what stands in it, a CRD before its resources).
func (p *planner) waves() {
	byWave := map[int][]Object{}
	for _, x := range p.desired.Objects {
		byWave[x.Wave] = append(byWave[x.Wave], x)
	}
	for _, wave := range slices.Sorted(maps.Keys(byWave)) {
		objects := slices.DeleteFunc(byWave[wave], p.deferred)
		p.apply(objects)
		p.post(objects)
		p.power(objects)
		p.renew(objects)
		p.roll(objects)
		p.await(objects)
	}
}

// apply brings the objects to their render, side by side.
func (p *planner) apply(objects []Object) {
	var steps []Step
	for _, x := range objects {
		if s, ok := p.change(x); ok {
			steps = append(steps, s)
			p.moved[x.Key] = true
		} else if scales := p.scales(x); len(scales) > 0 {
			steps = append(steps, scales...)
			p.moved[x.Key] = true
		}
	}
	p.add(steps...)
}

// await waits until the objects are ready.
func (p *planner) await(objects []Object) {
	var waits []Step
	for _, x := range objects {
		if s, ok := p.unready(x.Key); ok && !p.spent(x) {
			waits = append(waits, s)
		}
	}
	p.add(waits...)
}

// change is what makes one object what it should be, if it isn't.
func (p *planner) change(x Object) (Step, bool) {
	to, counted := p.count(x.Key)
	now, exists := p.objects[x.Key]
	from := 0
	if counted {
		from = max(now.Count, 0)
	}
	switch {
	case p.spent(x):
		return Step{}, false
	case !exists:
		keep := cmp.Or(p.journal.Kept[x.Key], p.handover(x.Key), p.inherited(x.Key))
		return Step{Action: Apply, Object: x.Key, From: -1, To: to, Reason: "new", Keep: keep}, true
	case p.doomed(now) != "":
		return Step{Action: Apply, Object: x.Key, From: -1, To: to, Reason: "created again", Keep: cmp.Or(now.Keep, p.journal.Kept[x.Key])}, true
	case now.Deleting:
		// It can only be created again when it is gone; unready waits for that.
		return Step{}, false
	case p.switchedBack(x):
		return Step{Action: Apply, Object: x.Key, From: from, To: to, Reason: "switched back", Directs: true}, true
	case now.Digest != x.Digest:
		return Step{Action: Apply, Object: x.Key, From: from, To: to, Reason: "changed", Directs: p.deferred(x)}, true
	case now.Stalled != "":
		return Step{Action: Apply, Object: x.Key, From: from, To: to, Reason: because("tried again", now.Stalled)}, true
	case counted && now.Counts == nil && now.Count >= 0 && now.Count != to:
		return Step{Action: Scale, Object: x.Key, From: now.Count, To: to}, true
	}
	return Step{}, false
}

// spent says that the object has done its work and is no longer there. It runs
// when the VNF or its package is new, and when a heal takes it down to run it again.
// One that is posted never is there.
func (p *planner) spent(x Object) bool {
	if x.Posted {
		return true
	}
	if _, exists := p.objects[x.Key]; exists || !x.Once {
		return false
	}
	switch p.journal.Operation {
	case "", instantiates, changesPackage, changesFlavour:
		return false
	case "HEAL":
		return p.desired.Condemned[x.Key] == "" && !p.journal.IssuedOn(x.Key)
	}
	return true
}

// handover is what the object takes over of a predecessor that somebody else deleted. Only a
// repair takes it over: an instantiation begins with nothing.
func (p *planner) handover(key string) string {
	if op := p.journal.Operation; op != "" && op != "HEAL" {
		return ""
	}
	return p.observed.Left[key]
}

// count is the number of units that the object should ask for; false where it
// isn't ours to say.
func (p *planner) count(key string) (int, bool) {
	n, counted := 0, false
	for _, g := range p.groups[key] {
		if !g.Free {
			n += g.Count
			counted = true
		}
	}
	return n, counted
}

// unready is what must be waited for before the object counts as done.
func (p *planner) unready(key string) (Step, bool) {
	wait := Step{Action: Wait, Object: key}
	now, exists := p.objects[key]
	switch {
	case !exists:
		wait.Reason = "until it is ready"
		return wait, true
	case now.Deleting:
		wait.Reason = because("its predecessor is still being deleted", now.Reason)
		return wait, true
	}
	count, counted := p.count(key)
	live, ready := 0, 0
	of := make(map[string]int, len(now.Counts)) // live units by VDU
	leaving := ""
	var reason, failure string
	for _, u := range p.units[key] {
		if u.Deleting {
			leaving = cmp.Or(leaving, because(u.Key, u.Reason))
			continue
		}
		live++
		of[u.VDU]++
		if p.settled(u) {
			ready++
			continue
		}
		if reason == "" && u.Reason != "" {
			reason = u.Key + ": " + u.Reason
		}
		if why := cmp.Or(u.Failure, u.Dead); failure == "" && why != "" {
			failure = u.Key + ": " + why
		}
	}
	switch {
	case counted && live > count:
		wait.Reason = fmt.Sprintf("%d units exist, %d should", live, count)
	case counted && (ready != count || live != count):
		wait.Reason = because(fmt.Sprintf("%d of %d units are %s", ready, count, p.state(key)), cmp.Or(reason, now.Reason))
	case now.Counts != nil && p.uneven(key, of) != "":
		wait.Reason = p.uneven(key, of)
	case leaving != "":
		wait.Reason = "units are still being deleted: " + leaving
	case ready != live:
		wait.Reason = because(fmt.Sprintf("%d of %d units are %s", ready, live, p.state(key)), reason)
	case !now.Ready:
		wait.Reason = cmp.Or(now.Reason, "not ready yet")
	case p.moved[key]:
		wait.Reason = "until it is ready"
	default:
		return Step{}, false
	}
	if p.journal.IssuedOn(key) && !p.moved[key] {
		wait.Failure = cmp.Or(now.Failure, now.Stalled, now.Dead, failure)
	}
	return wait, true
}

// retained says whether the object stays although it is no longer desired.
func (p *planner) retained(x ObservedObject) bool {
	return x.Retention == RetainAlways || x.Retention == RetainWithInstance && len(p.desired.Objects) > 0
}

// prune deletes what is no longer desired, after everything desired is ready,
// and in reverse order of creation.
func (p *planner) prune() {
	p.grace()
	var deletes, waits []Step
	for _, x := range slices.Backward(p.observed.Objects) {
		if p.wanted[x.Key] || p.retained(x) || p.condemned(x.Key, x.Incarnation) { // what is condemned was deleted before
			continue
		}
		if p.wanted[x.LeftBy] { // which takes it back
			continue
		}
		if !x.Deleting {
			s := Step{Action: Delete, Object: x.Key, Incarnation: x.Incarnation, Reason: "no longer desired", Prunes: true}
			if x.LeftBy != "" {
				s.Reason += orphaned
			}
			if p.redeploys() {
				s.Keep = x.Keep // a rollback makes it anew
			}
			deletes = append(deletes, s)
		}
		waits = append(waits, Step{Action: Wait, Object: x.Key, Reason: because("until it is gone", x.Reason)})
	}
	for _, u := range p.sorted {
		// Units of objects that go are waited for by themselves: an owner may
		// vanish before its units do.
		_, alsoObject := p.objects[u.Key]
		if !p.wanted[u.Owner] && !alsoObject && p.desired.Condemned[u.Key] != u.ID {
			if u.Orphan && !u.Deleting && !p.adoptable(u) {
				deletes = append(deletes, Step{Action: DeleteUnit, Object: u.Key, Incarnation: u.ID, Reason: "no longer desired" + orphaned})
			}
			waits = append(waits, Step{Action: Wait, Object: u.Key, Reason: "until it is gone"})
		}
	}
	p.add(deletes...)
	p.add(waits...)
}

// orphaned is added to the reason of the deletion of what its owner left behind.
const orphaned = ", and nothing owns it"

// adoptable says whether something that is desired may take the orphan back.
func (p *planner) adoptable(u *Unit) bool {
	return slices.ContainsFunc(p.desired.Groups, func(g Group) bool {
		return g.VDU == u.VDU && (u.Generation == "" || u.Generation == p.desired.Generation)
	})
}
