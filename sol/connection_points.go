package sol

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/notify"
)

// VnfcCpInfo is SOL003 clause 5.5.3.16.
type VnfcCpInfo struct {
	ID             string           `json:"id"`
	CpdID          string           `json:"cpdId"`
	VnfExtCpID     string           `json:"vnfExtCpId,omitempty"`
	CpProtocolInfo []CpProtocolInfo `json:"cpProtocolInfo,omitempty"`
	VnfLinkPortID  string           `json:"vnfLinkPortId,omitempty"`
	Metadata       map[string]any   `json:"metadata,omitempty"`
}

// ExtCpInfo is VnfExtCpInfo of SOL003 clause 5.5.3.2a.
type ExtCpInfo struct {
	ID                 string           `json:"id"`
	CpdID              string           `json:"cpdId"`
	CpConfigID         string           `json:"cpConfigId"`
	CpProtocolInfo     []CpProtocolInfo `json:"cpProtocolInfo"`
	ExtLinkPortID      string           `json:"extLinkPortId,omitempty"`
	Metadata           map[string]any   `json:"metadata,omitempty"`
	AssociatedVnfcCpID string           `json:"associatedVnfcCpId"`
}

// CpProtocolInfo is SOL003 clause 5.5.3.9b.
type CpProtocolInfo struct {
	LayerProtocol  string             `json:"layerProtocol"`
	IPOverEthernet IPOverEthernetInfo `json:"ipOverEthernet"`
}

// IPOverEthernetInfo is IpOverEthernetAddressInfo of SOL003 clause 5.5.3.10.
type IPOverEthernetInfo struct {
	MACAddress  string          `json:"macAddress,omitempty"`
	IPAddresses []IPAddressInfo `json:"ipAddresses,omitempty"`
}

// IPAddressInfo is an entry of ipAddresses there.
type IPAddressInfo struct {
	Type      string   `json:"type"`
	Addresses []string `json:"addresses"`
	SubnetID  string   `json:"subnetId,omitempty"`
}

// ExtManagedVirtualLinkInfo is SOL003 clause 5.5.3.3: a network that was given in the
// place of one of the VNF's own.
type ExtManagedVirtualLinkInfo struct {
	ID              string            `json:"id"`
	VirtualLinkDesc string            `json:"vnfVirtualLinkDescId"`
	NetworkResource ResourceHandle    `json:"networkResource"`
	VnfLinkPorts    []VnfLinkPortInfo `json:"vnfLinkPorts,omitempty"`
}

// VnfLinkPortInfo is SOL003 clause 5.5.3.8.
type VnfLinkPortInfo struct {
	ID             string         `json:"id"`
	ResourceHandle ResourceHandle `json:"resourceHandle"`
	CpInstanceID   string         `json:"cpInstanceId,omitempty"`
	CpInstanceType string         `json:"cpInstanceType,omitempty"`
}

// vnfcCP is the type of connection point that the ports of VNFCs are.
const vnfcCP = "VNFC_CP"

// resources adds the resources of the units to info.
func (info *InstantiatedVnfInfo) resources(in *desired.Instance, units []plan.Unit, used []plan.Resource, vim string) {
	named := make(map[string]plan.Unit, len(units))
	for _, u := range units {
		named[u.Key] = u
	}
	used = slices.DeleteFunc(slices.Clone(used), func(r plan.Resource) bool {
		_, lives := named[r.Unit]
		return r.Unit != "" && !lives
	})
	external := notify.ExtPorts(in.ExtVirtualLinks, in.ExtManagedVirtualLinks, used)
	outside := make(map[string]notify.ExtPort, len(external))
	for _, p := range external {
		outside[p.ID] = p
		u, ok := named[p.Unit]
		if !ok {
			continue
		}
		info.ExtCpInfo = append(info.ExtCpInfo, ExtCpInfo{ID: p.CpInstanceID(), CpdID: p.Name, CpConfigID: p.ConfigID, CpProtocolInfo: protocols(p.Resource),
			ExtLinkPortID: p.PortID, AssociatedVnfcCpID: notify.CpID(p.Name, u), Metadata: portMetadata(p.Resource)})
	}
	info.ExtVirtualLinks = notify.ExtLinks(withUnnamed(in.ExtVirtualLinks, external), external, vim)
	for _, l := range in.ExtManagedVirtualLinks {
		info.ExtManagedLinks = append(info.ExtManagedLinks, ExtManagedVirtualLinkInfo{ID: l.ID, VirtualLinkDesc: l.VirtualLinkDescID,
			NetworkResource: ResourceHandle{VimConnectionID: cmp.Or(l.VIMConnectionID, vim), ResourceID: l.ResourceID}, VnfLinkPorts: linkPorts(l.ResourceID, used, named, vim)})
	}
	for _, r := range used {
		given := slices.ContainsFunc(in.ExtManagedVirtualLinks, func(l desired.ExtManagedVirtualLink) bool { return l.ResourceID == r.ID })
		switch {
		case r.Kind == plan.VirtualLink && !given:
			info.VirtualLinks = append(info.VirtualLinks, VirtualLinkResourceInfo{ID: r.ID, VirtualLinkDesc: r.Name,
				NetworkResource: notify.HandleOf(r, vim), VnfLinkPorts: linkPorts(r.ID, used, named, vim)})
		case r.Kind == plan.Storage:
			info.VirtualStorages = append(info.VirtualStorages, VirtualStorageResourceInfo{ID: r.ID, VirtualStorageDesc: r.Name, StorageResource: notify.HandleOf(r, vim)})
		}
	}
	for i, u := range units {
		c := &info.VnfcResourceInfo[i]
		for _, r := range used {
			switch {
			case r.Unit != u.Key:
			case r.Kind == plan.Storage:
				c.StorageResourceIDs = append(c.StorageResourceIDs, r.ID)
			case r.Kind == plan.LinkPort:
				cp := VnfcCpInfo{VnfLinkPortID: r.ID}
				if p, ok := outside[r.ID]; ok {
					r, cp = p.Resource, VnfcCpInfo{VnfExtCpID: p.CpInstanceID()}
				}
				cp.ID, cp.CpdID, cp.CpProtocolInfo, cp.Metadata = notify.CpID(r.Name, u), r.Name, protocols(r), portMetadata(r)
				c.VnfcCpInfo = append(c.VnfcCpInfo, cp)
			}
		}
	}
}

