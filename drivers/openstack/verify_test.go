package openstack_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/plan"
)

func TestWhatTheVIMLacksIsSaidBeforeTheStackIsTouchedAtAFakeCloud(t *testing.T) {
	t.Parallel()

	verified(t, fakeCloud(t).VIM())
}

func TestWhatTheVIMLacksIsSaidBeforeTheStackIsTouchedAtARealCloud(t *testing.T) {
	verified(t, lab(t))
}

func verified(t *testing.T, vim drivers.VIM) {
	d := connect(t, vim, openstack.Options{})
	nfv := func(src drivers.Source) map[string]any { return src.Instance.Params["nfv"].(map[string]any) }
	for name, c := range map[string]struct {
		spoil func(src drivers.Source)
		lacks string // what the refusal names
	}{
		"nothing": {func(drivers.Source) {}, ""},
		"image": {func(src drivers.Source) {
			nfv(src)["VDU"].(map[string]any)["VDU2"].(map[string]any)["vcImageId"] = "no-such-image"
		}, `image "no-such-image"`},
		"image by id": {func(src drivers.Source) {
			nfv(src)["VDU"].(map[string]any)["VDU2"].(map[string]any)["vcImageId"] = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b40"
		}, `image "3a5c1f0e`},
		"flavour": {func(src drivers.Source) {
			nfv(src)["VDU"].(map[string]any)["VDU1"].(map[string]any)["computeFlavourId"] = "no-such-flavour"
		}, `flavour "no-such-flavour"`},
		"network": {func(src drivers.Source) {
			nfv(src)["CP"].(map[string]any)["CP1"].(map[string]any)["network"] = "no-such-network"
		}, `network "no-such-network"`},
	} {
		for shape, top := range map[string]string{"in a group": grouped, "expanded": expanded} {
			t.Run(name+" "+shape, func(t *testing.T) {
				src := source(uuid.NewString(), top, 2)
				c.spoil(src)
				want, err := d.Render(src)
				if err != nil {
					t.Fatal(err)
				}
				err = d.Verify(t.Context(), want, plan.Compute(want.Desired, plan.Observed{}, plan.Journal{})...)
				var refused *drivers.RefusedError
				switch {
				case c.lacks == "" && err != nil:
					t.Errorf("Verify = %v", err)
				case c.lacks != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Reason, c.lacks) || refused.Subject() == ""):
					t.Errorf("Verify = %v, want a refusal that names %s", err, c.lacks)
				}
			})
		}
	}
	for name, c := range map[string]struct{ resource, lacks string }{
		"a type of resource":       {"strange: {type: OS::Strange::Thing}", "OS::Strange::Thing"},
		"a property of a resource": {"odd: {type: OS::Cinder::Volume, properties: {sise: 1}}", "sise"},
	} {
		t.Run(name, func(t *testing.T) {
			src := source(uuid.NewString(), grouped+"  "+c.resource+"\n", 1)
			want, err := d.Render(src)
			if err != nil {
				t.Fatal(err)
			}
			var refused *drivers.RefusedError
			if err := d.Verify(t.Context(), want, plan.Compute(want.Desired, plan.Observed{}, plan.Journal{})...); !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.lacks) {
				t.Errorf("Verify = %v, want Heat's own refusal of %s", err, c.lacks)
			}
		})
	}
}

func TestNothingIsMadeOfAnInstanceThatShouldNotExist(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	d := connect(t, cloud.VIM(), fast)
	absent := drivers.Absent(&desired.Instance{ID: uuid.NewString()})
	stack := "Stack/vnf-" + absent.Source.Instance.ID
	step := plan.Step{Action: plan.Apply, Object: stack}
	_, previewed := d.Preview(t.Context(), absent, step)
	for what, err := range map[string]error{
		"Do": d.Do(t.Context(), absent, step), "Verify": d.Verify(t.Context(), absent, step), "Preview": previewed,
	} {
		if err == nil || !strings.Contains(err.Error(), "should not exist") {
			t.Errorf("%s = %v, want that the instance should not exist", what, err)
		}
	}
	if n := len(cloud.Stacks()); n != 0 {
		t.Errorf("there are %d stacks", n)
	}
	if err := d.Do(t.Context(), absent, plan.Step{Action: plan.Delete, Object: stack, Incarnation: uuid.NewString()}); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
}
