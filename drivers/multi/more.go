package multi

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// Examine is what the parts find out about their own steps. Of one that can't tell more,
// the reason of the step is all that is known.
func (d *Driver) Examine(ctx context.Context, src drivers.Source, want plan.Desired, steps ...plan.Step) ([]drivers.Deviation, error) {
	return d.compare(src, want, steps, func(p Part, own drivers.Source, want plan.Desired, steps []plan.Step) ([]drivers.Deviation, error) {
		if x, ok := p.Driver.(drivers.Examiner); ok {
			return x.Examine(ctx, own, want, steps...)
		}
		var found []drivers.Deviation
		for _, s := range steps {
			found = append(found, drivers.Deviation{Object: s.Object, Have: s.Reason, Want: "as rendered"})
		}
		return found, nil
	})
}

// Preview is what the parts tell of their own steps, where they can.
func (d *Driver) Preview(ctx context.Context, src drivers.Source, want plan.Desired, steps ...plan.Step) ([]drivers.Deviation, error) {
	return d.compare(src, want, steps, func(p Part, own drivers.Source, want plan.Desired, steps []plan.Step) ([]drivers.Deviation, error) {
		if x, ok := p.Driver.(drivers.Previewer); ok {
			return x.Preview(ctx, own, want, steps...)
		}
		return nil, nil
	})
}

func (d *Driver) compare(src drivers.Source, want plan.Desired, steps []plan.Step,
	f func(Part, drivers.Source, plan.Desired, []plan.Step) ([]drivers.Deviation, error)) ([]drivers.Deviation, error) {
	var all []drivers.Deviation
	for i, own := range d.split(steps) {
		if len(own) == 0 {
			continue
		}
		share, _ := d.source(i, src)
		found, err := f(d.parts[i], share, d.want(i, want), own)
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
				return &drivers.RefusedError{Object: "placement", Reason: "VDU " + vdu + " runs at VIM " + p.Name +
					": a change of package can't take it to another one; change the placement before or afterwards"}
			}
		}
		if !ran || !runs {
			continue
		}
		x, ok := p.Driver.(drivers.Changer)
		if !ok {
			return &drivers.RefusedError{Object: "vnfdId", Reason: "the package of a VNF can't be changed at VIM " + p.Name + "; set state: notInstantiated first"}
		}
		if err := x.Change(was, is); err != nil {
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
		x, ok := p.Driver.(drivers.Changer)
		if !ok || !ran || !runs {
			continue
		}
		files, err := x.Definitions(was, is, listed)
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
		x, ok := p.Driver.(drivers.Accessor)
		if !ok {
			continue
		}
		files, err := x.Access()
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
func (d *Driver) Explain(ctx context.Context, src drivers.Source, key string) string {
	i, own := d.inner(key)
	x, ok := d.parts[i].Driver.(drivers.Explainer)
	if !ok {
		return ""
	}
	share, _ := d.source(i, src)
	return x.Explain(ctx, share, own)
}
