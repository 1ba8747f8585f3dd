package openstack

import (
	"fmt"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
)

// Change implements [drivers.Driver]. In a rolling change a VDU must keep its shape and
// the name of its group or resource, as Heat would make all its servers anew at once
// otherwise; in a blue-green change nothing may be needed that only one stack can have.
func (d *Driver) Change(before, after drivers.Source) error {
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
	return nil
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
