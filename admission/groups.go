package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// Group is instances of which a change would make the same: what a person reads once, however
// many they are.
type Group struct {
	// Operation is that which each would have; "" where nothing of what runs would change.
	Operation lcm.Type `json:"operation,omitempty"`
	// Dirs are the instances' directories, sorted.
	Dirs []string `json:"dirs"`
	// Error is why it can't be planned, or would be refused.
	Error  string `json:"error,omitempty"`
	Effect Effect `json:"effect"`
	// Shared is the preview of the group's first instance, with "<id>", "<folder>", "<name>",
	// "<namespace>" and "<unit>" for what is each instance's own, if the group has more than one.
	Shared reconciler.Preview `json:"-"`
}

// Effect is what becomes of one instance: objects and VNFCs, counted.
type Effect struct {
	Deleted  int `json:"deleted"`  // objects that go, and aren't made anew
	Remade   int `json:"remade"`   // objects that go and are made anew
	Removed  int `json:"removed"`  // VNFCs that go for a smaller number of them
	Replaced int `json:"replaced"` // VNFCs that are restarted, or have successors
	Changed  int `json:"changed"`  // objects
	Created  int `json:"created"`  // objects
	// VDUs are those whose VNFCs go, restart or are replaced.
	VDUs []string `json:"vdus,omitempty"`
}

// rank orders groups: what is refused goes first, then what takes away most.
func (g Group) rank() int {
	switch e := g.Effect; {
	case g.Error != "":
		return 0
	case g.Operation == lcm.Terminate:
		return 1
	case e.Deleted > 0:
		return 2
	case e.Remade > 0:
		return 3
	case e.Removed > 0:
		return 4
	case e.Replaced > 0:
		return 5
	case e.Changed > 0:
		return 6
	case g.Operation != "":
		return 7
	}
	return 8
}

// GroupPreviews puts previews together that say the same but for names, ids and values of which
// (nearly) every instance has its own: the worst group first, then the largest.
func GroupPreviews(previews []reconciler.Preview) []Group {
	shapes := map[string][]general{}
	var order []string
	for _, p := range previews {
		g := generalize(p)
		key := g.shape()
		if shapes[key] == nil {
			order = append(order, key)
		}
		shapes[key] = append(shapes[key], g)
	}
	groups := []Group{}
	for _, key := range order {
		groups = append(groups, split(shapes[key])...)
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(len(b.Dirs), len(a.Dirs)), cmp.Compare(a.Dirs[0], b.Dirs[0]))
	})
	return groups
}

// general is a preview without what is one instance's own.
type general struct {
	of, shared reconciler.Preview
}

// values are what instances of one shape may have differently: what is filled in, the fields' values, and
// at last for whom each waits.
func (g general) values() []string {
	all := slices.Clone(g.shared.Filled)
	for _, d := range g.shared.Diff {
		all = append(all, d.Have, d.Want)
	}
	return append(all, g.shared.WaitsFor)
}

// shape is everything but the values.
func (g general) shape() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n%t\n%s\n%t\n", g.shared.Type, g.shared.Error, g.shared.Waits, g.shared.WaitsFor != "", g.shared.Rollout, g.shared.Proposed)
	for _, s := range g.shared.Steps {
		fmt.Fprintf(&b, "%d %s %d\n", s.Stage, s, s.From)
	}
	for _, f := range g.shared.Filled {
		name, _, _ := strings.Cut(f, ":")
		b.WriteString(name + "\n")
	}
	for _, d := range g.shared.Diff {
		fmt.Fprintf(&b, "%s %s %t %t\n", d.Object, d.Field, d.Have == "", d.Want == "")
	}
	return b.String()
}

// ownShare is the part of instances that have a value of their own, from which on the value is
// taken for each one's own (an address, a site's name), and not for a difference between groups.
const ownShare = 0.2

