package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// An owner that is passive ([ObservedObject.Passive]) leaves all of its units' lives to
// the plan, by the functions of this file.

// graceful is the time that a termination leaves units, as [Step.Object] and in
// [Journal.Hooks].
const graceful = "graceful"

// busy ends the plan where work on a passive object is under way: what comes of it isn't
// known, and more work would have to guess. Where the work failed in this attempt, nothing
// is gained by going on before somebody has looked at it and asked for a retry. Objects that
// must go are deleted all the same.
func (p *planner) busy() bool {
	var waits []Step
	for _, x := range p.desired.Objects {
		now := p.objects[x.Key]
		if !now.Passive || now.Ready || now.Deleting || p.doomed(now) != "" {
			continue
		}
		wait, _ := p.unready(x.Key)
		if now.Stalled == "" {
			wait.Failure = "" // a unit that failed may be tried again by its owner
		}
		if now.Stalled == "" || p.journal.IssuedOn(x.Key) {
			waits = append(waits, wait)
		}
	}
	p.add(waits...)
	return len(waits) > 0
}

// fatal says why the unit's incarnation must go; "" where it may stay, or goes as one of
// those that are too many.
func (p *planner) fatal(u *Unit) string {
	switch {
	case p.victims[u.ID]:
		return ""
	case p.condemned(u.Key, u.ID):
		return "condemned"
	case u.Dead == "" || !p.objects[u.Owner].Passive || !p.wanted[u.Owner] || p.doomed(p.objects[u.Owner]) != "":
		return ""
	case p.journal.IssuedOn(u.Key) && !p.journal.issuedAgainst(u.ID):
		return "" // a successor that died as well: that is a failure
	}
	return u.Dead
}

// choose names the units that go where fewer of a passive owner's should exist: those
// that must not exist anyway, then dead ones, then the newest.
func (p *planner) choose() map[string]bool {
	victims := map[string]bool{}
	for owner, groups := range p.groups {
		now := p.objects[owner]
		if !now.Passive || now.Deleting || p.doomed(now) != "" {
			continue
		}
		for _, g := range groups {
			many := now.Counts[g.VDU] - g.Count
			if many <= 0 || g.Free {
				continue
			}
			var units []*Unit
			for _, u := range p.units[owner] {
				if u.VDU == g.VDU {
					units = append(units, u)
				}
			}
			slices.SortStableFunc(units, func(a, b *Unit) int {
				return cmp.Or(p.dispensable(a)-p.dispensable(b), b.Created.Compare(a.Created), cmp.Compare(b.Key, a.Key))
			})
			for _, u := range units[:min(many, len(units))] {
				victims[u.ID] = true
			}
		}
	}
	return victims
}

// dispensable ranks units by how little is lost with them.
func (p *planner) dispensable(u *Unit) int {
	switch {
	case p.condemned(u.Key, u.ID):
		return 0
	case slices.Contains(p.journal.Leaving, u.ID):
		return 1
	case u.Dead != "":
		return 2
	}
	return 3
}

