package reconciler_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// tampered is a package repository in which the checksums of one package don't hold.
type tampered struct {
	catalogue
	tree atomic.Pointer[string]
}

const wrongChecksum = "web.yaml was changed"

func (p *tampered) with(tree string) *tampered {
	p.tree.Store(&tree)
	return p
}

func (p *tampered) Verify(_ context.Context, tree string) error {
	if bad := p.tree.Load(); bad != nil && *bad == tree {
		return &drivers.RefusedError{Field: "package", Reason: wrongChecksum}
	}
	return nil
}

func (p *tampered) Newest(vnfd string) (string, error) {
	tree, err := p.catalogue.Newest(vnfd)
	if err == nil && p.Verify(context.Background(), tree) != nil {
		return "", &drivers.RefusedError{Field: "vnfdId", Reason: wrongChecksum}
	}
	return tree, err
}

func TestAChangeThatWouldUseAPackageWithAWrongChecksumIsRefused(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		bad           string
		before, after func(*desired.Instance)
		field         string // "" for a change that is accepted
	}{
		"instantiation with the newest": {tree1, func(in *desired.Instance) { in.State, in.Package = desired.NotInstantiated, "" },
			func(in *desired.Instance) { in.Package = "" }, "vnfdId"},
		"instantiation with one that is pinned": {tree1, func(in *desired.Instance) { in.State = desired.NotInstantiated }, nil, "package"},
		"scale":                                 {tree1, nil, func(in *desired.Instance) { in.Levels = map[string]int{"web": 2} }, "package"},
		"heal":                                  {tree1, nil, func(in *desired.Instance) { in.Condemned = map[string]string{"Unit/web-1": "1"} }, "package"},
		"another name":                          {tree1, nil, func(in *desired.Instance) { in.Name = "smf" }, "package"},
		"upgrade to it":                         {tree2, nil, func(in *desired.Instance) { in.VnfdID = vnfd2 }, "vnfdId"},
		"upgrade to its tree":                   {tree2, nil, func(in *desired.Instance) { in.VnfdID, in.Package = vnfd2, tree2 }, "package"},
		"an update on top":                      {tree1, nil, func(in *desired.Instance) { in.VnfdID, in.Update.Strategy = vnfd2, desired.Container }, "package"},
		"an overlay that is":                    {tree2, nil, func(in *desired.Instance) { in.VnfdID, in.Update.Strategy = vnfd2, desired.Container }, "vnfdId"},
		"upgrade away from it":                  {tree1, nil, func(in *desired.Instance) { in.VnfdID, in.Levels = vnfd2, map[string]int{"web": 1} }, ""},
		"termination":                           {tree1, nil, func(in *desired.Instance) { in.State = desired.NotInstantiated }, ""},
		"suspension":                            {tree1, nil, func(in *desired.Instance) { in.Suspend = true }, ""},
		"drift that is shown":                   {tree1, nil, func(in *desired.Instance) { in.Drift = desired.DriftReport }, ""},
		"another package":                       {tree3, nil, func(in *desired.Instance) { in.Levels = map[string]int{"web": 2} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			checker := reconciler.NewChecker((&tampered{}).with(c.bad), func(v drivers.VIM) (drivers.Driver, error) { return sim.New(sim.NewCloud(), v), nil }, nil)
			settings := &desired.Settings{VIMs: map[string]*desired.VIM{"lab": {Name: "lab", Type: "sim", Default: true}}}
			err := checker.Check(t.Context(), settings, intended(c.before), intended(c.after))
			field, reason, refused := reconciler.Refused(err)
			if c.field == "" && err != nil || c.field != "" && (!refused || field != c.field || reason != wrongChecksum) {
				t.Errorf("%v (field %q)", err, field)
			}
		})
	}
}

// unguarded is a world that no hook guards, with a running instance.
func unguarded(t *testing.T) (*world, *tampered) {
	packages := &tampered{}
	w := newWorld(t, func(c *reconciler.Config) { c.Packages = packages })
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	return w, packages
}

func TestWhatRunsOfAPackageWhoseChecksumIsWrongIsKeptAndRepairedAndEndsOnlyWhenAsked(t *testing.T) {
	t.Parallel()

	w, packages := unguarded(t)
	w.stop()
	packages.with(tree1)
	w.start()
	w.cloud.Lose(web)
	if op := w.last(lcm.Heal, lcm.Completed); !op.Automatic || w.units("VDU1") != 1 {
		t.Errorf("repaired by %+v, %d units", op, w.units("VDU1"))
	}
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.until("the problem is shown", func() bool {
		why, ok := w.recon.View().Problem(id)
		return ok && strings.Contains(why.Message, wrongChecksum)
	})
	if n := w.units("VDU1"); n != 1 {
		t.Errorf("%d units", n)
	}
	w.commit(file("notInstantiated", ""))
	w.last(lcm.Terminate, lcm.Completed)
}

func TestAnOperationUnderWayWithAPackageWhoseChecksumIsWrongIsRolledBackAsAnyOther(t *testing.T) {
	t.Parallel()

	packages := &tampered{}
	w := newWorld(t, func(c *reconciler.Config) { c.Packages = packages })
	w.failToScale("no room")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	w.stop()
	packages.with(tree1)
	w.start()
	w.cloud.Fail(web, "") // before, as the first looks of the process would find that the rollback fails, too
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.RolledBack)
	if n := w.units("VDU1"); n != 1 {
		t.Errorf("%d units", n)
	}
}

func TestACommitThatNamesAPackageWithAWrongChecksumIsShownAndObeyedWhenThatIsRepaired(t *testing.T) {
	t.Parallel()

	w, packages := unguarded(t)
	packages.with(tree2)
	w.commit(strings.Replace(file("instantiated", ""), vnfdID, vnfd2, 1))
	w.until("the problem is shown", func() bool {
		why, ok := w.recon.View().Problem(id)
		return ok && strings.Contains(why.Message, wrongChecksum)
	})
	if n := w.units("VDU1"); n != 1 || w.head().Package != tree1 {
		t.Errorf("%d units of %s", n, w.head().Package)
	}
	packages.with("")
	w.recon.Enqueue(id)
	w.last(lcm.ChangePackage, lcm.Completed)
	if why, ok := w.recon.View().Problem(id); ok || w.head().Package != tree2 {
		t.Errorf("still %q, with %s", why.Message, w.head().Package)
	}
}
