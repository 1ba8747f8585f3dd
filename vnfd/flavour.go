package vnfd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
	"go.yaml.in/yaml/v3"
)

func isStandard(kind string) bool { return strings.HasPrefix(kind, "tosca.") }

// flavour reads one topology: its VDUs, how they scale, and the hooks.
func (l *loader) flavour(id string, d definition, ts []template) Flavour {
	before := l.errors()
	f := Flavour{ID: id, Hooks: map[string]string{}}
	byName := map[string]string{}
	for _, t := range ts {
		switch {
		case l.isVNF(t.kind):
			if s, ok := safeyaml.Text(l.property(t, "flavour_description")); ok {
				f.Description = s
			}
			l.hooks(&f, t)
		case l.isVDU(t.kind):
			if len(f.VDUs) >= maxScaling {
				l.fail(d.file, t.key, "flavour %s has more than %d VDUs", id, maxScaling)
				continue
			}
			v := l.vdu(t)
			if other, ok := byName[v.Name]; ok && v.Name != "" {
				l.fail(d.file, t.key, "VDU %s has the name %q, as VDU %s has: one workload can't be both", v.ID, v.Name, other)
			}
			byName[v.Name] = v.ID
			f.VDUs = append(f.VDUs, v)
		}
	}
	if f.Description == "" {
		f.Description = l.text(d.file, d.root, "description")
	}
	slices.SortFunc(f.VDUs, func(a, b VDU) int { return cmp.Compare(a.ID, b.ID) })
	l.connections(&f, d, ts)
	l.policies(&f, d)
	l.affinities(&f, d)
	if l.errors() == before {
		l.reachable(&f, d)
	}
	return f
}

func (l *loader) vdu(t template) VDU {
	file := t.def.file
	v := VDU{ID: t.id, Initial: -1, Max: -1, Deltas: map[string]int{}, Levels: map[string]int{}}
	props := l.mapping(file, t.body, "properties")
	v.Name = l.text(file, props, "name")
	if v.Name == "" {
		l.fail(file, t.key, "VDU %s has no properties.name: it must be the name of the VDU's workload", v.ID)
	}
	profile := l.mapping(file, props, "vdu_profile")
	if n, ok := l.number(file, profile, "min_number_of_instances"); ok {
		v.Min = n
	}
	if n, ok := l.number(file, profile, "max_number_of_instances"); ok {
		v.Max = n
	}
	if v.Max >= 0 && v.Max < v.Min {
		l.fail(file, profile, "VDU %s: max_number_of_instances %d is below min_number_of_instances %d", v.ID, v.Max, v.Min)
	}
	v.Image = l.text(file, l.mapping(file, props, "sw_image_data"), "name")
	v.ComputeFlavour = l.computeFlavour(t)
	for n := range targetsOf(t.body, "virtual_storage") {
		if id, ok := safeyaml.Text(n); ok {
			v.Storages = append(v.Storages, id)
		}
	}
	return v
}

// requirements refuses node templates that require themselves or templates that don't exist.
func (l *loader) requirements(d definition, ts []template) {
	known := map[string]template{}
	for _, t := range ts {
		known[t.id] = t
	}
	needs := map[string][]string{}
	for _, t := range ts {
		for n := range requirementTargets(t.body) {
			name, ok := safeyaml.Text(n)
			switch {
			case !ok:
				l.fail(d.file, n, "a requirement of node template %s must name a node template", t.id)
			case known[name].body != nil:
				needs[t.id] = append(needs[t.id], name)
			case l.types[name] == nil && !isStandard(name):
				l.fail(d.file, n, "node template %s requires %s, which isn't in this topology", t.id, name)
			}
		}
	}
	const walking, walked = 1, 2
	state := map[string]int{}
	var chain []string
	var walk func(id string)
	walk = func(id string) {
		switch state[id] {
		case walked:
			return
		case walking:
			i := slices.Index(chain, id)
			l.fail(d.file, known[id].key, "requirements go in a circle: %s", strings.Join(append(slices.Clone(chain[i:]), id), " -> "))
			return
		}
		state[id] = walking
		chain = append(chain, id)
		for _, next := range needs[id] {
			walk(next)
		}
		chain = chain[:len(chain)-1]
		state[id] = walked
	}
	for _, t := range ts {
		walk(t.id)
	}
}

// requirementTargets yields the node of each requirement: "name: target",
// "name: {node: target}", in a list or a mapping. "name: []" and the optional form without
// a node have no target.
func requirementTargets(body *yaml.Node) func(func(*yaml.Node) bool) { return targetsOf(body, "") }

// targetsOf does the same for the requirements of one name.
func targetsOf(body *yaml.Node, name string) func(func(*yaml.Node) bool) {
	return func(yield func(*yaml.Node) bool) {
		one := func(n *yaml.Node) bool {
			for k, v := range safeyaml.Pairs(n) {
				if name != "" && k.Value != name {
					continue
				}
				if v.Kind == yaml.MappingNode {
					v = safeyaml.Get(v, "node")
				}
				if safeyaml.Null(v) || v.Kind == yaml.SequenceNode {
					continue
				}
				if !yield(v) {
					return false
				}
			}
			return true
		}
		reqs := safeyaml.Get(body, "requirements")
		if !one(reqs) {
			return
		}
		for n := range safeyaml.Items(reqs) {
			if !one(n) {
				return
			}
		}
	}
}

