package vnfd

import (
	"cmp"
	"slices"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
	"go.yaml.in/yaml/v3"
)

// template is one node template of a topology.
type template struct {
	def  definition
	id   string
	key  *yaml.Node
	body *yaml.Node
	kind string // its node type
}

func (l *loader) templates(d definition) []template {
	var list []template
	for k, v := range safeyaml.Pairs(l.mapping(d.file, d.root, "topology_template", "node_templates")) {
		if v.Kind != yaml.MappingNode {
			l.fail(d.file, k, "node template %s must be a mapping", k.Value)
			continue
		}
		if len(list) >= maxTemplates {
			l.fail(d.file, k, "has more than %d node templates", maxTemplates)
			break
		}
		t := template{d, k.Value, k, v, l.text(d.file, v, "type")}
		switch {
		case t.kind == "":
			l.fail(d.file, k, "node template %s has no type", t.id)
		case l.types[t.kind] == nil && !isStandard(t.kind):
			l.fail(d.file, k, "node template %s has type %s, which no imported file declares", t.id, t.kind)
		}
		list = append(list, t)
	}
	return list
}

// value resolves { get_input: name } to the input's default. It returns nil where the input
// has none.
func value(d definition, n *yaml.Node) *yaml.Node {
	if input, ok := safeyaml.Text(safeyaml.Get(n, "get_input")); ok {
		n = safeyaml.Get(d.root, "topology_template", "inputs", input, "default")
	}
	if safeyaml.Null(n) {
		return nil
	}
	return safeyaml.Deref(n)
}

