package hooks

import (
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/plan"
)

// moved returns the units that the operation has added so far, and those that it removes:
// the ones that went, and the ones that will go, as the plan says now, or said when the
// first hook was begun; and how many are to follow of which no more is known, nil in a rollback.
func (f *Facts) moved() (added, removed []Target, pending *Pending) {
	target := func(u plan.Unit, resources []plan.Resource) Target {
		return Target{VduID: u.VDU, Unit: unitOf(u, resources)}
	}
	before := map[string]bool{}
	for _, u := range f.Operation.UnitsBefore {
		before[u.ID] = true
	}
	leaving := f.Journal.Leaving
	if !f.Journal.Rollback {
		moves := plan.MovesOf(f.Desired, f.Observed, f.Journal)
		pending = &Pending{Added: numbers(moves.Coming, ""), Removed: numbers(moves.Going, chosenByVIM)}
		if len(leaving) == 0 {
			leaving = moves.Leaving
		}
	}
	lives := map[string]bool{}
	for _, u := range f.live() {
		lives[u.ID] = true
		switch {
		case !before[u.ID]:
			added = append(added, target(u, f.Observed.Resources))
		case slices.Contains(leaving, u.ID):
			removed = append(removed, target(u, f.Observed.Resources))
		}
	}
	for _, u := range f.Operation.UnitsBefore {
		if !lives[u.ID] {
			u.Ready = false
			removed = append(removed, target(u, f.Operation.ResourcesBefore))
		}
	}
	return added, removed, pending
}

// chosenByVIM is [PendingUnits.ChosenBy] of units that the VIM chooses.
const chosenByVIM = "vim"

func numbers(list []plan.Number, chosenBy string) []PendingUnits {
	out := make([]PendingUnits, 0, len(list))
	for _, n := range list {
		out = append(out, PendingUnits{VduID: n.VDU, Owner: n.Owner, Count: n.Count, AtMost: n.AtMost, ChosenBy: chosenBy})
	}
	return out
}

// grant is what the operation was granted: what the plan adds and removes.
func (f *Facts) grant(in Input) Grant {
	g := Grant{Instance: f.Subject.Instance.ID, Operation: f.Operation.ID, Add: granted(in.Added), Remove: granted(in.Removed)}
	if in.Pending != nil {
		g.Add = append(g.Add, f.unknown("add", in.Pending.Added)...)
		g.Remove = append(g.Remove, f.unknown("remove", in.Pending.Removed)...)
	}
	return g
}

func granted(targets []Target) []GrantedUnit {
	out := make([]GrantedUnit, 0, len(targets))
	for _, t := range targets {
		out = append(out, GrantedUnit{ID: plan.ResourceOf(t.Unit.ID), Type: "COMPUTE", VduID: t.VduID})
	}
	return out
}

// unknown is an entry for each of the units of which only the number is known.
func (f *Facts) unknown(what string, list []PendingUnits) []GrantedUnit {
	var out []GrantedUnit
	for _, n := range list {
		if n.AtMost {
			continue
		}
		for range n.Count {
			out = append(out, GrantedUnit{ID: fmt.Sprintf("%s-%s-%d", f.Operation.ID, what, len(out)+1), Type: "COMPUTE", VduID: n.VduID, Pending: true})
		}
	}
	return out
}
