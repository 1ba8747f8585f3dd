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
	// LinkID is the id of the network: the intent's, else the VIM's.
	LinkID string
	// PortID is its id in extLinkPorts: the VIM's id, or "req-" and the id that the request
	// gave it.
	PortID string
	// ConfigID is the key of its entry in cpConfig; the name of the connection point
	// where the intent has none.
	ConfigID string
}

// CpInstanceID returns the id of the external connection point.
func (p ExtPort) CpInstanceID() string { return "cp-" + p.PortID }

// ExtPorts returns the ports on networks outside the VNF, sorted by connection point and
// unit. A network that is a virtual link among the resources, or among managed, belongs to
// the VNF. Each of several instances of one connection point on one network gets an entry of
// cpConfig: the one that names its port or address, else the next one.
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

// linkOf returns the network and the connection point of the port. A port that the request
// gave belongs to the connection point that names it. Any other belongs to the connection
// point of its name; if several networks have one, to that on the network with the same id
// at the VIM, as an intent may name the network in another way.
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

// configOf returns the key of the entry of cpConfig that describes the port.
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

// ExtLinks returns the networks with the ports on them. vim is the connection of networks
// and ports that name none.
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
	return ExtLinkPortInfo{ID: p.PortID, ResourceHandle: HandleOf(p.Resource, vim), CpInstanceID: p.CpInstanceID()}
}

// HandleOf returns the handle of a resource; vim is the connection of one that names none.
func HandleOf(r plan.Resource, vim string) ResourceHandle {
	return ResourceHandle{VimConnectionID: cmp.Or(r.VIM, vim), ResourceID: r.ID, VimLevelResourceType: r.Type}
}

// ChangedExtConnectivity returns the operation's attribute of that name: the networks to
// which it changed the connection, as they are when it is COMPLETED.
func ChangedExtConnectivity(op *lcm.Operation) []ExtVirtualLinkInfo {
	if op.State != lcm.Completed || len(op.ExtLinks) == 0 {
		return nil
	}
	return ExtLinks(op.ExtLinks, ExtPorts(op.ExtLinks, nil, op.ResourcesAfter), op.VIM)
}

// given returns the ids that the operation's request gave to ports, by the VIM's ids.
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
