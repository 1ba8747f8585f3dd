package openstack

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// Preview implements [drivers.Driver]. Of a stack that exists it reports where the template and
// the files would change; of a new one, its resources.
func (d *Driver) Preview(ctx context.Context, r drivers.Rendering, steps ...plan.Step) ([]drivers.Deviation, error) {
	works, err := fold(r.Source.Instance.ID, slices.DeleteFunc(slices.Clone(steps), func(s plan.Step) bool {
		return s.Action != plan.Apply && s.Action != plan.Scale && s.Action != plan.Renew
	}))
	if err != nil {
		return nil, err
	}
	var found []drivers.Deviation
	for _, w := range works {
		more, err := d.preview(ctx, r, w)
		if err != nil {
			return nil, fmt.Errorf("preview stack %s at VIM %s: %w", w.name, d.vim.Name, err)
		}
		found = append(found, more...)
	}
	for _, s := range steps {
		switch s.Action {
		case plan.Delete:
			found = append(found, drivers.Deviation{Object: s.Object, Have: isThere})
		case plan.DeleteUnit:
			found = append(found, drivers.Deviation{Object: s.Object, Have: s.Incarnation, Want: "a successor"})
		case plan.Stop, plan.Start:
			found = append(found, powered(s))
		}
	}
	return found, nil
}

func (d *Driver) preview(ctx context.Context, r drivers.Rendering, w *work) ([]drivers.Deviation, error) {
	templates, err := templatesOf(r)
	if err != nil {
		return nil, err
	}
	found, err := d.named(d.cloud.stackNamed(ctx, w.name))
	if err != nil {
		return nil, err
	}
	if found != nil && !found.deleting() {
		p, err := d.fetch(ctx, found)
		if err != nil {
			return nil, err
		}
		return d.differ(stackKey(w.name), templates, p, w)
	}
	counts := map[string]int{}
	for _, g := range r.Groups {
		counts[g.VDU] = g.Count
	}
	body, err := templates.Create(counts)
	if err != nil {
		return nil, &drivers.RefusedError{Object: stackKey(w.name), Reason: err.Error()}
	}
	same, err := plain(body.Template["resources"])
	if err != nil {
		return nil, err
	}
	resources, _ := same.(map[string]any)
	var all []drivers.Deviation
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		path := []string{"template", "resources", name}
		all = append(all, drivers.Deviation{Object: stackKey(w.name), Field: "template.resources." + name, Want: shown(path, resources[name])})
	}
	return all, nil
}
