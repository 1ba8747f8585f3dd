package hot

import "slices"

// Use is a resource type that a template names.
type Use struct {
	// File is the template, Resource the resource in it.
	File, Resource string
	// Type is "" where only Heat would know it: a function stands in its place.
	Type string
	// External reports that the resource is one that exists (external_id), and not made by Heat.
	External bool
}

// Types are the resource types in all templates that the top template leads to, in order, but for
// those that are templates themselves. What stands in a group for its members counts too.
func (r *Rendered) Types() []Use {
	var all []Use
	for _, file := range sorted(r.folder.byFile) {
		t := r.folder.byFile[file]
		for _, name := range sorted(t.resources()) {
			all = append(all, typesOf(t, name, t.resources()[name])...)
		}
	}
	return slices.Compact(all)
}

// memberOf is, by the type of a group, the property that defines its members.
var memberOf = map[string]string{typeGroup: "resource", "OS::Heat::ResourceGroup": "resource_def"}

// typesOf are the types in a resource, or in the definition of a group's members. Heat lets a
// function stand for all properties at once: of a group whose members aren't written out, only
// Heat would know the type.
func typesOf(t *template, name string, definition any) []Use {
	m, _ := definition.(map[string]any)
	kind, _ := m["type"].(string)
	var all []Use
	if t.nested[kind] == "" || kind == "" {
		all = append(all, Use{t.file, name, kind, m["external_id"] != nil})
	}
	properties, given := m["properties"]
	if _, ok := properties.(map[string]any); given && !ok && properties != nil {
		return append(all, Use{File: t.file, Resource: name})
	}

	for _, field := range []string{"resource", "resource_def"} {
		member, given := section(m, "properties")[field]
		if given || memberOf[kind] == field {
			all = append(all, typesOf(t, name, member)...)
		}
	}

	return all
}
