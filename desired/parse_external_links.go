package desired

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"go.yaml.in/yaml/v3"
)

// The values of IPAddress.Type, and that of CpProtocol.LayerProtocol.
const (
	IPv4         = "IPV4"
	IPv6         = "IPV6"
	OverEthernet = "IP_OVER_ETHERNET"
)

const (
	linksKey = "extVirtualLinks"
	// maxDynamic is how many addresses of one subnet a connection point may ask for.
	maxDynamic = 64
)

// links reads extVirtualLinks, and refuses those that contradict each other.
func (d *document) links(n *yaml.Node) []ExtVirtualLink {
	var out []ExtVirtualLink
	before := len(d.problems)
	d.list(n, linksKey, func(where string, v *yaml.Node) { out = append(out, d.link(v, where)) })
	if len(d.problems) == before {
		d.contradictions(n, out)
	}
	return out
}

func (d *document) link(n *yaml.Node, where string) ExtVirtualLink {
	var l ExtVirtualLink
	before := len(d.problems)
	d.mapping(n, where,
		d.name(where, "id", &l.ID),
		d.name(where, "vimConnectionId", &l.VIMConnectionID),
		d.name(where, "resourceProviderId", &l.ProviderID),
		d.name(where, "resourceId", &l.ResourceID),
		field{"extCps", func(_, v *yaml.Node) {
			d.list(v, where+".extCps", func(where string, v *yaml.Node) { l.ExtCps = append(l.ExtCps, d.extCp(v, where)) })
		}},
		field{"extLinkPorts", func(_, v *yaml.Node) {
			d.list(v, where+".extLinkPorts", func(where string, v *yaml.Node) { l.ExtLinkPorts = append(l.ExtLinkPorts, d.linkPort(v, where)) })
		}},
	)
	if len(d.problems) > before {
		return l
	}
	d.needed(n, where, "id", l.ID)
	d.needed(n, where, "resourceId", l.ResourceID)
	if len(l.ExtCps) == 0 {
		d.fail(n, "name the connection points that are on the network: extCps: [{cpdId: …, cpConfig: …}]", "%q has no \"extCps\"", where)
	}
	return l
}

func (d *document) linkPort(n *yaml.Node, where string) ExtLinkPort {
	var p ExtLinkPort
	before := len(d.problems)
	handle := where + ".resourceHandle"
	d.mapping(n, where,
		d.name(where, "id", &p.ID),
		field{"resourceHandle", func(_, v *yaml.Node) {
			d.mapping(v, handle,
				d.name(handle, "vimConnectionId", &p.ResourceHandle.VIMConnectionID),
				d.name(handle, "resourceProviderId", &p.ResourceHandle.ProviderID),
				d.name(handle, "resourceId", &p.ResourceHandle.ResourceID),
				d.name(handle, "vimLevelResourceType", &p.ResourceHandle.Type),
			)
		}},
	)
	if len(d.problems) == before {
		d.needed(n, where, "id", p.ID)
		d.needed(n, handle, "resourceId", p.ResourceHandle.ResourceID)
	}
	return p
}

func (d *document) extCp(n *yaml.Node, where string) ExtCp {
	cp := ExtCp{CpConfig: map[string]ExtCpConfig{}}
	before := len(d.problems)
	config := where + ".cpConfig"
	d.mapping(n, where,
		d.name(where, "cpdId", &cp.CpdID),
		field{"cpConfig", func(_, v *yaml.Node) {
			d.entries(v, config, func(k, v *yaml.Node) { cp.CpConfig[k.Value] = d.cpConfig(v, dotted(config, k.Value)) })
		}},
	)
	if len(d.problems) > before {
		return cp
	}
	d.needed(n, where, "cpdId", cp.CpdID)
	if len(cp.CpConfig) == 0 {
		d.fail(n, "say how each instance of it is connected, by an id of your choice: cpConfig: {<id>: {cpProtocolData: …}}", "%q has no \"cpConfig\"", where)
	}
	return cp
}

