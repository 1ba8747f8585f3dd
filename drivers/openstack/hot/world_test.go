package hot_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/rogpeppe/go-internal/txtar"
)

// given is the part of an instance and of a VNFD that a test gives.
type given struct {
	VDUs            []vnfd.VDU                      `json:"vdus"`
	Params          map[string]any                  `json:"params"`
	Runs            []string                        `json:"runs"`
	Strict          bool                            `json:"strict"`
	ExtVirtualLinks []desired.ExtVirtualLink        `json:"extVirtualLinks"`
	ExtManaged      []desired.ExtManagedVirtualLink `json:"extManagedVirtualLinks"`
}

func (s given) input() hot.Input {
	in := hot.Input{
		Instance: "i1", Flavour: &vnfd.Flavour{ID: "simple", VDUs: s.VDUs}, Params: s.Params, Strict: s.Strict,
		ExtVirtualLinks: s.ExtVirtualLinks, ExtManaged: s.ExtManaged,
	}
	if s.Runs != nil {
		in.Runs = func(vdu string) bool { return slices.Contains(s.Runs, vdu) }
	}
	return in
}

// archive is a package with the inputs of a test beside it.
type archive struct {
	files fstest.MapFS
	text  map[string]string
}

func open(t testing.TB, name string) archive {
	t.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := archive{fstest.MapFS{}, map[string]string{}}
	for _, f := range a.Files {
		out.files[f.Name] = &fstest.MapFile{Data: f.Data}
		out.text[f.Name] = string(f.Data)
	}
	return out
}

func (a archive) render(t testing.TB, input string) (*hot.Rendered, error) {
	t.Helper()
	var s given
	if err := json.Unmarshal([]byte(a.text[input]), &s); err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	return render(a.files, s)
}

func render(files fs.FS, s given) (*hot.Rendered, error) {
	f, err := hot.Parse(files, "simple")
	if err != nil {
		return nil, err
	}
	return f.Render(s.input())
}

// world does what Heat does with the bodies, as far as members go.
type world struct {
	live  hot.Live
	last  int                                  // number of the last member of a group
	group map[string]map[string]map[string]any // VDU -> member -> its definition in the group's stack
}

// read is a value as Heat returns it.
func read[T any](v T) T {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

func at(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

// digest is that of the server which a resource is or holds.
func digest(resource any, files map[string]string) string {
	if s, ok := at(resource, "properties", "metadata", hot.MetaDigest).(string); ok {
		return s
	}
	kind, _ := at(resource, "type").(string)
	var nested map[string]any
	if json.Unmarshal([]byte(files[kind]), &nested) != nil {
		return ""
	}
	resources, _ := nested["resources"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if d := digest(resources[name], files); d != "" {
			return d
		}
		for _, part := range asList(at(resources[name], "properties", "metadata", "map_merge")) {
			if d, ok := at(part, hot.MetaDigest).(string); ok {
				return d
			}
		}
	}
	return ""
}

// resolved is a value with the ids of the resources that it names.
func resolved(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if name, ok := x["get_resource"].(string); ok {
			return "id of " + name
		}
		out := map[string]any{}
		for k, e := range x {
			out[k] = resolved(e)
		}
		return out
	case []any:
		out := []any{}
		for _, e := range x {
			out = append(out, resolved(e))
		}
		return out
	}
	return v
}

func asList(v any) []any { l, _ := v.([]any); return l }

// update has the world take a body. Victims are members of groups that were marked before.
func (w *world) update(r *hot.Rendered, b *hot.Body, victims map[string][]string) {
	before := w.live
	body := read(b)
	w.live = hot.Live{Template: body.Template, Files: body.Files, Members: map[string][]hot.Member{}}
	if w.group == nil {
		w.group = map[string]map[string]map[string]any{}
	}
	for vdu, d := range r.VDUs {
		if d.Shape == hot.Expanded {
			for name, res := range at(body.Template, "resources").(map[string]any) {
				if base, index, ok := hot.Split(name); ok && base == d.Resource {
					w.live.Members[vdu] = append(w.live.Members[vdu], hot.Member{Name: strconv.Itoa(index), Digest: digest(res, body.Files)})
				}
			}
		} else {
			now, old := at(body.Template, "resources", d.Resource, "properties"), at(before.Template, "resources", d.Resource, "properties")
			changed := fmt.Sprint(at(now, "resource")) != fmt.Sprint(at(old, "resource"))
			definition := resolved(at(now, "resource")).(map[string]any)
			left := map[string]map[string]any{}
			for name, def := range w.group[vdu] {
				if slices.Contains(victims[vdu], name) {
					continue
				}
				if left[name] = def; changed {
					left[name] = definition
				}
			}
			for n := int(at(now, "desired_capacity").(float64)); len(left) < n; {
				w.last++
				left["m"+strconv.Itoa(w.last)] = definition
			}
			w.group[vdu] = left
			w.count(vdu)
		}
		slices.SortFunc(w.live.Members[vdu], func(a, b hot.Member) int { return cmp.Compare(a.Name, b.Name) })
	}
}

// count notes the members of a group as they are defined.
func (w *world) count(vdu string) {
	w.live.Members[vdu] = nil
	for _, name := range slices.Sorted(maps.Keys(w.group[vdu])) {
		w.live.Members[vdu] = append(w.live.Members[vdu], hot.Member{Name: name, Digest: digest(w.group[vdu][name], w.live.Files)})
	}
}

// outputs are those of the top stack, with the ids of the resources that they name.
func (w *world) outputs() map[string]any {
	out := map[string]any{}
	declared, _ := at(w.live.Template, "outputs").(map[string]any)
	for name, o := range declared {
		out[name] = resolved(at(o, "value"))
	}
	return out
}

// renew renews a member the way that a driver does.
func (w *world) renew(r *hot.Rendered, vdu, member string) (*hot.Body, error) {
	if r.ThroughTop(w.live, vdu, member) {
		b, err := r.Update(w.live, hot.Want{Renew: map[string][]string{vdu: {member}}})
		if err == nil {
			w.update(r, b, nil)
		}
		return b, err
	}
	resources := map[string]any{}
	for name, def := range w.group[vdu] {
		resources[name] = def
	}
	group := hot.Live{Template: read(map[string]any{"heat_template_version": "2015-04-30", "resources": resources}), Files: w.live.Files}
	b, err := r.RenewInGroup(vdu, group, w.outputs(), member)
	if err == nil && b == nil {
		asks, err := r.Update(w.live, hot.Want{})
		if err != nil {
			return nil, err
		}
		w.update(r, asks, nil)
		if !r.Asks(vdu, w.live) {
			return nil, fmt.Errorf("Heat isn't asked for what members of %s are made of", vdu)
		}
		b, err = r.RenewInGroup(vdu, group, w.outputs(), member)
		if err != nil {
			return nil, err
		}
	}
	if err != nil || b == nil {
		return b, err
	}
	for name, def := range at(read(b.Template), "resources").(map[string]any) {
		w.group[vdu][name] = def.(map[string]any)
	}
	maps.Copy(w.live.Files, b.Files)
	w.count(vdu)
	return b, nil
}