// split makes groups of previews of one shape: one for each combination of the values that
// aren't each instance's own.
func split(list []general) []Group {
	values := make([][]string, len(list))
	for i, g := range list {
		values[i] = g.values()
	}
	own := make([]bool, len(values[0]))
	for at := range own {
		distinct := map[string]bool{}
		for _, v := range values {
			distinct[v[at]] = true
		}
		own[at] = len(distinct) > 2 && float64(len(distinct)) > ownShare*float64(len(list))
	}
	groups := map[string]*Group{}
	var order []string
	for i, g := range list {
		var key strings.Builder
		for at, v := range values[i] {
			if !own[at] {
				key.WriteString(v)
			}
			key.WriteByte(0)
		}
		group := groups[key.String()]
		if group == nil {
			group = &Group{Operation: g.of.Type, Error: g.shared.Error, Effect: EffectOf(g.of), Shared: g.shared}
			groups[key.String()] = group
			order = append(order, key.String())
		}
		if len(group.Dirs) > 0 && g.of.Dir < slices.Min(group.Dirs) {
			group.Shared = g.shared
		}
		group.Dirs = append(group.Dirs, g.of.Dir)
	}
	var all []Group
	for _, key := range order {
		g := groups[key]
		slices.Sort(g.Dirs)
		if len(g.Dirs) == 1 {
			i := slices.IndexFunc(list, func(x general) bool { return x.of.Dir == g.Dirs[0] })
			g.Shared, g.Error = list[i].of, list[i].of.Error
		} else {
			g.Shared = withOwn(g.Shared, own)
		}
		all = append(all, *g)
	}
	return all
}

// eachItsOwn stands for a value that every instance has another of.
const eachItsOwn = "(each its own)"

// withOwn returns the preview with a word for each value that is an instance's own.
func withOwn(p reconciler.Preview, own []bool) reconciler.Preview {
	p.Filled, p.Diff = slices.Clone(p.Filled), slices.Clone(p.Diff)
	for i, f := range p.Filled {
		if name, _, ok := strings.Cut(f, ":"); ok && own[i] {
			p.Filled[i] = name + ": " + eachItsOwn
		}
	}
	for i := range p.Diff {
		d, at := &p.Diff[i], len(p.Filled)+2*i
		if own[at] && d.Have != "" {
			d.Have = eachItsOwn
		}
		if own[at+1] && d.Want != "" {
			d.Want = eachItsOwn
		}
	}
	if own[len(own)-1] {
		p.WaitsFor = "other instances " + eachItsOwn
	}
	return p
}

// generalize replaces what names one instance alone.
func generalize(p reconciler.Preview) general {
	names := newNames(p)
	shared := p
	shared.Instance, shared.Dir, shared.Error = "", "", names.in(p.Error)
	shared.WaitsFor = names.in(p.WaitsFor)
	shared.Filled = nil
	for _, f := range p.Filled {
		shared.Filled = append(shared.Filled, names.in(f))
	}
	shared.Steps, shared.Diff = nil, nil
	for _, s := range p.Steps {
		s.Object, s.Owner, s.Reason, s.Failure = names.key(s.Object), names.key(s.Owner), names.in(s.Reason), names.in(s.Failure)
		s.Incarnation, s.Victims, s.Keep = "", nil, ""
		shared.Steps = append(shared.Steps, s)
	}
	for _, d := range p.Diff {
		d.Object, d.Field, d.Have, d.Want = names.key(d.Object), names.in(d.Field), names.in(d.Have), names.in(d.Want)
		d.By = ""
		shared.Diff = append(shared.Diff, d)
	}
	return general{p, shared}
}

// names are the words for what is one instance's own, the longest name first.
type names struct{ pairs [][2]string }

