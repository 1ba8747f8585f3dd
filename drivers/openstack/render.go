package openstack

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// firstGeneration is what the generation of instances that name none is called.
const firstGeneration = "0"

// generationOf is the generation as the planner tells it apart.
func generationOf(named string) string { return cmp.Or(named, firstGeneration) }

// stackName is the name of the instance's stack in its generation.
func stackName(in *desired.Instance) string {
	name := stackPrefix + in.ID
	if in.Generation != "" {
		name += "-" + in.Generation
	}
	return name
}

// maxStackName is the most that Heat takes.
const maxStackName = 255

var stackWord = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]*$`)

// render is an instance as its stack.
type render struct {
	desired plan.Desired
	hot     *hot.Rendered
}

// Render makes one stack of the package's templates, with a group of units for each VDU that
// they hold.
func (d *Driver) Render(src drivers.Source) (drivers.Rendering, error) {
	r, err := d.render(src)
	if err != nil {
		return drivers.Rendering{}, err
	}
	return drivers.Rendering{Desired: r.desired, Source: src, Form: r.hot}, nil
}

// errAbsent is returned for a step that makes something of an instance that should not exist.
var errAbsent = errors.New("the instance should not exist at this VIM")

// formOf is the stack of a rendering in the form that requests are composed of.
func formOf(r drivers.Rendering) (*hot.Rendered, error) {
	form, _ := r.Form.(*hot.Rendered)
	if form == nil {
		return nil, errAbsent
	}
	return form, nil
}

func (d *Driver) render(src drivers.Source) (*render, error) {
	key := d.opts.DigestKey
	in := src.Instance
	if src.Package == nil || src.Package.VNFD == nil {
		return nil, errors.New("there is no package to render")
	}
	name := stackName(in)
	switch {
	case in.Generation == firstGeneration:
		return nil, &drivers.RefusedError{Field: "generation", Reason: fmt.Sprintf("%q is what the first generation is called: leave the field out, or give another", in.Generation)}
	case in.ID == "" || !stackWord.MatchString(name) || len(name) > maxStackName:
		return nil, &drivers.RefusedError{Field: "id", Reason: fmt.Sprintf("%q can't be the name of a stack: use letters, digits, '-', '_' and '.', at most %d", name, maxStackName)}
	}
	flavour, err := flavourOf(src)
	if err != nil {
		return nil, err
	}
	folder, err := hot.Parse(src.Package.Files, flavour.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &drivers.RefusedError{Object: "BaseHOT/" + flavour.ID, Reason: "isn't in the package: it holds the Heat templates of the flavour"}
	}
	if err != nil {
		return nil, refusedRender(err)
	}
	params, err := src.Params()
	if err != nil {
		return nil, err
	}
	r, err := folder.Render(hot.Input{
		Instance: in.ID, Generation: in.Generation, Flavour: flavour, Runs: src.Runs, Params: params, Secrets: src.Secrets,
		// Where programs of the package read parameters too, or another VIM's manifests, one
		// that the templates don't have may be theirs.
		Strict:          src.VDUs == nil && len(flavour.Hooks) == 0,
		Computed:        in.Params["lcm-operation-user-data-class"] != nil,
		ExtVirtualLinks: in.ExtVirtualLinks, ExtManaged: in.ExtManagedVirtualLinks, Key: key,
	})
	if err != nil {
		return nil, refusedRender(err)
	}
	counts, err := countsOf(src, flavour, r)
	if err != nil {
		return nil, err
	}
	if err := r.Check(counts); err != nil {
		return nil, refusedRender(err)
	}
	stack := stackKey(name)
	out := &render{hot: r, desired: plan.Desired{
		Objects:   []plan.Object{{Key: stack, Digest: r.Digest}},
		Condemned: in.Condemned, Generation: generationOf(in.Generation),
	}}
	for i := range flavour.VDUs {
		if vdu := flavour.VDUs[i].ID; r.VDUs[vdu] != nil {
			out.desired.Groups = append(out.desired.Groups, plan.Group{VDU: vdu, Owner: stack, Count: counts[vdu]})
		}
	}
	return out, nil
}

// countsOf is how many VNFCs each VDU of the templates has at the instance's levels.
func countsOf(src drivers.Source, flavour *vnfd.Flavour, r *hot.Rendered) (map[string]int, error) {
	in := src.Instance
	levels, err := flavour.ScaleLevels(in.InstantiationLevel, in.Levels)
	if err != nil {
		return nil, refusedLevel(err)
	}
	counts := map[string]int{}
	for i := range flavour.VDUs {
		vdu := &flavour.VDUs[i]
		if r.VDUs[vdu.ID] == nil {
			if src.VDUs != nil && src.Runs(vdu.ID) {
				return nil, &drivers.RefusedError{Field: "placement." + vdu.ID, Reason: fmt.Sprintf("the VDU isn't in %s, so it can't run at this VIM", r.Top)}
			}
			continue
		}
		if counts[vdu.ID], err = flavour.Count(vdu, in.InstantiationLevel, levels); err != nil {
			return nil, refusedLevel(err)
		}
	}
	return counts, nil
}

// flavourOf is the deployment flavour of the instance.
func flavourOf(src drivers.Source) (*vnfd.Flavour, error) {
	named := cmp.Or(src.Instance.Flavour, src.Package.VNFD.DefaultFlavour)
	flavour, ok := src.Package.VNFD.Flavour(named)
	if !ok {
		return nil, &drivers.RefusedError{Field: "flavour", Reason: fmt.Sprintf("the VNFD has no deployment flavour %q", named)}
	}
	return flavour, nil
}

func refusedLevel(err error) error {
	field := "levels"
	if errors.Is(err, vnfd.ErrUnknownLevel) {
		field = "instantiationLevel"
	}
	return &drivers.RefusedError{Field: field, Reason: err.Error()}
}

// refusedRender names the file of the package or the field of the instance that is wrong.
func refusedRender(err error) error {
	if e, ok := errors.AsType[*hot.Error](err); ok {
		return &drivers.RefusedError{Object: e.Where(), Reason: e.Message}
	}
	if e, ok := errors.AsType[*hot.InputError](err); ok {
		return &drivers.RefusedError{Field: e.Field, Reason: e.Message}
	}
	return err
}