// scales are the steps that bring the numbers of units of an object to what they should
// be, where it owns those of several VDUs.
func (p *planner) scales(x Object) []Step {
	now, exists := p.objects[x.Key]
	if !exists || now.Counts == nil || now.Deleting || p.doomed(now) != "" {
		return nil
	}
	var steps []Step
	for _, g := range p.groups[x.Key] {
		from := now.Counts[g.VDU]
		if g.Free || from == g.Count {
			continue
		}
		s := Step{Action: Scale, Object: x.Key, VDU: g.VDU, From: from, To: g.Count}
		for _, u := range p.units[x.Key] {
			if u.VDU == g.VDU && p.victims[u.ID] {
				s.Victims = append(s.Victims, u.ID)
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// uneven says of which VDU the owner hasn't the right number of units; "" of none.
func (p *planner) uneven(owner string, live map[string]int) string {
	for _, g := range p.groups[owner] {
		if !g.Free && live[g.VDU] != g.Count {
			return fmt.Sprintf("%d of %d units of %s exist", live[g.VDU], g.Count, g.VDU)
		}
	}
	return ""
}

// roll brings the units of passive owners to what these make now: one at a time, and
// each is coordinated before the next one's turn.
func (p *planner) roll(objects []Object) {
	for _, x := range objects {
		now, exists := p.objects[x.Key]
		if !exists || !now.Passive || now.Deleting || p.doomed(now) != "" {
			continue
		}
		settle := func() {
			if s, ok := p.unsettled(x.Key); ok {
				p.add(s)
			}
		}
		for _, u := range p.order(x.Key) {
			if u.Outdated != "" {
				settle()
				p.add(Step{Action: Renew, Object: u.Key, Incarnation: u.ID, Owner: x.Key, Reason: u.Outdated})
				p.moved[x.Key] = true
			}
			due := p.asked(u)
			if hook := p.coordination(u); hook != "" {
				due = append([]string{hook}, due...)
			}
			for i, hook := range due {
				if i == 0 {
					settle()
				}
				p.add(Step{Action: Hook, Object: hook})
			}
		}
	}
}

// order is that in which the owner's units have their turn: first those that are
// renewed already and only wait for their script.
func (p *planner) order(owner string) []*Unit {
	var units []*Unit
	for _, u := range p.units[owner] {
		if !u.Deleting && !p.victims[u.ID] && p.fatal(u) == "" {
			units = append(units, u)
		}
	}
	rank := func(u *Unit) int {
		if u.Outdated == "" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(units, func(a, b *Unit) int { return rank(a) - rank(b) })
	return units
}

// unsettled is the wait before the next unit's turn. A unit that isn't ready and will be
// renewed itself isn't waited for: it may never become ready before.
func (p *planner) unsettled(owner string) (Step, bool) {
	s, ok := p.unready(owner)
	if !ok || p.objects[owner].Ready && !p.moved[owner] &&
		!slices.ContainsFunc(p.units[owner], func(u *Unit) bool { return u.Deleting || !p.settled(u) && u.Outdated == "" }) {
		return Step{}, false
	}
	return s, true
}

// coordination is the name of the script that is due for the unit, "" for none. In a
// rollback that is the old VNF's, for the units with which the new one's was begun.
func (p *planner) coordination(u *Unit) string {
	if p.journal.Operation != changesPackage || !p.coordinatesEach() || !p.coordinates(u.VDU) {
		return ""
	}
	name := ""
	switch {
	case !p.journal.Rollback && p.desired.CoordinateNew:
		name = unitHook(CoordinateNew, u.Key)
	case p.journal.Rollback && p.desired.CoordinateOld && slices.Contains(p.journal.Begun, unitHook(CoordinateNew, u.Key)):
		name = unitHook(CoordinateRollback, u.Key)
	}
	if name != "" && !slices.Contains(p.journal.Hooks, name) {
		return name
	}
	return ""
}

// asked are the LCM coordination actions that are due for the unit, as names of hooks.
func (p *planner) asked(u *Unit) (due []string) {
	if p.journal.Operation != changesPackage || p.journal.Rollback || !p.coordinatesEach() || !p.coordinates(u.VDU) {
		return nil
	}
	for _, action := range p.desired.Coordinated[CoordinateNew] {
		if name := unitHook(CoordinationHook(CoordinateNew, action), u.Key); !slices.Contains(p.journal.Hooks, name) {
			due = append(due, name)
		}
	}
	return due
}

// coordinates says whether the scripts speak to the units of the VDU.
func (p *planner) coordinates(vdu string) bool {
	return len(p.desired.CoordinateVDUs) == 0 || slices.Contains(p.desired.CoordinateVDUs, vdu)
}

// coordinatesEach says whether the scripts run for each unit by itself: where a passive
// owner's units are changed in their generation. Once one ran for the whole VNF (in a
// blue-green change), that was it.
func (p *planner) coordinatesEach() bool {
	if p.twofold() || p.coordinated() || slices.Contains(p.journal.Begun, CoordinateRollback) || slices.ContainsFunc(p.journal.Begun, asksOnce) {
		return false
	}
	return slices.ContainsFunc(p.desired.Groups, func(g Group) bool { return p.objects[g.Owner].Passive && p.coordinates(g.VDU) })
}

// asksOnce says whether the hook asks for an LCM coordination action of a change of package for
// the whole VNF.
func asksOnce(hook string) bool {
	hook, unit := HookUnit(hook)
	point, action := Coordination(hook)
	return unit == "" && action != "" && (point == CoordinateNew || point == CoordinateOld)
}

// coordinatesOthers says whether the scripts speak to units, too, that aren't changed one
// by one: they run once more for the whole VNF, when all is changed.
func (p *planner) coordinatesOthers() bool {
	return slices.ContainsFunc(p.desired.Groups, func(g Group) bool { return !p.objects[g.Owner].Passive && p.coordinates(g.VDU) })
}

func (p *planner) anyPassive() bool {
	return slices.ContainsFunc(p.observed.Objects, func(x ObservedObject) bool { return x.Passive })
}

// grace leaves units time before a termination takes them down.
func (p *planner) grace() {
	if p.desired.Grace && p.journal.Operation == "TERMINATE" && len(p.desired.Objects) == 0 &&
		slices.ContainsFunc(p.observed.Objects, func(x ObservedObject) bool { return x.Passive && !x.Deleting }) {
		p.once(Drain, graceful)
	}
}
