package reconciler_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// vendor is a repository with a package that names hooks, which may run or not.
type vendor struct {
	catalogue
	hooks   map[string]string
	allowed *atomic.Bool
}

func newVendor(allowed bool, hooks ...string) vendor {
	v := vendor{hooks: map[string]string{}, allowed: &atomic.Bool{}}
	v.allowed.Store(allowed)
	for _, h := range hooks {
		v.hooks[h] = "Scripts/new.sh"
	}
	return v
}

func (v vendor) Hooks(string) bool { return v.allowed.Load() }

func (v vendor) Open(ctx context.Context, tree string) (*vnfd.Package, error) {
	pkg, err := v.catalogue.Open(ctx, tree)
	if err == nil {
		pkg.VNFD.Flavours[0].Hooks = v.hooks
	}
	return pkg, err
}

// vended is a world with that vendor's packages.
func vended(t *testing.T, v vendor) (*world, *stage) {
	s := &stage{}
	return newWorld(t, func(c *reconciler.Config) { c.Packages, c.Hooks = v, s }), s
}

// story is what the operation tells, one line a line.
func story(op *lcm.Operation) string {
	var lines []string
	for _, line := range op.Story {
		lines = append(lines, line.Text)
	}
	return strings.Join(lines, "\n")
}

func TestAnOperationWhoseHooksMayNotRunIsRefusedWithTheirNamesAndBothWaysOut(t *testing.T) {
	t.Parallel()

	all := []string{"instantiate_end", "scale_start", "scale_rollback_end", "heal_start", "terminate_end", "modify_information_start", "change_current_package_start"}
	pushed := func(change func(*desired.Instance)) *desired.Instance { return intended(change) }
	scaled := func(in *desired.Instance) { in.Levels = map[string]int{"web": 2} }
	skipping := func(in *desired.Instance) { scaled(in); in.Hooks = desired.HooksSkip }
	scripted := func(in *desired.Instance) {
		in.VnfdID, in.Package = vnfd2, ""
		in.Update.Coordinate.New = "Scripts/new.sh"
	}
	for name, c := range map[string]struct {
		hooks         []string
		before, after *desired.Instance
		names         []string // what the refusal names; none is none
	}{
		"a scale-in or -out, and what takes it back": {all, pushed(nil), pushed(scaled), []string{"SCALE", "Scripts/new.sh (scale_start)", "Scripts/new.sh (scale_rollback_end)"}},
		"an instantiation":                           {all, nil, pushed(nil), []string{"INSTANTIATE", "(instantiate_end)"}},
		"one whose package names others":             {[]string{"scale_start", "heal_end"}, nil, pushed(nil), nil},
		"a removed directory":                        {all, pushed(nil), nil, []string{"TERMINATE", "(terminate_end)"}},
		"state: notInstantiated":                     {all, pushed(nil), pushed(func(in *desired.Instance) { in.State = desired.NotInstantiated }), []string{"TERMINATE", "(terminate_end)"}},
		"a directory of what never ran":              {all, pushed(func(in *desired.Instance) { in.State = desired.NotInstantiated }), nil, nil},
		"a heal":                                     {all, pushed(nil), pushed(func(in *desired.Instance) { in.Condemned = map[string]string{"Pod/a": "1"} }), []string{"HEAL", "(heal_start)"}},
		"a modification":                             {all, pushed(nil), pushed(func(in *desired.Instance) { in.Description = "x" }), []string{"MODIFY_INFO", "(modify_information_start)"}},
		"a change of package":                        {all, pushed(nil), pushed(func(in *desired.Instance) { in.VnfdID, in.Package = vnfd2, "" }), []string{"CHANGE_VNFPKG", "(change_current_package_start)"}},
		"a coordination script":                      {nil, pushed(nil), pushed(scripted), []string{"CHANGE_VNFPKG", "Scripts/new.sh (coordinate_new)"}},
		"a coordination script that is left out":     {nil, pushed(nil), pushed(func(in *desired.Instance) { scripted(in); in.Hooks = desired.HooksSkip }), nil},
		"a default VIM that is filled in":            {all, pushed(nil), pushed(func(in *desired.Instance) { in.VIM = "lab" }), nil},
		"hooks: skip":                                {all, pushed(nil), pushed(skipping), nil},
		"hooks: skip alone, which is no operation":   {all, pushed(nil), pushed(func(in *desired.Instance) { in.Hooks = desired.HooksSkip }), nil},
		"hooks: skip taken away alone":               {all, pushed(func(in *desired.Instance) { in.Hooks = desired.HooksSkip }), pushed(nil), nil},
		"a changed container update":                 {[]string{"modify_information_end"}, pushed(nil), pushed(func(in *desired.Instance) { in.Description = "x" }), []string{"MODIFY_INFO", "Scripts/container_update_mgmt.py (modify_information_end)"}},
	} {
		t.Run(name, func(t *testing.T) {
			settings := &desired.Settings{VIMs: map[string]*desired.VIM{"lab": {Name: "lab", Type: desired.VIMSim, Default: true}}}
			for _, allowed := range []bool{true, false} {
				v := newVendor(allowed, c.hooks...)
				if name == "a changed container update" {
					v.hooks["modify_information_end"] = "Scripts/container_update_mgmt.py"
				}
				checker := reconciler.NewChecker(v, func(v drivers.VIM) (drivers.Driver, error) { return sim.New(sim.NewCloud(), v), nil }, nil)
				err := checker.Check(t.Context(), settings, c.before, c.after)
				if allowed || len(c.names) == 0 {
					if err != nil {
						t.Errorf("allowed: %t: refused: %v", allowed, err)
					}
					continue
				}
				if _, _, ok := reconciler.Refused(err); !ok {
					t.Fatalf("it isn't refused: %v", err)
				}
				for _, part := range append(c.names, "hooks: true at repository shelf in repositories.yaml", "hooks: skip in vnf.yaml") {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("it doesn't say %q: %v", part, err)
					}
				}
			}
		})
	}
}

