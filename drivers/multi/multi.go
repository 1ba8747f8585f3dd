// Package multi is the driver for an instance whose VDUs are spread over several VIMs.
//
// It is made of the drivers of those VIMs. Each renders, observes and does its own share
// ([drivers.Source.VDUs]), and none knows of the others. Package multi makes the keys of
// different VIMs distinct. It decides nothing, and connects to nothing by itself.
package multi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// Part is one VIM and its driver.
type Part struct {
	// Name is what desired.Instance.Placement calls the VIM.
	Name   string
	Driver drivers.Driver
}

// Driver speaks for several VIMs. It has no watch: the watches of its parts notify of the
// instance.
type Driver struct {
	parts []Part // the first is the main one
}

var _ drivers.Driver = (*Driver)(nil)

// New makes one driver of several. VDUs that the instance places nowhere run at the VIM
// of main.
func New(main Part, others ...Part) *Driver {
	return &Driver{parts: slices.Concat([]Part{main}, others)}
}

// form is the form of a rendering: the renderings of the parts, with the keys that each knows.
type form []drivers.Rendering

// Render implements [drivers.Driver]: it joins the renderings of all parts. A part without VDUs
// renders nothing.
func (d *Driver) Render(src drivers.Source) (drivers.Rendering, error) {
	if err := d.placed(src); err != nil {
		return drivers.Rendering{}, err
	}
	own := make(form, len(d.parts))
	all := drivers.Rendering{Source: src, Form: own}
	if src.Instance != nil {
		all.Condemned = src.Instance.Condemned
	}
	for i, p := range d.parts {
		share, runs := d.source(i, src)
		if !runs {
			own[i] = drivers.Rendering{Source: share}
			continue
		}
		var err error
		if own[i], err = p.Driver.Render(share); err != nil {
			return drivers.Rendering{}, d.at(i, err)
		}
		for _, x := range own[i].Objects {
			x.Key = d.outer(i, x.Key)
			all.Objects = append(all.Objects, x)
		}
		for _, g := range own[i].Groups {
			g.Owner = d.outer(i, g.Owner)
			all.Groups = append(all.Groups, g)
		}
		all.Unmatched = append(all.Unmatched, own[i].Unmatched...)
		all.Generation = cmp.Or(all.Generation, own[i].Generation)
	}
	return all, nil
}

// own is the part's share of a rendering.
func (d *Driver) own(i int, r drivers.Rendering) drivers.Rendering {
	if parts, ok := r.Form.(form); ok {
		share := parts[i].Bounded(r.Source.Bounds)
		if r.Former != nil {
			former := d.own(i, *r.Former)
			share.Former = &former
		}
		return share
	}
	share, _ := d.source(i, r.Source)
	absent := drivers.Rendering{Source: share}
	if r.Former != nil {
		former := d.own(i, *r.Former)
		absent.Former = &former
	}
	return absent
}

