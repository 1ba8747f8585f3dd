package vnfd

import (
	"cmp"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
	"go.yaml.in/yaml/v3"
)

// policy is one policy of a topology, of a type that Jibe knows.
type policy struct {
	file    string
	key     *yaml.Node
	id      string
	props   *yaml.Node
	targets []*yaml.Node
}

// policies reads how the flavour scales (SOL001 clause 6.10), and who coordinates. Aspects and levels come
// first, as the other policies name them.
func (l *loader) policies(f *Flavour, d definition) {
	byType := map[string][]policy{}
	section := safeyaml.Get(d.root, "topology_template", "policies")
	one := func(k, v *yaml.Node) {
		kind, _ := safeyaml.Text(safeyaml.Get(v, "type"))
		for _, std := range []string{typeScalingAspects, typeAspectDeltas, typeInitialDelta, typeLevels, typeVduLevels,
			typeCoordinationAction, typeCoordinations, typeSupportedInterface} {
			if _, ok := lineage(l.policyTypes, kind, std); ok {
				p := policy{d.file, k, k.Value, l.mapping(d.file, v, "properties"), slices.Collect(safeyaml.Items(l.list(d.file, v, "targets")))}
				byType[std] = append(byType[std], p)
			}
		}
	}
	for k, v := range safeyaml.Pairs(section) {
		one(k, v)
	}
	for item := range safeyaml.Items(section) {
		for k, v := range safeyaml.Pairs(item) {
			one(k, v)
		}
	}
	steps := map[string]string{} // aspect -> its only step delta
	for _, p := range byType[typeScalingAspects] {
		l.aspects(f, p, steps)
	}
	slices.SortFunc(f.Aspects, func(a, b Aspect) int { return cmp.Compare(a.ID, b.ID) })
	for i, p := range byType[typeLevels] {
		if i > 0 {
			l.fail(p.file, p.key, "a flavour can have only one policy of type %s; %s is another", typeLevels, byType[typeLevels][0].id)
			continue
		}
		l.levels(f, p)
	}
	for _, p := range byType[typeInitialDelta] {
		n, ok := l.required(p.file, p.props, p, "initial_delta", "number_of_instances")
		for v := range l.targets(f, p) {
			if v.Initial >= 0 {
				l.fail(p.file, p.key, "VDU %s has more than one VduInitialDelta", v.ID)
			}
			if ok {
				v.Initial = n
			}
		}
	}
	for _, p := range byType[typeAspectDeltas] {
		l.deltas(f, p, steps)
	}
	for _, p := range byType[typeVduLevels] {
		l.vduLevels(f, p)
	}
	l.coordinations(f, byType)
}

func (l *loader) aspects(f *Flavour, p policy, steps map[string]string) {
	for k, v := range safeyaml.Pairs(l.mapping(p.file, p.props, "aspects")) {
		if len(f.Aspects) >= maxScaling {
			l.fail(p.file, k, "flavour %s has more than %d scaling aspects", f.ID, maxScaling)
			return
		}
		a := Aspect{ID: k.Value, Name: l.text(p.file, v, "name"), Description: l.text(p.file, v, "description")}
		if _, ok := f.Aspect(a.ID); ok {
			l.fail(p.file, k, "scaling aspect %s is described twice", a.ID)
			continue
		}
		var ok bool
		if a.MaxLevel, ok = l.required(p.file, v, p, "max_scale_level"); ok && a.MaxLevel == 0 {
			l.fail(p.file, k, "scaling aspect %s: max_scale_level must be at least 1", a.ID)
		}
		var deltas []string
		for n := range safeyaml.Items(l.list(p.file, v, "step_deltas")) {
			s, ok := safeyaml.Text(n)
			if !ok {
				l.fail(p.file, n, "scaling aspect %s: step_deltas must be a list of names", a.ID)
				continue
			}
			if !slices.Contains(deltas, s) {
				deltas = append(deltas, s)
			}
		}
		if len(deltas) > 1 {
			l.fail(p.file, k, "scaling aspect %s isn't uniform: its step_deltas are %s; only one delta for all steps is supported", a.ID, strings.Join(deltas, ", "))
		}
		if len(deltas) > 0 {
			steps[a.ID] = deltas[0]
		}
		f.Aspects = append(f.Aspects, a)
	}
}

