package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// The names of coordination scripts and of the drain, as [Step.Object] of their
// steps and in [Journal.Hooks].
const (
	CoordinateNew      = "coordinate_new"
	CoordinateOld      = "coordinate_old"
	CoordinateRollback = "coordinate_rollback"
	drained            = "drain"
	drainedRollback    = "drain_rollback"
)

// changesPackage and changesFlavour are the operations that deploy something else, so that
// traffic may have to be switched.
const (
	changesPackage = "CHANGE_VNFPKG"
	changesFlavour = "CHANGE_FLAVOUR"
)

func (p *planner) redeploys() bool {
	return p.journal.Operation == changesPackage || p.journal.Operation == changesFlavour
}

// leaving says whether a generation is one that has to go.
func (d Desired) leaving(generation string) bool {
	return generation != "" && d.Generation != "" && generation != d.Generation
}

// moot are the tombstones in a generation that goes: it goes as a whole, and not
// before its time.
func (o Observed) moot(d Desired) map[string]string {
	moot := map[string]string{}
	if len(d.Condemned) == 0 || d.Generation == "" {
		return moot
	}
	for _, x := range o.Objects {
		if d.leaving(x.Generation) && d.Condemned[x.Key] == x.Incarnation {
			moot[x.Key] = x.Incarnation
		}
	}
	for _, u := range o.Units {
		if d.leaving(u.Generation) && d.Condemned[u.Key] == u.ID {
			moot[u.Key] = u.ID
		}
	}
	return moot
}

// twofold says whether two generations stand side by side. What is kept of one
// that went (a claim) is no generation.
func (p *planner) twofold() bool {
	return slices.ContainsFunc(p.observed.Objects, func(x ObservedObject) bool { return p.desired.leaving(x.Generation) && !p.retained(x) }) ||
		slices.ContainsFunc(p.observed.Units, func(u Unit) bool { return p.desired.leaving(u.Generation) })
}

// untouched says whether a rollback finds the generation that it goes back to as it
// was, with units that lived before, and traffic still there. The other one is then of
// no use to anybody and goes first: the units that stay may not be ready because of what
// it takes up.
func (p *planner) untouched() bool {
	if !p.journal.Rollback || p.journal.Redirected || p.journal.Pruned || p.coordinated() || !p.twofold() {
		return false
	}
	return !slices.ContainsFunc(p.desired.Objects, func(x Object) bool {
		_, due := p.change(x)
		return due || len(p.scales(x)) > 0 || p.objects[x.Key].Deleting
	}) && !slices.ContainsFunc(p.desired.Groups, func(g Group) bool {
		return (g.Free || g.Count > 0) && !slices.ContainsFunc(p.units[g.Owner], func(u *Unit) bool {
			return slices.ContainsFunc(p.journal.Known, func(k Unit) bool { return k.ID == u.ID })
		})
	})
}

// deferred says whether the object directs traffic to units that may not be ready
// yet: it is changed when they are.
func (p *planner) deferred(x Object) bool {
	now, exists := p.objects[x.Key]
	return x.Directs && exists && !now.Deleting && p.doomed(now) == "" && (p.twofold() || p.redeploys())
}

// switchedBack says whether the rollback still has to switch the object's traffic back,
// after a step or a script may have switched it: it does so once, even if what is observed
// doesn't show that it was ever switched, as the view may be behind, and the generation that
// it would be on is about to go.
func (p *planner) switchedBack(x Object) bool {
	return p.journal.Rollback && (p.journal.Redirected || p.coordinated()) && p.deferred(x) &&
		!slices.Contains(p.journal.Issued, Step{Action: Apply, Object: x.Key}.Key())
}

// holdTraffic keeps units of the new generation from getting traffic as soon as they are
// ready, where a change that failed left an object that would select them.
func (p *planner) holdTraffic() {
	if p.journal.Operation == changesPackage && !p.journal.Rollback && !p.coordinated() {
		p.reselect("the same units, and none of the generation that comes", func(x ObservedObject) bool { return x.Blurred })
	}
}

// letSwitch lets the coordination script switch traffic by the package's own labels, if
// it runs next and they tell the generations apart.
func (p *planner) letSwitch() {
	if script := p.arriving(); script != "" && !slices.Contains(p.journal.Hooks, script) {
		p.reselect("the same units, by the package's own labels: the script may switch it by them", func(x ObservedObject) bool { return x.Marked })
	}
}

// reselect has the objects that direct traffic select the units that they do by other labels.
func (p *planner) reselect(why string, due func(ObservedObject) bool) {
	var steps []Step
	for _, x := range p.desired.Objects {
		if p.deferred(x) && due(p.objects[x.Key]) {
			steps = append(steps, Step{Action: Reselect, Object: x.Key, Reason: why})
		}
	}
	p.add(steps...)
}

// redirect switches traffic to the units that are ready now.
func (p *planner) redirect() {
	var objects []Object
	for _, x := range p.desired.Objects {
		if p.deferred(x) {
			objects = append(objects, x)
		}
	}
	p.apply(objects)
	p.await(objects)
}

// inherited is the handover that an object whose units nobody counts gets from the one that
// has units of the same VDU and goes (another generation, another name): an
// autoscaler goes on from the number that it had reached.
func (p *planner) inherited(key string) string {
	for _, g := range p.groups[key] {
		if !g.Free {
			continue
		}
		for _, u := range p.sorted {
			if u.VDU == g.VDU && !p.wanted[u.Owner] {
				return p.objects[u.Owner].Keep
			}
		}
	}
	return ""
}

