package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Moves are the units that a plan takes away and brings: what a grant is about.
type Moves struct {
	// Leaving are the units, by incarnation, of which it is known that they go.
	Leaving []string
	// Going are the numbers of units that go, and of which an active owner chooses by
	// itself when their number shrinks. Coming are the numbers of those to be made.
	Going, Coming []Number
}

// Number is a number of units of one VDU and owner.
type Number struct {
	VDU, Owner string
	Count      int
	// AtMost says that there may be fewer: the owner is changed, and it makes its units
	// anew only where the change is one of theirs.
	AtMost bool
}

// MovesOf are the moves of what is left of the plan. In what order the units go, and when,
// the plan says itself.
func MovesOf(d Desired, o Observed, j Journal) Moves {
	p := newPlanner(d, o, j)
	steps := Compute(d, o, j)
	leaving := p.leaving(steps)
	changed := map[string]bool{}
	for _, s := range steps {
		if now, exists := p.objects[s.Object]; s.Action == Apply && exists && !now.Passive && p.doomed(now) == "" {
			changed[s.Object] = true
		}
	}
	var m Moves
	for _, g := range p.desired.Groups {
		if g.Free || !p.wanted[g.Owner] {
			continue
		}
		var stay []*Unit
		bare := false // the unit is the object: a change of it is in place, or a deletion
		for _, u := range p.units[g.Owner] {
			if bare = bare || u.Key == g.Owner; u.VDU == g.VDU && !u.Deleting && !leaving[u.ID] {
				stay = append(stay, u)
			}
		}
		switch surplus := len(stay) - g.Count; {
		case surplus > 0 && (g.Count == 0 || p.objects[g.Owner].Ordered):
			slices.SortStableFunc(stay, func(a, b *Unit) int { return cmp.Compare(b.ordinal(), a.ordinal()) })
			for _, u := range stay[:surplus] {
				leaving[u.ID] = true
			}
		case surplus > 0:
			m.Going = append(m.Going, Number{VDU: g.VDU, Owner: g.Owner, Count: surplus})
		case surplus < 0:
			m.Coming = append(m.Coming, Number{VDU: g.VDU, Owner: g.Owner, Count: -surplus})
		}
		if same := min(len(stay), g.Count); changed[g.Owner] && !bare && same > 0 {
			renewed := Number{VDU: g.VDU, Owner: g.Owner, Count: same, AtMost: true}
			m.Going, m.Coming = append(m.Going, renewed), append(m.Coming, renewed)
		}
	}
	for _, u := range p.sorted {
		if leaving[u.ID] {
			m.Leaving = append(m.Leaving, u.ID)
		}
	}
	return m
}

// leaving are the units, by incarnation, that the steps take away.
func (p *planner) leaving(steps []Step) map[string]bool {
	goes := map[string]bool{} // keys of objects, and incarnations of units
	for _, s := range steps {
		switch s.Action {
		case Delete:
			goes[s.Object] = true
		case DeleteUnit, Renew:
			goes[s.Incarnation] = true
		}
	}
	out := map[string]bool{}
	for _, u := range p.sorted {
		if !u.Deleting && (p.victims[u.ID] || p.condemned(u.Key, u.ID) || goes[u.Owner] || goes[u.Key] || goes[u.ID] || p.dropped(u)) {
			out[u.ID] = true
		}
	}
	return out
}

// dropped says whether the unit's owner is passive and loses the unit's VDU by a change of flavour.
func (p *planner) dropped(u *Unit) bool {
	return p.journal.Operation == changesFlavour && p.wanted[u.Owner] && p.objects[u.Owner].Passive &&
		!slices.ContainsFunc(p.groups[u.Owner], func(g Group) bool { return g.VDU == u.VDU })
}

// ordinal is the number at the end of the unit's name, by which an owner that is
// [ObservedObject.Ordered] knows it; -1 where there is none.
func (u *Unit) ordinal() int {
	name := cmp.Or(u.Name, u.Key)
	n, err := strconv.Atoi(name[len(strings.TrimRight(name, "0123456789")):])
	if err != nil {
		return -1
	}
	return n
}
