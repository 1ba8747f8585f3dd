package notify

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// ExtVirtualLinkInfo is ExtVirtualLinkInfo (SOL003 clause 5.5.3.2): a network outside the
// VNF, and the ports by which the VNF is on it.
type ExtVirtualLinkInfo struct {
	ID             string            `json:"id"`
	ResourceHandle ResourceHandle    `json:"resourceHandle"`
	ExtLinkPorts   []ExtLinkPortInfo `json:"extLinkPorts,omitempty"`
	CurrentExtCps  []CurrentExtCp    `json:"currentVnfExtCpData"`
}

// CurrentExtCp is VnfExtCpData (clause 4.4.1.12) as it is shown.
type CurrentExtCp struct {
	CpdID    string                         `json:"cpdId"`
	CpConfig map[string]desired.ExtCpConfig `json:"cpConfig,omitempty"`
}

// ExtLinkPortInfo is ExtLinkPortInfo (clause 5.5.3.9).
type ExtLinkPortInfo struct {
	ID             string         `json:"id"`
	ResourceHandle ResourceHandle `json:"resourceHandle"`
	CpInstanceID   string         `json:"cpInstanceId,omitempty"`
}

// ExtPort is a port on a network outside the VNF. Its Name is that of the connection
// point, also where the VIM doesn't know it.
type ExtPort struct {
	plan.Resource
	// LinkID is the id of the network: that which the intent gives it, else the VIM's.
	LinkID string
	// PortID is what extLinkPorts call it: the VIM's id, or "req-" and the id by which it
	// was given.
	PortID string
	// ConfigID is the key of its entry in cpConfig; the name of the connection point
	// where the intent has none.
	ConfigID string
}

// CpInstanceID is the id of the external connection point.
func (p ExtPort) CpInstanceID() string { return "cp-" + p.PortID }

// ExtPorts are the ports on networks outside the VNF among the resources, in the order of
// connection point and unit. A network that stands among the resources as a virtual link,
// or among managed, is one of the VNF. Of several instances of one connection point on one
// network, each gets an entry of cpConfig: that which names its port or address, else the
// next one.
func ExtPorts(links []desired.ExtVirtualLink, managed []desired.ExtManagedVirtualLink, resources []plan.Resource) []ExtPort {
	own := map[string]bool{}
	for _, l := range managed {
		own[l.ResourceID] = true
	}
	for _, r := range resources {
		own[r.ID] = own[r.ID] || r.Kind == plan.VirtualLink
	}
	var out []ExtPort
	taken := map[string]bool{}
	for _, r := range sorted(resources) {
		if r.Kind != plan.LinkPort || !r.External || own[r.Network] {
			continue
		}
		p := ExtPort{Resource: r, LinkID: r.Network, PortID: r.ID, ConfigID: r.Name}
		if l, cp := linkOf(links, r); l != nil {
			p.LinkID = l.ID
			if given := givenID(l, r.ID); given != "" {
				p.PortID = "req-" + given
			}
			p.Name, p.ConfigID = cp.CpdID, configOf(l, cp, r, taken)
			taken[p.ConfigID] = true
		}
		out = append(out, p)
	}
	return out
}

