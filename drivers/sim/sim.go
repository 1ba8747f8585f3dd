// Package sim is an infrastructure in memory behind the driver contract.
//
// It is the reference for drivers/driverstest, carries the scale tests (10,000
// instances in one process) and the crash tests: a [Cloud] outlives its drivers.
// It owns nothing outside the process, and it never decides: what it does to a
// unit is what a VIM would do by itself.
package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/reconciler/plan"
)

// Type is the vimType of a simulated VIM.
const Type = "JIBE.SIM.V_1"

// kind of the one sort of object that there is: one a VDU, which owns its units.
const kind = "Workload"

// Driver speaks for one [Cloud].
type Driver struct {
	cloud *Cloud
	vim   drivers.VIM
}

var (
	_ drivers.Driver    = (*Driver)(nil)
	_ drivers.Watcher   = (*Driver)(nil)
	_ drivers.Examiner  = (*Driver)(nil)
	_ drivers.Explainer = (*Driver)(nil)
)

// New connects to the cloud. Connecting never fails, as with any VIM: calls do.
func New(cloud *Cloud, vim drivers.VIM) *Driver { return &Driver{cloud: cloud, vim: vim} }

// Render makes one object "Workload/<place>/<VDU name>" of each VDU, with the
// count that the VNFD gives for the instance's levels. The place is the
// instance's id, or params.namespace, where names of two instances may meet.
func (d *Driver) Render(src drivers.Source) (plan.Desired, error) {
	in := src.Instance
	if src.Package == nil || src.Package.VNFD == nil {
		return plan.Desired{}, fmt.Errorf("render instance %s: no package", in.ID)
	}
	id := in.Flavour
	if id == "" {
		id = src.Package.VNFD.DefaultFlavour
	}
	flavour, ok := src.Package.VNFD.Flavour(id)
	if !ok {
		return plan.Desired{}, &drivers.RefusedError{Object: "flavour", Reason: fmt.Sprintf("the VNFD has no deployment flavour %q", id)}
	}
	levels, err := flavour.ScaleLevels(in.InstantiationLevel, in.Levels)
	if err != nil {
		return plan.Desired{}, &drivers.RefusedError{Object: "levels", Reason: err.Error()}
	}
	place := in.ID
	if ns, ok := in.Params["namespace"].(string); ok && ns != "" {
		place = ns
	}
	want := plan.Desired{Condemned: in.Condemned}
	for i := range flavour.VDUs {
		vdu := &flavour.VDUs[i]
		count, err := flavour.Count(vdu, in.InstantiationLevel, levels)
		if err != nil {
			return plan.Desired{}, &drivers.RefusedError{Object: "levels", Reason: err.Error()}
		}
		content, err := json.Marshal([]any{in.ID, in.Package, src.Package.Tree, id, vdu.ID, vdu.Image, in.Params})
		if err != nil {
			return plan.Desired{}, &drivers.RefusedError{Object: "params", Reason: err.Error()}
		}
		sum := sha256.Sum256(content)
		key := kind + "/" + place + "/" + vdu.Name
		want.Objects = append(want.Objects, plan.Object{Key: key, Digest: hex.EncodeToString(sum[:8])})
		want.Groups = append(want.Groups, plan.Group{VDU: vdu.ID, Owner: key, Count: count})
	}
	return want, nil
}

// Observe reports what the cloud has of the instance.
func (d *Driver) Observe(ctx context.Context, src drivers.Source, _ plan.Desired) (plan.Observed, error) {
	if err := ctx.Err(); err != nil {
		return plan.Observed{}, err
	}
	o, err := d.cloud.observe(src.Instance.ID)
	if err != nil {
		return plan.Observed{}, fmt.Errorf("observe instance %s at VIM %s: %w", src.Instance.ID, d.vim.Name, err)
	}
	return o, nil
}

// Verify asks the cloud whether it would refuse.
func (d *Driver) Verify(ctx context.Context, src drivers.Source, steps ...plan.Step) error {
	for _, s := range steps {
		if s.Action != plan.Apply && s.Action != plan.Scale {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		d.cloud.verifies.Add(1)
		d.cloud.mu.Lock()
		err := d.cloud.accept(src.Instance.ID, s.Object)
		d.cloud.mu.Unlock()
		if err != nil {
			return fmt.Errorf("verify %s of instance %s: %w", s.Object, src.Instance.ID, err)
		}
	}
	return nil
}

// Do starts the steps in the order given.
func (d *Driver) Do(ctx context.Context, src drivers.Source, steps ...plan.Step) error {
	var want plan.Desired // rendered at the first step that needs it
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if (s.Action == plan.Apply || s.Action == plan.Scale) && want.Objects == nil {
			var err error
			if want, err = d.Render(src); err != nil {
				return err
			}
		}
		if err := d.do(src.Instance.ID, want, s); err != nil {
			return fmt.Errorf("%s %s of instance %s: %w", s.Action, s.Object, src.Instance.ID, err)
		}
	}
	return nil
}

func (d *Driver) do(instance string, want plan.Desired, s plan.Step) error {
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
		vdu, digest, ok := find(want, s.Object)
		if !ok {
			err = &drivers.RefusedError{Object: s.Object, Reason: "is not part of the rendered instance"}
			break
		}
		err = c.apply(instance, s.Object, vdu, digest, s.To, s.Keep)
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

func find(want plan.Desired, key string) (vdu, digest string, ok bool) {
	for _, x := range want.Objects {
		if x.Key == key {
			digest, ok = x.Digest, true
		}
	}
	for _, g := range want.Groups {
		if g.Owner == key {
			vdu = g.VDU
		}
	}
	return vdu, digest, ok
}

// Watch calls changed for every change of an instance until ctx ends.
func (d *Driver) Watch(ctx context.Context, changed func(instance string)) error {
	d.cloud.watch(ctx, changed)
	return nil
}