func (d *document) cpConfig(n *yaml.Node, where string) ExtCpConfig {
	var c ExtCpConfig
	before := len(d.problems)
	d.mapping(n, where,
		d.name(where, "parentCpConfigId", &c.ParentCpConfigID),
		d.name(where, "linkPortId", &c.LinkPortID),
		field{"createExtLinkPort", func(_, v *yaml.Node) { c.CreateLinkPort = d.boolean(v, where+".createExtLinkPort") }},
		field{"cpProtocolData", func(_, v *yaml.Node) {
			d.list(v, where+".cpProtocolData", func(where string, v *yaml.Node) { c.Protocols = append(c.Protocols, d.protocol(v, where)) })
		}},
	)
	switch {
	case len(d.problems) > before:
	case c.LinkPortID != "" && c.CreateLinkPort:
		d.fail(n, "keep one of them", "%q names a port that exists, and asks for a new one", where)
	case c.LinkPortID == "" && len(c.Protocols) == 0 && !c.CreateLinkPort:
		d.fail(n, "give linkPortId, a port that exists, or cpProtocolData, the addresses of a new one", "%q doesn't say how it is connected", where)
	}
	return c
}

func (d *document) protocol(n *yaml.Node, where string) CpProtocol {
	var p CpProtocol
	before := len(d.problems)
	at := where + ".ipOverEthernet"
	d.mapping(n, where,
		field{"layerProtocol", func(_, v *yaml.Node) { p.LayerProtocol = d.oneOf(v, where+".layerProtocol", OverEthernet) }},
		field{"ipOverEthernet", func(_, v *yaml.Node) {
			p.IPOverEthernet = &IPOverEthernet{}
			d.mapping(v, at,
				field{"macAddress", func(_, v *yaml.Node) { p.IPOverEthernet.MACAddress = d.mac(v, at+".macAddress") }},
				field{"ipAddresses", func(_, v *yaml.Node) {
					d.list(v, at+".ipAddresses", func(where string, v *yaml.Node) {
						p.IPOverEthernet.IPAddresses = append(p.IPOverEthernet.IPAddresses, d.addresses(v, where))
					})
				}},
			)
		}},
	)
	if len(d.problems) == before {
		d.needed(n, where, "layerProtocol", p.LayerProtocol)
	}
	return p
}

func (d *document) mac(n *yaml.Node, where string) string {
	s := d.text(n, where, maxName)
	if _, err := net.ParseMAC(s); err != nil && n.ShortTag() == "!!str" {
		d.fail(n, "write it as fa:16:3e:00:00:01", "%q isn't a MAC address: %q", where, clip(s))
	}
	return s
}

func (d *document) addresses(n *yaml.Node, where string) IPAddress {
	var a IPAddress
	before := len(d.problems)
	d.mapping(n, where,
		field{"type", func(_, v *yaml.Node) { a.Type = d.oneOf(v, where+".type", IPv4, IPv6) }},
		field{"fixedAddresses", func(_, v *yaml.Node) {
			d.list(v, where+".fixedAddresses", func(where string, v *yaml.Node) {
				a.FixedAddresses = append(a.FixedAddresses, d.text(v, where, maxName))
			})
		}},
		field{"numDynamicAddresses", func(_, v *yaml.Node) {
			if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!int" || v.Decode(&a.NumDynamicAddresses) != nil || a.NumDynamicAddresses < 1 || a.NumDynamicAddresses > maxDynamic {
				d.fail(v, fmt.Sprintf("write a whole number from 1 to %d, without quotes", maxDynamic), "%q is a number of addresses and can't be %s", where+".numDynamicAddresses", described(v))
			}
		}},
		d.name(where, "subnetId", &a.SubnetID),
	)
	if len(d.problems) > before {
		return a
	}
	d.needed(n, where, "type", a.Type)
	if (len(a.FixedAddresses) == 0) == (a.NumDynamicAddresses == 0) {
		d.fail(n, "give fixedAddresses, or numDynamicAddresses for addresses that the VIM chooses", "%q must have either \"fixedAddresses\" or \"numDynamicAddresses\"", where)
	}
	for _, s := range a.FixedAddresses {
		if ip, err := netip.ParseAddr(s); err != nil || ip.Zone() != "" || ip.Is4() != (a.Type == IPv4) {
			d.fail(n, "write an address of the type", "%q holds %q, which is no address of type %s", where, clip(s), a.Type)
		}
	}
	return a
}

