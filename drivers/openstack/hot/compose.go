package hot

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// layoutOutput is the stack output that says which resources of the template belong to which
// VNFC of an expanded VDU: VDU -> member -> names. With it a definition can be kept that the
// present package doesn't have.
const layoutOutput = "jibe_members"

// Create is the body of a new stack with that many VNFCs of each VDU.
func (r *Rendered) Create(counts map[string]int) (*Body, error) {
	return r.Update(Live{}, Want{Counts: counts})
}

// composition is a body in the making.
type composition struct {
	r         *Rendered
	live      Live
	want      Want
	tree      map[string]any
	resources map[string]any
	files     map[string]string
	values    map[string]any
	declared  map[string]any
	counts    map[string]int
	layout    map[string]any
	next      map[string]any  // of nextOutput
	together  map[string]bool // the VDUs whose members Heat renews together
	merged    bool
	existing  bool
	kept      []string // resources that are as in the live template
}

// Update is the body of an update of the top stack: the shared part as rendered; each
// VDU with an outdated member that Want doesn't renew keeps the definition in the live
// template, the others get the new one; members that aren't victims stay.
func (r *Rendered) Update(live Live, want Want) (*Body, error) {
	c := &composition{r: r, live: live, want: want, tree: cloneMap(r.shared), files: maps.Clone(r.files), counts: map[string]int{}, layout: map[string]any{}, next: map[string]any{}, together: map[string]bool{}}
	for vdu, d := range r.defs {
		c.together[vdu] = c.renewedTogether(d)
	}
	c.resources = c.section("resources")
	c.declared = c.section("parameters")
	c.values = map[string]any{}
	for _, vdu := range sorted(r.defs) {
		compose := c.expanded
		if r.defs[vdu].Shape == Grouped {
			compose = c.grouped
		}
		if err := compose(r.defs[vdu]); err != nil {
			return nil, err
		}
	}
	for name, v := range r.valued(c.counts) {
		c.values[name] = v
	}
	c.outputs()
	c.keepShared()
	if c.anyOutdated() {
		// Members that are yet to be renewed are made of the live files.
		for name, content := range live.Files {
			if _, known := c.files[name]; !known {
				c.files[name] = content
			}
		}
	}
	if c.merged {
		raiseVersion(c.tree)
	}
	if len(c.declared) == 0 {
		delete(c.tree, "parameters")
	}
	return &Body{Template: c.tree, Files: c.files, Parameters: c.values, Existing: c.existing}, nil
}

// section is a section of the template, made where there is none.
func (c *composition) section(name string) map[string]any {
	s := section(c.tree, name)
	if s == nil {
		s = map[string]any{}
		c.tree[name] = s
	}
	return s
}

// outdated says whether the member is made of another definition than the package's. A member
// without a server isn't: its server will be made of the new one.
func (d *definition) outdated(m Member) bool { return m.Digest != "" && m.Digest != d.Digest }

func (c *composition) anyOutdated() bool {
	for vdu, members := range c.live.Members {
		d := c.r.defs[vdu]
		if d == nil || slices.ContainsFunc(members, d.outdated) {
			return true
		}
	}
	return false
}

// keeps says whether the member stays as it is in the live template.
func (c *composition) keeps(d *definition, m Member) bool {
	return d.outdated(m) && !c.together[d.VDU] && !slices.Contains(c.want.Renew[d.VDU], m.Name) && !slices.Contains(c.want.Victims[d.VDU], m.Name)
}

// number is how many VNFCs the VDU gets; stay is how many of the present ones stay.
func (c *composition) number(d *definition, stay int) (int, error) {
	n, named := c.want.Counts[d.VDU]
	if !named {
		n = stay
	}
	if n < stay {
		return 0, fmt.Errorf("VDU %s would have %d VNFCs and %d stay: name the ones that go", d.VDU, n, stay)
	}
	c.counts[d.VDU] = n
	return n, nil
}

func (c *composition) stay(d *definition) []Member {
	return slices.DeleteFunc(slices.Clone(c.live.Members[d.VDU]), func(m Member) bool { return slices.Contains(c.want.Victims[d.VDU], m.Name) })
}

