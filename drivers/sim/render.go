package sim

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// The kinds of objects: a workload for each VDU, which owns its units, and a router,
// which sends traffic to the units of one generation.
const (
	kind       = "Workload"
	routerKind = "Router"
)

// firstGeneration is that of an instance that was never changed blue-green.
const firstGeneration = "0"

// The parameters of an instance that this VIM knows.
const (
	paramNamespace = "namespace"    // the place in keys, instead of the instance's id
	paramRouter    = "router"       // true: there is a router
	paramRefuse    = "refuseChange" // why a change to this intent is refused
)

// part is what one object is made of.
type part struct {
	key        string
	vdu        string // "" for a router
	generation string // of its units
	digest     string
	recipe     uint64 // changes when the units must be replaced
	count      int
	trafficTo  string // the generation to which a router sends traffic
}

// Render makes one object "Workload/<place>/<VDU name>" of each VDU, with the
// count that the VNFD gives for the instance's levels, and with params.router: true
// a "Router/<place>/router". The place is the instance's id, or params.namespace,
// where names of two instances may meet. Of a VNF that is stopped, workloads have no units. Workloads of a later generation than the
// first have "-<generation>" at the end of their keys.
func (d *Driver) Render(src drivers.Source) (drivers.Rendering, error) {
	parts, err := partsOf(src)
	if err != nil {
		return drivers.Rendering{}, err
	}
	want := plan.Desired{Condemned: src.Instance.Condemned, Generation: cmp.Or(src.Instance.Generation, firstGeneration)}
	for _, x := range parts {
		want.Objects = append(want.Objects, plan.Object{Key: x.key, Digest: x.digest, Directs: x.trafficTo != ""})
		if x.vdu != "" {
			want.Groups = append(want.Groups, plan.Group{VDU: x.vdu, Owner: x.key, Count: x.count, Digest: x.digest})
		}
	}
	return drivers.Rendering{Desired: want, Source: src, Form: parts}, nil
}

func partsOf(src drivers.Source) ([]part, error) {
	in := src.Instance
	if src.Package == nil || src.Package.VNFD == nil {
		return nil, errors.New("there is no package to render")
	}
	id := cmp.Or(in.Flavour, src.Package.VNFD.DefaultFlavour)
	flavour, ok := src.Package.VNFD.Flavour(id)
	if !ok {
		return nil, &drivers.RefusedError{Field: "flavour", Reason: fmt.Sprintf("the VNFD has no deployment flavour %q", id)}
	}
	levels, err := flavour.ScaleLevels(in.InstantiationLevel, in.Levels)
	if err != nil {
		return nil, &drivers.RefusedError{Field: "levels", Reason: err.Error()}
	}
	place := in.ID
	if ns, ok := in.Params[paramNamespace].(string); ok && ns != "" {
		place = ns
	}
	generation := cmp.Or(in.Generation, firstGeneration)
	suffix := ""
	if in.Generation != "" {
		suffix = "-" + in.Generation
	}
	var parts []part
	for i := range flavour.VDUs {
		vdu := &flavour.VDUs[i]
		if !src.Runs(vdu.ID) {
			continue
		}
		count, err := flavour.Count(vdu, in.InstantiationLevel, levels)
		if err != nil {
			return nil, &drivers.RefusedError{Field: "levels", Reason: err.Error()}
		}
		if in.State == desired.Stopped {
			count = 0
		}
		made := []any{in.Package, src.Package.Tree, src.Foundation().Tree, in.Overlays, vdu.Image}
		if pin, ok := src.Pinned[vdu.ID]; ok {
			made = pinned(pin, flavour.ID, vdu)
		}
		recipe, err := sum(made)
		if err != nil {
			return nil, err
		}
		content, err := sum(in.ID, id, vdu.ID, in.Params, made)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{
			key: kind + "/" + place + "/" + vdu.Name + suffix, vdu: vdu.ID, generation: generation, count: count,
			digest: hex.EncodeToString(content[:8]), recipe: binary.BigEndian.Uint64(recipe[:8]),
		})
	}
	if on, _ := in.Params[paramRouter].(bool); on {
		content, err := sum(in.ID, generation)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{key: routerKind + "/" + place + "/router", digest: hex.EncodeToString(content[:8]), trafficTo: generation})
	}
	return parts, nil
}

// pinned is what the VDU is made of where it stays with another package than the others.
func pinned(pin drivers.Pinned, flavour string, vdu *vnfd.VDU) []any {
	image := vdu.Image
	if f, ok := pin.Package.VNFD.Flavour(flavour); ok {
		for i := range f.VDUs {
			if f.VDUs[i].ID == vdu.ID {
				image = f.VDUs[i].Image
			}
		}
	}
	tree := pin.Package.Tree
	return []any{tree, tree, tree, []desired.Overlay(nil), image}
}

// sum identifies the values.
func sum(values ...any) ([sha256.Size]byte, error) {
	content, err := json.Marshal(values)
	if err != nil {
		return [sha256.Size]byte{}, &drivers.RefusedError{Field: "params", Reason: err.Error()}
	}
	return sha256.Sum256(content), nil
}

// Change refuses nothing but what params.refuseChange asks to be refused.
func (d *Driver) Change(_, after drivers.Source) error {
	if why, ok := after.Instance.Params[paramRefuse].(string); ok && why != "" {
		return &drivers.RefusedError{Field: "update", Reason: why}
	}
	return nil
}
