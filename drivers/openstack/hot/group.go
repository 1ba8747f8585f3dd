package hot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
)

// nextOutput is the stack output in which Heat says what it makes of the parts of groups' new
// definitions that only it can resolve, by VDU. It stands in the template while members wait
// for the new definition.
const nextOutput = "jibe_next"

// RenewInGroup is the body of an update of a group's own nested stack (the resource
// Definition.Resource of the top stack) that renews the members and leaves the others as they
// are. It is composed out of the nested stack's live template and files, and of the top stack's
// outputs. It is nil where those lack what only Heat can resolve of the definition: then an
// [Rendered.Update] of the top stack that renews nobody asks Heat for it.
//
// Heat keeps a definition for each member in the template of the nested stack, and any update of
// the stacks above passes each member its own again: if only a member's own stack were updated,
// the next such update would undo it. (Seen on Heat 19: the member alone is rebuilt, in place
// and with its id; an update of the top stack with the group's old definition leaves it so; and
// one that changes the definition passes it to the members that have another, while servers
// whose metadata alone differs keep running.)
func (r *Rendered) RenewInGroup(vdu string, group Live, outputs map[string]any, members ...string) (*Body, error) {
	d := r.defs[vdu]
	if d == nil || d.Shape != Grouped {
		return nil, fmt.Errorf("VDU %s is no group", vdu)
	}
	tree := cloneMap(group.Template)
	resources := section(tree, "resources")
	next, ok := r.nextMember(d, resources, section(outputs, nextOutput)[vdu])
	if !ok {
		return nil, nil
	}
	for _, name := range members {
		if resourceOf(resources, name) == nil {
			return nil, fmt.Errorf("VDU %s has no member %s now", vdu, name)
		}
		resources[name] = clone(next)
	}
	files := maps.Clone(group.Files)
	if files == nil {
		files = map[string]string{}
	}
	maps.Copy(files, d.files)
	return &Body{Template: tree, Files: files, Parameters: map[string]any{}, Existing: true}, nil
}

// NeedsHeat says whether a part of what members of the VDU's group are made of is for Heat alone
// to resolve.
func (r *Rendered) NeedsHeat(vdu string) bool {
	d := r.defs[vdu]
	return d != nil && d.Shape == Grouped && dynamic(r.memberInClear(d))
}

// Asks says whether the live top stack has Heat resolve what [Rendered.RenewInGroup] needs.
func (r *Rendered) Asks(vdu string, top Live) bool {
	asked := section(section(section(top.Template, "outputs"), nextOutput), "value")[vdu]
	d := r.defs[vdu]
	return d != nil && asked != nil && reflect.DeepEqual(asked, plain(r.unresolved(d, r.group(d))))
}

// nextMember is what a member gets: the definition of another member that was renewed already,
// or the group's new one with what Heat has resolved of it.
func (r *Rendered) nextMember(d *definition, members map[string]any, resolved any) (any, bool) {
	is := r.memberInClear(d)
	// The name of the nested file says which text a member was made of: it has a digest of all.
	for _, name := range sorted(members) {
		if m := resourceOf(members, name); typeOf(m) == typeOf(is) {
			return m, true
		}
	}
	return fillFrom(is, resolved)
}

// memberInClear is the definition of a new member with hidden parameters filled in, as Heat
// fills them in in the nested stack's template.
func (r *Rendered) memberInClear(d *definition) map[string]any {
	group, _ := r.params.inClear(resourceOf(d.resources, d.Resource)).(map[string]any)
	return section(section(group, "properties"), "resource")
}

// unresolved are the parts of the group's definition of a member that only Heat can resolve,
// nil where there are none. Hidden parameters in them stay parameters.
func (r *Rendered) unresolved(d *definition, group map[string]any) any {
	return unresolvedIn(r.memberInClear(d), section(section(group, "properties"), "resource"))
}

// unresolvedIn are the parts of v that have functions where it is in clear.
func unresolvedIn(clear, v any) any {
	if !dynamic(clear) {
		return nil
	}
	m, isMap := clear.(map[string]any)
	if !isMap || isCall(clear) {
		return clone(v)
	}
	hidden, _ := v.(map[string]any)
	out := map[string]any{}
	for k, x := range m {
		if part := unresolvedIn(x, hidden[k]); part != nil {
			out[k] = part
		}
	}
	return out
}

// fillFrom copies v. Where v has a function, it takes the value out of resolved; it returns
// false where there is none.
func fillFrom(v, resolved any) (any, bool) {
	if !dynamic(v) {
		return clone(v), true
	}
	m, isMap := v.(map[string]any)
	if !isMap || isCall(v) {
		return clone(resolved), resolved != nil
	}
	known, _ := resolved.(map[string]any)
	out := map[string]any{}
	for k, x := range m {
		y, ok := fillFrom(x, known[k])
		if !ok {
			return nil, false
		}
		out[k] = y
	}
	return out, true
}

func isCall(v any) bool {
	_, _, ok := call(v)
	return ok
}

// dynamic says whether there is a function in v.
func dynamic(v any) bool {
	found := false
	visit(v, func(string, any) { found = true })
	return found
}

// plain is v as it comes back when it is sent as JSON, so that a body can be compared with what
// Heat returns.
func plain(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.NewDecoder(bytes.NewReader(data)).Decode(&out) != nil {
		return nil
	}
	return out
}
