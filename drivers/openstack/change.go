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
	was, err := d.render(before)
	if err != nil {
		return fmt.Errorf("what runs: %w", err)
	}
	is, err := d.render(after)
	if err != nil {
		return err
	}
	if was.desired.Generation != is.desired.Generation {
		return standsBeside(was.hot, is.hot)
	}
	for _, g := range was.desired.Groups {
		old, next := was.hot.VDUs[g.VDU], is.hot.VDUs[g.VDU]
		if next == nil || old.Shape == next.Shape && old.Resource == next.Resource {
			continue
		}
		return &drivers.RefusedError{Object: is.hot.Top, Reason: fmt.Sprintf(
			"VDU %s is %s there and %s now: a rolling change would replace all its servers at once; let it stay as it is, or change the package blue-green",
			g.VDU, form(next), form(old))}
	}
	return nil
}

// form tells a VDU's shape to a person.
func form(d *hot.Definition) string {
	if d.Shape == hot.Grouped {
		return "the group " + d.Resource
	}
	return "the resource " + d.Resource + " for each VNFC"
}

// standsBeside refuses what two stacks can't have at once.
func standsBeside(was, is *hot.Rendered) error {
	type held struct {
		kind  hot.FactKind
		value string
	}
	taken := map[held]bool{}
	for _, f := range was.Facts() {
		if !f.Kind.Shareable() {
			taken[held{f.Kind, f.Value}] = true
		}
	}
	for _, f := range is.Facts() {
		if taken[held{f.Kind, f.Value}] {
			return &drivers.RefusedError{Object: f.Where, Reason: fmt.Sprintf(
				"has the %s %s, and so has what runs: two generations can't have it at once; give this one another, or none, or change the package by a rolling update", f.Kind, f.Value)}
		}
	}
	return nil
}

// Definitions implements [drivers.Driver]: templates aren't listed, they are all used.
func (d *Driver) Definitions(_, _ drivers.Source, _ []string) ([]string, error) { return nil, nil }