func (c *composition) grouped(d *definition) error {
	stay := c.stay(d)
	n, err := c.number(d, len(stay))
	if err != nil {
		return err
	}
	group := resourceOf(c.fill(d, none), d.Resource)
	now := resourceOf(c.liveResources(), d.Resource)
	properties := section(group, "properties")
	if typeOf(now) == typeGroup && slices.ContainsFunc(stay, func(m Member) bool { return c.keeps(d, m) }) {
		if asked := c.r.unresolved(d, group); asked != nil {
			c.next[d.VDU] = asked
		}
		properties["resource"] = clone(section(now, "properties")["resource"])
		c.kept = append(c.kept, d.Resource)
	}
	properties[keyCapacity] = n
	// Members are renewed one at a time before the group gets its new definition. Then Heat
	// should go over the group once, not once for each member: the batch is all of them. But
	// where Heat has to renew several by itself, it takes one after the other.
	batch := max(n, 1)
	renewed := slices.DeleteFunc(slices.Clone(stay), func(m Member) bool { return !d.outdated(m) || c.keeps(d, m) })
	if len(renewed) > 1 {
		batch = 1
	}
	properties["rolling_updates"] = map[string]any{"max_batch_size": batch}
	c.resources[d.Resource] = group
	return nil
}

func (c *composition) liveResources() map[string]any { return section(c.live.Template, "resources") }

// fill is one VNFC's resources, or the group, with its parameters filled in.
func (c *composition) fill(d *definition, index int) map[string]any {
	as := func(name string) string {
		own := name + "_" + d.Digest[:8]
		schema := cloneMap(section(section(c.r.shared, "parameters"), name))
		delete(schema, "default")
		c.declared[own], c.values[own] = schema, c.r.params.values[name]
		return own
	}
	maps.Copy(c.files, d.files)
	c.merged = c.merged || d.merged
	out := c.r.params.resolve(d.resources, index, as).(map[string]any)
	for name := range out {
		prune(resourceOf(out, name))
	}
	return out
}

func (c *composition) expanded(d *definition) error {
	stay := c.stay(d)
	n, err := c.number(d, len(stay))
	if err != nil {
		return err
	}
	taken := map[int]bool{}
	for _, m := range c.live.Members[d.VDU] {
		i, err := strconv.Atoi(m.Name)
		if err != nil || i < 0 {
			return fmt.Errorf("VDU %s has a member %q, which is no index", d.VDU, m.Name)
		}
		taken[i] = true
	}
	members := map[string]any{}
	put := func(index int) {
		own := c.fill(d, index)
		names := append([]string{d.Resource}, d.Own...)
		var all []any
		for _, name := range names {
			c.resources[Index(name, index)] = rename(resourceOf(own, name), func(s string) []string {
				if slices.Contains(names, s) {
					return []string{Index(s, index)}
				}
				return []string{s}
			})
			all = append(all, Index(name, index))
		}
		members[strconv.Itoa(index)] = all
	}
	for _, m := range stay {
		index, _ := strconv.Atoi(m.Name)
		names := c.liveOwn(d, index)
		if !c.keeps(d, m) || len(names) == 0 {
			put(index)
			continue
		}
		var all []any
		for _, name := range names {
			c.resources[name] = clone(c.liveResources()[name])
			c.kept = append(c.kept, name)
			all = append(all, name)
		}
		members[m.Name] = all
	}
	for next := 0; len(members) < n; next++ {
		// The index of a victim isn't given out in the same update: Heat would let the victim stay.
		if !taken[next] {
			put(next)
		}
	}
	if len(members) > 0 {
		c.layout[d.VDU] = members
	}
	return nil
}

// liveOwn are the resources of a member in the live template.
func (c *composition) liveOwn(d *definition, index int) []string {
	var names []string
	layout := section(section(section(section(c.live.Template, "outputs"), layoutOutput), "value"), d.VDU)
	for _, x := range anys(layout[strconv.Itoa(index)]) {
		if s, ok := x.(string); ok {
			names = append(names, s)
		}
	}
	if names == nil {
		for _, name := range append([]string{d.Resource}, d.Own...) {
			names = append(names, Index(name, index))
		}
	}
	return slices.DeleteFunc(names, func(s string) bool { return resourceOf(c.liveResources(), s) == nil })
}

func anys(v any) []any { s, _ := v.([]any); return s }

