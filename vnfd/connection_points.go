package vnfd

import (
	"cmp"
	"slices"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
)

// computeFlavour returns requested_additional_capability_name of the VDU's virtual_compute
// (SOL001 clause 6.8.3.6), in each place where published VNFDs have it.
func (l *loader) computeFlavour(t template) string {
	compute := safeyaml.Get(t.body, "capabilities", "virtual_compute", "properties")
	if s, ok := safeyaml.Text(safeyaml.Get(compute, "requested_additional_capabilities", "requested_additional_capability_name")); ok {
		return s
	}
	for _, v := range safeyaml.Pairs(safeyaml.Get(compute, "requested_additional_capabilities")) {
		if s, ok := safeyaml.Text(safeyaml.Get(v, "requested_additional_capability_name")); ok {
			return s
		}
	}
	return ""
}

// connections reads how the VDUs are connected (SOL001 clauses 6.8.5 and 6.8.7) and
// which of their connection points are external.
func (l *loader) connections(f *Flavour, d definition, ts []template) {
	first := func(t template, requirement string) string {
		for n := range targetsOf(t.body, requirement) {
			s, _ := safeyaml.Text(n)
			return s
		}
		return ""
	}
	for _, t := range ts {
		switch {
		case l.is(t.kind, typeVduCp):
			cp := Cp{ID: t.id, VDU: first(t, "virtual_binding"), Link: first(t, "virtual_link")}
			if _, ok := f.VDU(cp.VDU); !ok && cp.VDU != "" {
				l.warn(d.file, t.key, "connection point %s is bound to %s, which isn't a VDU of flavour %s", t.id, cp.VDU, f.ID)
			}
			f.Cps = append(f.Cps, cp)
		case l.is(t.kind, typeVirtualLink):
			f.Links = append(f.Links, t.id)
		case l.is(t.kind, typeBlockStorage):
			f.Storages = append(f.Storages, t.id)
		}
	}
	slices.SortFunc(f.Cps, func(a, b Cp) int { return cmp.Compare(a.ID, b.ID) })
	slices.Sort(f.Links)
	slices.Sort(f.Storages)
	mappings := safeyaml.Get(d.root, "topology_template", "substitution_mappings")
	for _, section := range []string{"requirements", "capabilities"} {
		for k, v := range safeyaml.Pairs(safeyaml.Get(mappings, section)) {
			for n := range safeyaml.Items(v) {
				id, _ := safeyaml.Text(n)
				if slices.ContainsFunc(f.Cps, func(c Cp) bool { return c.ID == id }) {
					if f.ExtCps == nil {
						f.ExtCps = map[string]string{}
					}
					f.ExtCps[k.Value] = id
				}
				break // [node template, its requirement or capability]
			}
		}
	}
}