func newNames(p reconciler.Preview) names {
	all := map[string]string{p.Instance: "<id>", p.Dir: "<folder>", p.Dir[strings.LastIndex(p.Dir, "/")+1:]: "<name>", p.Name: "<name>"}
	for _, s := range p.Steps {
		if parts := strings.Split(s.Object, "/"); len(parts) == 3 && all[parts[1]] == "" {
			all[parts[1]] = "<namespace>"
		}
	}
	delete(all, "")
	var n names
	for name, word := range all {
		n.pairs = append(n.pairs, [2]string{name, word})
	}
	slices.SortFunc(n.pairs, func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(len(b[0]), len(a[0])), cmp.Compare(a[0], b[0]))
	})
	return n
}

// in replaces the names where they stand as whole words.
func (n names) in(text string) string {
	for _, pair := range n.pairs {
		text = replaceWord(text, pair[0], pair[1])
	}
	return text
}

// key is an object's key with its names replaced. The own name of a pod is chance, and so is that of the
// simulator's unit.
func (n names) key(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) == 3 && (parts[0] == "Pod" || parts[0] == "Unit") {
		return parts[0] + "/" + n.in(parts[1]) + "/<unit>"
	}
	return n.in(key)
}

// replaceWord replaces name in text where neither a letter nor a digit is beside it.
func replaceWord(text, name, word string) string {
	if !strings.Contains(text, name) {
		return text
	}
	var b strings.Builder
	for {
		at := strings.Index(text, name)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := at + len(name)
		b.WriteString(text[:at])
		if (at > 0 && alphanumeric(text[at-1])) || (end < len(text) && alphanumeric(text[end])) {
			b.WriteString(name)
		} else {
			b.WriteString(word)
		}
		text = text[end:]
	}
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// EffectOf counts what becomes of the instance.
func EffectOf(p reconciler.Preview) Effect {
	var e Effect
	became := map[string]string{}
	vdus := map[string]bool{}
	units := func(n int, owner string) int {
		if n > 0 {
			vdus[cmp.Or(p.VDUs[owner], owner)] = true
		}
		return max(n, 0)
	}
	remade := map[string]bool{}
	for _, d := range p.Diff {
		if strings.HasPrefix(d.Field, "spec.template.") {
			remade[d.Object] = true
		}
	}
	for _, s := range p.Steps {
		switch s.Action {
		case plan.Delete:
			became[s.Object] = "deleted"
		case plan.DeleteUnit, plan.Renew, plan.Stop:
			e.Replaced += units(1, cmp.Or(s.Owner, s.Object))
		case plan.Scale:
			became[s.Object] = "changed"
			e.Removed += units(max(s.From, 0)-s.To, cmp.Or(s.VDU, s.Object))
		case plan.Apply:
			switch {
			case s.From < 0 && became[s.Object] == "deleted":
				became[s.Object] = "remade"
			case s.From < 0:
				became[s.Object] = "created"
			default:
				became[s.Object] = "changed"
				e.Removed += units(s.From-s.To, s.Object)
				if remade[s.Object] {
					e.Replaced += units(min(s.From, s.To), s.Object)
				}
			}
		}
	}
	for _, what := range became {
		switch what {
		case "deleted":
			e.Deleted++
		case "remade":
			e.Remade++
		case "changed":
			e.Changed++
		case "created":
			e.Created++
		}
	}
	for vdu := range vdus {
		e.VDUs = append(e.VDUs, vdu)
	}
	slices.Sort(e.VDUs)
	return e
}

// String says it in words: "2 objects go, 3 VNFCs of vdu1 are replaced".
func (e Effect) String() string {
	var parts []string
	say := func(n int, one, more string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, more))
		}
	}
	of := ""
	if len(e.VDUs) > 0 {
		of = " of " + strings.Join(e.VDUs, ", ")
	}
	say(e.Deleted, "object goes", "objects go")
	say(e.Remade, "object is made anew", "objects are made anew")
	say(e.Removed, "VNFC"+of+" goes", "VNFCs"+of+" go")
	say(e.Replaced, "VNFC"+of+" is replaced", "VNFCs"+of+" are replaced")
	say(e.Changed, "object changes", "objects change")
	say(e.Created, "object is new", "objects are new")
	return strings.Join(parts, ", ")
}
