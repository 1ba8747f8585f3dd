package multi

import (
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/drivers"
)

// Change implements [drivers.Driver]. Every part at which the VNF runs before and after is
// asked. A change of package can't take a VDU to another VIM.
func (d *Driver) Change(before, after drivers.Source) error {
	for i, p := range d.parts {
		was, ran := d.source(i, before)
		is, runs := d.source(i, after)
		for _, vdu := range was.VDUs {
			if at := d.place(after.Instance, vdu); at != i {
				return &drivers.RefusedError{Field: "placement", Reason: "VDU " + vdu + " runs at VIM " + p.Name +
					": a change of package can't take it to another one; change the placement before or afterwards"}
			}
		}
		if !ran || !runs {
			continue
		}
		if err := p.Driver.Change(was, is); err != nil {
			return d.at(i, err)
		}
	}
	return nil
}

// Definitions implements [drivers.Driver]: they are the files that any part needs.
func (d *Driver) Definitions(before, after drivers.Source, listed []string) ([]string, error) {
	var all []string
	for i, p := range d.parts {
		was, ran := d.source(i, before)
		is, runs := d.source(i, after)
		if !ran || !runs {
			continue
		}
		files, err := p.Driver.Definitions(was, is, listed)
		if err != nil {
			return nil, d.at(i, err)
		}
		for _, f := range files {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all, nil
}

// Workloads implements [drivers.Driver]: they are those of all parts.
func (d *Driver) Workloads(r drivers.Rendering) map[string]any {
	var all map[string]any
	for i, p := range d.parts {
		own := p.Driver.Workloads(d.own(i, r))
		if all == nil {
			all = own
			continue
		}
		maps.Copy(all, own)
	}
	return all
}
