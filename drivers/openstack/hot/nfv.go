package hot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// The keys of nfv: first those of an entry of VDU, then those of an entry of CP.
const (
	keyFlavour  = "computeFlavourId"
	keyImage    = "vcImageId"
	keyZone     = "locationConstraints"
	keyReserved = "reservationId"
	keyCapacity = "desired_capacity"
	keyNetwork  = "network"
	keyFixed    = "fixed_ips"
	keyPort     = "port"
	keyMAC      = "mac_address"
)

// maxAddresses bounds the addresses of a connection point on one subnet.
const maxAddresses = 64

// Input is all that templates are filled in with.
type Input struct {
	Instance, Generation string
	// Flavour is the VNFD's: its VDUs must stand in the templates. Runs says which of them
	// run here; nil means all.
	Flavour *vnfd.Flavour
	Runs    func(vdu string) bool
	// Params are the instance's: the values of plain parameters, and under "nfv" values that
	// take precedence over those from the VNFD and the networks. Strict refuses parameters
	// that the top template doesn't have.
	Params map[string]any
	Strict bool
	// Secrets are values in Params that no message may quote.
	Secrets []string
	// Computed says that a hook computes parameters later, so that they may be missing yet.
	Computed bool
	// ExtVirtualLinks are networks for connection points, ExtManaged those that take the
	// place of networks in the template.
	ExtVirtualLinks []desired.ExtVirtualLink
	ExtManaged      []desired.ExtManagedVirtualLink
	// Granted is what an NFVO decided about VDUs and storages, by id. It takes precedence over
	// the VNFD, and Params over it.
	Granted map[string]desired.GrantedVDU
	// Key keys the digests, so that nobody can guess secrets from them.
	Key []byte
}

// InputError is returned for what is wrong in the instance's intent.
type InputError struct {
	Field   string // of vnf.yaml: "params.flavor_name"
	Message string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Message }

// nfvPaths are the paths [nfv, …] that the templates read, in order, each with where it
// stands.
func (f *Folder) nfvPaths() (paths [][]string, where map[string]*template) {
	where = map[string]*template{}
	for _, file := range sorted(f.byFile) {
		t := f.byFile[file]
		visit(t.tree, func(function string, arg any) {
			name, rest := first(arg)
			if function != "get_param" || name != nfvParam {
				return
			}
			path := make([]string, len(rest))
			for i, x := range rest {
				path[i] = fmt.Sprint(x)
			}
			if key := fmt.Sprint(path); where[key] == nil {
				where[key] = t
				paths = append(paths, path)
			}
		})
	}
	slices.SortFunc(paths, slices.Compare[[]string])
	return paths, where
}

