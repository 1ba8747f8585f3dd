package hot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
)

// RenewInGroup is the body of an update of a group's own nested stack (the resource
// Definition.Resource of the top stack), out of the top stack as it lives and that
// stack's live template and files, that makes the members new and leaves the others as
// they are. It is nil where only an update of the top stack can do it: where the
// definition needs something new that only Heat can resolve.
//
// Heat keeps a definition for each member in the template of that stack, and any update
// of the stacks above hands each member its own again: a member whose own stack alone
// was updated would be put back by the next one.
func (r *Rendered) RenewInGroup(vdu string, top, group Live, members ...string) (*Body, error) {
	d := r.defs[vdu]
	if d == nil || d.Shape != Grouped {
		return nil, fmt.Errorf("VDU %s is no group", vdu)
	}
	tree := cloneMap(group.Template)
	resources := section(tree, "resources")
	was := section(section(resourceOf(section(top.Template, "resources"), d.Resource), "properties"), "resource")
	is := section(section(r.group(d), "properties"), "resource")
	for _, name := range members {
		now := resourceOf(resources, name)
		if now == nil {
			return nil, fmt.Errorf("VDU %s has no member %s now", vdu, name)
		}
		next, ok := resolved(is, was, now)
		if !ok {
			return nil, nil
		}
		resources[name] = next
	}
	files := maps.Clone(group.Files)
	if files == nil {
		files = map[string]string{}
	}
	maps.Copy(files, d.files)
	return &Body{Template: tree, Files: files, Parameters: map[string]any{}, Existing: true}, nil
}

// resolved is the member's new definition: what the group says of it, where each part
// that only Heat can resolve is what Heat made of the same words before.
func resolved(is, was, now map[string]any) (map[string]any, bool) {
	var fill func(is, was, now any) (any, bool)
	fill = func(is, was, now any) (any, bool) {
		if !dynamic(is) {
			return clone(is), true
		}
		if reflect.DeepEqual(plain(is), plain(was)) && now != nil && !dynamic(now) {
			return clone(now), true
		}
		if _, _, ok := call(is); ok {
			return nil, false
		}
		switch x := is.(type) {
		case map[string]any:
			then, _ := was.(map[string]any)
			made, _ := now.(map[string]any)
			out := map[string]any{}
			for k, v := range x {
				y, ok := fill(v, then[k], made[k])
				if !ok {
					return nil, false
				}
				out[k] = y
			}
			return out, true
		}
		return nil, false
	}
	v, ok := fill(is, was, now)
	if !ok {
		return nil, false
	}
	return v.(map[string]any), true
}

// dynamic says whether there is a function in v.
func dynamic(v any) bool {
	found := false
	visit(v, func(string, any) { found = true })
	return found
}

// plain is v as it is when it was sent as JSON and read again, so that what we made and
// what Heat returns compare.
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
