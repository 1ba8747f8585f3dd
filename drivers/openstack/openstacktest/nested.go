package openstacktest

import (
	"cmp"
	"maps"
	"slices"
)

// nest brings the stack that the resource is to its properties: one of a file, or that
// of a group, whose resources are the members.
func (c *Cloud) nest(w *work, r *resource, kind *kind, file string, properties object) error {
	s := r.nested
	action := update
	if s == nil {
		action = create
		s = &stack{name: r.stack.name + "-" + r.name + "-" + shortID(), parent: r.stack, holder: r.name, keepOnFailure: true}
		c.born(s)
		r.nested, r.id = s, s.id
	}
	w.absorb(s)
	var err error
	if kind.group {
		err = c.regroup(s, r, properties)
	} else {
		err = c.refile(s, r.stack, file, properties)
	}
	if err != nil {
		return err
	}
	if action == update {
		s.updated = later(s.updated)
	}
	s.state(action, inProgress, "Stack "+action+" started")
	return c.fill(w, s)
}

// refile makes the nested stack one of the file, with the properties as parameters.
func (c *Cloud) refile(s, of *stack, file string, properties object) (err error) {
	if s.template, err = parseTemplate(of.files[file]); err != nil {
		return err
	}
	s.files, s.registry, s.given = of.files, of.registry, properties
	s.values, err = s.template.parameters(properties)
	return err
}

// regroup makes the nested stack that of the group. Of members that are too many those
// that are unhealthy go first, then the oldest: Heat chooses.
func (c *Cloud) regroup(s *stack, r *resource, properties object) error {
	members := slices.DeleteFunc(s.living(), func(m *resource) bool { return s.template.resources[m.name] == nil })
	n := len(members)
	if want, ok := properties["desired_capacity"]; ok && want != nil {
		n = whole(want)
	} else if s.template == nil {
		n = whole(properties["min_size"])
	}
	n = max(n, whole(properties["min_size"]))
	if most, ok := properties["max_size"]; ok {
		n = min(n, whole(most))
	}
	slices.SortStableFunc(members, func(a, b *resource) int {
		return cmp.Or(cmp.Compare(healthy(a), healthy(b)), a.created.Compare(b.created))
	})
	members = members[max(0, len(members)-n):]
	definitions := object{}
	for _, m := range members {
		definitions[m.name] = properties["resource"]
	}
	for len(definitions) < n {
		definitions[shortID()] = properties["resource"]
	}
	t, err := parseTemplate(object{"heat_template_version": "2015-04-30", "resources": definitions})
	if err != nil {
		return err
	}
	var order []string // that of the members, and then the new ones
	for _, m := range members {
		order = append(order, m.name)
	}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	t.order = order
	s.template, s.files, s.registry, s.given, s.values = t, r.stack.files, r.stack.registry, object{}, object{}
	return nil
}

func healthy(r *resource) int {
	if r.status == failed {
		return 0
	}
	return 1
}

func whole(v any) int {
	switch v := v.(type) {
	case float64:
		return int(v)
	case string:
		n, err := ofType("number", v)
		if f, ok := n.(float64); ok && err == nil {
			return int(f)
		}
	}
	return 0
}

// validate refuses what Heat refuses before it makes anything: types, names of
// properties, and things that aren't there.
func (c *Cloud) validate(s *stack, at string) error {
	for _, name := range s.template.order {
		d := s.template.resources[name]
		kind, file := c.kindOf(s, d.kind)
		if kind == nil {
			return invalid("The Resource Type (%s) could not be found.", d.kind)
		}
		where := at + "resources." + name
		resolved, err := c.scope(s).resolve(d.properties)
		if err != nil {
			return err
		}
		properties, _ := resolved.(object)
		if err := kind.check(c, where, properties); err != nil {
			return err
		}
		switch {
		case kind.group:
			member, _ := properties["resource"].(object)
			inner, err := parseTemplate(object{"heat_template_version": "2015-04-30", "resources": object{shortID(): member}})
			if err != nil {
				return err
			}
			below := &stack{template: inner, files: s.files, registry: s.registry, resources: map[string]*resource{}}
			if err := c.validate(below, where+"<nested_stack>."); err != nil {
				return err
			}
		case kind.nests:
			if err := c.validateFile(s, file, where, properties); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cloud) validateFile(s *stack, file, where string, properties object) error {
	below := &stack{files: s.files, registry: s.registry, resources: map[string]*resource{}}
	var err error
	if below.template, err = parseTemplate(s.files[file]); err != nil {
		return err
	}
	declared, _ := below.template.raw["parameters"].(object)
	for _, p := range slices.Sorted(maps.Keys(properties)) {
		if _, ok := declared[p]; !ok {
			return invalid("Property error: : %s<%s>.properties: : Unknown Property %s", where, file, p)
		}
	}
	below.given = object{}
	for p, v := range properties {
		if hasUnknown(v) {
			v = unknown{}
		}
		below.given[p] = v
	}
	below.values = object{}
	for p, schema := range declared {
		v, ok := below.given[p]
		if !ok {
			if v, ok = schema.(object)["default"]; !ok {
				return invalid("Property error: : %s<%s>.properties: : Property %s not assigned", where, file, p)
			}
		}
		below.values[p] = v
	}
	return c.validate(below, where+"<"+file+">.")
}
