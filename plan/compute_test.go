package plan_test

import (
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/plan"
)

func TestNextIsTheFirstStageOnly(t *testing.T) {
	if got := plan.Next(nil); len(got) != 0 {
		t.Errorf("Next of an empty plan is %v", got)
	}
	steps := []plan.Step{{Stage: 0, Object: "a"}, {Stage: 0, Object: "b"}, {Stage: 1, Object: "c"}}
	if got := plan.Next(steps); len(got) != 2 || got[1].Object != "b" {
		t.Errorf("Next is %v, want the two steps of stage 0", got)
	}
}

func TestHookNamesAreThoseOfTheVnflcmInterface(t *testing.T) {
	for _, tc := range []struct {
		operation string
		rollback  bool
		side      string
		want      string
	}{
		{"INSTANTIATE", false, "start", "instantiate_start"},
		{"INSTANTIATE", true, "end", "instantiate_rollback_end"},
		{"SCALE", false, "end", "scale_end"},
		{"SCALE", true, "start", "scale_rollback_start"},
		{"TERMINATE", false, "start", "terminate_start"},
		{"HEAL", false, "start", "heal_start"},
		{"CHANGE_VNFPKG", false, "start", "change_current_package_start"},
		{"CHANGE_EXT_CONN", false, "start", "change_external_connectivity_start"},
		{"MODIFY_INFO", false, "end", "modify_information_end"},
		{"", false, "start", ""},
		{"UNHEARD_OF", false, "start", ""},
	} {
		if got := plan.HookName(tc.operation, tc.rollback, tc.side); got != tc.want {
			t.Errorf("HookName(%q, %v, %q) is %q, want %q", tc.operation, tc.rollback, tc.side, got, tc.want)
		}
	}
}

func TestStepKeysTellIncarnationsAndNumbersApart(t *testing.T) {
	steps := []plan.Step{
		{Action: plan.Apply, Object: "Deployment/amf/vdu1", To: 2},
		{Action: plan.Scale, Object: "Deployment/amf/vdu1", From: 1, To: 2},
		{Action: plan.Scale, Object: "Deployment/amf/vdu1", From: 1, To: 3},
		{Action: plan.Delete, Object: "Deployment/amf/vdu1", Incarnation: "u1"},
		{Action: plan.Delete, Object: "Deployment/amf/vdu1", Incarnation: "u2"},
		{Action: plan.Wait, Object: "Deployment/amf/vdu1"},
	}
	seen := map[plan.StepKey]plan.Step{}
	for _, s := range steps {
		if other, ok := seen[s.Key()]; ok {
			t.Errorf("%+v and %+v share the key %q", s, other, s.Key())
		}
		seen[s.Key()] = s
	}
	// Where it started from makes no difference: it is the same end.
	a, b := plan.Step{Action: plan.Scale, Object: "x", From: 1, To: 3}, plan.Step{Action: plan.Scale, Object: "x", From: 2, To: 3, Reason: "other"}
	if a.Key() != b.Key() {
		t.Errorf("the same scale has two keys: %q and %q", a.Key(), b.Key())
	}
}

// BenchmarkCompute plans an instance of 10 objects and 50 units: at rest, as a
// resync does it for every instance, and with a change of everything.
func BenchmarkCompute(b *testing.B) {
	var d plan.Desired
	var o plan.Observed
	for i := range 10 {
		key := fmt.Sprintf("Deployment/amf/vdu%d", i)
		d.Objects = append(d.Objects, plan.Object{Key: key, Wave: i / 5, Digest: "a"})
		d.Groups = append(d.Groups, plan.Group{VDU: key, Owner: key, Count: 5})
		o.Objects = append(o.Objects, plan.ObservedObject{Key: key, Incarnation: fmt.Sprint(i), Digest: "a", Count: 5, Ready: true})
		for u := range 5 {
			o.Units = append(o.Units, plan.Unit{Key: fmt.Sprintf("Pod/amf/vdu%d-%d", i, 4-u), ID: fmt.Sprint(i, u), Owner: key, Ready: true})
		}
	}
	run := func(name string, d plan.Desired, steps int) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := plan.Compute(d, o, plan.Journal{}); len(got) != steps {
					b.Fatalf("%d steps, want %d", len(got), steps)
				}
			}
		})
	}
	run("at rest", d, 0)
	changed := plan.Desired{Groups: d.Groups}
	for _, x := range d.Objects {
		x.Digest = "b"
		changed.Objects = append(changed.Objects, x)
	}
	run("all changed", changed, 20)
}