// vnfd puts the descriptor together. A property of the VNF comes from a node template, that
// of the entry first, else from the default in the node type.
func (l *loader) vnfd(entry string) *VNFD {
	defs := slices.Clone(l.docs)
	slices.SortStableFunc(defs, func(a, b definition) int {
		if (a.file == entry) != (b.file == entry) {
			if a.file == entry {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.file, b.file)
	})
	if len(defs) == 0 || defs[0].file != entry {
		return nil // the problem is noted already
	}
	v := &VNFD{}
	var vnfs []template
	byFlavour := map[string]definition{}
	for _, d := range defs {
		ts := l.templates(d)
		l.requirements(d, ts)
		for _, t := range ts {
			if l.isVNF(t.kind) {
				vnfs = append(vnfs, t)
			}
		}
		id, at, ok := l.flavourID(d, ts)
		if !ok {
			continue
		}
		if old, twice := byFlavour[id]; twice {
			l.fail(d.file, at, "flavour %q is already described in %s", id, old.file)
			continue
		}
		byFlavour[id] = d
		v.Flavours = append(v.Flavours, l.flavour(id, d, ts))
	}
	slices.SortFunc(v.Flavours, func(a, b Flavour) int { return cmp.Compare(a.ID, b.ID) })
	if len(v.Flavours) == 0 {
		l.fail(entry, nil, "no deployment flavour: no file has topology_template.substitution_mappings.properties.flavour_id")
	}
	l.properties(v, entry, vnfs)
	return v
}

// flavourID returns the deployment flavour that the topology describes, if any: the
// flavour_id of substitution_mappings, else, if there are VDUs, that of the
// VNF's node template or of its type.
func (l *loader) flavourID(d definition, ts []template) (string, *yaml.Node, bool) {
	top := safeyaml.Get(d.root, "topology_template")
	props := l.mapping(d.file, top, "substitution_mappings", "properties")
	n := value(d, safeyaml.Get(props, "flavour_id"))
	if v := safeyaml.Get(n, "value"); v != nil {
		n = v
	}
	if n != nil {
		id, ok := safeyaml.Text(n)
		if !ok || id == "" {
			l.fail(d.file, n, "substitution_mappings.properties.flavour_id must be a text")
		}
		return id, n, ok && id != ""
	}
	var first *template
	for i := range ts {
		if l.isVDU(ts[i].kind) {
			first = &ts[i]
			break
		}
	}
	if first == nil {
		return "", nil, false
	}
	for _, t := range ts {
		if l.isVNF(t.kind) {
			if id, ok := safeyaml.Text(l.property(t, "flavour_id")); ok && id != "" {
				return id, t.key, true
			}
		}
	}
	l.fail(d.file, first.key, "has VDUs but no flavour_id under topology_template.substitution_mappings.properties")
	return "", nil, false
}

// property returns the property of the template, else the default of its type, or nil.
func (l *loader) property(t template, name string) *yaml.Node {
	if n := value(t.def, safeyaml.Get(t.body, "properties", name)); n != nil {
		return n
	}
	return l.defaultOf(t.kind, name)
}

func (l *loader) defaultOf(kind, name string) *yaml.Node {
	chain, _ := lineage(l.types, kind, typeVNF)
	for _, t := range chain {
		if n := safeyaml.Get(t.body, "properties", name, "default"); !safeyaml.Null(n) {
			return n
		}
	}
	return nil
}

// properties reads the properties of the VNF, from its node templates, the defaults of their types, or the type that
// is substituted.
func (l *loader) properties(v *VNFD, entry string, vnfs []template) {
	for _, p := range []struct {
		name     string
		to       *string
		required bool
	}{
		{"descriptor_id", &v.ID, true},
		{"descriptor_version", &v.Version, true},
		{"provider", &v.Provider, true},
		{"product_name", &v.ProductName, true},
		{"software_version", &v.SoftwareVersion, true},
		{"product_info_name", &v.ProductInfoName, false},
		{"product_info_description", &v.Description, false},
	} {
		n, file := l.vnfProperty(entry, vnfs, p.name)
		s, ok := safeyaml.Text(n)
		switch {
		case n != nil && !ok:
			l.fail(file, n, "property %s of the VNF must be a text", p.name)
		case p.required && s == "":
			l.fail(entry, nil, "property %s of the VNF is missing: give it in the VNF's node template, or as a default in its node type", p.name)
		}
		*p.to = s
	}
	for _, t := range vnfs {
		n := value(t.def, safeyaml.Get(t.body, "properties", "descriptor_id"))
		if id, ok := safeyaml.Text(n); ok && id != v.ID {
			l.fail(t.def.file, n, "descriptor_id is %q here, but %q elsewhere in the package", id, v.ID)
		}
	}
	v.VnfmInfo = l.vnfmInfo(l.vnfProperty(entry, vnfs, "vnfm_info"))
	v.SecretParams = l.secretParams(vnfs)

	if n, _ := l.vnfProperty(entry, vnfs, "flavour_id"); n != nil {
		v.DefaultFlavour, _ = safeyaml.Text(n)
	}
	if _, ok := v.Flavour(v.DefaultFlavour); !ok {
		v.DefaultFlavour = ""
		if len(v.Flavours) == 1 {
			v.DefaultFlavour = v.Flavours[0].ID
		}
	}
}

// vnfProperty is the value of a property of the VNF, and the file that it stands in; nil where none gives it.
func (l *loader) vnfProperty(entry string, vnfs []template, name string) (*yaml.Node, string) {
	for _, t := range vnfs {
		if n := value(t.def, safeyaml.Get(t.body, "properties", name)); n != nil {
			return n, t.def.file
		}
	}
	for _, t := range vnfs {
		if n := l.defaultOf(t.kind, name); n != nil {
			return n, t.def.file
		}
	}
	for _, d := range l.docs { // no template: the type that is substituted
		kind, _ := safeyaml.Text(safeyaml.Get(d.root, "topology_template", "substitution_mappings", "node_type"))
		if n := l.defaultOf(kind, name); n != nil {
			return n, d.file
		}
	}
	return nil, entry
}

// vnfmInfo reads the property vnfm_info: a text or a list of texts.
func (l *loader) vnfmInfo(info *yaml.Node, file string) (out []string) {
	if info != nil && info.Kind == yaml.ScalarNode {
		return []string{info.Value}
	}
	for n := range safeyaml.Items(info) {
		if s, ok := safeyaml.Text(n); ok {
			out = append(out, s)
		} else {
			l.fail(file, n, "vnfm_info must be a list of texts")
		}
	}
	return out
}