// withUnnamed returns the links of the intent, and the networks that the VNF is on although
// no link names them (a parameter of a template did).
func withUnnamed(links []desired.ExtVirtualLink, ports []notify.ExtPort) []desired.ExtVirtualLink {
	out := slices.Clone(links)
	for _, p := range ports {
		i := slices.IndexFunc(out, func(l desired.ExtVirtualLink) bool { return l.ID == p.LinkID })
		if i < 0 {
			out = append(out, desired.ExtVirtualLink{ID: p.LinkID, VIMConnectionID: p.VIM, ResourceID: p.Network})
			i = len(out) - 1
		}
		if i >= len(links) && !slices.ContainsFunc(out[i].ExtCps, func(cp desired.ExtCp) bool { return cp.CpdID == p.Name }) {
			out[i].ExtCps = append(out[i].ExtCps, desired.ExtCp{CpdID: p.Name})
		}
	}
	return out
}

// linkPorts returns the ports on a network of the VNF.
func linkPorts(network string, used []plan.Resource, units map[string]plan.Unit, vim string) []VnfLinkPortInfo {
	var out []VnfLinkPortInfo
	for _, r := range used {
		if r.Kind != plan.LinkPort || r.Network != network {
			continue
		}
		p := VnfLinkPortInfo{ID: r.ID, ResourceHandle: notify.HandleOf(r, vim)}
		if u, ok := units[r.Unit]; ok {
			p.CpInstanceID, p.CpInstanceType = notify.CpID(r.Name, u), vnfcCP
		}
		out = append(out, p)
	}
	return out
}

// protocols returns the port's addresses, grouped by subnet.
func protocols(r plan.Resource) []CpProtocolInfo {
	info := IPOverEthernetInfo{MACAddress: r.MAC}
	for _, a := range r.Addresses {
		family := desired.IPv4
		if ip, err := netip.ParseAddr(a.IP); err == nil && ip.Is6() {
			family = desired.IPv6
		}
		i := slices.IndexFunc(info.IPAddresses, func(x IPAddressInfo) bool { return x.Type == family && x.SubnetID == a.Subnet })
		if i < 0 {
			info.IPAddresses = append(info.IPAddresses, IPAddressInfo{Type: family, SubnetID: a.Subnet})
			i = len(info.IPAddresses) - 1
		}
		info.IPAddresses[i].Addresses = append(info.IPAddresses[i].Addresses, a.IP)
	}
	if info.MACAddress == "" && len(info.IPAddresses) == 0 {
		return nil
	}
	return []CpProtocolInfo{{LayerProtocol: desired.OverEthernet, IPOverEthernet: info}}
}

// portMetadata holds the address by which the port is reached from elsewhere.
func portMetadata(r plan.Resource) map[string]any {
	if r.Floating == "" {
		return nil
	}
	return map[string]any{"floating_ip_address": r.Floating}
}

// afterVIM returns a part of an object's key without the name of the VIM before it, if any.
func afterVIM(part string) string {
	if _, rest, ok := strings.Cut(part, ":"); ok {
		return rest
	}
	return part
}

// whereabouts adds to metadata the namespace of the VNF's pods and the stack of its servers
// ("name/id").
func whereabouts(metadata map[string]any, in *desired.Instance, units []plan.Unit, objects []plan.ObservedObject) {
	for _, u := range units {
		if parts := strings.Split(u.Key, "/"); metadata["namespace"] == nil && parts[0] == kindPod && len(parts) == 3 {
			metadata["namespace"] = afterVIM(parts[1])
		}
	}
	for _, o := range objects {
		kind, name, _ := strings.Cut(o.Key, "/")
		if kind == kindStack && !o.Deleting && (metadata["stack_id"] == nil || o.Generation == in.Generation) {
			metadata["stack_id"] = afterVIM(name) + "/" + o.Incarnation
		}
	}
}
