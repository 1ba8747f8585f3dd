package lcm

import (
	"cmp"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/plan"
)

// The change types that only a virtual link has (AffectedVirtualLink.changeType, SOL003
// clause 5.5.3.14).
const (
	LinkPortAdded   ChangeType = "LINK_PORT_ADDED"
	LinkPortRemoved ChangeType = "LINK_PORT_REMOVED"
)

// AffectedResource is a storage or a port that an operation added or removed.
type AffectedResource struct {
	Resource   plan.Resource
	ChangeType ChangeType
}

// AffectedLink is a network of the VNF that an operation added or removed, or on which it
// added or removed ports.
type AffectedLink struct {
	Resource   plan.Resource
	ChangeType ChangeType
	// Ports are the ports on the network that came or went.
	Ports []plan.Resource
}

func storages(r plan.Resource) bool { return r.Kind == plan.Storage }

// external returns a filter for ports on networks outside the VNF. A network that is a
// virtual link among the resources belongs to the VNF, even if it was given in the place of
// one of the VNF's own.
func external(sets ...[]plan.Resource) func(plan.Resource) bool {
	own := map[string]bool{}
	for _, set := range sets {
		for _, r := range set {
			if r.Kind == plan.VirtualLink {
				own[r.ID] = true
			}
		}
	}
	return func(r plan.Resource) bool { return r.Kind == plan.LinkPort && r.External && !own[r.Network] }
}

// resourceChanges returns the picked resources that came or went, REMOVED first.
func resourceChanges(before, after []plan.Resource, pick func(plan.Resource) bool) []AffectedResource {
	var out []AffectedResource
	for _, r := range without(before, after, pick) {
		out = append(out, AffectedResource{r, Removed})
	}
	for _, r := range without(after, before, pick) {
		out = append(out, AffectedResource{r, Added})
	}
	return out
}

// without returns the picked resources that are not among others, sorted by name and id.
func without(resources, others []plan.Resource, pick func(plan.Resource) bool) []plan.Resource {
	var out []plan.Resource
	for _, r := range resources {
		if pick(r) && !slices.ContainsFunc(others, func(x plan.Resource) bool { return x.Kind == r.Kind && x.ID == r.ID }) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b plan.Resource) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return out
}

// linkChanges returns the networks that came or went, with all of their ports, and then the
// networks on which ports came or went.
func linkChanges(before, after []plan.Resource) []AffectedLink {
	isLink := func(r plan.Resource) bool { return r.Kind == plan.VirtualLink }
	on := func(network string) func(plan.Resource) bool {
		return func(r plan.Resource) bool { return r.Kind == plan.LinkPort && r.Network == network }
	}
	var out []AffectedLink
	for _, c := range resourceChanges(before, after, isLink) {
		in := after
		if c.ChangeType == Removed {
			in = before
		}
		out = append(out, AffectedLink{c.Resource, c.ChangeType, without(in, nil, on(c.Resource.ID))})
	}
	for _, link := range without(after, nil, isLink) {
		if !slices.ContainsFunc(before, func(r plan.Resource) bool { return isLink(r) && r.ID == link.ID }) {
			continue
		}
		if gone := without(before, after, on(link.ID)); len(gone) > 0 {
			out = append(out, AffectedLink{link, LinkPortRemoved, gone})
		}
		if fresh := without(after, before, on(link.ID)); len(fresh) > 0 {
			out = append(out, AffectedLink{link, LinkPortAdded, fresh})
		}
	}
	return out
}

// byUnit returns the resources that single units use, by the unit's key.
func byUnit(resources []plan.Resource) map[string][]plan.Resource {
	out := map[string][]plan.Resource{}
	for _, r := range resources {
		if r.Unit != "" {
			out[r.Unit] = append(out[r.Unit], r)
		}
	}
	return out
}

// samePort says whether a port is unchanged: it has the same fixed addresses on the same
// network. A floating address comes and goes without a change of the port.
func samePort(a, b plan.Resource) bool {
	return a.ID == b.ID && a.Network == b.Network && a.MAC == b.MAC && slices.Equal(a.Addresses, b.Addresses)
}

// ChangedLinks returns the networks outside the VNF, as after has them, to which the change
// alters the VNF's connection. It is nil unless the VNF runs before and after. The result
// belongs in Operation.ExtLinks.
func ChangedLinks(before, after *desired.Instance) []desired.ExtVirtualLink {
	if !runs(before) || !runs(after) {
		return nil
	}
	var out []desired.ExtVirtualLink
	for _, l := range after.ExtVirtualLinks {
		i := slices.IndexFunc(before.ExtVirtualLinks, func(x desired.ExtVirtualLink) bool { return x.ID == l.ID })
		if i < 0 || changed(linked(before.ExtVirtualLinks[i]), linked(l), "extVirtualLinks") {
			out = append(out, l)
		}
	}
	return out
}

// linked returns an intent with this network alone.
func linked(l desired.ExtVirtualLink) *desired.Instance {
	return &desired.Instance{ExtVirtualLinks: []desired.ExtVirtualLink{l}}
}
