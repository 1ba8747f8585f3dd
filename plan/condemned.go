package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// condemn deletes the incarnations that must not exist, and those of desired
// objects and their units that will never run again, and waits until they are gone:
// only then is anything made in their place. A successor under the same key has another
// incarnation and is left alone.
func (p *planner) condemn() {
	var lost, deletes, waits []Step
	for _, key := range slices.Sorted(maps.Keys(p.desired.Condemned)) {
		if s, ok := p.replaced(key, p.desired.Condemned[key]); ok {
			lost = append(lost, s)
		}
	}
	// In reverse order of creation, as prune deletes.
	for _, x := range slices.Backward(p.observed.Objects) {
		if why := p.doomed(x); why != "" {
			p.moved[x.Key] = true
			if !x.Deleting {
				s := Step{Action: Delete, Object: x.Key, Incarnation: x.Incarnation, Reason: why}
				if p.wanted[x.Key] {
					s.Keep = x.Keep
				}
				deletes = append(deletes, s)
			}
			waits = append(waits, Step{Action: Wait, Object: x.Key, Incarnation: x.Incarnation, Reason: because("until it is gone", x.Reason)})
		}
	}
	for _, u := range p.sorted {
		why := p.fatal(u)
		if why == "" {
			continue
		}
		if _, alsoObject := p.objects[u.Key]; alsoObject {
			continue
		}
		p.moved[u.Owner] = true
		if !u.Deleting {
			deletes = append(deletes, Step{Action: DeleteUnit, Object: u.Key, Incarnation: u.ID, Owner: u.Owner, Reason: why})
		}
		waits = append(waits, Step{Action: Wait, Object: u.Key, Incarnation: u.ID, Reason: because("until it is gone", u.Reason)})
	}
	p.add(lost...)
	p.add(deletes...)
	p.add(waits...)
}

// doomed says why the incarnation must go although something of its key is
// desired; "" where it may stay. One that dies after a step of this attempt was
// issued on it is a failure, and not made anew once more.
func (p *planner) doomed(x ObservedObject) string {
	switch {
	case p.condemned(x.Key, x.Incarnation):
		return "condemned"
	case x.Dead != "" && p.wanted[x.Key] && (!p.journal.IssuedOn(x.Key) || p.journal.issuedAgainst(x.Incarnation)):
		return x.Dead
	case x.Outgrown != "" && p.wanted[x.Key]:
		return x.Outgrown
	}
	return ""
}

// replaced reports a target of the heal that is gone although no step was
// issued against it: somebody else was faster, and what lives now was never
// asked to be healed. Where what makes it is gone too, nothing took its place: the
// heal makes all of it anew.
func (p *planner) replaced(key, incarnation string) (Step, bool) {
	target := TargetOf(key, incarnation)
	if !slices.Contains(p.journal.Targets, target) || p.observed.Has(key, incarnation) {
		return Step{}, false
	}
	maker := p.journal.maker(target)
	if _, stands := p.objects[maker]; !stands && p.wanted[maker] {
		return Step{}, false
	}
	why := fmt.Sprintf("incarnation %s was replaced by the VIM itself before the heal reached it", incarnation)
	if next := p.successors(key); next != "" {
		why += "; in its place now: " + next
	}
	why += ". Fail this operation; then heal what runs now, if it needs it"
	return Step{Action: Wait, Object: key, Incarnation: incarnation, Reason: "it is no longer there", Failure: why}, true
}

// successors names the objects or units that may have taken the place of the key: those of
// that key, else the units of its VDU that weren't there when the heal was asked for.
func (p *planner) successors(key string) string {
	if x, ok := p.objects[key]; ok {
		return x.Key + " (" + x.Incarnation + ")"
	}
	known := make(map[string]bool, len(p.journal.Known))
	vdu := ""
	for _, u := range p.journal.Known {
		known[u.ID] = true
		if u.Key == key {
			vdu = u.VDU
		}
	}
	var names []string
	for _, u := range p.sorted {
		if !u.Deleting && (u.Key == key || vdu != "" && u.VDU == vdu && !known[u.ID]) {
			names = append(names, u.Key+" ("+u.ID+")")
		}
	}
	return strings.Join(names, ", ")
}

func (p *planner) condemned(key, incarnation string) bool {
	return incarnation != "" && p.desired.Condemned[key] == incarnation
}
