package hot

import (
	"maps"
	"slices"
)

// networkTypes are the types of networks in a template, withNetwork those of resources that go
// where an external network replaces theirs.
var (
	networkTypes = []string{"OS::Neutron::Net", "OS::Neutron::ProviderNet"}
	withNetwork  = []string{"OS::Neutron::Subnet", "OS::Neutron::RouterInterface"}
)

// replaceNetworks puts external networks in the place of the template's own: the network goes
// with its subnets, and references to it become the external network's id. A port with an
// address of such a subnet gets an address of the external network.
func (r *Rendered) replaceNetworks() error {
	top := section(r.shared, "resources")
	ids, gone := map[string]string{}, map[string]bool{}
	for _, link := range r.in.ExtManaged {
		res := resourceOf(top, link.VirtualLinkDescID)
		if !slices.Contains(networkTypes, typeOf(res)) {
			return &InputError{"extManagedVirtualLinks", "virtual link " + link.VirtualLinkDescID + " isn't a network in " + r.Top + ": name one that is"}
		}
		ids[link.VirtualLinkDescID] = link.ResourceID
		gone[link.VirtualLinkDescID] = true
	}
	if len(ids) == 0 {
		return nil
	}

	addDependents(top, gone)
	for name := range gone {
		delete(top, name)
	}
	for _, name := range sorted(top) {
		res := withoutNetworks(top[name], ids, gone)
		for target := range uses(res) {
			if gone[target] {
				return r.folder.top.fail([]string{"resources", name}, "resource %s uses %s, whose place an external network takes (extManagedVirtualLinks): let it do without", name, target)
			}
		}
		top[name] = res
	}
	maps.DeleteFunc(section(r.shared, "outputs"), func(_ string, output any) bool {
		for target := range uses(output) {
			if gone[target] {
				return true
			}
		}
		return false
	})
	return nil
}

// addDependents adds the resources that go with the networks that are gone, such as their subnets.
func addDependents(resources map[string]any, gone map[string]bool) {
	for changed := true; changed; {
		changed = false
		for _, name := range sorted(resources) {
			if gone[name] || !slices.Contains(withNetwork, typeOf(resourceOf(resources, name))) {
				continue
			}
			for target := range uses(resources[name]) {
				gone[name] = gone[name] || gone[target]
			}
			changed = changed || gone[name]
		}
	}
}

// withoutNetworks is a resource that refers to the external networks, by their ids, and not to what is gone.
func withoutNetworks(resource any, ids map[string]string, gone map[string]bool) map[string]any {
	res := prune(rewrite(resource, func(function string, arg any) (any, bool) {
		target, rest := first(arg)
		whole := function == "get_resource" || function == "get_attr" && len(rest) == 1 && (rest[0] == "id" || rest[0] == "show")
		switch {
		case whole && ids[target] != "":
			return ids[target], true
		case (function == "get_resource" || function == "get_attr") && gone[target]:
			return nil, true
		}
		return nil, false
	}).(map[string]any))
	return rename(res, func(s string) []string {
		if gone[s] {
			return nil
		}
		return []string{s}
	})
}

// prune removes properties of a port and of a server's networks for which no value was found:
// Neutron refuses an empty address, but chooses one where there is none.
func prune(res map[string]any) map[string]any {
	properties := section(res, "properties")
	switch typeOf(res) {
	case typeServer:
		if properties["availability_zone"] == "" {
			delete(properties, "availability_zone")
		}
		for _, x := range anys(properties["networks"]) {
			if nic, ok := x.(map[string]any); ok && nic["port"] == "" {
				delete(nic, "port")
			}
		}
	case "OS::Neutron::Port":
		if properties["mac_address"] == "" {
			delete(properties, "mac_address")
		}
		fixed, ok := properties["fixed_ips"].([]any)
		if !ok {
			break
		}
		var left []any
		for _, x := range fixed {
			m, isMap := x.(map[string]any)
			if !isMap {
				left = append(left, x)
				continue
			}
			kept := map[string]any{}
			for k, v := range m {
				if v != nil && v != "" {
					kept[k] = v
				}
			}
			if len(kept) > 0 {
				left = append(left, kept)
			}
		}
		delete(properties, "fixed_ips")
		if len(left) > 0 {
			properties["fixed_ips"] = left
		}
	}
	return res
}
