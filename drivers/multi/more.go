package multi

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// Examine is what the parts find out about their own steps.
func (d *Driver) Examine(ctx context.Context, r drivers.Rendering, steps ...plan.Step) ([]drivers.Deviation, error) {
	return d.compare(r, steps, func(p Part, own drivers.Rendering, steps []plan.Step) ([]drivers.Deviation, error) {
		return p.Driver.Examine(ctx, own, steps...)
	})
}

// Preview is what the parts report of their own steps.
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

// Change asks every part at which the VNF runs before and after. What moves to another
// VIM has no way there by a change of package.
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

// Definitions are the files that any part needs.
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

// Access is the files of all parts. A variable that two of them need is the main one's,
// or that of the first of the others; for the rest the VIM's name is added to it, in
// capitals ("KUBECONFIG_KUBE_B").
func (d *Driver) Access() (map[string][]byte, error) {
	var all map[string][]byte
	for i, p := range d.parts {
		files, err := p.Driver.Access()
		if err != nil {
			return nil, d.at(i, err)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if all == nil {
				all = map[string][]byte{}
			}
			as := name
			if _, taken := all[name]; taken {
				as += "_" + variable(p.Name)
			}
			all[as] = files[name]
		}
	}
	return all, nil
}

// variable is the name as it may stand in that of an environment variable.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// Explain asks the VIM whose the key is.
func (d *Driver) Explain(ctx context.Context, r drivers.Rendering, key string) string {
	i, own := d.inner(key)
	return d.parts[i].Driver.Explain(ctx, d.own(i, r), own)
}
