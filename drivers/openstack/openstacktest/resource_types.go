package openstacktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// kind is what Heat knows of a type of resource. Errors of create and update may be a
// saying.
type kind struct {
	nests, group, server bool
	// updatable are the properties that can change in place, others those that can't,
	// required those of both that must be there. All nil: anything goes.
	updatable, others, required []string

	create  func(c *Cloud, w *work, r *resource, p object) (id string, err error)
	update  func(c *Cloud, w *work, r *resource, p object) error
	destroy func(c *Cloud, r *resource)
	// broken says whether what a resource in *_FAILED stands for is of no use.
	broken func(c *Cloud, r *resource) bool
	// forced says that a change of properties makes a successor though all may change
	// in place.
	forced func(old, next object) bool
	// verify looks at values.
	verify func(c *Cloud, where string, p object) error
}

// replaces says whether the change of properties needs a successor.
func (k *kind) replaces(old, next object) bool {
	if k.forced != nil && k.forced(old, next) {
		return true
	}
	return slices.ContainsFunc(k.others, func(name string) bool { return !reflect.DeepEqual(old[name], next[name]) })
}

func (k *kind) check(c *Cloud, where string, p object) error {
	if k.updatable == nil && k.others == nil {
		return nil
	}
	if err := k.known(where, p); err != nil {
		return err
	}
	for _, name := range k.required {
		if p[name] == nil {
			return invalid("Property error: : %s.properties: : Property %s not assigned", where, name)
		}
	}
	if k.verify == nil {
		return nil
	}
	return k.verify(c, where, p)
}

// known returns an error where the resource has a property that its type doesn't know.
func (k *kind) known(where string, p object) error {
	if k.updatable == nil && k.others == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if !slices.Contains(k.updatable, name) && !slices.Contains(k.others, name) {
			return invalid("Property error: : %s.properties: : Unknown Property %s", where, name)
		}
	}
	return nil
}

func badValue(where, property string, value any, why string) error {
	return invalid("Property error: : %s.properties.%s: : Error validating value '%v': %s", where, property, value, why)
}

// kindOf is what stands behind the type in this stack, and the file where it is one. nil
// is a type that Heat doesn't know.
func (c *Cloud) kindOf(s *stack, name string) (*kind, string) {
	if file := nestedFile(name, s.registry, s.files); file != "" {
		return &kind{nests: true}, file
	}
	if mapped, ok := s.registry[name].(string); ok {
		name = mapped
	}
	switch name {
	case "OS::Heat::AutoScalingGroup":
		return groupKind(), ""
	case "OS::Nova::Server":
		return serverKind(), ""
	case "OS::Neutron::Port":
		return portKind(), ""
	case "OS::Neutron::Net":
		return networkKind(), ""
	case "OS::Neutron::Subnet":
		return subnetKind(), ""
	case "OS::Cinder::Volume":
		return volumeKind(), ""
	case "OS::Cinder::VolumeAttachment":
		return attachmentKind(), ""
	case "OS::Heat::SoftwareConfig", "OS::Nova::ServerGroup", "OS::Nova::KeyPair":
		k := plainKind()
		k.forced = func(old, next object) bool { return !reflect.DeepEqual(old, next) } // nothing of them changes in place
		return k, ""
	case "OS::Heat::None", "OS::Heat::Value", "OS::Heat::RandomString", "OS::Heat::MultipartMime",
		"OS::Heat::ScalingPolicy", "OS::Neutron::Router", "OS::Neutron::RouterInterface",
		"OS::Cinder::VolumeType":
		return plainKind(), ""
	}
	return nil, ""
}

// plainKind is of things that only Heat shows here.
func plainKind() *kind {
	return &kind{
		create:  func(*Cloud, *work, *resource, object) (string, error) { return uuid.NewString(), nil },
		update:  func(*Cloud, *work, *resource, object) error { return nil },
		destroy: func(*Cloud, *resource) {},
		broken:  func(*Cloud, *resource) bool { return false },
	}
}

func groupKind() *kind {
	return &kind{
		nests: true, group: true,
		updatable: []string{"resource", "max_size", "min_size", "cooldown", "desired_capacity", "rolling_updates"},
		required:  []string{"resource", "max_size", "min_size"},
		verify: func(_ *Cloud, where string, p object) error {
			least, most := whole(p["min_size"]), whole(p["max_size"])
			if most < least {
				return invalid("MinSize can not be greater than MaxSize")
			}
			if n, ok := p["desired_capacity"]; ok && n != nil && !hasUnknown(n) {
				if _, err := ofType("number", n); err != nil {
					return badValue(where, "desired_capacity", n, "Value '"+asText(n)+"' is not an integer")
				}
				if whole(n) < least || whole(n) > most {
					return invalid("DesiredCapacity must be between MinSize and MaxSize")
				}
			}
			return nil
		},
	}
}

