package hot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
)

// RenewInGroup is the body of an update of a group's own nested stack (the resource
// Definition.Resource of the top stack) that renews the members and leaves the others as they
// are. It is composed out of the top stack as it lives and of the nested stack's live template
// and files. It is nil where only an update of the top stack can renew the members, because the
// definition needs something new that only Heat can resolve.
//
// Heat keeps a definition for each member in the template of the nested stack, and any update of
// the stacks above passes each member its own again: if only a member's own stack were updated,
// the next such update would undo it. (Seen on Heat 19: the member alone is rebuilt, in place
// and with its id; an update of the top stack with the group's old definition leaves it so; and
// one that changes the definition passes it to the members that have another, while servers
// whose metadata alone differs keep running.)
func (r *Rendered) RenewInGroup(vdu string, top, group Live, members ...string) (*Body, error) {
	d := r.defs[vdu]
	if d == nil || d.Shape != Grouped {
		return nil, fmt.Errorf("VDU %s is no group", vdu)
	}
	tree := cloneMap(group.Template)
	resources := section(tree, "resources")
	was := section(section(resourceOf(section(top.Template, "resources"), d.Resource), "properties"), "resource")
	is := section(section(r.group(d), "properties"), "resource")
	next, ok := resolved(is, was, resources)
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

// resolved is the definition of a new member: the one that the group will have for its members,
// in which each part that only Heat can resolve is what Heat made of the same text before. The
// name of the nested file says which text a member was made of, as it has a digest of all of it.
func resolved(is, was, members map[string]any) (map[string]any, bool) {
	for _, name := range sorted(members) {
		if m := resourceOf(members, name); typeOf(m) == typeOf(is) {
			return m, true
		}
	}
	var made any
	for _, name := range sorted(members) {
		if m := resourceOf(members, name); typeOf(m) == typeOf(was) {
			made = m
		}
	}
	v, ok := fillFrom(is, was, made)
	if !ok {
		return nil, false
	}
	return v.(map[string]any), true
}

// fillFrom copies v. Where v has a function, it takes the value out of made, which Heat made of
// was. It returns false where v and was have different functions there.
func fillFrom(v, was, made any) (any, bool) {
	if !dynamic(v) {
		return clone(v), true
	}
	if _, isMap := v.(map[string]any); !isMap || isCall(v) {
		return clone(made), made != nil && !dynamic(made) && reflect.DeepEqual(plain(v), plain(was))
	}
	then, _ := was.(map[string]any)
	now, _ := made.(map[string]any)
	out := map[string]any{}
	for k, x := range v.(map[string]any) {
		y, ok := fillFrom(x, then[k], now[k])
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
