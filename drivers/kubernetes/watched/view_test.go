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
			v.creationFailure = func(types.UID) string { return "" }
			o := v.object(top)
			if fails := o.Failure != ""; fails != c.fails || !strings.Contains(o.Reason, "ImagePullBackOff") {
				t.Errorf("failure %q, reason %q; want a failure: %v, and the reason in any case", o.Failure, o.Reason, c.fails)
			}
		})
	}
}
