// Package sim is an infrastructure in memory behind the driver contract.
//
// It is the reference for drivers/driverstest, carries the scale tests (10,000
// instances in one process) and the crash tests: a [Cloud] outlives its drivers.
// It owns nothing outside the process, and it never decides: what it does to a
// unit is what a VIM would do by itself.
package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// Type is the vimType of a simulated VIM.
const Type = "JIBE.SIM.V_1"

// Driver speaks for one [Cloud].
type Driver struct {
	drivers.Defaults
	cloud *Cloud
	vim   drivers.VIM
}

var (
	_ drivers.Driver     = (*Driver)(nil)
	_ drivers.Watcher    = (*Driver)(nil)
	_ drivers.Identifier = (*Driver)(nil)
	_ drivers.Surveyor   = (*Driver)(nil)
)

// New connects to the cloud. Connecting never fails, as with any VIM: calls do.
func New(cloud *Cloud, vim drivers.VIM) *Driver { return &Driver{cloud: cloud, vim: vim} }

// Identity is the endpoint, so that a VIM at another one is another VIM.
func (d *Driver) Identity(ctx context.Context) (string, error) { return d.vim.Endpoint, d.reach(ctx) }

// Instances implements [drivers.Surveyor]: all that the cloud has is this installation's.
func (d *Driver) Instances(ctx context.Context) ([]string, error) {
	if err := d.reach(ctx); err != nil {
		return nil, err
	}
	ids, err := d.cloud.surveyed()
	if err != nil {
		return nil, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	return ids, nil
}

// Observe reports what the cloud has of the instance.
func (d *Driver) Observe(ctx context.Context, r drivers.Rendering) (plan.Observed, error) {
	if err := d.reach(ctx); err != nil {
		return plan.Observed{}, err
	}
	if err := d.listed(r.Source.Instance.ID); err != nil {
		return plan.Observed{}, err
	}
	o, err := d.cloud.observe(r.Source.Instance.ID)
	if err != nil {
		return plan.Observed{}, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	return o, nil
}

// Verify asks the cloud whether it would refuse.
func (d *Driver) Verify(ctx context.Context, r drivers.Rendering, steps ...plan.Step) error {
	for _, s := range steps {
		if s.Action != plan.Apply && s.Action != plan.Scale {
			continue
		}
		if err := d.reach(ctx); err != nil {
			return err
		}
		d.cloud.verifies.Add(1)
		d.cloud.mu.Lock()
		err := d.cloud.accept(r.Source.Instance.ID, s.Object)
		d.cloud.mu.Unlock()
		if err != nil {
			return fmt.Errorf("VIM %s: %w", d.vim.Name, drivers.About(s.Object, err))
		}
	}
	return nil
}

// Do starts the steps in the order given.
func (d *Driver) Do(ctx context.Context, r drivers.Rendering, steps ...plan.Step) error {
	parts, _ := r.Form.([]part)
	for _, s := range steps {
		if err := d.reach(ctx); err != nil {
			return err
		}
		if err := d.do(r.Source.Instance.ID, parts, s); err != nil {
			return fmt.Errorf("VIM %s: %w", d.vim.Name, drivers.About(fmt.Sprintf("%s %s", s.Action, s.Object), err))
		}
	}
	return nil
}

func (d *Driver) do(instance string, parts []part, s plan.Step) error {
	c := d.cloud
	c.mu.Lock()
	if c.before != nil {
		if err := c.before(instance, s); err != nil {
			c.mu.Unlock()
			return err
		}
	}
	var err error
	switch s.Action {
	case plan.Apply, plan.Scale:
		counter := &c.applies
		if s.Action == plan.Scale {
			counter = &c.scales
		}
		counter.Add(1)
		i := slices.IndexFunc(parts, func(x part) bool { return x.key == s.Object })
		if i < 0 {
			err = &drivers.RefusedError{Object: s.Object, Reason: "is not part of the rendered instance"}
			break
		}
		err = c.apply(instance, parts[i], s.To, s.Keep)
	case plan.Delete, plan.DeleteUnit:
		c.deletes.Add(1)
		err = c.remove(instance, s.Incarnation)
	default:
		err = fmt.Errorf("a driver doesn't do %q", s.Action)
	}
	c.mu.Unlock()
	if err == nil {
		c.moved(instance)
	}
	return err
}

// Watch calls changed for every change of an instance until ctx ends.
func (d *Driver) Watch(ctx context.Context, changed func(instance string)) error {
	d.cloud.watch(ctx, changed)
	return nil
}
