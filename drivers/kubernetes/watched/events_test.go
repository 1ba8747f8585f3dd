package watched

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

func TestAnEventIsAFailureOnlyWhereItIsOfNow(t *testing.T) {
	t.Parallel()
	// Jibe changed the workload at 10:00.
	workload := func(kind, spec, status string) string {
		return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: d, uid: d, generation: 2, annotations: {vnf.jibe.dev/digest: x}, managedFields: ["+
			"{manager: jibe, operation: Apply, time: '2026-01-01T10:00:00Z', fieldsV1: {'f:spec': {}}}]}, spec: {%s}, status: {%s}}",
			map[bool]string{true: "batch/v1", false: "apps/v1"}[kind == "Job"], kind, spec, status)
	}
	pod := func(clock, status string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: d-0, uid: p, creationTimestamp: '2026-01-01T" + clock + ":00Z', " +
			"ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: d, uid: d, controller: true}]}, status: {" + status + "}}"
	}
	short := workload("StatefulSet", "replicas: 3", "observedGeneration: 2, replicas: 1")
	for _, c := range []struct {
		name     string
		objects  []string
		happened string // when the event did
		fails    bool
	}{
		{"after the change", []string{short}, "10:01", true},
		{"before the change", []string{short}, "09:59", false},
		{"after the newest pod", []string{short, pod("10:02", "phase: Running")}, "10:03", true},
		{"before the newest pod", []string{short, pod("10:02", "phase: Running")}, "10:01", false},
		{"of a StatefulSet that has all its pods", []string{workload("StatefulSet", "replicas: 1", "observedGeneration: 2, replicas: 1")}, "10:01", false},
		{"of a StatefulSet whose change isn't seen yet", []string{workload("StatefulSet", "replicas: 3", "observedGeneration: 1, replicas: 1")}, "10:01", false},
		{"of a DaemonSet", []string{workload("DaemonSet", "", "observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 1")}, "10:01", true},
		{"of a DaemonSet that has all its pods", []string{workload("DaemonSet", "", "observedGeneration: 2, desiredNumberScheduled: 2, currentNumberScheduled: 2")}, "10:01", false},
		{"of a Job", []string{workload("Job", "", "")}, "10:01", true},
		{"of a Job that runs", []string{workload("Job", "", "active: 1")}, "10:01", false},
		{"of a Job that is suspended", []string{workload("Job", "suspend: true", "")}, "10:01", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var facts []*Fact
			for _, text := range c.objects {
				u := sample.Object(t, text)
				facts = append(facts, FactOf("", u.GroupVersionKind().GroupKind(), u))
			}
			top := facts[0]
			v := newView(facts)
			v.creationFailure = newEvents(t, event("e1", c.happened, "exceeded quota")).of

			o := v.object(top)

			if (o.Failure != "") != c.fails || c.fails && !strings.Contains(o.Reason, "exceeded quota") {
				t.Errorf("failure %q, reason %q; want a failure: %v", o.Failure, o.Reason, c.fails)
			}
		})
	}
}

func TestTheLatestEventCountsUntilTheServerForgetsIt(t *testing.T) {
	t.Parallel()
	early, late := event("e1", "10:01", "exceeded quota"), event("e2", "10:02", "not permitted")

	c := newEvents(t, late, early)
	if said := c.of("d"); said.message != "not permitted" {
		t.Errorf("an event that came late counts: %q", said.message)
	}
	_ = c.Delete(sample.Object(t, early))
	if said := c.of("d"); said.message != "not permitted" {
		t.Errorf("an earlier event took it along: %q", said.message)
	}
	_ = c.Delete(sample.Object(t, late))
	if said := c.of("d"); said.message != "" {
		t.Errorf("it is still there: %q", said.message)
	}
}

func event(name, clock, message string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Event, metadata: {name: %s, namespace: ns, creationTimestamp: '2026-01-01T09:00:00Z'}, lastTimestamp: '2026-01-01T%s:00Z', "+
		"involvedObject: {apiVersion: apps/v1, kind: StatefulSet, namespace: ns, name: d, uid: d}, message: %s}", name, clock, message)
}

func newEvents(t *testing.T, texts ...string) *creationFailures {
	t.Helper()
	notified := 0
	c := newCreationFailures("", func(uid types.UID, key string) {
		if notified++; uid != "d" || key != "StatefulSet/ns/d" {
			t.Errorf("notified of %s %s", uid, key)
		}
	})
	for _, text := range texts {
		if err := c.Add(sample.Object(t, text)); err != nil {
			t.Fatal(err)
		}
		_ = c.Add(sample.Object(t, text)) // it is no news
	}
	if notified != 1 {
		t.Errorf("notified %d times", notified)
	}
	return c
}