// contradictions refuses links of which not all can be.
func (d *document) contradictions(n *yaml.Node, links []ExtVirtualLink) {
	type port struct{ link, id string }
	ids, configs, used := map[string]bool{}, map[string]string{}, map[port]string{}
	for i, l := range links {
		at := n.Content[i]
		if ids[l.ID] {
			d.fail(at, "give each network an id of its own, or put its extCps together", "%s: the id %q is given twice", linksKey, clip(l.ID))
		}
		ids[l.ID] = true
		ports := map[string]bool{}
		for _, p := range l.ExtLinkPorts {
			if ports[p.ID] {
				d.fail(at, "give each port an id of its own", "%s: the port %q is given twice", linksKey, clip(p.ID))
			}
			ports[p.ID] = true
		}
		for _, cp := range l.ExtCps {
			for _, id := range slices.Sorted(maps.Keys(cp.CpConfig)) {
				c := cp.CpConfig[id]
				if other, twice := configs[id]; twice {
					d.fail(at, "give each its own id: it is one connection point of one VNFC", "%s: cpConfig %q stands on network %q too", linksKey, clip(id), clip(other))
				}
				configs[id] = l.ID
				if c.LinkPortID == "" {
					continue
				}
				if !ports[c.LinkPortID] {
					d.fail(at, "list it there, with the resourceId of the port", "%s: cpConfig %q uses the port %q, which isn't among \"extLinkPorts\" of %q", linksKey, clip(id), clip(c.LinkPortID), clip(l.ID))
				}
				if other, twice := used[port{l.ID, c.LinkPortID}]; twice && c.ParentCpConfigID == "" {
					d.fail(at, "give each a port of its own", "%s: cpConfig %q and %q use the same port %q", linksKey, clip(min(id, other)), clip(max(id, other)), clip(c.LinkPortID))
				}
				used[port{l.ID, c.LinkPortID}] = id
			}
		}
	}
}

// managed reads extManagedVirtualLinks.
func (d *document) managed(n *yaml.Node) []ExtManagedVirtualLink {
	var out []ExtManagedVirtualLink
	ids, descs := map[string]bool{}, map[string]bool{}
	d.list(n, "extManagedVirtualLinks", func(where string, v *yaml.Node) {
		var l ExtManagedVirtualLink
		before := len(d.problems)
		d.mapping(v, where,
			d.name(where, "id", &l.ID),
			d.name(where, "vnfVirtualLinkDescId", &l.VirtualLinkDescID),
			d.name(where, "vimConnectionId", &l.VIMConnectionID),
			d.name(where, "resourceProviderId", &l.ProviderID),
			d.name(where, "resourceId", &l.ResourceID),
		)
		if out = append(out, l); len(d.problems) > before {
			return
		}
		d.needed(v, where, "id", l.ID)
		d.needed(v, where, "vnfVirtualLinkDescId", l.VirtualLinkDescID)
		d.needed(v, where, "resourceId", l.ResourceID)
		if ids[l.ID] || descs[l.VirtualLinkDescID] {
			d.fail(v, "keep one of them", "%q: a link of this id, or for virtual link %q, is given already", where, clip(l.VirtualLinkDescID))
		}
		ids[l.ID], descs[l.VirtualLinkDescID] = true, true
	})
	return out
}

// placement reads which VDUs run at another VIM.
func (d *document) placement(n *yaml.Node) map[string]string {
	out := d.texts(n, "placement")
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if v.ShortTag() == "!!str" && v.Value == "" {
			d.fail(v, "name a file under vims/, without .yaml, or a key of vimConnectionInfo; or remove the VDU", "%q is empty", dotted("placement", k.Value))
		}
	}
	return out
}

// list calls read for each entry of a list, with the path at which it stands.
func (d *document) list(n *yaml.Node, where string, read func(where string, v *yaml.Node)) {
	i := 0
	d.items(n, where, func(v *yaml.Node) {
		read(fmt.Sprintf("%s[%d]", where, i), v)
		i++
	})
}

// name is the field of a mapping at where that holds a name or an id.
func (d *document) name(where, key string, to *string) field {
	return field{key, func(_, v *yaml.Node) { *to = d.text(v, dotted(where, key), maxName) }}
}

func (d *document) needed(n *yaml.Node, where, key, value string) {
	if value == "" {
		d.fail(n, fmt.Sprintf("add %s: …", key), "%q is missing", dotted(where, key))
	}
}
