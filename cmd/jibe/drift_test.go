package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/reconciler"
)

var moment = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func contended() []reconciler.Drift {
	return []reconciler.Drift{{
		Instance: "i1", Dir: "instances/site-a/web", State: reconciler.DriftContended, Operation: "op1",
		Since: moment.Add(-125 * time.Second), Next: moment.Add(40 * time.Second),
		Deviations: []drivers.Deviation{
			{Object: "Deployment/demo/vdu1", Field: "spec.replicas", Want: "2", Have: "5", By: "kubectl-scale", At: moment.Add(-3 * time.Second)},
			{Object: "Service/demo/web", Want: "as rendered"},
		},
	}}
}

func linesOf(list []reconciler.Drift, now time.Time, wide bool) []string {
	var b strings.Builder
	driftTable(&b, &sheet{now: now, wide: wide}, list)
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestDriftIsShownFieldByFieldWithWhoAndSinceWhen(t *testing.T) {
	got := linesOf(contended(), moment, true)
	want := []string{
		"INSTANCE OBJECT FIELD WANT HAVE BY SINCE STATE INSTANCE ID OPERATION",
		"site-a/web Deployment/demo/vdu1 spec.replicas 2 5 kubectl-scale 3s (2026-05-04T03:01:58Z) fight, next repair in 40 s i1 op1",
		"site-a/web Service/demo/web (all of it) as rendered - - 2m5s (2026-05-04T02:59:56Z) fight, next repair in 40 s i1 op1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAWatchedDriftHasNoAgesThatWouldShowItAgainEverySecond(t *testing.T) {
	got := linesOf(contended(), time.Time{}, false)
	if want := "site-a/web Deployment/demo/vdu1 spec.replicas 2 5 kubectl-scale 2026-05-04T03:01:58Z fight, next repair at 2026-05-04T03:02:41Z"; got[1] != want {
		t.Errorf("got  %s\nwant %s", got[1], want)
	}
}

func TestGetDriftSaysWhenNothingHasDrifted(t *testing.T) {
	if got := output(t, map[string]any{"/jibe/v1/drift": []any{}}, "get", "drift"); got != "nothing has drifted\n" {
		t.Errorf("got %q", got)
	}
	if got := output(t, map[string]any{"/jibe/v1/drift": []any{}}, "get", "drift", "-o", "json"); got != "[]\n" {
		t.Errorf("got %q", got)
	}
}

func TestGetDriftOfANamedInstanceAsYAMLIsWhatTheServerSays(t *testing.T) {
	const known = "/vnflcm/v2/vnf_instances?fields=vnfInstanceName,jibe&filter="
	out := output(t, map[string]any{
		known + url.QueryEscape("(eq,id,'web')"):              []any{},
		known + url.QueryEscape("(eq,vnfInstanceName,'web')"): []any{map[string]any{"id": "i1"}},
		"/jibe/v1/drift?instance=i1":                          contended(),
	}, "get", "drift", "--instance", "web", "-o", "yaml")
	var got []reconciler.Drift
	if err := yaml.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Operation != "op1" || len(got[0].Deviations) != 2 || got[0].Deviations[0] != contended()[0].Deviations[0] {
		t.Errorf("got %+v", got)
	}
}

func TestAgesAreSaidAsPeopleDo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Minute:                  "0 s",
		400 * time.Millisecond:        "0 s",
		59 * time.Second:              "59 s",
		time.Minute:                   "1 min",
		125 * time.Second:             "2 min 5 s",
		2*time.Hour + 10*time.Minute:  "2 h 10 min",
		219*time.Hour + 5*time.Second: "9 d 3 h",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestInstancesCarryANoteOfWhatIsOutOfTheOrdinary(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`{}`, ""},
		{`{"jibe": {"driftPolicy": "correct"}}`, ""},
		{`{"jibe": {"suspended": true}}`, "suspended"},
		{`{"jibe": {"held": "op1"}}`, "held"},
		{`{"instantiatedVnfInfo": {"metadata": {"held": "op1"}}}`, "held"},
		{`{"jibe": {"driftPolicy": "report", "drifted": ["Deployment/demo/vdu1", "Service/demo/web"]}}`, "drifted (2), drift reported only"},
		{`{"jibe": {"suspended": true, "held": "op1", "drifted": ["a/b/c"]}}`, "suspended, held, drifted (1)"},
		{`{"jibe": "of another kind"}`, ""},
		{`{"jibe": {"drifted": "of another kind", "suspended": "yes"}}`, ""},
	} {
		var o object
		if err := json.Unmarshal([]byte(c.json), &o); err != nil {
			t.Fatal(err)
		}
		if got := note(o); got != c.want {
			t.Errorf("%s: %q, want %q", c.json, got, c.want)
		}
	}
}

func TestGetInstanceSaysWhatIsHeldAndWhatHasDrifted(t *testing.T) {
	odd := map[string]any{"id": "i1", "instantiationState": "INSTANTIATED",
		"jibe": map[string]any{"suspended": true, "held": "op7", "drifted": []string{"Service/demo/web"}}}
	sick := map[string]any{"id": "i2", "jibe": map[string]any{"problems": []any{map[string]any{
		"file": "instances/a/vnf.yaml", "message": "the package can't be used: " + strings.Repeat("a.yaml was changed; ", 9)}}}}
	if got := output(t, shownAs(sick), "get", "instance", "i2"); strings.Count(got, "a.yaml was changed") < 9 {
		t.Errorf("it doesn't tell all of the problem:\n%s", got)
	}
	got := output(t, shownAs(odd), "get", "instance", "i1")
	for _, want := range []string{"suspended, held, drifted (1)", "suspend: true", "jibe get operation op7", "Service/demo/web", "jibe get drift --instance i1"} {
		if !strings.Contains(got, want) {
			t.Errorf("it doesn't say %q:\n%s", want, got)
		}
	}
	got = output(t, listedAs(instancesPath, briefly, briefly+",instantiatedVnfInfo", odd), "get", "instances")
	if !strings.Contains(got, "NOTE") || !strings.Contains(got, "suspended, held, drifted (1)") {
		t.Errorf("the list has no note:\n%s", got)
	}
	plain := map[string]any{"id": "i1", "instantiationState": "INSTANTIATED"}
	if got := output(t, shownAs(plain), "get", "instance", "i1"); strings.Contains(got, "NOTE") {
		t.Errorf("there is nothing to note:\n%s", got)
	}
}
