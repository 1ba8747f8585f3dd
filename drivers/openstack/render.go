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

// firstGeneration is the generation of instances that name none.
const firstGeneration = "0"

// generationOf is the generation as the planner names it.
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

// Render implements [drivers.Driver]: it makes one stack of the package's templates, with a
// group of units for each VDU that they hold. The rendering's form is the templates, filled in.
func (d *Driver) Render(src drivers.Source) (drivers.Rendering, error) {
	in := src.Instance
	if src.Package == nil || src.Package.VNFD == nil {
		return drivers.Rendering{}, errors.New("there is no package to render")
	}
	if err := checkNames(in); err != nil {
		return drivers.Rendering{}, err
	}
	flavour, err := flavourOf(src)
	if err != nil {
		return drivers.Rendering{}, err
	}
	templates, err := d.fillIn(src, flavour)
	if err != nil {
		return drivers.Rendering{}, err
	}
	counts, err := countsOf(src, flavour, templates)
	if err != nil {
		return drivers.Rendering{}, err
	}
	if err := templates.Check(counts); err != nil {
		return drivers.Rendering{}, refusedRender(err)
	}
	stack := stackKey(stackName(in))
	r := drivers.Rendering{Source: src, Form: templates, Desired: plan.Desired{
		Objects:   []plan.Object{{Key: stack, Digest: templates.Digest}},
		Condemned: in.Condemned, Generation: generationOf(in.Generation),
	}}
	for i := range flavour.VDUs {
		if vdu := flavour.VDUs[i].ID; templates.VDUs[vdu] != nil {
			r.Groups = append(r.Groups, plan.Group{VDU: vdu, Owner: stack, Count: counts[vdu], Stopped: in.State == desired.Stopped, Digest: templates.VDUs[vdu].Digest})
		} else if src.Runs(vdu) {
			r.Unmatched = append(r.Unmatched, drivers.UnmatchedVDU{VDU: vdu, Reason: fmt.Sprintf("%s has no server of VDU %s, so that nothing would run of it", templates.Top, vdu)})
		}
	}
	return r, nil
}

// errAbsent is returned for a step that makes or changes something of an instance that should
// not exist: of such an instance there is nothing to do but to delete.
var errAbsent = errors.New("the instance should not exist at this VIM, so nothing of it can be made or changed")

// templatesOf is the form of the rendering. Of an instance that should not exist it is
// [errAbsent].
func templatesOf(r drivers.Rendering) (*hot.Rendered, error) {
	templates, _ := r.Form.(*hot.Rendered)
	if templates == nil {
		return nil, errAbsent
	}
	return templates, nil
}

// checkNames refuses an id and a generation that can't stand in the name of a stack.
func checkNames(in *desired.Instance) error {
	name := stackName(in)
	switch {
	case in.Generation == firstGeneration:
		return &drivers.RefusedError{Field: "generation", Reason: fmt.Sprintf("%q is what the first generation is called: leave the field out, or give another", in.Generation)}
	case in.ID == "" || !stackWord.MatchString(name) || len(name) > maxStackName:
		return &drivers.RefusedError{Field: "id", Reason: fmt.Sprintf("%q can't be the name of a stack: use letters, digits, '-', '_' and '.', at most %d", name, maxStackName)}
	}
	return nil
}

// fillIn fills the templates of the flavour in for the instance.
func (d *Driver) fillIn(src drivers.Source, flavour *vnfd.Flavour) (*hot.Rendered, error) {
	in := src.Instance
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
	var granted map[string]desired.GrantedVDU
	if in.Granted != nil {
		granted = in.Granted.VDUs
	}
	templates, err := folder.Render(hot.Input{
		Granted:  granted,
		Instance: in.ID, Generation: in.Generation, Flavour: flavour, Runs: src.Runs, Params: params, Secrets: src.Secrets,
		// A parameter that the templates don't have may be read by hooks of the package, or by
		// the manifests of another VIM.
		Strict:          src.VDUs == nil && len(flavour.Hooks) == 0,
		Computed:        in.Params["lcm-operation-user-data-class"] != nil,
		ExtVirtualLinks: in.ExtVirtualLinks, ExtManaged: in.ExtManagedVirtualLinks, Key: d.opts.DigestKey,
	})
	if err != nil {
		return nil, refusedRender(err)
	}
	return templates, nil
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
