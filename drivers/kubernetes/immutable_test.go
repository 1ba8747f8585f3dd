package kubernetes_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
)

// verify asks of all steps that the journal leaves due.
func verify(t *testing.T, d *kubernetes.Driver, src drivers.Source, journal plan.Journal) ([]plan.Step, error) {
	t.Helper()
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	steps := plan.Compute(want.Desired, observe(t, d, want), journal)
	return steps, d.Verify(t.Context(), rendering(t, d, src), steps...)
}

const unchangeable = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, more: web}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: one}
spec:
  serviceName: one
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: jibe-test-none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

func TestAFieldThatCanNotChangeIsNamedBeforeAnythingMoves(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	id := uuid.NewString()
	before := sample.Source(id, namespace, unchangeable, sample.Workloads("web", "one"), nil)
	stuck(t, d, before, func(s plan.Step) bool { return strings.Contains(s.Reason, "claim data-one-") })
	bindClaims(t, api, namespace, 1)
	converge(t, d, before, true)
	for name, x := range map[string]struct {
		change         *strings.Replacer
		object, reason string
	}{
		"selector":             {strings.NewReplacer("{app: web}}\n  template", "{app: web, more: web}}\n  template"), "Deployment/" + namespace + "/web", "spec.selector: Invalid value"},
		"clusterIP":            {strings.NewReplacer("{selector: {app: web}", "{clusterIP: None, selector: {app: web}"), "Service/" + namespace + "/web", "spec.clusterIPs[0]: Invalid value"},
		"volumeClaimTemplates": {strings.NewReplacer("1Mi", "2Mi"), "StatefulSet/" + namespace + "/one", "updates to statefulset spec for fields other than"},
	} {
		after := sample.Source(id, namespace, x.change.Replace(unchangeable), sample.Workloads("web", "one"), nil)
		_, err := verify(t, d, after, plan.Journal{Operation: "CHANGE_VNFPKG"})
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || refused.Object != x.object || !strings.Contains(refused.Reason, x.reason) {
			t.Errorf("%s: %v, want %s: %s", name, err, x.object, x.reason)
		}
	}
	if _, steps := turn(t, d, before, true, &plan.Journal{}); len(steps) > 0 {
		t.Errorf("something moved: %+v", steps)
	}
	converge(t, d, before, false)
}

const outgrowing = `
apiVersion: v1
kind: Pod
metadata: {name: probe}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "registry.k8s.io/pause:3.9", env: [{name: A, value: "1"}]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "registry.k8s.io/pause:3.9", env: [{name: A, value: "1"}]}]
`

func TestAPodAndAJobThatAreOutgrownAreAskedForAsNewAndMadeAnew(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	id := uuid.NewString()
	before := sample.Source(id, namespace, outgrowing, sample.Workloads("probe"), nil)
	was := incarnations(converge(t, d, before, true), everything)
	// An image of a Pod can be changed; nothing can in a Job but what isn't its template.
	adjusted := sample.Source(id, namespace, strings.Replace(strings.Replace(outgrowing, "pause:3.9", "pause:3.10", 1), "spec:\n  template", "spec:\n  backoffLimit: 3\n  template", 1), sample.Workloads("probe"), nil)
	if steps, err := verify(t, d, adjusted, plan.Journal{}); err != nil || len(steps) == 0 {
		t.Errorf("steps %+v: %v", steps, err)
	}
	for key, now := range incarnations(converge(t, d, adjusted, true), everything) {
		if was[key] != now {
			t.Errorf("%s was made anew only because of an image or a number", key)
		}
	}
	// What is wrong with one that would be made anew is said of it as new, under its name.
	broken := sample.Source(id, namespace, strings.Replace(outgrowing, "{name: A,", `{name: "=",`, 1), sample.Workloads("probe"), nil)
	_, err := verify(t, d, broken, plan.Journal{})
	var refused *drivers.RefusedError
	if !errors.As(err, &refused) || refused.Object != "Pod/"+namespace+"/probe" || !strings.HasPrefix(refused.Reason, `Pod "probe" is invalid: spec.containers[0].env[0].name: Invalid value`) {
		t.Errorf("of a Pod that can't be made is said: %v", err)
	}
	after := sample.Source(id, namespace, strings.ReplaceAll(outgrowing, `value: "1"`, `value: "2"`), sample.Workloads("probe"), nil)
	steps, err := verify(t, d, after, plan.Journal{})
	if err != nil {
		t.Errorf("%+v: %v", steps, err)
	}
	for _, key := range []string{"Pod/" + namespace + "/probe", "Job/" + namespace + "/once"} {
		want, err := d.Render(after)
		if err != nil {
			t.Fatal(err)
		}
		if x := seen(t, observe(t, d, want), key); !strings.Contains(x.Outgrown, "made") {
			t.Errorf("%s is outgrown as %q", key, x.Outgrown)
		}
	}
	for key, now := range incarnations(converge(t, d, after, true), everything) {
		if was[key] == now {
			t.Errorf("%s wasn't made anew", key)
		}
	}
	converge(t, d, after, false)
}

const crowded = `
apiVersion: v1
kind: ResourceQuota
metadata: {name: one}
spec: {hard: {pods: "1"}}
---
apiVersion: v1
kind: Service
metadata: {name: probe}
spec: {type: NodePort, clusterIP: CLUSTERIP, selector: {app: probe}, ports: [{port: 80, nodePort: NODEPORT}]}
---
apiVersion: v1
kind: Pod
metadata: {name: probe, labels: {app: probe}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "registry.k8s.io/pause:3.9", env: [{name: A, value: "1"}]}]
`

// What an object has for itself alone is free when its successor comes.
func TestWhatIsMadeAnewIsNotRefusedForWhatItsPredecessorHas(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	id := uuid.NewString()
	free, err := api.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.CoreV1().Services(namespace).Delete(t.Context(), "probe", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	manifests := strings.NewReplacer("CLUSTERIP", free.Spec.ClusterIP, "NODEPORT", fmt.Sprint(free.Spec.Ports[0].NodePort)).Replace(crowded)
	src := sample.Source(id, namespace, manifests, sample.Workloads("probe"), nil)
	o := converge(t, d, src, true)
	after := sample.Source(id, namespace, strings.Replace(manifests, `value: "1"`, `value: "2"`, 1), sample.Workloads("probe"), nil)
	after.Instance.Condemned = incarnations(o, func(x plan.ObservedObject) bool { return strings.HasPrefix(x.Key, "Service/") })
	steps, err := verify(t, d, after, plan.Journal{})
	if err != nil {
		t.Errorf("%+v: %v", steps, err)
	}
	for _, key := range []string{"Service/" + namespace + "/probe", "Pod/" + namespace + "/probe"} {
		if !slices.ContainsFunc(steps, func(s plan.Step) bool { return s.Action == plan.Delete && s.Object == key }) {
			t.Errorf("%s isn't made anew: %+v", key, steps)
		}
	}
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	now := incarnations(observe(t, d, want), everything)
	for key, was := range incarnations(o, everything) {
		if now[key] != was {
			t.Errorf("%s moved", key)
		}
	}
	heal(t, d, after, after.Instance.Condemned)
	converge(t, d, after, false)
}
