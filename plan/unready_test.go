package plan_test

import (
	"testing"

	"github.com/jibe-vnfm/jibe/plan"
)

func TestOnlyUnitsThatDoNotRunAreUnready(t *testing.T) {
	want := plan.Desired{
		Objects: []plan.Object{{Key: "Workload/a/web", Digest: "2"}, {Key: "Config/a/web", Digest: "2"}, {Key: "Job/a/init", Once: true}},
		Groups: []plan.Group{
			{VDU: "VDU1", Owner: "Workload/a/web", Count: 2},
			{VDU: "VDU2", Owner: "Job/a/init", Free: true},
		},
	}
	unit := func(name string, ready bool) plan.Unit {
		return plan.Unit{ID: name, Key: "Unit/a/" + name, VDU: "VDU1", Owner: "Workload/a/web", Ready: ready, Reason: "ImagePullBackOff"}
	}
	web := plan.ObservedObject{Key: "Workload/a/web", Incarnation: "w", Digest: "1", Count: 2, Ready: true}
	for name, c := range map[string]struct {
		seen plan.Observed
		want string
	}{
		"nothing is there":                  {plan.Observed{}, "wait Workload/a/web (until it is ready)"},
		"one doesn't run":                   {plan.Observed{Objects: []plan.ObservedObject{web}, Units: []plan.Unit{unit("1", true), unit("2", false)}}, "wait Workload/a/web (1 of 2 units are ready: Unit/a/2: ImagePullBackOff)"},
		"one is missing":                    {plan.Observed{Objects: []plan.ObservedObject{web}, Units: []plan.Unit{unit("1", true)}}, "wait Workload/a/web (1 of 2 units are ready)"},
		"all run, and the object has drift": {plan.Observed{Objects: []plan.ObservedObject{web}, Units: []plan.Unit{unit("1", true), unit("2", true)}}, ""},
	} {
		got := ""
		for _, s := range plan.Unready(want, c.seen) {
			got += s.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
