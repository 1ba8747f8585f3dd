package hot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// connect adds the network and the addresses of a connection point to cps: for all its VNFCs,
// and for single ones where the instance names several.
func (in *Input) connect(cps map[string]any, name string) {
	for _, link := range in.ExtVirtualLinks {
		for _, cp := range link.ExtCps {
			if in.connectionPoint(cp.CpdID) != name {
				continue
			}
			e := section(cps, name)
			e[keyNetwork] = link.ResourceID
			for i, id := range sorted(cp.CpConfig) {
				own := configured(link, cp.CpConfig[id])
				if i == 0 {
					maps.Copy(e, own)
				}
				if len(cp.CpConfig) > 1 {
					cps[Index(name, i)] = own
				}
			}
		}
	}
}

// connectionPoint is the id of the VDU's connection point that a request calls so.
func (in *Input) connectionPoint(cpd string) string { return cmp.Or(in.Flavour.ExtCps[cpd], cpd) }

// configured is the entry of nfv for one instance of a connection point.
func configured(link desired.ExtVirtualLink, c desired.ExtCpConfig) map[string]any {
	e := map[string]any{keyNetwork: link.ResourceID}
	if fixed := fixedIPs(c); len(fixed) > 0 {
		e[keyFixed] = fixed
	}
	for _, p := range c.Protocols {
		if p.IPOverEthernet != nil {
			set(e, keyMAC, p.IPOverEthernet.MACAddress)
		}
	}
	for _, port := range link.ExtLinkPorts {
		if c.LinkPortID != "" && port.ID == c.LinkPortID {
			set(e, keyPort, port.ResourceHandle.ResourceID)
		}
	}
	return e
}

// checkConnections refuses settings of a connection point that no template reads: it would be
// connected otherwise than the instance says.
func (f *Folder) checkConnections(in *Input, paths [][]string) error {
	reads := func(cp, key string) bool {
		return slices.ContainsFunc(paths, func(p []string) bool {
			return len(p) < 2 || p[0] == "CP" && p[1] == cp && (len(p) == 2 || p[2] == key)
		})
	}
	for _, link := range in.ExtVirtualLinks {
		for _, cp := range link.ExtCps {
			name := in.connectionPoint(cp.CpdID)
			if len(in.Flavour.Cps) > 0 && !slices.ContainsFunc(in.Flavour.Cps, func(c vnfd.Cp) bool { return c.ID == name }) {
				return &InputError{"extVirtualLinks", fmt.Sprintf("connection point %s isn't one of flavour %s: there are %s", cp.CpdID, in.Flavour.ID, list(in.cps()))}
			}
			if !reads(name, keyNetwork) {
				continue // the templates connect it by themselves, or it is another VIM's
			}
			for _, id := range sorted(cp.CpConfig) {
				for _, key := range sorted(configured(link, cp.CpConfig[id])) {
					if !reads(name, key) {
						return &InputError{"extVirtualLinks", fmt.Sprintf("%s is given for connection point %s, and no template in %s reads [nfv, CP, %s, %s]: leave it out, or have the port read it", key, cp.CpdID, f.Dir, name, key)}
					}
				}
				if c := cp.CpConfig[id]; c.LinkPortID != "" && configured(link, c)[keyPort] == nil {
					return &InputError{"extVirtualLinks", fmt.Sprintf("linkPortId %s of connection point %s isn't among extLinkPorts of %s", c.LinkPortID, cp.CpdID, link.ID)}
				}
			}
		}
	}
	return nil
}

func (in *Input) cps() []string {
	var ids []string
	for _, c := range in.Flavour.Cps {
		ids = append(ids, c.ID)
	}
	return ids
}

// fixedIPs are the addresses by number, as templates read them. Where only a subnet is given,
// the network chooses the address.
func fixedIPs(c desired.ExtCpConfig) map[string]any {
	out := map[string]any{}
	add := func(subnet, ip string) {
		e := map[string]any{}
		set(e, "subnet", subnet)
		set(e, "ip_address", ip)
		if len(e) > 0 {
			out[strconv.Itoa(len(out))] = e
		}
	}
	for _, p := range c.Protocols {
		if p.IPOverEthernet == nil {
			continue
		}
		for _, a := range p.IPOverEthernet.IPAddresses {
			for _, ip := range a.FixedAddresses {
				add(a.SubnetID, ip)
			}
			for range min(a.NumDynamicAddresses, maxAddresses) {
				add(a.SubnetID, "")
			}
		}
	}
	return out
}
