package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// one wants the instance to have one stack, and the VDU so many servers.
func one(t *testing.T, cloud *openstacktest.Cloud, o plan.Observed, units int) openstacktest.StackRecord {
	t.Helper()
	stacks := cloud.Stacks()
	if len(stacks) != 1 || len(unitsOf(o, "VDU1")) != units || len(cloud.Servers()) != units+1 {
		t.Fatalf("there are the stacks %+v, the servers %+v and the units %v, want %d", stacks, cloud.Servers(), names(o.Units), units)
	}
	return stacks[0]
}

// changes are how often Heat was asked to make, change or delete something.
func changes(cloud *openstacktest.Cloud) int {
	n := 0
	for _, r := range cloud.Asked() {
		if r.Service == openstacktest.Heat && r.Method != http.MethodGet && !strings.HasSuffix(r.Path, "/validate") {
			n++
		}
	}
	return n
}

func TestAKeystoneThatIsDownIsWaitedForWithAndWithoutAToken(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	cloud.Down(openstacktest.Keystone)
	src := source(v.id, grouped, 1)
	if _, err := v.d.Observe(t.Context(), drivers.Rendering{Source: src}); !errors.Is(err, drivers.ErrUnavailable) || !strings.Contains(err.Error(), "Keystone") {
		t.Fatalf("Observe = %v, want ErrUnavailable of Keystone", err)
	}
	cloud.Clear()
	one(t, cloud, v.reach(src), 1)
	cloud.Down(openstacktest.Keystone)
	cloud.ExpireTokens()
	if err := firstError(t, v.d, src); !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("Observe = %v, want ErrUnavailable", err)
	}
	cloud.Clear()
	one(t, cloud, v.reach(source(v.id, grouped, 2)), 2)
}

// firstError is the first error of Observe; looks that began before a fault don't know it.
func firstError(t *testing.T, d *openstack.Driver, src drivers.Source) error {
	t.Helper()
	var seen error
	kit.Until(t, "an error of Observe", func() bool {
		_, seen = d.Observe(t.Context(), drivers.Rendering{Source: src})
		return seen != nil
	})
	return seen
}

func TestATokenThatExpiresInTheMiddleOfAnOperationIsRenewed(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	over, done := context.WithCancel(t.Context())
	var ticking sync.WaitGroup
	ticking.Go(func() {
		for over.Err() == nil {
			cloud.ExpireTokens()
			// A slow machine gets as far with a token as a fast one.
			for last := cloud.Requests(""); over.Err() == nil && cloud.Requests("") < last+20; {
				kit.Pause(over, time.Millisecond)
			}
		}
	})
	before := one(t, cloud, v.reach(source(v.id, grouped, 1)), 1)
	after := one(t, cloud, v.reach(source(v.id, grouped, 3)), 3)
	done()
	ticking.Wait()
	if before.ID != after.ID {
		t.Errorf("the stack was %s and is %s", before.ID, after.ID)
	}
}

var everyService = []openstacktest.Service{openstacktest.Keystone, openstacktest.Heat, openstacktest.Nova, openstacktest.Neutron, openstacktest.Cinder}

func TestAServiceThatFailsForAWhileDelaysAnOperationAndNoMore(t *testing.T) {
	t.Parallel()

	for _, service := range everyService {
		for _, status := range []int{0, 401, 403, 409, 429, 500, 503} {
			t.Run(fmt.Sprintf("%s %d", service, status), func(t *testing.T) {
				t.Parallel()
				cloud := fakeCloud(t)
				v := start(t, cloud)
				before := one(t, cloud, v.reach(source(v.id, grouped, 1)), 1)
				if service == openstacktest.Keystone {
					cloud.ExpireTokens()
				}
				f := openstacktest.Fault{Service: service, Status: status, Times: 4}
				if status == http.StatusTooManyRequests {
					f.RetryAfter, f.Times = 1, 2
				}
				cloud.Inject(f)
				after := one(t, cloud, v.reach(source(v.id, grouped, 2)), 2)
				if before.ID != after.ID {
					t.Errorf("the stack was %s and is %s", before.ID, after.ID)
				}
			})
		}
	}
}

