package lcm

import (
	"cmp"
	"slices"

	"github.com/jibe-vnfm/jibe/reconciler/plan"
)

// ChangeType is how an operation affected a VNFC (AffectedVnfc.changeType, SOL003
// clause 5.5.3.13).
type ChangeType string

// The change types that Jibe reports.
const (
	Added    ChangeType = "ADDED"
	Removed  ChangeType = "REMOVED"
	Modified ChangeType = "MODIFIED"
)

// AffectedVnfc is one unit that an operation added, removed or modified.
type AffectedVnfc struct {
	// ID is the unit's incarnation, which vnfcResourceInfo.id shows.
	ID string `json:"id"`
	// Unit is the one that was added or modified, or the one that is gone.
	Unit       plan.Unit  `json:"unit"`
	ChangeType ChangeType `json:"changeType"`
}

// Changes are the units that the operation affected, as resourceChanges shows them
// (SOL003 clause 5.5.2.13). There are none before anything was seen to change: in
// STARTING, PROCESSING and ROLLING_BACK, and where no units were recorded, but for
// an operation that is complete and left none.
func (o *Operation) Changes() []AffectedVnfc {
	switch o.State {
	case Prepared, Starting, Processing, RollingBack:
		return nil
	}
	emptied := o.State == Completed && o.Type != ModifyInfo
	if o.UnitsAfter == nil && !emptied {
		return nil
	}
	return Difference(o.UnitsBefore, o.UnitsAfter)
}

// Difference is the change from one set of units to another, by incarnation: a
// pod that was replaced under its old name is one REMOVED and one ADDED. A unit
// that stayed but shows another image, node or address is MODIFIED. Units that
// are being deleted count as gone. The order is that of VDU, name and id, REMOVED
// first.
func Difference(before, after []plan.Unit) []AffectedVnfc {
	old := live(before)
	now := live(after)
	var out []AffectedVnfc
	for id, u := range old {
		if _, ok := now[id]; !ok {
			out = append(out, AffectedVnfc{ID: id, Unit: u, ChangeType: Removed})
		}
	}
	for id, u := range now {
		was, ok := old[id]
		switch {
		case !ok:
			out = append(out, AffectedVnfc{ID: id, Unit: u, ChangeType: Added})
		case modified(was, u):
			out = append(out, AffectedVnfc{ID: id, Unit: u, ChangeType: Modified})
		}
	}
	slices.SortFunc(out, func(a, b AffectedVnfc) int {
		return cmp.Or(cmp.Compare(rank(a.ChangeType), rank(b.ChangeType)),
			cmp.Compare(a.Unit.VDU, b.Unit.VDU), cmp.Compare(a.Unit.Name, b.Unit.Name), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func live(units []plan.Unit) map[string]plan.Unit {
	m := make(map[string]plan.Unit, len(units))
	for _, u := range units {
		if !u.Deleting {
			m[u.ID] = u
		}
	}
	return m
}

// modified says whether a unit that stayed is no longer what it was. Readiness
// comes and goes and is no modification. An attribute that appears where none was
// (an address given after the start) isn't one either.
func modified(was, is plan.Unit) bool {
	if was.VDU != is.VDU || was.Name != is.Name {
		return true
	}
	for k, v := range was.Metadata {
		if v != "" && is.Metadata[k] != v {
			return true
		}
	}
	return false
}

func rank(t ChangeType) int {
	switch t {
	case Removed:
		return 0
	case Modified:
		return 1
	}
	return 2
}