// Observe implements [drivers.Driver]: it joins what all parts observe, and fails where one of
// them can't, as a partial view must not be reported.
func (d *Driver) Observe(ctx context.Context, r drivers.Rendering) (plan.Observed, error) {
	seen := make([]plan.Observed, len(d.parts))
	var g errgroup.Group
	for i, p := range d.parts {
		g.Go(func() error {
			var err error
			if seen[i], err = p.Driver.Observe(ctx, d.own(i, r)); err != nil {
				return d.at(i, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return plan.Observed{}, err
	}
	var all plan.Observed
	for i, o := range seen {
		for _, x := range o.Objects {
			x.Key = d.outer(i, x.Key)
			all.Objects = append(all.Objects, x)
		}
		all.Units = append(all.Units, d.units(i, o.Units)...)
		all.Others = append(all.Others, d.units(i, o.Others)...)
		for _, r := range o.Resources {
			r.Unit, r.VIM = d.outer(i, r.Unit), d.parts[i].Name
			all.Resources = append(all.Resources, r)
		}
		for key, left := range o.Left {
			if all.Left == nil {
				all.Left = map[string]string{}
			}
			all.Left[d.outer(i, key)] = left
		}
	}
	return all, nil
}

func (d *Driver) units(i int, own []plan.Unit) []plan.Unit {
	all := make([]plan.Unit, 0, len(own))
	for _, u := range own {
		u.Key, u.Owner, u.VIM = d.outer(i, u.Key), d.outer(i, u.Owner), d.parts[i].Name
		all = append(all, u)
	}
	return all
}

// Verify implements [drivers.Driver]: every part verifies its own steps.
func (d *Driver) Verify(ctx context.Context, r drivers.Rendering, steps ...plan.Step) error {
	return d.each(r, steps, func(p Part, own drivers.Rendering, steps []plan.Step) error {
		return p.Driver.Verify(ctx, own, steps...)
	})
}

// Do implements [drivers.Driver]: every part starts its own steps, also where another one
// couldn't.
func (d *Driver) Do(ctx context.Context, r drivers.Rendering, steps ...plan.Step) error {
	return d.each(r, steps, func(p Part, own drivers.Rendering, steps []plan.Step) error {
		return p.Driver.Do(ctx, own, steps...)
	})
}

// each calls f for every part that has steps, with the keys that the part knows.
func (d *Driver) each(r drivers.Rendering, steps []plan.Step, f func(Part, drivers.Rendering, []plan.Step) error) error {
	var errs []error
	for i, own := range d.split(steps) {
		if len(own) == 0 {
			continue
		}
		if err := f(d.parts[i], d.own(i, r), own); err != nil {
			errs = append(errs, d.at(i, err))
		}
	}
	return errors.Join(errs...)
}

// split sorts the steps by part, and gives them the keys that the part knows.
func (d *Driver) split(steps []plan.Step) [][]plan.Step {
	own := make([][]plan.Step, len(d.parts))
	for _, s := range steps {
		var i int
		i, s.Object = d.inner(s.Object)
		_, s.Owner = d.inner(s.Owner)
		own[i] = append(own[i], s)
	}
	return own
}

// condemned are the tombstones of the part.
func (d *Driver) condemned(i int, all map[string]string) map[string]string {
	var own map[string]string
	for key, incarnation := range all {
		if at, key := d.inner(key); at == i {
			if own == nil {
				own = map[string]string{}
			}
			own[key] = incarnation
		}
	}
	return own
}

// source is the part's share of the intent; runs is false where it has no VDU there.
func (d *Driver) source(i int, src drivers.Source) (own drivers.Source, runs bool) {
	own = src
	own.Instance = d.share(i, src.Instance)
	own.VDUs = []string{}
	if src.Package == nil || src.Package.VNFD == nil {
		return own, false
	}
	named := cmp.Or(src.Instance.Flavour, src.Package.VNFD.DefaultFlavour)
	if f, ok := src.Package.VNFD.Flavour(named); ok {
		for _, v := range f.VDUs {
			if d.place(src.Instance, v.ID) == i {
				own.VDUs = append(own.VDUs, v.ID)
			}
		}
	} else if i == 0 {
		own.VDUs = nil // the main part refuses the flavour
		return own, true
	}
	if len(own.VDUs) == 0 {
		own.Package, own.Base, own.Overlays = nil, nil, nil
		return own, false
	}
	return own, true
}

// share is the instance as the part knows it: with the tombstones that are its own.
func (d *Driver) share(i int, in *desired.Instance) *desired.Instance {
	if in == nil || len(in.Condemned) == 0 {
		return in
	}
	own := *in
	own.Condemned = d.condemned(i, in.Condemned)
	return &own
}

// place is the part at which the VDU runs.
func (d *Driver) place(in *desired.Instance, vdu string) int {
	return max(d.part(in.Placement[vdu]), 0)
}

func (d *Driver) part(name string) int {
	return slices.IndexFunc(d.parts, func(p Part) bool { return p.Name == name })
}

// placed refuses a placement of what the VNFD doesn't have.
func (d *Driver) placed(src drivers.Source) error {
	if src.Instance == nil || src.Package == nil || src.Package.VNFD == nil {
		return errors.New("render: no package")
	}
	f, ok := src.Package.VNFD.Flavour(cmp.Or(src.Instance.Flavour, src.Package.VNFD.DefaultFlavour))
	if !ok {
		return nil
	}
	for vdu := range src.Instance.Placement {
		known := make([]string, 0, len(f.VDUs))
		for _, v := range f.VDUs {
			known = append(known, v.ID)
		}
		if !slices.Contains(known, vdu) {
			return &drivers.RefusedError{Field: "placement", Reason: fmt.Sprintf(
				"VDU %s is unknown to flavour %s of VNFD %s; it has %s", vdu, f.ID, src.Package.VNFD.ID, strings.Join(known, ", "))}
		}
	}
	return nil
}

// at names the VIM in an error, unless its driver did.
func (d *Driver) at(i int, err error) error {
	vim := "VIM " + d.parts[i].Name + ": "
	if strings.HasPrefix(err.Error(), vim) {
		return err
	}
	return fmt.Errorf("%s%w", vim, err)
}
