package kubernetes

import (
	"context"
	"fmt"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// Render implements [drivers.Driver]: see [Renderer.Render].
func (d *Driver) Render(src drivers.Source) (drivers.Rendering, error) {
	r, err := d.renderer.Render(src)
	if err != nil {
		return drivers.Rendering{}, err
	}
	return drivers.Rendering{Desired: r.desired, Source: src, Form: r}, nil
}

// formOf is the driver's own part of a rendering; nil where nothing should exist.
func formOf(r drivers.Rendering) *render {
	form, _ := r.Form.(*render)
	return form
}

// Change implements [drivers.Driver]: see [Renderer.Change].
func (d *Driver) Change(before, after drivers.Source) error {
	return d.renderer.Change(before, after)
}

// Definitions implements [drivers.Driver].
func (d *Driver) Definitions(before, after drivers.Source, listed []string) ([]string, error) {
	return Definitions(before, after, listed)
}

// Observe implements [drivers.Driver] from what the watches hold.
func (d *Driver) Observe(ctx context.Context, rendering drivers.Rendering) (plan.Observed, error) {
	src, r := rendering.Source, formOf(rendering)
	o, err := d.cache.Observe(ctx, src.Instance.ID, rendering.Desired, r, func(f *fact) bool { return d.drifted(src, r, f) })
	if err != nil {
		return plan.Observed{}, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	return o, nil
}

// Watch implements [drivers.Watcher].
func (d *Driver) Watch(ctx context.Context, changed func(instance string)) error {
	return d.cache.Watch(ctx, changed)
}
