package watched

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

// TestAPodOfAFormerTemplateIsNoFailure has a rollback in mind: the pods that failed are those of
// what was taken back, and a busy controller lets them stand for seconds.
func TestAPodOfAFormerTemplateIsNoFailure(t *testing.T) {
	deployment := func(generation, observed, revision int) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, uid: d, generation: %d, annotations: {vnf.jibe.dev/digest: x, deployment.kubernetes.io/revision: '%d'}}\n"+
			"spec: {replicas: 1}\nstatus: {observedGeneration: %d}", generation, revision, observed)
	}
	set := func(generation, observed int, template string) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: d, uid: d, generation: %d, annotations: {vnf.jibe.dev/digest: x}}\nspec: {replicas: 1}\n"+
			"status: {observedGeneration: %d, updateRevision: %s}", generation, observed, template)
	}
	replicas := "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: r, uid: r, annotations: {deployment.kubernetes.io/revision: '2'}, " +
		"ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: d, uid: d, controller: true}]}"
	pod := func(kind, owner string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: p, labels: {controller-revision-hash: d-2}, ownerReferences: [{apiVersion: apps/v1, kind: %s, name: %s, uid: %[2]s, controller: true}]}\n"+
			"status: {phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ImagePullBackOff}}}]}", kind, owner)
	}
	for _, c := range []struct {
		name    string
		objects []string
		fails   bool
	}{
		{"of the present template of a Deployment", []string{deployment(2, 2, 2), replicas, pod("ReplicaSet", "r")}, true},
		{"of a former one", []string{deployment(3, 3, 3), replicas, pod("ReplicaSet", "r")}, false},
		{"of a Deployment whose change its controller hasn't seen", []string{deployment(3, 2, 2), replicas, pod("ReplicaSet", "r")}, false},
		{"of the present template of a StatefulSet", []string{set(2, 2, "d-2"), pod("StatefulSet", "d")}, true},
		{"of a former one of it", []string{set(3, 3, "d-3"), pod("StatefulSet", "d")}, false},
		{"of a StatefulSet whose change its controller hasn't seen", []string{set(3, 2, "d-2"), pod("StatefulSet", "d")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var facts []*Fact
			for _, text := range c.objects {
				u := sample.Object(t, text)
				facts = append(facts, FactOf("", u.GroupVersionKind().GroupKind(), u))
			}
			top := facts[0]
			v := newView(facts)
			v.creationFailure = func(types.UID) creationFailure { return creationFailure{} }
			o := v.object(top)
			want := map[bool]string{true: "ImagePullBackOff", false: "former template"}[c.fails]
			if fails := o.Failure != ""; fails != c.fails || !strings.Contains(o.Reason, want) {
				t.Errorf("failure %q, reason %q; want a failure: %v, and a reason with %q", o.Failure, o.Reason, c.fails, want)
			}
		})
	}
}

