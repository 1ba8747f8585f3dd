package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Preview is what a change would cause on one instance.
type Preview struct {
	Instance string      `json:"instance"`
	Dir      string      `json:"dir"`
	Name     string      `json:"name,omitempty"`
	Type     lcm.Type    `json:"operation,omitempty"`
	Steps    []plan.Step `json:"steps"`
	// Waits says why the operation wouldn't begin now, by maintenance windows, and when it would; ""
	// where it would begin.
	Waits string `json:"waits,omitempty"`
	// WaitsFor says for which other instances the operation would wait before anything of it begins, as
	// they are now; "" is for none.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Rollout is the rollout that would begin it, in its wave; "" where the change itself does.
	Rollout string `json:"rollout,omitempty"`
	// Proposed says that the rollout would propose it, as a pull request.
	Proposed bool `json:"proposed,omitempty"`
	// Filled is what Jibe would fill in beside the change: "generation: 1".
	Filled []string `json:"filled,omitempty"`
	// Diff is what the steps would change, object by object and field by field, where
	// the VIM can be asked. Values of secrets are never in it.
	Diff []drivers.Deviation `json:"diff,omitempty"`
	// VDUs are those of the objects whose units are their VNFCs, by key.
	VDUs map[string]string `json:"vdus,omitempty"`
	// Error says why the change would be refused, or why nothing can be said.
	Error string `json:"error,omitempty"`
}

// Plan computes the steps that the change from what runs now to after would
// cause, by the same planner that will carry it out. after is nil for a
// directory that goes.
func (v *View) Plan(ctx context.Context, settings *desired.Settings, rev desired.Revision, after *desired.Instance) Preview {
	p := Preview{Instance: rev.Instance, Dir: rev.Dir, Steps: []plan.Step{}}
	if err := v.plan(ctx, settings, rev, after, &p); err != nil {
		p.Error = err.Error()
	}
	return p
}

func (v *View) plan(ctx context.Context, settings *desired.Settings, rev desired.Revision, after *desired.Instance, p *Preview) error {
	record, err := v.r.Oplog.Instance(ctx, rev.Instance)
	if err != nil {
		return err
	}
	before, err := v.r.read(ctx, record.Operated)
	if err != nil {
		return err
	}
	if after != nil { // head may have been filled in for an operation that hasn't begun
		after = v.checker.unpinned(ctx, before, after)
	}
	if err := v.Check(ctx, settings, before, after); err != nil {
		return err
	}
	if after, err = v.complete(ctx, settings, before, after, p); err != nil {
		return err
	}
	named := after
	if named == nil {
		named = before
	}
	if named == nil {
		return nil
	}
	p.Name = named.Name
	pkg, err := v.Package(ctx, named)
	if err != nil {
		return err
	}
	was := pkg
	if before != nil && before.Package != named.Package {
		if was, err = v.Package(ctx, before); err != nil {
			return err
		}
	}
	t, params, due := lcm.ClassifyLevels(before, after, effectiveLevels(before, was), effectiveLevels(after, pkg))
	if !due {
		return nil
	}
	p.Type = t
	// A file that can't be read is a problem of its own, and no reason to show no steps.
	if p.Waits, _, err = v.MayBegin(ctx, rev.Instance, rev.Dir, t); err != nil {
		p.Waits = err.Error()
	}
	if p.WaitsFor, err = v.WaitsFor(ctx, rev.Instance, rev.Dir, t, before, after); err != nil {
		p.WaitsFor = err.Error()
	}
	if after == nil || !desired.IsInstantiated(after.State) {
		settings = nil // an instance that ends is taken down by head's VIMs: the change may take them along
	}
	at := named
	switch {
	case t == lcm.Terminate:
		at = before // whose VIM may have been filled in, and has left the file
	case t == lcm.ModifyInfo && !desired.IsInstantiated(named.State):
		return nil // it moves nothing, whatever an earlier operation left
	}
	drv, known, err := v.look(ctx, settings, before, at)
	if err != nil {
		return err
	}
	want, err := v.rendered(ctx, settings, drv, before, after, named)
	if err != nil {
		return err
	}
	proposed := v.r.Repo.Settings
	if settings != nil {
		proposed = func() (*desired.Settings, error) { return settings, nil }
	}
	if _, err := (undertaking{operation: t, params: params, after: after}).assemble(&want, proposed); err != nil {
		return err
	}
	want.Coordinated = sideOf(named, pkg).Coordinated(t)
	p.VDUs = ownersOf(want.Groups)

	return v.steps(ctx, drv, known, want, pkg, hooks.Skipped(before, after), p)
}

