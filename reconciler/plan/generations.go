package plan

import (
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

// changesPackage is the operation in which traffic may have to be led elsewhere.
const changesPackage = "CHANGE_VNFPKG"

// leaving says whether a generation is one that has to go.
func (p *planner) leaving(generation string) bool {
	return generation != "" && p.desired.Generation != "" && generation != p.desired.Generation
}

// twofold says whether two generations stand side by side.
func (p *planner) twofold() bool {
	return slices.ContainsFunc(p.observed.Objects, func(x ObservedObject) bool { return p.leaving(x.Generation) }) ||
		slices.ContainsFunc(p.observed.Units, func(u Unit) bool { return p.leaving(u.Generation) })
}

// deferred says whether the object leads traffic to units that may not be ready
// yet: it is changed when they are.
func (p *planner) deferred(x Object) bool {
	now, exists := p.objects[x.Key]
	return x.Directs && exists && !now.Deleting && p.doomed(now) == "" && (p.twofold() || p.journal.Operation == changesPackage)
}

// redirect leads traffic to the units that are ready now.
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

// inherited is what an object whose units nobody counts takes over of the one that
// has units of the same VDU in the generation that goes: an autoscaler goes on
// from the number that it had reached.
func (p *planner) inherited(key string) string {
	for _, g := range p.groups[key] {
		if !g.Free {
			continue
		}
		for _, u := range p.sorted {
			if u.VDU == g.VDU && u.Owner != key && p.leaving(u.Generation) {
				return p.objects[u.Owner].Keep
			}
		}
	}
	return ""
}

// coordinateArriving runs the coordination script for the VNF that comes: in a
// rollback that is the old one, whose script is asked to take back what was begun.
func (p *planner) coordinateArriving() {
	if p.journal.Operation != changesPackage {
		return
	}
	begun := slices.Contains(p.journal.Begun, CoordinateNew) || slices.Contains(p.journal.Begun, CoordinateOld)
	switch {
	case !p.journal.Rollback && p.desired.CoordinateNew:
		p.once(Hook, CoordinateNew)
	case p.journal.Rollback && p.desired.CoordinateOld && begun:
		p.once(Hook, CoordinateRollback)
	}
}

// coordinateLeaving runs the coordination script for the VNF that goes.
func (p *planner) coordinateLeaving() {
	if p.journal.Operation == changesPackage && !p.journal.Rollback && p.desired.CoordinateOld {
		p.once(Hook, CoordinateOld)
	}
}

// drain leaves connections time to end on the generation that traffic was led away
// from.
func (p *planner) drain() {
	redirected := p.journal.Redirected || slices.ContainsFunc(p.steps, func(s Step) bool { return s.Directs })
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

// renew replaces units that their owner leaves as they are although what it makes
// has changed: one of each owner at a time, and only while all its others are ready.
func (p *planner) renew(objects []Object) {
	queues := make(map[string][]*Unit)
	longest := 0
	for _, x := range objects {
		now := p.objects[x.Key]
		if now.Deleting || p.doomed(now) != "" {
			continue // its units go with it
		}
		for _, u := range p.units[x.Key] {
			if u.Outdated == "" || u.Deleting || p.condemned(u.Key, u.ID) {
				continue
			}
			queues[x.Key] = append(queues[x.Key], u)
		}
		// One that isn't ready is no loss.
		slices.SortStableFunc(queues[x.Key], func(a, b *Unit) int { return boolRank(a.Ready) - boolRank(b.Ready) })
		longest = max(longest, len(queues[x.Key]))
	}
	for i := range longest {
		var waits, deletes []Step
		for _, x := range objects {
			if i >= len(queues[x.Key]) {
				continue
			}
			u := queues[x.Key][i]
			if i > 0 {
				waits = append(waits, Step{Action: Wait, Object: x.Key, Reason: "until the successor is ready"})
			} else if s, ok := p.short(x.Key, u); ok {
				waits = append(waits, s)
			}
			p.moved[x.Key] = true
			deletes = append(deletes, Step{Action: DeleteUnit, Object: u.Key, Incarnation: u.ID, Owner: x.Key, Reason: u.Outdated})
		}
		p.add(waits...)
		p.add(deletes...)
	}
}

// short is the wait for the other units of the owner, where one of them isn't
// ready or missing.
func (p *planner) short(owner string, but *Unit) (Step, bool) {
	live := 0
	wait := Step{Action: Wait, Object: owner}
	for _, u := range p.units[owner] {
		if u.Deleting {
			wait.Reason = because("until its predecessor is gone", u.Key)
			return wait, true
		}
		live++
		if u != but && !u.Ready {
			wait.Reason = because("until "+u.Key+" is ready", u.Reason)
			if p.journal.IssuedOn(owner) {
				wait.Failure = u.Failure
			}
			return wait, true
		}
	}
	if count, counted := p.count(owner); counted && live < count && !p.moved[owner] {
		wait.Reason = fmt.Sprintf("%d of %d units exist", live, count)
		return wait, true
	}
	return Step{}, false
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}