func TestAUserDataClassThatMayNotRunIsRefusedWhereItWouldRun(t *testing.T) {
	t.Parallel()

	checker := reconciler.NewChecker(newVendor(false), func(drivers.VIM) (drivers.Driver, error) { return newRack(), nil }, nil)
	after := intended(func(in *desired.Instance) {
		in.Params = map[string]any{"lcm-operation-user-data": "Scripts/new.sh", "lcm-operation-user-data-class": "C"}
	})
	at := func(vimType string) error {
		return checker.Check(t.Context(), &desired.Settings{VIMs: map[string]*desired.VIM{"lab": {Name: "lab", Type: vimType, Default: true}}}, nil, after)
	}
	if err := at(desired.VIMOpenStack); err == nil || !strings.Contains(err.Error(), "INSTANTIATE needs hooks of the package that may not run: Scripts/new.sh (user_data)") {
		t.Errorf("on OpenStack: %v", err)
	}
	if err := at(desired.VIMSim); err != nil {
		t.Errorf("where no class ever runs: %v", err)
	}
}

func TestAPushedChangeWhoseHooksMayNotRunIsShownAndNotBegunUntilTheyMay(t *testing.T) {
	t.Parallel()

	v := newVendor(false, "scale_end")
	w, s := vended(t, v)
	w.commit(file("instantiated", "")) // no hook takes part in that
	w.last(lcm.Instantiate, lcm.Completed)
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.until("it is shown why the file isn't obeyed", func() bool {
		p, shown := w.recon.View().Problem(id)
		return shown && strings.Contains(p.Message, "SCALE needs hooks of the package that may not run: Scripts/new.sh (scale_end)") && strings.Contains(p.Message, "hooks: skip")
	})
	if n := w.units("VDU1"); n != 1 || len(s.told()) != 0 || len(w.operations(lcm.Scale)) != 0 || w.head().Levels["web"] != 2 {
		t.Errorf("%d units run, hooks %q were run, %d operations were begun, git says %v", n, s.told(), len(w.operations(lcm.Scale)), w.head().Levels)
	}
	v.allowed.Store(true)
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.Completed)
	if _, shown := w.recon.View().Problem(id); shown || !slices.Equal(s.told(), []string{"scale_end"}) {
		t.Errorf("once it is allowed, hooks %q were run, and shown as a problem is %t", s.told(), shown)
	}
}

func TestATerminationWhoseHooksMayNotRunIsRolledBackWithNothingDone(t *testing.T) {
	t.Parallel()

	w, s := vended(t, newVendor(false, "terminate_end"))
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.commit(file("notInstantiated", ""))
	op := w.last(lcm.Terminate, lcm.RolledBack)
	if !strings.Contains(op.Error.Detail, "TERMINATE needs hooks of the package that may not run: Scripts/new.sh (terminate_end)") || !strings.Contains(op.Error.Detail, "hooks: skip") {
		t.Errorf("the error is %q", op.Error.Detail)
	}
	if n := w.units("VDU1"); n != 1 || len(s.told()) != 0 || w.head().State != desired.Instantiated {
		t.Errorf("%d units run, hooks %q were run, git says %s", n, s.told(), w.head().State)
	}
}

