package openstack

import (
	"fmt"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
)

// Change implements [drivers.Driver]. In a rolling change a VDU must keep its shape and
// the name of its group or resource, as Heat would make all its servers anew at once
// otherwise. So it would where a resource that they are made of is made anew, which
// update.allAtOnce allows. In a blue-green change nothing may be needed that only one stack
// can have.
func (d *Driver) Change(before, after drivers.Source) error {
	if before.Sealed != nil {
		// A reference in what runs leads nowhere any more, and the change may be what replaces
		// it: the reference itself stands for what it was, which is taken to be another.
		before.Clear, before.Sealed = before.Instance.Params, nil
	}
	running, err := d.Render(before)
	if err != nil {
		return fmt.Errorf("what runs: %w", err)
	}
	next, err := d.Render(after)
	if err != nil {
		return err
	}
	was, err := templatesOf(running)
	if err != nil {
		return err
	}
	is, err := templatesOf(next)
	if err != nil {
		return err
	}
	if running.Generation != next.Generation {
		return checkBlueGreen(was, is)
	}
	for _, g := range running.Groups {
		old, def := was.VDUs[g.VDU], is.VDUs[g.VDU]
		if def == nil || old.Shape == def.Shape && old.Resource == def.Resource {
			continue
		}
		return &drivers.RefusedError{Object: is.Top, Reason: fmt.Sprintf(
			"VDU %s is %s there and %s now: a rolling change would replace all its servers at once; let it stay as it is, or change the package blue-green",
			g.VDU, shapeInWords(def), shapeInWords(old))}
	}
	if after.Instance.Update.AllAtOnce {
		return nil
	}
	return checkOneByOne(running, was, is)
}

// checkOneByOne refuses a rolling change in which, or in whose rollback, Heat would renew several
// VNFCs together, whatever the driver asks of it.
func checkOneByOne(running drivers.Rendering, was, is *hot.Rendered) error {
	var vdus []string
	for _, g := range running.Groups {
		if g.Count > 0 {
			vdus = append(vdus, g.VDU)
		}
	}
	a, when := was.MadeAnew(is, vdus), ""
	if a == nil {
		a, when = is.MadeAnew(was, vdus), "in a rollback, " // of those that are renewed by then
	}
	if a == nil {
		return nil
	}
	return &drivers.RefusedError{Object: is.Top, Reason: fmt.Sprintf(
		"resource %s is another (%s), and VDU %s is made of it: %sHeat would renew all VNFCs of the VDU at once; give the resource another name in the new version, "+
			"so that both stand until the last VNFC is renewed, or change the package blue-green, or allow it by update.allAtOnce", a.Resource, a.What, a.VDU, when)}
}

func shapeInWords(d *hot.Definition) string {
	if d.Shape == hot.Grouped {
		return "the group " + d.Resource
	}
	return "the resource " + d.Resource + " for each VNFC"
}

// checkBlueGreen refuses a change where both stacks, which stand side by side for a while,
// would have what only one of them can have.
func checkBlueGreen(was, is *hot.Rendered) error {
	type exclusive struct {
		kind  hot.FactKind
		value string
	}
	taken := map[exclusive]bool{}
	for _, f := range was.Facts() {
		if !f.Kind.Shareable() {
			taken[exclusive{f.Kind, f.Value}] = true
		}
	}
	for _, f := range is.Facts() {
		if taken[exclusive{f.Kind, f.Value}] {
			return &drivers.RefusedError{Object: f.Where, Reason: fmt.Sprintf(
				"has the %s %s, and so has what runs: two generations can't have it at once; give this one another, or none, or change the package by a rolling update", f.Kind, f.Value)}
		}
	}
	return nil
}

// Definitions implements [drivers.Driver]: templates aren't listed, they are all used.
func (d *Driver) Definitions(_, _ drivers.Source, _ []string) ([]string, error) { return nil, nil }

// Workloads implements [drivers.Driver]: there are none, as one stack has the servers of all VDUs.
func (d *Driver) Workloads(drivers.Rendering) map[string]any { return nil }
