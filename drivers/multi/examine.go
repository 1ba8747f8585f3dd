package multi

import (
	"context"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// Examine implements [drivers.Driver]: every part examines its own steps.
func (d *Driver) Examine(ctx context.Context, r drivers.Rendering, steps ...plan.Step) ([]drivers.Deviation, error) {
	return d.compare(r, steps, func(p Part, own drivers.Rendering, steps []plan.Step) ([]drivers.Deviation, error) {
		return p.Driver.Examine(ctx, own, steps...)
	})
}

// Preview implements [drivers.Driver]: every part previews its own steps.
func (d *Driver) Preview(ctx context.Context, r drivers.Rendering, steps ...plan.Step) ([]drivers.Deviation, error) {
	return d.compare(r, steps, func(p Part, own drivers.Rendering, steps []plan.Step) ([]drivers.Deviation, error) {
		return p.Driver.Preview(ctx, own, steps...)
	})
}

func (d *Driver) compare(r drivers.Rendering, steps []plan.Step,
	f func(Part, drivers.Rendering, []plan.Step) ([]drivers.Deviation, error)) ([]drivers.Deviation, error) {
	var all []drivers.Deviation
	for i, own := range d.split(steps) {
		if len(own) == 0 {
			continue
		}
		found, err := f(d.parts[i], d.own(i, r), own)
		if err != nil {
			return nil, d.at(i, err)
		}
		for _, x := range found {
			x.Object = d.outer(i, x.Object)
			all = append(all, x)
		}
	}
	return all, nil
}

// Explain implements [drivers.Driver]: the part that has the key explains it.
func (d *Driver) Explain(ctx context.Context, r drivers.Rendering, key string) string {
	i, own := d.inner(key)
	return d.parts[i].Driver.Explain(ctx, d.own(i, r), own)
}