func TestTheStoryTellsOfEachHookThatHooksSkipLeftOut(t *testing.T) {
	t.Parallel()

	for _, allowed := range []bool{false, true} {
		w, s := vended(t, newVendor(allowed, "scale_start", "scale_end", "modify_information_end", "terminate_start"))
		w.commit(file("instantiated", ""))
		w.last(lcm.Instantiate, lcm.Completed)
		w.commit(file("instantiated", "hooks: skip\n"))
		scaled := w.scale(file("instantiated", "hooks: skip\nlevels: {web: 2}\n"), lcm.Completed)
		w.commit(file("instantiated", "hooks: skip\nlevels: {web: 2}\ndescription: x\n"))
		modified := w.last(lcm.ModifyInfo, lcm.Completed)
		w.commit(file("notInstantiated", "hooks: skip\nlevels: {web: 2}\ndescription: x\n"))
		ended := w.last(lcm.Terminate, lcm.Completed)
		for _, c := range []struct {
			op    *lcm.Operation
			hooks []string
		}{{scaled, []string{"scale_start", "scale_end"}}, {modified, []string{"modify_information_end"}}, {ended, []string{"terminate_start"}}} {
			for _, hook := range c.hooks {
				if n := strings.Count(story(c.op), hook+": Scripts/new.sh was skipped, as vnf.yaml says hooks: skip"); n != 1 {
					t.Errorf("allowed: %t: %s is told of %d times in\n%s", allowed, hook, n, story(c.op))
				}
			}
		}
		if got := s.told(); len(got) != 0 {
			t.Errorf("allowed: %t: hooks %q were run all the same", allowed, got)
		}
		if n := len(w.operations(lcm.ModifyInfo)); n != 1 {
			t.Errorf("%d operations MODIFY_INFO: hooks alone is none", n)
		}
	}
}

func TestTheHookOfATerminationAndOfTheRollbackOfAnInstantiationRun(t *testing.T) {
	t.Parallel()

	w, s := vended(t, newVendor(true, "terminate_start", "terminate_end", "instantiate_rollback_start", "instantiate_rollback_end"))
	w.cloud.Fail(web, "no image")
	w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.FailedTemp)
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Instantiate, lcm.RolledBack)
	w.cloud.Fail(web, "")
	w.commit(file("instantiated", "# again\n"))
	w.last(lcm.Instantiate, lcm.Completed)
	w.commit(file("notInstantiated", ""))
	w.last(lcm.Terminate, lcm.Completed)
	if got, want := s.told(), []string{"instantiate_rollback_start", "instantiate_rollback_end", "terminate_start", "terminate_end"}; !slices.Equal(got, want) {
		t.Errorf("hooks %q were run, want %q", got, want)
	}
}

func TestADriftWhoseRepairNeedsHooksThatMayNotRunIsShownAsRefusedAndNotPutRight(t *testing.T) {
	t.Parallel()

	v := newVendor(false, "heal_start")
	w, s := vended(t, v)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.cloud.Drift(web)
	d := w.drift(reconciler.DriftRefused)
	if !strings.Contains(d.Refused, "HEAL needs hooks of the package that may not run: Scripts/new.sh (heal_start)") || len(d.Deviations) == 0 {
		t.Errorf("the drift is %+v", d)
	}
	if n := len(w.operations(lcm.Heal)); n != 0 {
		t.Errorf("%d operations were begun to be refused", n)
	}
	v.allowed.Store(true)
	w.recon.Enqueue(id)
	op := w.last(lcm.Heal, lcm.Completed)
	if got := s.told(); !op.Automatic || !slices.Equal(got, []string{"heal_start"}) {
		t.Errorf("once they are allowed: automatic %t, hooks %q", op.Automatic, got)
	}
}

func TestARollbackWhoseHooksMayNoLongerRunWaitsForAPersonAndSaysWhy(t *testing.T) {
	t.Parallel()

	v := newVendor(true, "scale_rollback_start")
	w, s := vended(t, v)
	w.failToScale("no image")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	v.allowed.Store(false)
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.until("the rollback is refused", func() bool {
		var err error
		op, err = w.log.Operation(t.Context(), op.ID)
		return err == nil && op.State == lcm.FailedTemp && op.Journal.Rollback
	})
	if !strings.Contains(op.Error.Detail, "may not run hooks") || len(s.told()) != 0 {
		t.Errorf("the error is %q, hooks %q were run", op.Error.Detail, s.told())
	}
}