// nfv makes the parameter of that name: what the templates read of it, out of the VNFD and the
// networks, with the instance's own values over them.
func (f *Folder) nfv(in *Input) (map[string]any, error) {
	if section(f.top.tree, "parameters")[nfvParam] == nil {
		return nil, f.checkGranted(in, nil)
	}
	own, ok := in.Params[nfvParam].(map[string]any)
	if !ok && in.Params[nfvParam] != nil {
		return nil, &InputError{"params.nfv", "must be a mapping with VDU and CP"}
	}
	vdus, cps := map[string]any{}, map[string]any{}
	paths, where := f.nfvPaths()
	entry := func(all map[string]any, name string) map[string]any {
		if all[name] == nil {
			all[name] = map[string]any{}
		}
		return section(all, name)
	}
	for _, path := range paths {
		if len(path) < 2 {
			continue // passed on as a whole: a nested file reads parts of it
		}
		name := path[1]
		switch path[0] {
		case "VDU":
			e := entry(vdus, name)
			if vdu, ok := in.vdu(name); ok {
				in.size(e, vdu.ID, vdu.ComputeFlavour, vdu.Image)
			} else if vdu, ok := in.vdu(unindexed(name)); ok {
				in.size(e, vdu.ID, "", "")
			} else {
				in.size(e, name, "", "") // a storage that is made of an image
			}
		case "CP":
			if e := entry(cps, name); len(e) == 0 {
				in.connect(cps, name)
			}
		}
	}
	if err := f.checkGranted(in, paths); err != nil {
		return nil, err
	}
	made := map[string]any{"VDU": vdus, "CP": cps}
	if err := f.checkRead(own, paths); err != nil {
		return nil, err
	}
	if err := f.checkConnections(in, paths); err != nil {
		return nil, err
	}
	made = merge(made, own)
	for _, path := range paths {
		if err := in.checkGiven(made, path, where[fmt.Sprint(path)]); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func set(m map[string]any, key, value string) {
	if value != "" {
		m[key] = value
	}
}

// vdu is the VDU with the first of the names that is a VDU's id, else with the first that is a
// VDU's name.
func (in *Input) vdu(names ...string) (*vnfd.VDU, bool) {
	for _, name := range names {
		if v, ok := in.Flavour.VDU(name); ok {
			return v, true
		}
	}
	for _, name := range names {
		for i := range in.Flavour.VDUs {
			if v := &in.Flavour.VDUs[i]; v.Name == name {
				return v, true
			}
		}
	}
	return nil, false
}

// checkGiven refuses a path that a template needs and that has no value.
func (in *Input) checkGiven(made map[string]any, path []string, t *template) error {
	if len(path) < 3 {
		return nil
	}
	steps := make([]any, len(path))
	for i, s := range path {
		steps[i] = s
	}
	if v := lookup(made, steps); v != nil && v != "" || in.Computed {
		return nil
	}
	if vdu, known := in.vdu(path[1]); path[0] == "VDU" && known && in.Runs != nil && !in.Runs(vdu.ID) {
		return nil
	}
	field := "params.nfv." + path[0] + "." + path[1] + "." + path[2]
	switch {
	case path[2] == keyZone || path[2] == keyCapacity || path[0] == "CP" && (path[2] == keyFixed || path[2] == keyPort || path[2] == keyMAC):
		return nil
	case path[0] == "VDU" && path[2] == keyFlavour:
		return &InputError{field, fmt.Sprintf("no flavour is known, which %s asks for: give it, or have the VNFD name it (requested_additional_capability_name)", t.file)}
	case path[0] == "VDU" && path[2] == keyImage:
		return &InputError{field, fmt.Sprintf("no image is known, which %s asks for: give it, or have the VNFD name it (sw_image_data.name)", t.file)}
	case path[0] == "CP" && path[2] == keyNetwork:
		return &InputError{"extVirtualLinks", fmt.Sprintf("no network is known for connection point %s, which %s asks for: name one here (extCps), or give %s", path[1], t.file, field)}
	}
	return &InputError{field, fmt.Sprintf("nothing is given, and %s asks for it: give it", t.file)}
}

// checkRead refuses entries of the instance's nfv that no template reads.
func (f *Folder) checkRead(own map[string]any, paths [][]string) error {
	for _, kind := range sorted(own) {
		entries, ok := own[kind].(map[string]any)
		if !ok {
			return &InputError{"params.nfv." + kind, "must be a mapping"}
		}
		for _, name := range sorted(entries) {
			values, ok := entries[name].(map[string]any)
			if !ok {
				return &InputError{"params.nfv." + kind + "." + name, "must be a mapping"}
			}
			for _, key := range sorted(values) {
				if !slices.ContainsFunc(paths, func(p []string) bool {
					return len(p) < 2 || p[0] == kind && (p[1] == name || p[1] == unindexed(name)) && (len(p) == 2 || p[2] == key)
				}) {
					return &InputError{"params.nfv." + kind + "." + name + "." + key, fmt.Sprintf("the templates in %s don't read it: correct the name, or leave it out", f.Dir)}
				}
			}
		}
	}
	return nil
}

// unindexed is the name without the index of a VNFC.
func unindexed(name string) string {
	base, _, _ := Split(name)
	return cmp.Or(base, name)
}