// deltas reads how many instances of its targets one step of an aspect adds.
func (l *loader) deltas(f *Flavour, p policy, steps map[string]string) {
	aspect := l.text(p.file, p.props, "aspect")
	if _, ok := f.Aspect(aspect); !ok {
		l.fail(p.file, p.key, "policy %s: scaling aspect %q isn't among those of ScalingAspects: %s", p.id, aspect,
			names(f.Aspects, func(a Aspect) string { return a.ID }))
		return
	}
	all := l.mapping(p.file, p.props, "deltas")
	var delta *yaml.Node
	step, named := steps[aspect]
	switch {
	case named:
		if delta = safeyaml.Get(all, step); delta == nil {
			l.fail(p.file, p.key, "policy %s: delta %s, which aspect %s steps by, isn't among the deltas", p.id, step, aspect)
			return
		}
	case all == nil || len(all.Content) == 0:
		l.fail(p.file, p.key, "policy %s has no deltas", p.id)
		return
	case len(all.Content) > 2:
		l.fail(p.file, p.key, "policy %s isn't uniform: it has several deltas and aspect %s doesn't say in step_deltas which one counts", p.id, aspect)
		return
	default:
		delta = safeyaml.Deref(all.Content[1])
	}
	n, ok := l.required(p.file, delta, p, "number_of_instances")
	for v := range l.targets(f, p) {
		if _, twice := v.Deltas[aspect]; twice {
			l.fail(p.file, p.key, "VDU %s has more than one VduScalingAspectDeltas for aspect %s", v.ID, aspect)
			continue
		}
		if ok {
			v.Deltas[aspect] = n
		}
	}
}

func (l *loader) levels(f *Flavour, p policy) {
	for k, v := range safeyaml.Pairs(l.mapping(p.file, p.props, "levels")) {
		if len(f.Levels) >= maxScaling {
			l.fail(p.file, k, "flavour %s has more than %d instantiation levels", f.ID, maxScaling)
			return
		}
		level := Level{ID: k.Value, Description: l.text(p.file, v, "description"), Aspects: map[string]int{}}
		for ak, av := range safeyaml.Pairs(l.mapping(p.file, v, "scale_info")) {
			a, ok := f.Aspect(ak.Value)
			if !ok {
				l.fail(p.file, ak, "instantiation level %s names scaling aspect %q, which isn't among those of ScalingAspects: %s", level.ID, ak.Value,
					names(f.Aspects, func(a Aspect) string { return a.ID }))
				continue
			}
			n, ok := l.required(p.file, av, p, "scale_level")
			if ok && n > a.MaxLevel {
				l.fail(p.file, ak, "instantiation level %s: scale level %d of aspect %s is above its max_scale_level %d", level.ID, n, a.ID, a.MaxLevel)
			}
			level.Aspects[a.ID] = n
		}
		f.Levels = append(f.Levels, level)
	}
	slices.SortFunc(f.Levels, func(a, b Level) int { return cmp.Compare(a.ID, b.ID) })
	f.DefaultLevel = l.text(p.file, p.props, "default_level")
	if _, ok := f.Level(f.DefaultLevel); f.DefaultLevel != "" && !ok {
		l.fail(p.file, safeyaml.Get(p.props, "default_level"), "default_level %q isn't among the levels: %s", f.DefaultLevel,
			names(f.Levels, func(l Level) string { return l.ID }))
	}
	switch {
	case f.DefaultLevel != "":
	case len(f.Levels) == 1:
		f.DefaultLevel = f.Levels[0].ID
	case len(f.Levels) > 1:
		l.warn(p.file, p.key, "policy %s has no default_level: a request that names no level gets scale level 0 of every aspect", p.id)
	}
}

func (l *loader) vduLevels(f *Flavour, p policy) {
	numbers := map[string]int{}
	for k, v := range safeyaml.Pairs(l.mapping(p.file, p.props, "levels")) {
		if _, ok := f.Level(k.Value); !ok {
			l.fail(p.file, k, "policy %s names instantiation level %q, which isn't among those of InstantiationLevels: %s", p.id, k.Value,
				names(f.Levels, func(l Level) string { return l.ID }))
			continue
		}
		if n, ok := l.required(p.file, v, p, "number_of_instances"); ok {
			numbers[k.Value] = n
		}
	}
	for v := range l.targets(f, p) {
		for level, n := range numbers {
			if _, twice := v.Levels[level]; twice {
				l.fail(p.file, p.key, "VDU %s has more than one VduInstantiationLevels for level %s", v.ID, level)
				continue
			}
			v.Levels[level] = n
		}
	}
}

// targets yields the VDUs that the policy is for.
func (l *loader) targets(f *Flavour, p policy) func(func(*VDU) bool) {
	return func(yield func(*VDU) bool) {
		if len(p.targets) == 0 {
			l.fail(p.file, p.key, "policy %s has no targets", p.id)
		}
		for _, n := range p.targets {
			id, _ := safeyaml.Text(n)
			v, ok := f.VDU(id)
			if !ok {
				l.fail(p.file, n, "policy %s: target %q isn't a VDU of flavour %s", p.id, id, f.ID)
				continue
			}
			if !yield(v) {
				return
			}
		}
	}
}

// required does the same as number, and notes a problem where the number is missing.
func (l *loader) required(file string, n *yaml.Node, p policy, keys ...string) (int, bool) {
	if safeyaml.Null(safeyaml.Get(n, keys...)) {
		l.fail(file, cmp.Or(n, p.key), "policy %s: %s is missing", p.id, strings.Join(keys, "."))
		return 0, false
	}
	return l.number(file, n, keys...)
}
