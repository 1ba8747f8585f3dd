package openstack_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAStackThatIsStuckIsWaitedForAndLeftAlone(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	src := source(v.id, grouped, 1)
	one(t, cloud, v.reach(src), 1)
	cloud.Stick("vnf-" + v.id)
	more := source(v.id, grouped, 3)
	var j plan.Journal
	v.d = connect(t, cloud.VIM(), fast)
	asked := 0
	for range 40 {
		want, o := v.look(more)
		next := plan.Next(plan.Compute(want.Desired, o, j))
		if len(next) == 0 {
			t.Fatal("nothing is left to do although the stack is stuck")
		}
		j, _ = j.Issue(next)
		if next[0].Action == plan.Wait {
			if asked == 0 {
				asked = changes(cloud)
			}
			if next[0].Failure != "" {
				t.Fatalf("a stack in progress is a failure: %s", next[0].Failure)
			}
		} else if err := v.d.Do(t.Context(), want, next...); err != nil {
			t.Fatal(err)
		}
		kit.Pause(t.Context(), 5*time.Millisecond)
	}
	if n := changes(cloud); asked == 0 || n != asked {
		t.Errorf("Heat was asked %d times for changes while it worked, and %d before", n, asked)
	}
	cloud.Unstick("vnf-" + v.id)
	one(t, cloud, v.reach(more), 3)
}

// fails works towards the source, which must fail for the reason; then it is tried again.
func (v *vnf) fails(src drivers.Source, operation, reason string) {
	v.t.Helper()
	if _, failure := v.operate(src, &plan.Journal{Operation: operation, Granted: true}); !strings.Contains(failure, reason) {
		v.t.Fatalf("the operation fails with %q, want %q in it", failure, reason)
	}
}

func TestAnUpdateThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()

	for name, top := range map[string]string{"in a group": grouped, "expanded": expanded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := fakeCloud(t)
			v := start(t, cloud)
			before := one(t, cloud, v.reach(source(v.id, top, 1)), 1)
			cloud.FailNext("vnf-", "UPDATE", "No valid host was found. There are not enough hosts available.")
			more := source(v.id, top, 3)
			v.fails(more, "SCALE", "No valid host was found")
			j := plan.Journal{Operation: "SCALE", Granted: true}
			o, failure := v.operate(more, &j)
			if failure != "" {
				t.Fatal(failure)
			}
			if after := one(t, cloud, o, 3); after.ID != before.ID {
				t.Errorf("the stack was %s and is %s", before.ID, after.ID)
			}
		})
	}
}

func TestARollingChangeThatFailsIsGoneOnWithOrRolledBack(t *testing.T) {
	t.Parallel()

	for shape, top := range map[string]string{"in a group": grouped, "expanded": expanded} {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s back=%v", shape, back), func(t *testing.T) {
				t.Parallel()
				cloud := fakeCloud(t)
				v := start(t, cloud)
				was, is := source(v.id, top, 3), source(v.id, top, 3, "img2")
				before := one(t, cloud, v.reach(was), 3)
				cloud.FailNext(before.Name, "UPDATE", "No valid host was found.")
				v.fails(is, "CHANGE_VNFPKG", "No valid host was found.")
				j, to, image := plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true, Rollback: back}, is, "img2"
				if back {
					to, image = was, "img1"
				}
				o, failure := v.operate(to, &j)
				if failure != "" {
					t.Fatal(failure)
				}
				if after := one(t, cloud, o, 3); after.ID != before.ID {
					t.Errorf("the stack was %s and is %s", before.ID, after.ID)
				}
				for _, s := range cloud.Servers() {
					if s.Image != image || s.Status != "ACTIVE" {
						t.Errorf("server %+v, want image %s", s, image)
					}
				}
			})
		}
	}
}

func TestAQuotaIsTheReasonAndTheStackGoesOnWhenItIsRaised(t *testing.T) {
	t.Parallel()

	for name, top := range map[string]string{"in a group": grouped, "expanded": expanded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := fakeCloud(t)
			v := start(t, cloud)
			cloud.Quota(1)
			src := source(v.id, top, 2)
			v.fails(src, "INSTANTIATE", "Quota exceeded for instances")
			before := cloud.Stacks()
			cloud.Clear()
			j := plan.Journal{Operation: "INSTANTIATE", Granted: true}
			o, failure := v.operate(src, &j)
			if failure != "" {
				t.Fatal(failure)
			}
			if after := one(t, cloud, o, 2); len(before) != 1 || after.ID != before[0].ID {
				t.Errorf("the stacks were %+v, now it is %+v", before, after)
			}
		})
	}
}

func TestWhatTheVIMLacksIsSaidBeforeTheStackIsTouched(t *testing.T) {
	t.Parallel()

	flavour := func(src drivers.Source) drivers.Source {
		nfv := src.Instance.Params["nfv"].(map[string]any)
		nfv["VDU"].(map[string]any)["VDU1"].(map[string]any)["computeFlavourId"] = "m9.none"
		return src
	}
	for name, c := range map[string]struct {
		src   func(id string) drivers.Source
		named string
	}{
		"image":   {func(id string) drivers.Source { return source(id, grouped, 1, "no-image") }, "no-image"},
		"flavour": {func(id string) drivers.Source { return flavour(source(id, grouped, 1)) }, "m9.none"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := fakeCloud(t)
			v := start(t, cloud)
			src := c.src(v.id)
			for _, there := range []bool{false, true} {
				if there {
					v.reach(source(v.id, grouped, 1))
				}
				n := changes(cloud)
				want, o := v.look(src)
				err := v.d.Verify(t.Context(), want, plan.Next(plan.Compute(want.Desired, o, plan.Journal{}))...)
				var refused *drivers.RefusedError
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.named) {
					t.Errorf("Verify = %v, want a refusal that names %s", err, c.named)
				}
				if changes(cloud) != n {
					t.Error("Heat was asked for a change")
				}
			}
		})
	}
}

func TestWhatHeatSaysOfATemplateThatItRejectsIsShown(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	src := source(v.id, grouped+`
  broken:
    type: OS::Neutron::Nett
`, 1)
	want, o := v.look(src)
	next := plan.Next(plan.Compute(want.Desired, o, plan.Journal{}))
	for what, err := range map[string]error{"Verify": v.d.Verify(t.Context(), want, next...), "Do": v.d.Do(t.Context(), want, next...)} {
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "The Resource Type (OS::Neutron::Nett) could not be found.") {
			t.Errorf("%s = %v, want a refusal with Heat's message", what, err)
		}
	}
	if n := len(cloud.Stacks()); n != 0 {
		t.Errorf("there are %d stacks", n)
	}
}

func TestAStackDeletedByHandIsMadeAnewOnce(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	v.d = connect(t, cloud.VIM(), fast)
	src := source(v.id, grouped, 2)
	before := one(t, cloud, v.reach(src), 2)
	cloud.DeleteStack(before.Name)
	v.d = connect(t, cloud.VIM(), fast)
	if _, o := v.look(src); len(o.Objects)+len(o.Units) != 0 {
		t.Fatalf("of a stack that is gone there is %+v", o)
	}
	if after := one(t, cloud, v.reach(src), 2); after.ID == before.ID {
		t.Error("the stack is the same")
	}
}
