package lcm

import (
	"cmp"
	"slices"

	"github.com/jibe-vnfm/jibe/plan"
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
	// ID is the VIM's id of the unit; it is vnfcResourceInfo.id too.
	ID string `json:"id"`
	// Unit is the one that was added or modified, or the one that is gone.
	Unit       plan.Unit  `json:"unit"`
	ChangeType ChangeType `json:"changeType"`
	// Ports are the ports of the unit that came, went or changed their addresses.
	Ports []plan.Resource `json:"ports,omitempty"`
	// Added and Removed are the storages that the unit got and lost.
	Added   []plan.Resource `json:"added,omitempty"`
	Removed []plan.Resource `json:"removed,omitempty"`
}

// Changes are what an operation affected, as resourceChanges shows it (SOL003 clause
// 5.5.2.13).
type Changes struct {
	Vnfcs    []AffectedVnfc
	Links    []AffectedLink
	Storages []AffectedResource
	// Ports are those on networks outside the VNF.
	Ports []AffectedResource
}

// Empty says whether nothing was affected.
func (c Changes) Empty() bool {
	return len(c.Vnfcs)+len(c.Links)+len(c.Storages)+len(c.Ports) == 0
}

// Changes returns what the operation affected. It is empty as long as that isn't known: in
// STARTING, PROCESSING and ROLLING_BACK, and where no units were recorded after the start,
// unless the operation is COMPLETED and has left no units.
func (o *Operation) Changes() Changes {
	switch o.State {
	case Prepared, Starting, Processing, RollingBack:
		return Changes{}
	}
	emptied := o.State == Completed && o.Type != ModifyInfo
	if o.UnitsAfter == nil && !emptied {
		return Changes{}
	}
	before, after := o.ResourcesBefore, o.ResourcesAfter
	c := Changes{Vnfcs: Difference(o.UnitsBefore, o.UnitsAfter, before, after)}
	if before == nil && len(o.UnitsBefore) > 0 || after == nil && len(o.UnitsAfter) > 0 {
		return c // their resources were not observed
	}
	c.Links, c.Storages = linkChanges(before, after), resourceChanges(before, after, storages)
	c.Ports = resourceChanges(before, after, external(before, after))
	return c
}

// Difference returns what changed from one set of units to another; used and uses are
// their resources. The VIM's id identifies a unit: a pod that was replaced under its old
// name is one REMOVED and one ADDED, a server that was rebuilt under its old id is MODIFIED.
// A unit is also MODIFIED if it shows another image, node or address, has other ports or
// storages, or was stopped or started. Units that are being deleted count as gone. The result is sorted by change
// (REMOVED first), VDU, name and id.
func Difference(before, after []plan.Unit, used, uses []plan.Resource) []AffectedVnfc {
	old, now := live(before), live(after)
	had, has := byUnit(used), byUnit(uses)
	var out []AffectedVnfc
	for id, u := range old {
		if _, ok := now[id]; !ok {
			out = append(out, affected(Removed, u, had[u.Key], nil))
		}
	}
	for id, u := range now {
		was, ok := old[id]
		if !ok {
			out = append(out, affected(Added, u, nil, has[u.Key]))
			continue
		}
		c := affected(Modified, u, had[was.Key], has[u.Key])
		if used == nil || uses == nil { // the resources were not observed
			c = affected(Modified, u, nil, nil)
		}
		if was.ID != u.ID || modified(was, u) || len(c.Ports)+len(c.Added)+len(c.Removed) > 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b AffectedVnfc) int {
		return cmp.Or(cmp.Compare(rank(a.ChangeType), rank(b.ChangeType)),
			cmp.Compare(a.Unit.VDU, b.Unit.VDU), cmp.Compare(a.Unit.Name, b.Unit.Name), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// affected returns the unit with the resources that it got, lost or has otherwise.
func affected(t ChangeType, u plan.Unit, had, has []plan.Resource) AffectedVnfc {
	c := AffectedVnfc{ID: u.Resource(), Unit: u, ChangeType: t}
	for _, r := range had {
		switch {
		case r.Kind == plan.LinkPort && !slices.ContainsFunc(has, func(x plan.Resource) bool { return x.ID == r.ID }):
			c.Ports = append(c.Ports, r)
		case r.Kind == plan.Storage && !slices.ContainsFunc(has, func(x plan.Resource) bool { return x.ID == r.ID }):
			c.Removed = append(c.Removed, r)
		}
	}
	for _, r := range has {
		switch {
		case r.Kind == plan.LinkPort && !slices.ContainsFunc(had, func(x plan.Resource) bool { return samePort(x, r) }):
			c.Ports = append(c.Ports, r)
		case r.Kind == plan.Storage && !slices.ContainsFunc(had, func(x plan.Resource) bool { return x.ID == r.ID }):
			c.Added = append(c.Added, r)
		}
	}
	return c
}

// live returns the units that aren't being deleted, by the VIM's id of them.
func live(units []plan.Unit) map[string]plan.Unit {
	m := make(map[string]plan.Unit, len(units))
	for _, u := range units {
		if !u.Deleting {
			m[u.Resource()] = u
		}
	}
	return m
}

// modified says whether a unit that stayed was changed. Readiness comes and goes and is no
// modification, nor is an attribute that appears (such as an address given after the
// start).
func modified(was, is plan.Unit) bool {
	if was.VDU != is.VDU || was.Name != is.Name || was.Stopped != is.Stopped {
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
