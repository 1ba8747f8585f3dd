package lcm

import (
	"slices"

	"github.com/jibe-vnfm/jibe/plan"
)

// Notified returns the parts of the operation that a notification of its state is made of
// (VnfLcmOperationOccurrenceNotification, SOL003 clause 5.5.2.17). Of its units and
// resources these are those that [Operation.Changes] needs, and nothing where nothing was
// affected. It shares memory with o.
func (o *Operation) Notified() *Operation {
	n := &Operation{ID: o.ID, Instance: o.Instance, Type: o.Type, State: o.State, StateEntered: o.StateEntered,
		Automatic: o.Automatic, Attempt: o.Attempt, ChangedInfo: o.ChangedInfo}
	switch o.State {
	case FailedTemp, Failed, RolledBack:
		n.Error = o.Error
	case Completed:
		n.PkgChange, n.ExtLinks = o.PkgChange, o.ExtLinks
	}
	changes := o.Changes()
	if changes.Empty() && len(n.ExtLinks) == 0 {
		return n
	}
	n.VIM = o.VIM
	n.UnitsBefore, n.UnitsAfter = o.UnitsBefore, o.UnitsAfter
	n.ResourcesBefore, n.ResourcesAfter = o.ResourcesBefore, o.ResourcesAfter
	if len(changes.Ports) > 0 {
		n.Params = o.Params // they name ports
	}
	if len(o.ResourcesBefore)+len(o.ResourcesAfter) > 0 {
		return n // which tell of units, too
	}
	after := changedUnits(changes, o.UnitsAfter)
	if len(after) > 0 || len(o.UnitsAfter) == 0 { // that there are some says that they were observed
		n.UnitsBefore, n.UnitsAfter = changedUnits(changes, o.UnitsBefore), after
	}
	return n
}

// changedUnits returns those of the units that were affected.
func changedUnits(c Changes, units []plan.Unit) []plan.Unit {
	affected := make(map[string]bool, len(c.Vnfcs))
	for _, v := range c.Vnfcs {
		affected[v.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(units), func(u plan.Unit) bool { return !affected[u.Resource()] })
}