func sorted(resources []plan.Resource) []plan.Resource {
	out := slices.Clone(resources)
	slices.SortStableFunc(out, func(a, b plan.Resource) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// linkOf is the network and the connection point that the port is of: one that was given
// tells by itself, of others it is the connection point of their name, on the network of
// the same id at the VIM where there are several: an intent may name it in another way.
func linkOf(links []desired.ExtVirtualLink, port plan.Resource) (link *desired.ExtVirtualLink, cp *desired.ExtCp) {
	for i := range links {
		l := &links[i]
		given := givenID(l, port.ID)
		for j := range l.ExtCps {
			at := &l.ExtCps[j]
			uses := func(c desired.ExtCpConfig) bool { return c.LinkPortID == given }
			switch {
			case given != "" && slices.ContainsFunc(slices.Collect(maps.Values(at.CpConfig)), uses):
				return l, at
			case at.CpdID == port.Name && (link == nil || l.ResourceID == port.Network):
				link, cp = l, at
			}
		}
	}
	return link, cp
}

func givenID(l *desired.ExtVirtualLink, port string) string {
	for _, p := range l.ExtLinkPorts {
		if p.ResourceHandle.ResourceID == port {
			return p.ID
		}
	}
	return ""
}

// configOf is the entry of cpConfig that the port is made by.
func configOf(l *desired.ExtVirtualLink, cp *desired.ExtCp, port plan.Resource, taken map[string]bool) string {
	keys := slices.Sorted(maps.Keys(cp.CpConfig))
	for _, key := range keys {
		c := cp.CpConfig[key]
		if c.LinkPortID != "" && c.LinkPortID == givenID(l, port.ID) || c.LinkPortID == "" && hasAddress(c, port) {
			return key
		}
	}
	for _, key := range keys {
		if !taken[key] {
			return key
		}
	}
	if len(keys) == 0 {
		return cp.CpdID
	}
	return keys[len(keys)-1]
}

func hasAddress(c desired.ExtCpConfig, port plan.Resource) bool {
	for _, p := range c.Protocols {
		if p.IPOverEthernet == nil {
			continue
		}
		for _, a := range p.IPOverEthernet.IPAddresses {
			if slices.ContainsFunc(port.Addresses, func(x plan.Address) bool { return slices.Contains(a.FixedAddresses, x.IP) }) {
				return true
			}
		}
	}
	return false
}

// ExtLinks shows the networks with those of the ports that are on them. vim is the
// connection of what doesn't say at which VIM it is.
func ExtLinks(links []desired.ExtVirtualLink, ports []ExtPort, vim string) []ExtVirtualLinkInfo {
	var out []ExtVirtualLinkInfo
	for _, l := range links {
		info := ExtVirtualLinkInfo{ID: l.ID, CurrentExtCps: []CurrentExtCp{},
			ResourceHandle: ResourceHandle{VimConnectionID: cmp.Or(l.VIMConnectionID, vim), ResourceID: l.ResourceID}}
		for _, cp := range l.ExtCps {
			info.CurrentExtCps = append(info.CurrentExtCps, CurrentExtCp(cp))
		}
		for _, p := range ports {
			if p.LinkID == l.ID {
				info.ExtLinkPorts = append(info.ExtLinkPorts, p.info(vim))
			}
		}
		out = append(out, info)
	}
	return out
}

func (p ExtPort) info(vim string) ExtLinkPortInfo {
	return ExtLinkPortInfo{ID: p.PortID, ResourceHandle: handleOf(p.Resource, vim), CpInstanceID: p.CpInstanceID()}
}

func handleOf(r plan.Resource, vim string) ResourceHandle {
	return ResourceHandle{VimConnectionID: cmp.Or(r.VIM, vim), ResourceID: r.ID, VimLevelResourceType: r.Type}
}

// ChangedExtConnectivity is that attribute of the operation: the networks to which it
// changed the connection, as they are when it is done.
func ChangedExtConnectivity(op *lcm.Operation) []ExtVirtualLinkInfo {
	if op.State != lcm.Completed || len(op.ExtLinks) == 0 {
		return nil
	}
	return ExtLinks(op.ExtLinks, ExtPorts(op.ExtLinks, nil, op.ResourcesAfter), "")
}

// given are the ids of ports that the operation's request gave, by the VIM's ids.
func given(op *lcm.Operation) map[string]string {
	var asked struct {
		Links []desired.ExtVirtualLink `json:"extVirtualLinks"`
	}
	out := map[string]string{}
	if len(op.Params) == 0 || json.Unmarshal(op.Params, &asked) != nil {
		return out
	}
	for _, l := range asked.Links {
		for _, p := range l.ExtLinkPorts {
			out[p.ResourceHandle.ResourceID] = "req-" + p.ID
		}
	}
	return out
}
