package vnfd

import (
	"slices"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
	"go.yaml.in/yaml/v3"
)

// reachable looks for numbers that contradict each other. What only some requests would
// meet is a warning; a flavour that no request can instantiate is refused.
func (l *loader) reachable(f *Flavour, d definition) {
	lines := map[string]*yaml.Node{}
	for k := range safeyaml.Pairs(safeyaml.Get(d.root, "topology_template", "node_templates")) {
		lines[k.Value] = k
	}
	levels := make([]*Level, 0, len(f.Levels)+1)
	for i := range f.Levels {
		levels = append(levels, &f.Levels[i])
	}
	if f.DefaultLevel == "" { // a request that names no level gets scale level 0 of each aspect
		levels = append(levels, nil)
	}
	note := l.fail
	if slices.ContainsFunc(levels, func(level *Level) bool { return f.reaches(level) }) {
		note = l.warn
	}
	for _, level := range levels {
		what := "scale level 0 of every aspect"
		if level != nil {
			what = "instantiation level " + level.ID
		}
		all := f.scaleLevelsAt(level)
		for i := range f.VDUs {
			v := &f.VDUs[i]
			if _, err := f.count(v, level, all); err != nil {
				note(d.file, lines[v.ID], "%s can't be reached: %v", what, err)
			}
			if said, ok := v.said(level); ok && v.Initial >= 0 && said != v.added(all) {
				l.warn(d.file, lines[v.ID], "VDU %s has %d instances at %s, as its VduInstantiationLevels say: its initial delta and the scale levels add up to %d",
					v.ID, said, what, v.added(all))
			}
		}
	}
	for _, a := range f.Aspects {
		if !slices.ContainsFunc(f.VDUs, func(v VDU) bool { _, ok := v.Deltas[a.ID]; return ok }) {
			l.warn(d.file, nil, "scaling aspect %s scales no VDU", a.ID)
		}
	}
}

// reaches says whether a request for the level, or for none where level is nil, can be
// fulfilled.
func (f *Flavour) reaches(level *Level) bool {
	all := f.scaleLevelsAt(level)
	for i := range f.VDUs {
		if _, err := f.count(&f.VDUs[i], level, all); err != nil {
			return false
		}
	}
	return true
}

// scaleLevelsAt is the scale level of every aspect at the instantiation level, which may be
// nil.
func (f *Flavour) scaleLevelsAt(level *Level) map[string]int {
	all := make(map[string]int, len(f.Aspects))
	for _, a := range f.Aspects {
		if level != nil {
			all[a.ID] = level.Aspects[a.ID]
		} else {
			all[a.ID] = 0
		}
	}
	return all
}