// TestAWorkloadIsReadyOnceItsFormerPodsAreSeenToGo has two watches in mind that aren't in step: the
// workload's says that all is replaced, that of pods is behind.
func TestAWorkloadIsReadyOnceItsFormerPodsAreSeenToGo(t *testing.T) {
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, uid: d, generation: 2, labels: {vnf.jibe.dev/vdu: V}, annotations: {vnf.jibe.dev/digest: x, deployment.kubernetes.io/revision: '2'}}\n" +
		"spec: {replicas: 2}\nstatus: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2, conditions: [{type: Available, status: 'True'}]}"
	set := func(strategy string) string {
		return "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: d, uid: d, generation: 2, annotations: {vnf.jibe.dev/digest: x}}\n" +
			"spec: {replicas: 2, updateStrategy: " + strategy + "}\nstatus: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 2, currentReplicas: 2, currentRevision: d-2, updateRevision: d-2}"
	}
	replicas := func(revision int) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: r%d, uid: r%[1]d, annotations: {deployment.kubernetes.io/revision: '%[1]d'}, "+
			"ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: d, uid: d, controller: true}]}", revision)
	}
	pod := func(name, kind, owner, more, template string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: %[1]s, %s labels: {controller-revision-hash: %s, vnf.jibe.dev/vdu: V}, ownerReferences: [{apiVersion: apps/v1, kind: %s, name: %s, uid: %[5]s, controller: true}]}\n"+
			"status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}", name, more, template, kind, owner)
	}
	of := func(revision int, name string) string {
		return pod(name, "ReplicaSet", fmt.Sprintf("r%d", revision), "", "x")
	}
	leaving := pod("a", "ReplicaSet", "r1", "deletionTimestamp: 2026-01-01T00:00:00Z,", "x")
	member := func(name, template string) string { return pod(name, "StatefulSet", "d", "", template) }
	agent := func(strategy string) string {
		return "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d, uid: d, generation: 3, annotations: {vnf.jibe.dev/digest: x, deprecated.daemonset.template.generation: '3'}}\n" +
			"spec: {updateStrategy: " + strategy + "}\nstatus: {observedGeneration: 3, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberReady: 2, numberAvailable: 2}"
	}
	on := func(name, template, number string) string {
		return pod(name, "DaemonSet", "d", "", template+", pod-template-generation: '"+number+"'")
	}
	rolling, onDelete, partition := "{type: RollingUpdate}", "{type: OnDelete}", "{type: RollingUpdate, rollingUpdate: {partition: 1}}"
	for _, c := range []struct {
		name    string
		objects []string
		ready   bool
	}{
		{"all are new", []string{deployment, replicas(1), replicas(2), of(2, "b"), of(2, "c")}, true},
		{"a former one is being deleted", []string{deployment, replicas(1), replicas(2), leaving, of(2, "b"), of(2, "c")}, true},
		{"a former one isn't seen to go yet, and a new one isn't seen", []string{deployment, replicas(1), replicas(2), of(1, "a"), of(2, "b")}, false},
		{"a former one isn't seen to go yet", []string{deployment, replicas(1), replicas(2), of(1, "a"), of(2, "b"), of(2, "c")}, false},
		{"the new ReplicaSet isn't seen yet", []string{deployment, replicas(1), of(2, "b"), of(2, "c")}, true},
		{"all of a StatefulSet are new", []string{set(rolling), member("d-0", "d-2"), member("d-1", "d-2")}, true},
		{"a former one of a StatefulSet", []string{set(rolling), member("d-0", "d-1"), member("d-1", "d-2")}, false},
		{"a StatefulSet that keeps some by its partition", []string{set(partition), member("d-0", "d-1"), member("d-1", "d-2")}, true},
		{"a StatefulSet that leaves its pods alone", []string{set(onDelete), member("d-0", "d-1"), member("d-1", "d-1")}, true},
		{"all of a DaemonSet are new", []string{agent(rolling), on("a", "h3", "3"), on("b", "h3", "3")}, true},
		{"a former one of a DaemonSet", []string{agent(rolling), on("a", "h2", "2"), on("b", "h3", "3")}, false},
		{"a DaemonSet that went back has left a pod as it was", []string{agent(rolling), on("a", "h1", "1"), on("b", "h1", "3")}, true},
		{"a DaemonSet that went back before it had replaced any", []string{agent(rolling), on("a", "h1", "1"), on("b", "h1", "1")}, true},
		{"a DaemonSet that leaves its pods alone", []string{agent(onDelete), on("a", "h2", "2"), on("b", "h3", "3")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var facts []*Fact
			for _, text := range c.objects {
				u := sample.Object(t, text)
				facts = append(facts, FactOf("", u.GroupVersionKind().GroupKind(), u))
			}
			top := facts[0]
			v := newView(facts)
			v.creationFailure = func(types.UID) creationFailure { return creationFailure{} }
			if o := v.object(top); o.Ready != c.ready {
				t.Errorf("ready: %v (%s), want %v", o.Ready, o.Reason, c.ready)
			}
		})
	}
}
