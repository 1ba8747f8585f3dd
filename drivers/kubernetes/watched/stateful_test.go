package watched

import (
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

func TestAPodThatItsStatefulSetWaitsForInVainIsFound(t *testing.T) {
	t.Parallel()
	// Jibe changed the set at 10:00; its pods had the template d-1, and should have d-3.
	set := func(spec, status string) string {
		return "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: d, uid: d, generation: 3, annotations: {vnf.jibe.dev/digest: x}, managedFields: [" +
			"{manager: jibe, operation: Apply, time: '2026-01-01T10:00:00Z', fieldsV1: {'f:spec': {}}}]}, spec: {replicas: 3" + spec + "}, status: {" + status + "}}"
	}
	changed := "observedGeneration: 3, currentRevision: d-1, updateRevision: d-3"
	pod := func(name, template, status string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, uid: p, creationTimestamp: '2026-01-01T09:00:00Z', labels: {controller-revision-hash: %s}, "+
			"ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: d, uid: d, controller: true}]}, status: {%s}}", name, template, status)
	}
	since := func(clock string) string {
		return "phase: Running, conditions: [{type: Ready, status: 'False', lastTransitionTime: '2026-01-01T" + clock + ":00Z'}]"
	}
	const (
		pending = "phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable}]"
		loops   = "phase: Running, conditions: [{type: Ready, status: 'False', lastTransitionTime: '2026-01-01T10:05:00Z'}], containerStatuses: [{name: c, state: {waiting: {reason: CrashLoopBackOff}}}]"
		pulls   = "phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ImagePullBackOff}}}]"
		inits   = "phase: Pending, conditions: [{type: Ready, status: 'False', lastTransitionTime: '2026-01-01T10:05:00Z'}], initContainerStatuses: [{name: i, state: {running: {}}}]"
		ready   = "phase: Running, conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-01-01T09:00:00Z'}]"
	)
	partition := ", updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}"
	for _, c := range []struct {
		name, set, pod string
		blocks         bool
	}{
		{"abandoned, without a node", set("", changed), pod("d-0", "d-2", pending), true},
		{"abandoned, taken back to the template before", set("", "observedGeneration: 3, currentRevision: d-1, updateRevision: d-1"), pod("d-0", "d-2", pending), true},
		{"abandoned, without its image", set("", changed), pod("d-0", "d-2", pulls), true},
		{"abandoned, crashing", set("", changed), pod("d-0", "d-2", loops), true},
		{"abandoned, unready for a moment", set("", changed), pod("d-0", "d-2", since("10:05")), true},
		{"abandoned, ready", set("", changed), pod("d-0", "d-2", ready), false},
		{"never ready since the instantiation", set("", changed), pod("d-0", "d-1", pending), true},
		{"never through its init container", set("", changed), pod("d-0", "d-1", inits), true},
		{"unready before the change", set("", changed), pod("d-0", "d-1", since("09:30")), true},
		{"unready for a moment during the change", set("", changed), pod("d-0", "d-1", since("10:05")), false},
		{"crashing during the change", set("", changed), pod("d-0", "d-1", loops), true},
		{"ready, to be replaced by the controller", set("", changed), pod("d-0", "d-1", ready), false},
		{"of the present template", set("", changed), pod("d-0", "d-3", pending), false},
		{"of a set that replaces in parallel", set(", podManagementPolicy: Parallel", changed), pod("d-0", "d-2", pending), false},
		{"of a set that replaces nothing by itself", set(", podManagementPolicy: Parallel, updateStrategy: {type: OnDelete}", changed), pod("d-0", "d-2", pending), true},
		{"kept by the partition", set(partition, changed), pod("d-1", "d-1", pending), false},
		{"abandoned below the partition", set(partition, changed), pod("d-1", "d-2", pending), true},
		{"abandoned above the partition", set(partition, changed), pod("d-2", "d-2", pending), true},
		{"below a partition that counts from 1", set(partition+", ordinals: {start: 1}", changed), pod("d-2", "d-1", pending), false},
		{"of a set whose change isn't seen yet", set("", "observedGeneration: 2, currentRevision: d-1, updateRevision: d-2"), pod("d-0", "d-1", pending), false},
		{"of a set whose templates aren't known yet", set("", "observedGeneration: 3"), pod("d-0", "d-2", pending), false},
		{"ended, so that its controller replaces it", set("", changed), pod("d-0", "d-2", "phase: Failed"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var facts []*Fact
			for _, text := range []string{c.set, c.pod} {
				u := sample.Object(t, text)
				facts = append(facts, FactOf("", u.GroupVersionKind().GroupKind(), u))
			}
			pod := facts[1]

			blocks := newView(facts).blocks(pod)

			if (blocks != "") != c.blocks {
				t.Errorf("blocks as %q, want a reason: %v", blocks, c.blocks)
			}
		})
	}
}
