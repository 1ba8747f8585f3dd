package hot

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Anew is a resource of the shared part that a rolling change makes anew, or whose attributes it
// changes, under the name that it has. VNFCs of a VDU are made of what it gives, and Heat would
// pass that to all of them at once.
type Anew struct {
	Resource string
	VDU      string // one whose VNFCs it concerns
	What     string // of the resource changes: "its property config"
}

// inPlace are the properties that Heat changes without making the resource anew. Of types that
// aren't listed it changes none so.
func inPlace(kind string) []string {
	return map[string][]string{
		"OS::Neutron::Net":           {"name", "value_specs", "admin_state_up", "shared", "dhcp_agent_ids", "port_security_enabled", "qos_policy", "dns_domain", "tags"},
		"OS::Neutron::Subnet":        {"value_specs", "name", "dns_nameservers", "gateway_ip", "enable_dhcp", "allocation_pools", "host_routes", "segment", "tags"},
		"OS::Neutron::SecurityGroup": {"name", "description", "rules"},
		"OS::Neutron::Router":        {"name", "external_gateway_info", "value_specs", "admin_state_up", "availability_zone_hints", "tags"},
		"OS::Heat::Value":            {"value", "type"},
	}[kind]
}

// MadeAnew is the first shared resource that VNFCs of the VDUs refer to now and that next has
// under the same name and otherwise, so that a rolling change would renew all of them at once;
// nil where there is none.
func (r *Rendered) MadeAnew(next *Rendered, vdus []string) *Anew {
	c := &comparison{was: r, is: next, seen: map[string]string{}}
	for _, vdu := range vdus {
		d := r.defs[vdu]
		if d == nil {
			continue
		}
		if name, what := c.first(r.params.inClear(d.resources)); what != "" {
			return &Anew{name, vdu, what}
		}
	}
	return nil
}

// renewedTogether says whether an update makes a shared resource anew that members of the VDU are
// made of now. What Heat doesn't show, the values of hidden parameters, is taken to stay.
func (c *composition) renewedTogether(d *definition) bool {
	if !c.want.Together {
		return false
	}
	values := maps.Clone(c.r.params.values)
	for name, v := range c.live.Parameters {
		if !c.r.params.hidden[name] && c.r.params.counted[name] == "" {
			values[name] = v
		}
	}
	was := &Rendered{shared: c.live.Template, params: &parameters{values: values, hidden: c.r.params.hidden, counted: c.r.params.counted}}
	names := []string{d.Resource}
	if d.Shape == Expanded {
		names = nil
		for _, m := range c.live.Members[d.VDU] {
			if index, err := strconv.Atoi(m.Name); err == nil {
				names = append(names, c.liveOwn(d, index)...)
			}
		}
	}
	comparison := &comparison{was: was, is: c.r, seen: map[string]string{}}
	for _, name := range names {
		if _, what := comparison.first(c.liveResources()[name]); what != "" {
			return true
		}
	}
	return false
}

// reference is the use of a resource: of its id alone, or of an attribute.
type reference struct {
	name      string
	attribute bool
}

// references are those in v, each once, in order.
func references(v any) []reference {
	var all []reference
	visit(v, func(function string, arg any) {
		name, _ := first(arg)
		x := reference{name, function == "get_attr"}
		if (x.attribute || function == "get_resource") && !slices.Contains(all, x) {
			all = append(all, x)
		}
	})
	return all
}

// comparison compares the shared parts of two renderings.
type comparison struct {
	was, is *Rendered
	seen    map[string]string // what of a reference changes
}

// first is the first resource to which v refers and that changes, and what of it; "" where there
// is none.
func (c *comparison) first(v any) (name, what string) {
	for _, ref := range references(v) {
		if what := c.changed(ref); what != "" {
			return ref.name, what
		}
	}
	return "", ""
}

// changed says what of the resource has what the reference gives change, "" where nothing does.
func (c *comparison) changed(ref reference) string {
	key := fmt.Sprint(ref)
	if what, ok := c.seen[key]; ok {
		return what
	}
	c.seen[key] = "" // a circle, which Heat refuses
	c.seen[key] = c.compare(ref)
	return c.seen[key]
}

func (c *comparison) compare(ref reference) string {
	before, after := c.was.sharedResource(ref.name), c.is.sharedResource(ref.name)
	if before == nil || after == nil {
		return "" // a VNFC's own, or one that stays for those who use it
	}
	a, b := typeOf(before), typeOf(after)
	nested := isTemplate(a) && isTemplate(b) // has a digest in its name, and is updated in place
	if a != b && (ref.attribute || !nested) {
		return "its type"
	}
	if !reflect.DeepEqual(plain(before["condition"]), plain(after["condition"])) ||
		!reflect.DeepEqual(plain(c.was.conditions(asSection(before))), plain(c.is.conditions(asSection(after)))) {
		return "its condition"
	}
	old, now := section(before, "properties"), section(after, "properties")
	names := sorted(old)
	for _, name := range sorted(now) {
		if old[name] == nil {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if !ref.attribute && (nested || slices.Contains(inPlace(a), name)) {
			continue
		}
		if !reflect.DeepEqual(plain(old[name]), plain(now[name])) {
			return "its property " + name
		}
		for _, x := range references(old[name]) {
			if c.changed(x) != "" {
				return fmt.Sprintf("its property %s, as %s is another", name, x.name)
			}
		}
	}
	return ""
}

// asSection has the resource stand in a section of resources.
func asSection(resource map[string]any) any { return map[string]any{"": resource} }

// sharedResource is a resource of the shared part with its parameters filled in, nil where there
// is none of the name.
func (r *Rendered) sharedResource(name string) map[string]any {
	res := resourceOf(section(r.shared, "resources"), name)
	if res == nil {
		return nil
	}
	filled, _ := r.params.inClear(res).(map[string]any)
	return filled
}