// outputs makes an output "<output>-<index>" for each VNFC of an output that refers to one, and
// makes resources that depend on a VNFC depend on all of them.
func (c *composition) outputs() {
	outputs := c.section("outputs")
	for _, name := range sorted(outputs) {
		vdu, _ := expandedRefs(outputs[name], c.r.owner)
		if vdu == "" {
			continue
		}
		template := outputs[name].(map[string]any)
		delete(outputs, name)
		for index := range section(c.layout, vdu) {
			i, _ := strconv.Atoi(index)
			own := rename(template, func(s string) []string {
				if c.r.owner[s] == vdu {
					return []string{Index(s, i)}
				}
				return []string{s}
			})
			if c.resolves(own) {
				outputs[Index(name, i)] = c.r.params.resolve(own, none, func(s string) string { return s })
			}
		}
	}
	if len(c.layout) > 0 {
		outputs[layoutOutput] = map[string]any{"description": "The resources of each VNFC, by VDU.", "value": c.layout}
	}
	if len(c.next) > 0 {
		outputs[nextOutput] = map[string]any{"description": "What VNFCs that are yet to be renewed will be made of, by VDU.", "value": c.next}
	}
	if len(outputs) == 0 {
		delete(c.tree, "outputs")
	}
	for _, name := range sorted(c.resources) {
		res := resourceOf(c.resources, name)
		if !slices.ContainsFunc(dependsOn(res), func(s string) bool { return c.r.owner[s] != "" }) {
			continue
		}
		c.resources[name] = rename(res, func(s string) []string {
			vdu := c.r.owner[s]
			if vdu == "" {
				return []string{s}
			}
			var all []string
			for _, index := range sorted(section(c.layout, vdu)) {
				i, _ := strconv.Atoi(index)
				if c.resources[Index(s, i)] != nil && Index(s, i) != name {
					all = append(all, Index(s, i))
				}
			}
			return all
		})
	}
}

// resolves says whether the template has all resources that v refers to.
func (c *composition) resolves(v any) bool {
	for name := range uses(v) {
		if c.resources[name] == nil {
			return false
		}
	}
	return true
}

// keepShared keeps what kept definitions need of the live template and the new one doesn't have:
// shared resources, and hidden parameters, whose values only Heat knows. The members of a group
// name a network by its id, so nothing shared may go while one of them is yet to be renewed.
func (c *composition) keepShared() {
	now := section(c.live.Template, "parameters")
	c.keepForGroups()
	for queue := c.kept; len(queue) > 0; {
		res := resourceOf(c.resources, queue[0])
		queue = queue[1:]
		needs := uses(res)
		for _, name := range dependsOn(res) {
			needs[name] = true
		}
		for _, name := range sorted(needs) {
			if c.resources[name] == nil && c.liveResources()[name] != nil {
				c.resources[name] = clone(c.liveResources()[name])
				queue = append(queue, name)
			}
		}
		visit(res, func(function string, arg any) {
			name, _ := first(arg)
			if function == "get_param" && c.declared[name] == nil && now[name] != nil {
				c.declared[name] = clone(now[name])
				c.existing = true
			}
		})
	}
}

func (c *composition) keepForGroups() {
	waiting := false
	for vdu, d := range c.r.defs {
		waiting = waiting || d.Shape == Grouped && slices.ContainsFunc(c.live.Members[vdu], func(m Member) bool { return c.keeps(d, m) })
	}
	if !waiting {
		return
	}
	theirs := map[string]bool{} // the resources of VNFCs
	for _, vdu := range section(section(section(c.live.Template, "outputs"), layoutOutput), "value") {
		members, _ := vdu.(map[string]any)
		for _, names := range members {
			for _, name := range anys(names) {
				theirs[fmt.Sprint(name)] = true
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, name := range sorted(c.liveResources()) {
			res := resourceOf(c.liveResources(), name)
			kind := typeOf(res)
			if c.resources[name] != nil || theirs[name] || kind == typeServer || kind == typeGroup || isTemplate(kind) || !c.resolves(res) {
				continue
			}
			c.resources[name] = clone(res)
			c.kept = append(c.kept, name)
			changed = true
		}
	}
}

// ThroughTop says whether the members are to be renewed by an update of the top stack, with
// [Want].Renew, and not by [Rendered.RenewInGroup]. It is true for an expanded VDU, and for a
// group of which no other member is outdated and which has yet to get its new definition: Heat
// passes a group's members a definition only when that of the group changes.
func (r *Rendered) ThroughTop(live Live, vdu string, members ...string) bool {
	d := r.defs[vdu]
	if d == nil || d.Shape == Expanded {
		return true
	}
	if slices.ContainsFunc(live.Members[vdu], func(m Member) bool { return d.outdated(m) && !slices.Contains(members, m.Name) }) {
		return false
	}
	return !reflect.DeepEqual(r.memberOf(resourceOf(section(live.Template, "resources"), d.Resource)), r.memberOf(r.group(d)))
}

// group is the group's new definition.
func (r *Rendered) group(d *definition) map[string]any {
	c := &composition{r: r, declared: map[string]any{}, values: map[string]any{}, files: map[string]string{}}
	return resourceOf(c.fill(d, none), d.Resource)
}

// memberOf is the definition of a group's members, in a form that can be compared.
func (r *Rendered) memberOf(group map[string]any) any {
	return plain(section(section(group, "properties"), "resource"))
}