// coordinateArriving runs the coordination script for the VNF that comes.
func (p *planner) coordinateArriving() {
	if script := p.arriving(); script != "" {
		p.once(Hook, script)
	}
	if p.journal.Operation == changesPackage && !p.journal.Rollback && (!p.coordinatesEach() || p.coordinatesOthers()) {
		p.ask(CoordinateNew)
	}
}

// arriving is the coordination script for the VNF that comes, "" where none runs: in a
// rollback that VNF is the old one, whose script is asked to take back what was begun.
func (p *planner) arriving() string {
	switch {
	case p.journal.Operation != changesPackage, p.coordinatesEach() && !p.coordinatesOthers():
	case !p.journal.Rollback && p.desired.CoordinateNew:
		return CoordinateNew
	case p.journal.Rollback && p.desired.CoordinateOld && p.coordinated():
		return CoordinateRollback
	}
	return ""
}

// coordinated says whether a coordination script was begun.
func (p *planner) coordinated() bool {
	return slices.Contains(p.journal.Begun, CoordinateNew) || slices.Contains(p.journal.Begun, CoordinateOld)
}

// coordinateLeaving runs the coordination script for the VNF that goes.
func (p *planner) coordinateLeaving() {
	if p.journal.Operation != changesPackage || p.journal.Rollback {
		return
	}
	if p.desired.CoordinateOld {
		p.once(Hook, CoordinateOld)
	}
	p.ask(CoordinateOld)
}

// drain leaves connections time to end on the generation from which traffic was
// switched.
func (p *planner) drain() {
	redirected := p.journal.Redirected || slices.ContainsFunc(p.steps, func(s Step) bool { return s.Directs }) ||
		p.anyPassive() && (p.coordinated() || !p.journal.Rollback && p.desired.CoordinateNew) // a script switched it
	if p.journal.Operation != changesPackage || !p.desired.Drain || !redirected {
		return
	}
	if p.journal.Rollback {
		p.once(Drain, drainedRollback)
	} else {
		p.once(Drain, drained)
	}
}

// once adds a step that can't be observed, unless it was done.
func (p *planner) once(a Action, name string) {
	if !slices.Contains(p.journal.Hooks, name) {
		p.add(Step{Action: a, Object: name})
	}
}

// renew replaces units that their owner leaves as they are although its render
// has changed: one of each owner at a time, and only while all its others are ready.
func (p *planner) renew(objects []Object) {
	queues := make(map[string][]*Unit)
	longest := 0
	for _, x := range objects {
		now := p.objects[x.Key]
		if now.Passive || now.Deleting || p.doomed(now) != "" {
			continue // its units are rolled, or go with it
		}
		for _, u := range p.units[x.Key] {
			if u.Outdated == "" || u.Deleting || p.condemned(u.Key, u.ID) {
				continue
			}
			queues[x.Key] = append(queues[x.Key], u)
		}
		slices.SortStableFunc(queues[x.Key], func(a, b *Unit) int {
			if now.Ordered {
				return cmp.Or(p.renewRank(a)-p.renewRank(b), b.ordinal()-a.ordinal())
			}
			return p.renewRank(a) - p.renewRank(b)
		})
		longest = max(longest, len(queues[x.Key]))
	}
	for i := range longest {
		var waits, deletes []Step
		for _, x := range objects {
			if i >= len(queues[x.Key]) {
				continue
			}
			u := queues[x.Key][i]
			if i > 0 && p.blocked(u) {
				waits = append(waits, Step{Action: Wait, Object: x.Key, Reason: "until " + queues[x.Key][i-1].Key + " is gone"})
			} else if i > 0 {
				waits = append(waits, Step{Action: Wait, Object: x.Key, Reason: "until the successor is ready"})
			} else if s, ok := p.short(x.Key, u); ok {
				waits = append(waits, s)
			}
			p.moved[x.Key] = true
			deletes = append(deletes, renewal(u))
		}
		p.add(waits...)
		p.add(deletes...)
	}
}

// blocked reports whether the owner makes no unit as long as this one is there: neither the others' successors nor what is
// missing can be waited for.
func (p *planner) blocked(u *Unit) bool { return u.Blocks }

func renewal(u *Unit) Step {
	return Step{Action: DeleteUnit, Object: u.Key, Incarnation: u.ID, Owner: u.Owner, Reason: u.Outdated}
}

// renewRank orders what is renewed: first units that were deleted already, so that a
// view that is behind never has a second one go beside it, then what isn't ready and
// is no loss.
func (p *planner) renewRank(u *Unit) int {
	switch {
	case slices.Contains(p.journal.Issued, renewal(u).Key()):
		return 0
	case !u.Ready:
		return 1
	}
	return 2
}

// short is the wait for the other units of the owner, where one of them isn't
// ready or missing. One that isn't ready and will be renewed itself is not waited for:
// it may never become ready before. Nor is any other where the owner waits for this one.
func (p *planner) short(owner string, but *Unit) (Step, bool) {
	live := 0
	wait := Step{Action: Wait, Object: owner}
	for _, u := range p.units[owner] {
		if u.Deleting {
			wait.Reason = because("until its predecessor is gone", u.Key)
			return wait, true
		}
		live++
		if u != but && !u.Ready && u.Outdated == "" && !p.blocked(but) {
			wait.Reason = because("until "+u.Key+" is ready", u.Reason)
			if p.journal.IssuedOn(owner) {
				wait.Failure = u.Failure
			}
			return wait, true
		}
	}
	count, counted := p.count(owner)
	if !counted {
		count = p.objects[owner].Count
	}
	if live < count && !p.moved[owner] && !p.blocked(but) {
		wait.Reason = fmt.Sprintf("%d of %d units exist", live, count)
		return wait, true
	}
	return Step{}, false
}