// operations of the Vnflcm interface (SOL001 clause 6.7.2) around which hooks run.
var operations = []string{
	"instantiate", "terminate", "scale", "scale_to_level", "heal", "operate", "change_flavour",
	"change_external_connectivity", "modify_information", "change_current_package",
}

func isHook(name string) bool {
	base, ok := strings.CutSuffix(name, "_start")
	if !ok {
		base, ok = strings.CutSuffix(name, "_end")
	}
	return ok && slices.Contains(operations, strings.TrimSuffix(base, "_rollback"))
}

// hookSource is a node template or type in which hooks and artifacts may stand.
type hookSource struct {
	file string
	body *yaml.Node
}

// hooks reads interfaces.Vnflcm of the VNF's node template, then those of its
// type and the type's ancestors; the first implementation counts.
func (l *loader) hooks(f *Flavour, t template) {
	sources := []hookSource{{t.def.file, t.body}}
	chain, _ := lineage(l.types, t.kind, typeVNF)
	for _, d := range chain {
		sources = append(sources, hookSource{d.file, d.body})
	}
	for _, s := range sources {
		lcm := l.mapping(s.file, s.body, "interfaces", "Vnflcm")
		for _, section := range []*yaml.Node{lcm, safeyaml.Get(lcm, "operations")} {
			for k, v := range safeyaml.Pairs(section) {
				l.hook(f, t, sources, s.file, k, v)
			}
		}
	}
}

// hook reads one entry of interfaces.Vnflcm in a file.
func (l *loader) hook(f *Flavour, t template, sources []hookSource, file string, k, v *yaml.Node) {
	name := implementation(v)
	if name == "" || slices.Contains([]string{"type", "inputs", "operations", "notifications", "description"}, k.Value) {
		return
	}
	if _, known := f.Hooks[k.Value]; known {
		return
	}
	switch {
	case isHook(k.Value):
	case slices.Contains(operations, k.Value):
		l.warn(file, k, "implementation of Vnflcm.%s is ignored: only %[1]s_start and %[1]s_end are run", k.Value)
		return
	default:
		l.fail(file, k, "Vnflcm has no operation %q: it would never run", k.Value)
		return
	}

	target := l.hookFile(t, sources, file, name, k, v)
	if target == "" {
		return
	}
	f.Hooks[k.Value] = target
	if n := safeyaml.Get(v, "implementation", "timeout"); n != nil {
		limit, err := hookTimeout(n)
		if err != nil {
			l.fail(file, n, "the timeout of Vnflcm.%s %v", k.Value, err)
			return
		}
		if f.HookTimeouts == nil {
			f.HookTimeouts = map[string]time.Duration{}
		}
		f.HookTimeouts[k.Value] = limit
	}
}

// hookFile is the file of the package that implements a hook: that of the artifact with the name, or the one that the
// name itself is the path of; "" where there is none.
func (l *loader) hookFile(t template, sources []hookSource, in, name string, k, v *yaml.Node) string {
	file, from := name, in
	at := slices.IndexFunc(sources, func(s hookSource) bool { return safeyaml.Get(s.body, "artifacts", name) != nil })
	switch {
	case at >= 0:
		artifact := safeyaml.Get(sources[at].body, "artifacts", name)
		from = sources[at].file
		if file = l.artifactFile(artifact); file == "" {
			l.fail(from, artifact, "artifact %s has no file", name)
			return ""
		}
	case !strings.Contains(name, "/"):
		l.fail(in, v, "Vnflcm.%s is implemented by %s, which isn't among the artifacts of node template %s", k.Value, name, t.id)
		return ""
	}

	target := path.Join(path.Dir(from), file)
	if path.IsAbs(file) || !fs.ValidPath(target) || strings.ContainsAny(target, "\\\x00") {
		l.fail(in, v, "hook Vnflcm.%s: %s is outside the package", k.Value, file)
		return ""
	}
	st, err := fs.Stat(l.files, target)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		l.err = err
		return ""
	case err != nil || !st.Mode().IsRegular():
		l.fail(in, v, "hook Vnflcm.%s: %s isn't in the package", k.Value, target)
		return ""
	}
	return target
}

// maxHookTimeout is far longer than an operation should take.
const maxHookTimeout = 24 * time.Hour

// hookTimeout reads a number of seconds.
func hookTimeout(n *yaml.Node) (time.Duration, error) {
	text, _ := safeyaml.Text(n)
	seconds, err := strconv.Atoi(text)
	if limit := time.Duration(seconds) * time.Second; err == nil && seconds > 0 && seconds <= int(maxHookTimeout.Seconds()) {
		return limit, nil
	}
	return 0, fmt.Errorf("must be whole seconds, 1 to %d, not %q", int(maxHookTimeout.Seconds()), text)
}

// implementation returns the name in an operation: "op: name",
// "op: {implementation: name}", "op: {implementation: {primary: name}}".
func implementation(op *yaml.Node) string {
	if s, ok := safeyaml.Text(op); ok {
		return s
	}
	n := safeyaml.Get(op, "implementation")
	if s, ok := safeyaml.Text(n); ok {
		return s
	}
	s, _ := safeyaml.Text(safeyaml.Get(n, "primary"))
	return s
}

// artifactFile returns the file in "name: file" or "name: {file: file}".
func (l *loader) artifactFile(a *yaml.Node) string {
	if s, ok := safeyaml.Text(a); ok {
		return s
	}
	s, _ := safeyaml.Text(safeyaml.Get(a, "file"))
	return s
}
