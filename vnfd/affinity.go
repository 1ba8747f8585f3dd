package vnfd

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
)

const (
	typeAffinity     = "tosca.policies.nfv.AffinityRule"
	typeAntiAffinity = "tosca.policies.nfv.AntiAffinityRule"
)

// Affinity is a rule of which instances of VDUs shall stand together, or apart (SOL001 clauses
// 6.10.10 and 6.10.11). Jibe itself places nothing by it: it is told to who grants operations.
type Affinity struct {
	ID string
	// Anti says that they shall stand apart.
	Anti bool `json:",omitempty"`
	// Scope is what they share, or don't: "nfvi_node", "zone", "zone_group", "nfvi_pop".
	Scope string
	// VDUs are those whose instances the rule is for, sorted; those of one VDU among
	// themselves too.
	VDUs []string
}

// affinities reads the rules of the flavour. A target is a VDU, or a placement group whose
// members are VDUs; what else a rule is for has no instances that Jibe knows of.
func (l *loader) affinities(f *Flavour, d definition) {
	members := map[string][]string{}
	for k, v := range safeyaml.Pairs(safeyaml.Get(d.root, "topology_template", "groups")) {
		for n := range safeyaml.Items(l.list(d.file, v, "members")) {
			if s, ok := safeyaml.Text(n); ok {
				members[k.Value] = append(members[k.Value], s)
			}
		}
	}
	one := func(k, v *yaml.Node) {
		kind, _ := safeyaml.Text(safeyaml.Get(v, "type"))
		_, together := lineage(l.policyTypes, kind, typeAffinity)
		_, apart := lineage(l.policyTypes, kind, typeAntiAffinity)
		if !together && !apart {
			return
		}
		a := Affinity{ID: k.Value, Anti: apart, Scope: l.text(d.file, l.mapping(d.file, v, "properties"), "scope")}
		if known := []string{"nfvi_node", "zone", "zone_group", "nfvi_pop"}; !slices.Contains(known, a.Scope) {
			l.warn(d.file, k, "policy %s has the scope %q, which isn't one of %v: nobody is told of it", a.ID, clip(a.Scope), known)
			return
		}
		for n := range safeyaml.Items(l.list(d.file, v, "targets")) {
			name, _ := safeyaml.Text(n)
			for _, id := range append(slices.Clone(members[name]), name) {
				if _, ok := f.VDU(id); ok && !slices.Contains(a.VDUs, id) {
					a.VDUs = append(a.VDUs, id)
				}
			}
		}
		if slices.Sort(a.VDUs); len(a.VDUs) > 0 {
			f.Affinities = append(f.Affinities, a)
		}
	}
	section := safeyaml.Get(d.root, "topology_template", "policies")
	for k, v := range safeyaml.Pairs(section) {
		one(k, v)
	}
	for item := range safeyaml.Items(section) {
		for k, v := range safeyaml.Pairs(item) {
			one(k, v)
		}
	}
}