func TestAServiceThatFailsIsUnavailableAndNeverEmptiness(t *testing.T) {
	t.Parallel()

	for _, service := range []openstacktest.Service{openstacktest.Keystone, openstacktest.Heat, openstacktest.Nova, openstacktest.Neutron} {
		for _, status := range []int{0, 401, 403, 409, 429, 500, 503} {
			t.Run(fmt.Sprintf("%s %d", service, status), func(t *testing.T) {
				t.Parallel()
				cloud := fakeCloud(t)
				v := start(t, cloud)
				src := source(v.id, grouped, 1)
				v.reach(src)
				cloud.Inject(openstacktest.Fault{Service: service, Status: status, RetryAfter: 600})
				d := connect(t, cloud.VIM(), fast)
				if o, err := d.Observe(t.Context(), drivers.Rendering{Source: src}); !errors.Is(err, drivers.ErrUnavailable) {
					t.Errorf("Observe = %d objects, %d units, %v; want ErrUnavailable", len(o.Objects), len(o.Units), err)
				}
			})
		}
	}
}

func TestAServiceThatFailsWhileItIsAskedForLeaveIsNoRefusal(t *testing.T) {
	t.Parallel()

	for _, service := range []openstacktest.Service{openstacktest.Heat, openstacktest.Nova, openstacktest.Neutron, openstacktest.Glance} {
		for _, status := range []int{0, 401, 403, 409, 429, 500, 503} {
			t.Run(fmt.Sprintf("%s %d", service, status), func(t *testing.T) {
				t.Parallel()
				cloud := fakeCloud(t)
				v := start(t, cloud)
				src := source(v.id, grouped, 1)
				want, o := v.look(src)
				cloud.Inject(openstacktest.Fault{Service: service, Status: status, RetryAfter: 600})
				err := v.d.Verify(t.Context(), want, plan.Next(plan.Compute(want.Desired, o, plan.Journal{}))...)
				var refused *drivers.RefusedError
				if errors.As(err, &refused) || !errors.Is(err, drivers.ErrUnavailable) {
					t.Errorf("Verify = %v, want ErrUnavailable", err)
				}
			})
		}
	}
}

// look renders and observes.
func (v *vnf) look(src drivers.Source) (drivers.Rendering, plan.Observed) {
	v.t.Helper()
	want, err := v.d.Render(src)
	if err != nil {
		v.t.Fatal(err)
	}
	o, err := v.d.Observe(v.t.Context(), want)
	if err != nil {
		v.t.Fatal(err)
	}
	return want, o
}

func TestTwoProcessesMakeOneStack(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	src := source(v.id, grouped, 2)
	want, o := v.look(src)
	next := plan.Next(plan.Compute(want.Desired, o, plan.Journal{}))
	var both sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		d := connect(t, cloud.VIM(), fast)
		both.Go(func() { errs[i] = d.Do(t.Context(), want, next...) })
	}
	both.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("Do = %v", err)
		}
	}
	one(t, cloud, v.reach(src), 2)
	v.d = connect(t, cloud.VIM(), fast)
	one(t, cloud, v.reach(src), 2)
}

func TestAProcessThatDiesRightAfterACreateLeavesOneStackToTheNext(t *testing.T) {
	t.Parallel()

	for name, lost := range map[string]bool{"it saw the answer": false, "the answer was lost": true} {
		t.Run(name, func(t *testing.T) {
			cloud := fakeCloud(t)
			v := start(t, cloud)
			src := source(v.id, grouped, 2)
			want, o := v.look(src)
			if lost {
				cloud.Inject(openstacktest.Fault{Service: openstacktest.Heat, Method: http.MethodPost, Path: "/stacks", Lost: true, Times: 1})
			}
			err := v.d.Do(t.Context(), want, plan.Next(plan.Compute(want.Desired, o, plan.Journal{}))...)
			if lost != errors.Is(err, drivers.ErrUnavailable) || !lost && err != nil {
				t.Fatalf("Do = %v", err)
			}
			first := cloud.Stacks()
			v.d = connect(t, cloud.VIM(), fast)
			if after := one(t, cloud, v.reach(src), 2); len(first) != 1 || after.ID != first[0].ID {
				t.Errorf("the first process made %+v, now it is %+v", first, after)
			}
		})
	}
}

func TestAnUpdateWhoseAnswerIsLostIsNotDoneTwice(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	one(t, cloud, v.reach(source(v.id, grouped, 1)), 1)
	cloud.Inject(openstacktest.Fault{Service: openstacktest.Heat, Method: http.MethodPut, Lost: true, Times: 1})
	cloud.Inject(openstacktest.Fault{Service: openstacktest.Heat, Method: http.MethodPatch, Lost: true, Times: 1})
	one(t, cloud, v.reach(source(v.id, grouped, 3)), 3)
}

