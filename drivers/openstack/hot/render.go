package hot

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Rendered is a package's templates with everything of one instance filled in, but for
// the number of VNFCs.
type Rendered struct {
	// Digest identifies the whole, without numbers of VNFCs.
	Digest string
	// VDUs are the definitions of the VDUs that run here, by id.
	VDUs map[string]*Definition
	// Top is the path of the top template in the package.
	Top string

	folder *Folder
	in     Input
	params *parameters
	defs   map[string]*definition
	shared map[string]any    // the top template without what belongs to VDUs
	files  map[string]string // of the shared part
	owner  map[string]string // the resources of expanded VDUs -> VDU
}

// definition is a VDU with what it is made of.
type definition struct {
	Definition
	// resources are those of one VNFC, or the group, by the name in the package:
	// with types and files renamed and the servers marked, parameters not yet filled in.
	resources map[string]any
	files     map[string]string
	merged    bool // map_merge is needed in the top template
}

// Render fills the templates in. It returns an [*Error] for what is wrong in a file of the
// package, and an [*InputError] for what is wrong in the instance's intent.
func (f *Folder) Render(in Input) (*Rendered, error) {
	places, err := f.places(&in)
	if err != nil {
		return nil, err
	}
	nfv, err := f.nfv(&in)
	if err != nil {
		return nil, err
	}
	params, err := f.parametersOf(&in, nfv, places)
	if err != nil {
		return nil, err
	}
	r := &Rendered{
		VDUs: map[string]*Definition{}, Top: f.top.file, folder: f, in: in, params: params,
		defs: map[string]*definition{}, shared: cloneMap(f.top.tree), files: map[string]string{}, owner: map[string]string{},
	}
	if err := r.replaceNetworks(); err != nil {
		return nil, err
	}
	top := section(r.shared, "resources")
	gone := map[string]bool{}
	for _, p := range places {
		mine := map[string]any{}
		for _, name := range append([]string{p.resource}, p.own...) {
			if top[name] == nil {
				continue // an external network has taken its place
			}
			mine[name] = top[name]
			delete(top, name)
			if p.shape == Expanded {
				r.owner[name] = p.vdu
			}
			gone[name] = true
		}
		if in.Runs != nil && !in.Runs(p.vdu) {
			continue
		}
		if err := r.define(p, mine); err != nil {
			return nil, err
		}
	}
	shared := f.packer(nil, r.files)
	for _, name := range sorted(top) {
		if err := shared.retype(f.top, resourceOf(top, name)); err != nil {
			return nil, err
		}
	}
	r.shared = f.refile(f.top, r.shared, r.files).(map[string]any)
	if err := r.checkOutputs(gone); err != nil {
		return nil, err
	}
	r.Digest, err = r.digest(r.shared, r.files, r.uncounted(), r.digests())
	return r, err
}

func (r *Rendered) digests() map[string]string {
	out := map[string]string{}
	for vdu, d := range r.VDUs {
		out[vdu] = d.Digest
	}
	return out
}

// define makes a VDU's definition. It makes it twice: first with an empty mark, to compute the
// digest, then with the mark that has the digest.
func (r *Rendered) define(p place, resources map[string]any) error {
	d := &definition{Definition: Definition{VDU: p.vdu, Shape: p.shape, Resource: p.resource, Server: p.server, Own: p.own}}
	d.Own = slices.DeleteFunc(slices.Clone(p.own), func(name string) bool { return resources[name] == nil })
	blank := &mark{r.in.Instance, p.vdu, "", r.in.Generation}
	if err := r.fill(d, resources, blank); err != nil {
		return err
	}
	hidden := map[string]any{}
	filled := r.params.resolve(d.resources, none, func(name string) string {
		hidden[name] = r.params.values[name]
		return name
	})
	var err error
	if d.Digest, err = r.digest(filled, d.files, hidden, r.indexed(d.resources), r.conditions(filled)); err != nil {
		return err
	}
	blank.digest = d.Digest
	if err := r.fill(d, resources, blank); err != nil {
		return err
	}
	if p.shape == Grouped {
		properties := section(resourceOf(d.resources, p.resource), "properties")
		for _, key := range []string{"desired_capacity", "rolling_updates", "cooldown"} {
			delete(properties, key)
		}
		if _, _, err := r.bounds(d); err != nil {
			return err
		}
	}
	r.defs[p.vdu], r.VDUs[p.vdu] = d, &d.Definition
	return nil
}

func (r *Rendered) fill(d *definition, resources map[string]any, m *mark) error {
	f := r.folder
	d.resources, d.files = cloneMap(resources), map[string]string{}
	files := f.packer(m, d.files)
	for _, name := range sorted(d.resources) {
		res := resourceOf(d.resources, name)
		if err := files.retype(f.top, res); err != nil {
			return err
		}
		if typeOf(res) == typeServer {
			if kept := r.params.resolve(section(res, "properties")["metadata"], none, func(s string) string { return s }); kept != nil {
				section(res, "properties")["metadata"] = kept
			}
			d.merged = m.addTo(res) || d.merged
		}
	}
	d.resources = f.refile(f.top, d.resources, d.files).(map[string]any)
	return nil
}

