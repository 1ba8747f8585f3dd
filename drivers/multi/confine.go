package multi

import "github.com/jibe-vnfm/jibe/drivers"

// Confine implements [drivers.Driver]: every part confines its own rendering, by the same
// bounds.
func (d *Driver) Confine(r drivers.Rendering) []drivers.Violation {
	var all []drivers.Violation
	for i, p := range d.parts {
		for _, v := range p.Driver.Confine(d.own(i, r)) {
			v.Object = d.outer(i, v.Object)
			all = append(all, v)
		}
	}
	return all
}