func TestAServerThatIsGoneOrBrokenIsReplacedAndOthersAreNot(t *testing.T) {
	t.Parallel()

	for name, hurt := range map[string]func(c *openstacktest.Cloud, id string) bool{
		"deleted":  func(c *openstacktest.Cloud, id string) bool { return c.DeleteServer(id) },
		"in ERROR": func(c *openstacktest.Cloud, id string) bool { return c.BreakServer(id, "the host is on fire") },
	} {
		for shape, top := range map[string]string{"in a group": grouped, "expanded": expanded} {
			t.Run(name+" "+shape, func(t *testing.T) {
				t.Parallel()
				cloud := fakeCloud(t)
				v := start(t, cloud)
				src := source(v.id, top, 3)
				before := unitsOf(v.reach(src), "VDU1")
				victim := before[1]
				if !hurt(cloud, victim.Resource()) {
					t.Fatalf("there is no server %s", victim.Resource())
				}
				v.d = connect(t, cloud.VIM(), fast)
				_, o := v.look(src)
				i := slices.IndexFunc(o.Units, func(u plan.Unit) bool { return u.Resource() == victim.Resource() })
				if i < 0 || o.Units[i].Dead == "" || o.Units[i].Ready {
					t.Fatalf("the server is observed as %+v", o.Units)
				}
				if name == "in ERROR" && !strings.Contains(o.Units[i].Dead, "the host is on fire") {
					t.Errorf("it is dead because %q", o.Units[i].Dead)
				}
				o = v.reach(src)
				one(t, cloud, o, 3)
				for _, u := range unitsOf(o, "VDU1") {
					if u.Resource() == victim.Resource() {
						t.Error("the server is still there")
					}
					if u.Key != victim.Key && !slices.Contains(names(before), u.Resource()) {
						t.Errorf("%s was replaced, too", u.Key)
					}
				}
			})
		}
	}
}

func TestADeleteThatFailedIsTriedAgainUntilNothingIsLeft(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	v.reach(source(v.id, grouped, 2))
	for range 2 {
		cloud.FailNext("vnf-", "DELETE", "the volume is still in use")
	}
	if o := v.gone(); len(o.Objects)+len(o.Units) > 0 {
		t.Errorf("observed at the end: %+v", o)
	}
	if left := cloud.Left(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if n := deletes(cloud); n != 3 {
		t.Errorf("Heat was asked %d times to delete a stack, want 3", n)
	}
}

func TestAStackIsGoneWhenItsNameIsFree(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	src := source(v.id, grouped, 1)
	v.reach(src)
	cloud.Linger(true)
	nothing := drivers.Absent(src.Instance)
	remains := func() plan.Observed {
		t.Helper()
		o, err := v.d.Observe(t.Context(), nothing)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if err := v.d.Do(t.Context(), nothing, plan.Next(plan.Compute(plan.Desired{}, remains(), plan.Journal{}))...); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "all of the stack to go but its name", func() bool {
		left := remains()
		return len(cloud.Servers()) == 0 && len(left.Units) == 0 && len(left.Objects) == 1
	})
	for range 3 {
		v.d = connect(t, cloud.VIM(), fast)
		if left := remains(); len(left.Objects) != 1 || !left.Objects[0].Deleting {
			t.Errorf("while the stack keeps its name there is %+v", left)
		}
	}
	cloud.Linger(false)
	if o := v.gone(); len(o.Objects)+len(o.Units) > 0 {
		t.Errorf("observed at the end: %+v", o)
	}
	if n := deletes(cloud); n != 1 {
		t.Errorf("Heat was asked %d times to delete a stack, want once", n)
	}
	v.reach(src)
}

// deletes are how often Heat was asked to delete a stack.
func deletes(cloud *openstacktest.Cloud) int {
	n := 0
	for _, r := range cloud.Asked() {
		if r.Service == openstacktest.Heat && r.Method == http.MethodDelete {
			n++
		}
	}
	return n
}

func TestAStackIsTakenOverByAnApplicationCredential(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	src := source(v.id, grouped, 1)
	before := one(t, cloud, v.reach(src), 1)
	v.d = connect(t, cloud.ApplicationCredentialVIM(), fast)
	after := one(t, cloud, v.reach(source(v.id, grouped, 2)), 2)
	if after.ID != before.ID {
		t.Errorf("the stack was %s and is %s", before.ID, after.ID)
	}
}