// indexed are the entries of nfv for single members, of the paths that the definition reads.
func (r *Rendered) indexed(resources map[string]any) map[string]any {
	out := map[string]any{}
	nfv, _ := r.params.values[nfvParam].(map[string]any)
	visit(resources, func(function string, arg any) {
		name, path := first(arg)
		if function != "get_param" || name != nfvParam || len(path) < 2 {
			return
		}
		kind, entry := fmt.Sprint(path[0]), fmt.Sprint(path[1])
		for key, v := range section(nfv, kind) {
			if base, _, ok := Split(key); ok && base == entry {
				out[kind+"/"+key] = v
			}
		}
	})
	return out
}

// conditions are the template's, where the definition depends on them, else nil.
func (r *Rendered) conditions(v any) any {
	needed := false
	visit(v, func(function string, _ any) { needed = needed || function == "if" })
	for _, res := range v.(map[string]any) {
		if m, ok := res.(map[string]any); ok && m["condition"] != nil {
			needed = true
		}
	}
	if !needed {
		return nil
	}
	return r.params.resolve(r.shared["conditions"], none, func(s string) string { return s })
}

// uncounted are the values of the parameters, without the number of VNFCs.
func (r *Rendered) uncounted() map[string]any { return r.valued(nil) }

// valued are the values of the parameters, nfv's with the numbers of VNFCs.
func (r *Rendered) valued(counts map[string]int) map[string]any {
	out := maps.Clone(r.params.values)
	for name, vdu := range r.params.counted {
		if out[name] != nil {
			out[name] = counts[vdu]
		}
	}
	nfv, ok := out[nfvParam].(map[string]any)
	if !ok {
		return out
	}
	nfv = cloneMap(nfv)
	vdus := section(nfv, "VDU")
	for _, name := range sorted(vdus) {
		e := section(vdus, name)
		delete(e, keyCapacity)
		if vdu, ok := r.in.vdu(name); ok && counts != nil && r.VDUs[vdu.ID] != nil {
			e[keyCapacity] = counts[vdu.ID]
		}
	}
	out[nfvParam] = nfv
	return out
}

// digest is 32 hexadecimal digits that identify the parts.
func (r *Rendered) digest(parts ...any) (string, error) {
	mac := hmac.New(sha256.New, r.in.Key)
	for _, p := range parts {
		data, err := json.Marshal(p)
		if err != nil {
			return "", fmt.Errorf("digest of %s: %w", r.Top, err)
		}
		fmt.Fprintf(mac, "%d:", len(data))
		mac.Write(data)
	}
	return hex.EncodeToString(mac.Sum(nil)[:16]), nil
}

// bounds are the group's min_size and max_size.
func (r *Rendered) bounds(d *definition) (least, most int64, err error) {
	properties := section(resourceOf(d.resources, d.Resource), "properties")
	at := []string{"resources", d.Resource, "properties"}
	number := func(key string) (int64, error) {
		v, err := cast("number", r.params.resolve(properties[key], none, func(s string) string { return s }))
		n, whole := v.(int64)
		if err == nil && whole && n >= 0 {
			return n, nil
		}

		err = r.folder.top.fail(append(at, key), "%s of group %s must be a whole number, or a parameter that is one", key, d.Resource)
		given := false
		visit(properties[key], func(function string, _ any) { given = given || function == "get_param" })
		if given {
			err = &givenError{err}
		}
		return 0, err
	}
	if least, err = number("min_size"); err != nil {
		return 0, 0, err
	}
	most, err = number("max_size")
	return least, most, err
}

// Check refuses numbers of VNFCs that the templates don't allow: outside a group's
// bounds, or several VNFCs with one and the same address.
func (r *Rendered) Check(counts map[string]int) error {
	for _, vdu := range sorted(r.defs) {
		d, n := r.defs[vdu], counts[vdu]
		if d.Shape == Grouped {
			least, most, err := r.bounds(d)
			if err != nil {
				return err
			}
			at := []string{"resources", d.Resource, "properties"}
			if int64(n) < least {
				return r.folder.top.fail(append(at, "min_size"), "group %s has at least %d members, and VDU %s would have %d: let the VNFD and the template agree", d.Resource, least, vdu, n)
			}
			if int64(n) > most {
				return r.folder.top.fail(append(at, "max_size"), "group %s has at most %d members, and VDU %s would have %d: let the VNFD and the template agree", d.Resource, most, vdu, n)
			}
		}
		if err := r.distinct(d, n); err != nil {
			return err
		}
	}
	return nil
}
