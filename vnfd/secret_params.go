package vnfd

import (
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
	"go.yaml.in/yaml/v3"
)

const (
	// secretParams is the entry of metadata, in a VNF's node template or its node type,
	// that names secret parameters. It is not in SOL001.
	secretParams = "secret_params"
	// maxSecretParams bounds how many are read, and maxSecretParam each one's length.
	maxSecretParams = 200
	maxSecretParam  = 100
)

// secretParams returns the names that the VNF's templates and their types declare: in a
// list, or, as TOSCA has metadata, in a text with commas between the names.
func (l *loader) secretParams(vnfs []template) []string {
	var names []string
	read := func(file string, body *yaml.Node) {
		n := safeyaml.Get(body, "metadata", secretParams)
		if safeyaml.Null(n) {
			return
		}
		n = safeyaml.Deref(n)
		found, ok := []string(nil), true
		if text, isText := safeyaml.Text(n); isText {
			found = strings.Split(text, ",")
		} else {
			ok = n.Kind == yaml.SequenceNode
			for item := range safeyaml.Items(n) {
				text, isText := safeyaml.Text(item)
				found, ok = append(found, text), ok && isText
			}
		}
		for i, name := range found {
			found[i] = strings.TrimSpace(name)
			ok = ok && found[i] != "" && len(found[i]) <= maxSecretParam
		}
		if !ok || len(found)+len(names) > maxSecretParams {
			l.fail(file, n, "metadata.%s must be at most %d names, as a list or in one text with commas between them", secretParams, maxSecretParams)
			return
		}
		names = append(names, found...)
	}
	kinds := map[string]bool{}
	for _, t := range vnfs {
		read(t.def.file, t.body)
		kinds[t.kind] = true
	}
	for _, d := range l.docs { // there may be only a type, without a template
		kind, _ := safeyaml.Text(safeyaml.Get(d.root, "topology_template", "substitution_mappings", "node_type"))
		kinds[kind] = true
	}
	seen := map[*typeDef]bool{}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		chain, _ := lineage(l.types, kind, typeVNF)
		for _, d := range chain {
			if !seen[d] {
				seen[d] = true
				read(d.file, d.body)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
