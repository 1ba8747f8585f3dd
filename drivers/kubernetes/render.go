package kubernetes

import (
	"context"
	"errors"
	"fmt"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
	"github.com/jibe-vnfm/jibe/plan"
)

// Render implements [drivers.Driver]: see [manifest.Renderer.Render].
func (d *Driver) Render(src drivers.Source) (drivers.Rendering, error) {
	r, err := d.renderer.Render(src)
	if err != nil {
		return drivers.Rendering{}, err
	}
	return drivers.Rendering{Desired: r.Desired, Source: src, Form: r, Unmatched: r.Unmatched}, nil
}

// formOf is the driver's own part of a rendering; nil where nothing should exist.
func formOf(r drivers.Rendering) *manifest.Form {
	form, _ := r.Form.(*manifest.Form)
	return form
}

// Change implements [drivers.Driver]: see [manifest.Renderer.Change].
func (d *Driver) Change(before, after drivers.Source) error {
	return d.renderer.Change(before, after)
}

// Definitions implements [drivers.Driver]: see [manifest.Definitions].
func (d *Driver) Definitions(before, after drivers.Source, listed []string) ([]string, error) {
	return manifest.Definitions(before, after, listed)
}

// Observe implements [drivers.Driver] from what the watches hold.
func (d *Driver) Observe(ctx context.Context, rendering drivers.Rendering) (plan.Observed, error) {
	src, r := rendering.Source, formOf(rendering)
	if err := d.unseen(rendering); err != nil {
		return plan.Observed{}, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	var former *plan.Desired
	if rendering.Former != nil {
		former = &rendering.Former.Desired
	}
	o, err := d.watches.Observe(ctx, src.Instance.ID, rendering.Desired, former, r, func(f *watched.Fact) bool { return d.drifted(src, r, f) })
	if unlisted, ok := errors.AsType[*drivers.UnlistedError](err); ok {
		unlisted.VIM = d.vim.Name
	}
	if err != nil {
		return plan.Observed{}, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	d.takeovers.add(src, d.watches.Unmarked(src.Instance.ID, rendering.Desired))
	return o, nil
}

// Instances implements [drivers.Surveyor] from what the watches hold.
func (d *Driver) Instances(ctx context.Context) ([]string, error) {
	ids, err := d.watches.Instances(ctx)
	if err != nil {
		return nil, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	return ids, nil
}

// Watch implements [drivers.Watcher].
func (d *Driver) Watch(ctx context.Context, changed func(instance string)) error {
	return d.watches.Watch(ctx, changed)
}