// rendered is what the change is to bring about: the objects of what is instantiated afterwards, else the absence of what
// stood before.
func (v *View) rendered(ctx context.Context, settings *desired.Settings, drv drivers.Driver, before, after, named *desired.Instance) (drivers.Rendering, error) {
	want := drivers.Absent(named)
	if after != nil && desired.IsInstantiated(after.State) {
		bounds, err := v.boundsFor(settings, before, after)
		if err != nil {
			return want, err
		}
		src, err := sourceOf(ctx, v.checker.packages, v.checker.reveal, after)
		if err != nil {
			return want, err
		}
		if want, err = drv.Render(src); err != nil {
			return want, err
		}
		return want.Bounded(bounds), nil
	}
	if before == nil {
		return want, nil
	}

	want.Source.Instance = before
	src, err := sourceOf(ctx, v.checker.packages, v.checker.reveal, before)
	if err != nil {
		return want, nil //nolint:nilerr // what stood before only makes the preview more exact
	}
	if stood, err := drv.Render(src); err == nil {
		want.Former = &stood
	}
	return want, nil
}

// ownersOf names the VDUs of each object that owns units, nil for none.
func ownersOf(groups []plan.Group) (vdus map[string]string) {
	for _, g := range groups {
		if vdus == nil {
			vdus = map[string]string{}
		}
		if was := vdus[g.Owner]; was != "" {
			vdus[g.Owner] = was + ", " + g.VDU
		} else {
			vdus[g.Owner] = g.VDU
		}
	}
	return vdus
}

// steps adds the steps to a preview and, where the VIM can be asked, what they change. known reports whether it can.
func (v *View) steps(ctx context.Context, drv drivers.Driver, known bool, want drivers.Rendering, pkg *vnfd.Package, skipped bool, p *Preview) error {
	var seen plan.Observed
	var err error
	if known {
		if seen, err = drv.Observe(ctx, want); err != nil {
			return err
		}
	}
	steps := plan.Compute(want.Desired, seen, plan.Journal{Operation: string(p.Type), Granted: p.Type == lcm.ModifyInfo})
	p.Steps = shown(drivers.Source{Instance: want.Source.Instance, Package: pkg}, skipped, steps)
	if !known {
		return nil
	}
	if p.Diff, err = drv.Preview(ctx, want, p.Steps...); err != nil {
		return fmt.Errorf("preview: %w", err)
	}
	for i := range p.Diff {
		redact(&p.Diff[i], declared(pkg), want.Source.Secrets)
	}
	return nil
}

// complete is the intent as it would be committed.
func (v *View) complete(ctx context.Context, settings *desired.Settings, before, after *desired.Instance, p *Preview) (*desired.Instance, error) {
	if settings == nil {
		var err error
		if settings, err = v.r.Repo.Settings(); err != nil {
			return nil, err
		}
	}
	full, err := v.checker.Complete(ctx, settings, before, after)
	if err != nil || after == nil {
		return full, err
	}
	for _, edit := range filledIn(after, full) {
		value, err := json.Marshal(edit.Value)
		if err != nil {
			return nil, err
		}
		p.Filled = append(p.Filled, edit.Path[0]+": "+strings.Trim(string(value), `"`))
	}
	return full, nil
}

// shown leaves out the hooks for which the package has no executable, and numbers the
// stages that are left. skips says that the operation skips its hooks.
func shown(src drivers.Source, skips bool, steps []plan.Step) []plan.Step {
	side := sideOf(src.Instance, src.Package)
	steps = slices.DeleteFunc(steps, func(s plan.Step) bool {
		base, _ := plan.HookUnit(s.Object)
		_, action := plan.Coordination(base)
		return s.Action == plan.Hook && action == "" && !hooks.Coordinates(base) && base != plan.UserData && side.Path(base) == ""
	})
	for i := range steps {
		if skips && steps[i].Action == plan.Hook {
			steps[i].Reason = "skipped: " + desired.InstanceFile + " says hooks: " + desired.HooksSkip
		}
	}
	was, stage := 0, 0
	for i := range steps {
		if i > 0 && steps[i].Stage != was {
			stage++
		}
		was, steps[i].Stage = steps[i].Stage, stage
	}
	return steps
}

// look finds the driver to preview an instance with. A VIM that git doesn't hold
// yet is never connected to: whoever proposes it could have credentials of this
// installation sent to a place of their choice. known is then false, and nothing
// is taken to run there.
func (v *View) look(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) (drv drivers.Driver, known bool, err error) {
	head, err := v.r.Repo.Settings()
	if err != nil {
		return nil, false, err
	}
	if settings == nil {
		settings = head
	}
	list, err := places(settings, after)
	if err != nil {
		return nil, false, err
	}
	known = !slices.ContainsFunc(list, func(at desired.Place) bool {
		if at.Connection != nil {
			return before == nil || !reflect.DeepEqual(before.VIMConnections[at.Name], *at.Connection)
		}
		return !reflect.DeepEqual(head.VIMs[at.Name], at.File)
	})
	if known {
		drv, _, err = v.r.vims.connect(ctx, after)
		return drv, true, err
	}
	drv, err = v.checker.renderers.driver(settings, after)
	return drv, false, err
}