// attribute is what get_attr says; nil where there is nothing to say.
func (c *Cloud) attribute(r *resource, path []any) any {
	if len(path) == 0 {
		return nil
	}
	name, rest := asText(path[0]), path[1:]
	if r.nested != nil {
		return c.nestedAttribute(r, name, rest)
	}
	var shown object
	switch r.kind {
	case "OS::Nova::Server":
		s, ok := c.servers.get(r.id)
		if !ok {
			return nil
		}
		return dig(c.serverAttribute(s, name), rest)
	case "OS::Neutron::Port":
		if p, ok := c.ports.get(r.id); ok {
			shown = c.portJSON(p)
		}
	case "OS::Neutron::Net":
		if n, ok := c.networks.get(r.id); ok {
			shown = c.networkJSON(n)
		}
	case "OS::Neutron::Subnet":
		if s, ok := c.subnets.get(r.id); ok {
			shown = c.subnetJSON(s)
		}
	case "OS::Cinder::Volume":
		if v, ok := c.volumes.get(r.id); ok {
			shown = c.volumeJSON(v)
		}
	case "OS::Heat::Value":
		shown = object{"value": r.properties["value"]}
	case "OS::Heat::RandomString":
		shown = object{"value": strings.ReplaceAll(r.id, "-", "")}
	}
	if name == "show" {
		return dig(shown, rest)
	}
	return dig(plainly(shown), path)
}

func (c *Cloud) serverAttribute(s *server, name string) any {
	shown := c.serverJSON(s, maxMicroversion, true)
	switch name {
	case "show":
		return shown
	case "first_address":
		for _, id := range s.ports {
			if p, ok := c.ports.get(id); ok && len(p.fixed) > 0 {
				return p.fixed[0].addr.String()
			}
		}
		return ""
	case "networks":
		out := object{}
		for name, list := range shown["addresses"].(object) {
			var addresses []any
			for _, a := range list.([]any) {
				addresses = append(addresses, a.(object)["addr"])
			}
			out[name] = addresses
		}
		return out
	}
	return plainly(shown)[name]
}

func (c *Cloud) nestedAttribute(r *resource, name string, rest []any) any {
	members := r.nested.living()
	if r.kind != "OS::Heat::AutoScalingGroup" {
		outputs, _ := r.nested.template.raw["outputs"].(object)
		o, ok := outputs[name].(object)
		if !ok {
			return nil
		}
		v, err := c.scope(r.nested).resolve(o["value"])
		if err != nil {
			return nil
		}
		return dig(v, rest)
	}
	list, byName := []any{}, object{}
	for _, m := range members {
		var v any = m.id
		if (name == "outputs" || name == "outputs_list") && len(rest) > 0 {
			v = c.attribute(m, rest)
		}
		list = append(list, v)
		byName[m.name] = v
	}
	switch name {
	case "current_size":
		return float64(len(members))
	case "refs":
		return dig(list, rest)
	case "refs_map":
		return dig(byName, rest)
	case "outputs_list":
		return list
	case "outputs":
		return byName
	}
	if member, ok := strings.CutPrefix(name, "resource."); ok && r.nested.resources[member] != nil {
		return c.attribute(r.nested.resources[member], rest)
	}
	return nil
}

// plainly is the value as JSON makes it, so that paths can be followed in it.
func plainly(v object) object {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out object
	_ = json.Unmarshal(data, &out) // it was marshalled right above
	return out
}

// physicalName is what Heat calls a thing whose template doesn't name it.
func physicalName(r *resource, p object, most int) string {
	if name, ok := p["name"].(string); ok && name != "" {
		return name
	}
	name := r.stack.name + "-" + r.name + "-" + shortID()
	if most > 0 && len(name) > most {
		name = name[:2] + "-" + name[len(name)-(most-3):]
	}
	return name
}

// list is a property that is a list of maps.
func list(v any) []object {
	var out []object
	items, _ := v.([]any)
	for _, x := range items {
		if m, ok := x.(object); ok {
			out = append(out, m)
		}
	}
	return out
}

func isUnset(v any) bool { return v == nil || v == "" || hasUnknown(v) }

// verifyNetwork refuses the name of a network that isn't there.
func verifyNetwork(c *Cloud, where, property string, value any) error {
	if isUnset(value) {
		return nil
	}
	if _, ok := c.findNetwork(asText(value)); !ok {
		return badValue(where, property, value, fmt.Sprintf("Unable to find network with name or id '%v'", value))
	}
	return nil
}

func verifyCIDR(where string, value any) error {
	if isUnset(value) {
		return nil
	}
	if _, err := netip.ParsePrefix(asText(value)); err != nil {
		return badValue(where, "cidr", value, fmt.Sprintf("Invalid net cidr invalid IPNetwork %v ", value))
	}
	return nil
}
