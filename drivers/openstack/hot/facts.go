package hot

import (
	"fmt"
	"slices"
	"strings"
)

// Fact is a thing at the VIM that a template names.
type Fact struct {
	Kind  FactKind
	Value string // name or id
	VDU   string // who needs it, "" for the shared part
	Where string // the resource in the templates: "BaseHOT/simple/top.yaml: VDU1"
}

// FactKind is what a [Fact] names.
type FactKind string

// Facts that must exist at the VIM before a stack is made.
const (
	FactImage   FactKind = "image"
	FactFlavour FactKind = "flavour"
	FactNetwork FactKind = "network"
)

// Facts that only one stack can have at a time.
const (
	FactAddress FactKind = "fixed IP address"
	FactMAC     FactKind = "MAC address"
	FactPort    FactKind = "port"
	FactVolume  FactKind = "volume"
	FactName    FactKind = "name"
)

// Shareable says whether two stacks can use the thing at once.
func (k FactKind) Shareable() bool {
	return k == FactImage || k == FactFlavour || k == FactNetwork
}

// Facts are the things at the VIM that the templates name, as far as they stand in the templates
// or in parameters, in order.
func (r *Rendered) Facts() []Fact {
	var all []Fact
	for _, vdu := range sorted(r.defs) {
		d := r.defs[vdu]
		filled := r.params.resolve(d.resources, none, func(s string) string { return s }).(map[string]any)
		all = append(all, r.folder.facts(r.folder.top, filled, vdu)...)
	}
	filled := r.params.resolve(r.shared["resources"], none, func(s string) string { return s })
	if m, ok := filled.(map[string]any); ok {
		all = append(all, r.folder.facts(r.folder.top, m, "")...)
	}
	slices.SortFunc(all, func(a, b Fact) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return slices.Compact(all)
}

// uniqueNames are types of resources of which a project can have only one of a name.
var uniqueNames = []string{"OS::Nova::KeyPair", "OS::Nova::Flavor", "OS::Designate::Zone"}

func (f *Folder) facts(t *template, resources map[string]any, vdu string) []Fact {
	var all []Fact
	for _, name := range sorted(resources) {
		res := resourceOf(resources, name)
		props := section(res, "properties")
		where := t.file + ": " + name
		add := func(kind FactKind, v any) {
			if s, ok := v.(string); ok && s != "" {
				all = append(all, Fact{kind, s, vdu, where})
			}
		}
		port := func(p map[string]any) {
			add(FactNetwork, p["network"])
			add(FactNetwork, p["network_id"])
			add(FactMAC, p["mac_address"])
			for _, x := range anys(p["fixed_ips"]) {
				m, _ := x.(map[string]any)
				add(FactAddress, m["ip_address"])
			}
		}
		switch kind := typeOf(res); {
		case kind == typeServer:
			add(FactImage, props["image"])
			add(FactFlavour, props["flavor"])
			for _, x := range anys(props["networks"]) {
				m, _ := x.(map[string]any)
				add(FactNetwork, m["network"])
				add(FactNetwork, m["uuid"])
				add(FactPort, m["port"])
				add(FactAddress, m["fixed_ip"])
			}
			for _, key := range []string{"block_device_mapping", "block_device_mapping_v2"} {
				for _, x := range anys(props[key]) {
					m, _ := x.(map[string]any)
					add(FactImage, m["image"])
					add(FactImage, m["image_id"])
					add(FactVolume, m["volume_id"])
				}
			}
		case kind == "OS::Neutron::Port":
			port(props)
		case kind == "OS::Cinder::Volume":
			add(FactImage, props["image"])
		case kind == "OS::Cinder::VolumeAttachment":
			add(FactVolume, props["volume_id"])
		case kind == "OS::Neutron::FloatingIP":
			add(FactNetwork, props["floating_network"])
			add(FactAddress, props["floating_ip_address"])
		case slices.Contains(uniqueNames, kind):
			add(FactName, props["name"])
		}
		// The types in res may have been renamed; the package's own are in t.
		for i, kind := range typesIn(resourceOf(t.resources(), name)) {
			holder := props
			if i > 0 {
				holder = section(section(props, "resource"), "properties")
			}
			if nested := f.byFile[t.nested[kind]]; nested != nil {
				all = append(all, f.facts(nested, f.within(nested, holder), vdu)...)
			}
		}
	}
	return all
}

// within are a nested file's resources with the given parameters filled in.
func (f *Folder) within(nested *template, given map[string]any) map[string]any {
	p := &parameters{values: map[string]any{}}
	declared := section(nested.tree, "parameters")
	for name := range declared {
		v, has := given[name]
		if !has || v == nil {
			v = section(declared, name)["default"]
		}
		if !dynamic(v) {
			p.values[name] = v
		}
	}
	out, _ := p.resolve(nested.tree["resources"], none, func(s string) string { return s }).(map[string]any)
	return out
}

// distinct refuses several VNFCs of a VDU with one and the same address.
func (r *Rendered) distinct(d *definition, count int) error {
	taken := map[Fact]int{}
	for i := range count {
		index := i
		if d.Shape == Grouped {
			if i > 1 {
				break // the members of a group are all made of the same definition
			}
			index = none
		}
		filled := r.params.resolve(d.resources, index, func(s string) string { return s }).(map[string]any)
		for _, fact := range r.folder.facts(r.folder.top, filled, d.VDU) {
			if fact.Kind == FactName || fact.Kind.Shareable() {
				continue
			}
			if by, twice := taken[fact]; twice && by != i {
				return &Error{fact.Where, 0, fmt.Sprintf("%s %s would be that of several of the %d VNFCs of VDU %s: give each its own (one cpConfig each), or none", fact.Kind, fact.Value, count, d.VDU)}
			}
			taken[fact] = i
		}
	}
	return nil
}

// checkOutputs refuses outputs that refer to VNFCs of two VDUs at once, and drops those that refer
// to what runs at another VIM.
func (r *Rendered) checkOutputs(gone map[string]bool) error {
	outputs := section(r.shared, "outputs")
	for _, name := range sorted(outputs) {
		vdu, err := expandedRefs(outputs[name], r.owner)
		if err != nil {
			return r.folder.top.fail([]string{"outputs", name}, "output %s %v", name, err)
		}
		if vdu != "" && r.defs[vdu] != nil {
			continue
		}
		for target := range uses(outputs[name]) {
			if gone[target] && section(r.shared, "resources")[target] == nil && !r.has(target) {
				delete(outputs, name) // it speaks of what runs at another VIM
				break
			}
		}
	}
	return nil
}

// has says whether a resource belongs to a VDU that runs here.
func (r *Rendered) has(name string) bool {
	for _, d := range r.defs {
		if d.resources[name] != nil {
			return true
		}
	}
	return false
}
