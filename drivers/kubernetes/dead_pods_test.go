package kubernetes_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestABarePodThatFailedIsDeadAndReplaced(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	for name, status := range map[string]string{
		"disk pressure":                      `{"phase":"Failed","reason":"Evicted","message":"disk pressure"}`,
		"Pod was terminated":                 `{"phase":"Failed","reason":"Terminated","message":"Pod was terminated in response to imminent node shutdown."}`,
		"container c ended with exit code 3": `{"phase":"Failed","containerStatuses":[{"name":"c","ready":false,"restartCount":0,"image":"i","imageID":"","state":{"terminated":{"exitCode":3}}}]}`,
	} {
		src := sample.Source(uuid.NewString(), namespace, barePod, sample.Workloads("probe"), nil)
		wait := stuck(t, d, src, func(s plan.Step) bool { return strings.Contains(s.Reason, "Unschedulable") })
		end(t, api, namespace, "probe", status)
		want, err := d.Render(src)
		if err != nil {
			t.Fatal(err)
		}
		var dead plan.ObservedObject
		kit.Eventually(t, func() error {
			if dead = observe(t, d, want).Objects[0]; dead.Dead == "" {
				return fmt.Errorf("%s isn't dead: %+v", wait.Object, dead)
			}
			return nil
		})
		if !strings.Contains(dead.Dead, name) || dead.Failure != dead.Dead {
			t.Errorf("%s: dead %q, failure %q", name, dead.Dead, dead.Failure)
		}
		var journal plan.Journal
		kit.Eventually(t, func() error {
			o, steps := turn(t, d, src, true, &journal)
			if len(o.Objects) == 1 && o.Objects[0].Incarnation != dead.Incarnation {
				return nil
			}
			return fmt.Errorf("not replaced: %+v", steps)
		})
		converge(t, d, src, false)
	}
	src := sample.Source(uuid.NewString(), namespace, barePod, sample.Workloads("probe"), nil)
	stuck(t, d, src, func(s plan.Step) bool { return strings.Contains(s.Reason, "Unschedulable") })
	end(t, api, namespace, "probe", `{"phase":"Succeeded"}`)
	if o := converge(t, d, src, true); o.Objects[0].Dead != "" || !o.Objects[0].Ready {
		t.Errorf("a pod that did its work is dead: %+v", o.Objects[0])
	}
	converge(t, d, src, false)
}

const helpers = `
apiVersion: batch/v1
kind: Job
metadata: {name: backup}
spec: {template: {spec: {restartPolicy: Never, nodeSelector: {no: where}, containers: [{name: c, image: i}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: side}
spec:
  selector: {matchLabels: {app: side}}
  template: {metadata: {labels: {app: side}}, spec: {terminationGracePeriodSeconds: 0, nodeSelector: {no: where}, containers: [{name: c, image: i}]}}
`

func TestPodsThatAreNoVNFCsSayWhyTheyAreNotHealed(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, helpers, sample.Workloads(), nil)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	var journal plan.Journal
	var o plan.Observed
	others := func() map[string]string {
		found := map[string]string{}
		for _, u := range o.Others {
			found[u.Reason] = u.Name
		}
		return found
	}
	expect := func() map[string]string {
		found := map[string]string{}
		for _, reason := range []string{
			"pod of Job backup: Kubernetes runs Jobs to completion, they are not healed",
			"pod of Deployment side, for which no VDU of the VNFD stands: it is no VNFC",
		} {
			found[reason] = others()[reason]
		}
		return found
	}
	kit.Eventually(t, func() error {
		o, _ = turn(t, d, src, true, &journal)
		// The watch of pods may be ahead of that of their owners.
		if got := others(); len(o.Others) != 2 || !maps.Equal(got, expect()) || len(o.Units) != 0 {
			return fmt.Errorf("others %v, units %+v", got, o.Units)
		}
		return nil
	})
	for _, u := range o.Others {
		if u.Kind == "Job" {
			end(t, api, namespace, u.Name, `{"phase":"Succeeded"}`)
		}
	}
	kit.Eventually(t, func() error {
		for _, u := range observe(t, d, want).Others {
			if u.Kind == "Job" && u.Ready {
				return nil
			}
		}
		return errors.New("a pod that ended isn't told of any more")
	})
	converge(t, d, src, false)
}

func TestWhatHoldsADeletedObjectIsNamed(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	manifests := deployment("one", pause) + "---\n{apiVersion: v1, kind: Service, metadata: {name: door, finalizers: [example.com/door]}, spec: {ports: [{port: 80}]}}\n"
	src := sample.Source(uuid.NewString(), namespace, manifests, sample.Workloads("one"), nil)
	o := converge(t, d, src, true)
	pod := o.Units[0]
	hold := []byte(`{"metadata":{"finalizers":["example.com/held"]}}`)
	if _, err := api.CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.MergePatchType, hold, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	free := []byte(`{"metadata":{"finalizers":null}}`)
	if err := d.Do(t.Context(), rendering(t, d, src),
		plan.Step{Action: plan.DeleteUnit, Object: pod.Key, Incarnation: pod.ID},
		plan.Step{Action: plan.Delete, Object: "Service/" + namespace + "/door", Incarnation: incarnations(o, everything)["Service/"+namespace+"/door"]},
	); err != nil {
		t.Fatal(err)
	}
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		o := observe(t, d, want)
		for _, u := range o.Units {
			if u.ID == pod.ID && (!u.Deleting || !strings.Contains(u.Reason, "being deleted on node "+pod.Metadata["node"]+" since 20") || !strings.Contains(u.Reason, "held by finalizer example.com/held")) {
				return fmt.Errorf("unit %+v", u)
			}
		}
		for _, x := range o.Objects {
			if strings.HasSuffix(x.Key, "/door") && (!x.Deleting || !strings.Contains(x.Reason, "being deleted since 20") || !strings.Contains(x.Reason, "held by finalizer example.com/door")) {
				return fmt.Errorf("object %+v", x)
			}
		}
		return nil
	})
	if _, err := api.CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().Services(namespace).Patch(t.Context(), "door", types.MergePatchType, free, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	plain := sample.Source(src.Instance.ID, namespace, deployment("one", pause), sample.Workloads("one"), nil)
	converge(t, d, plain, true)
	converge(t, d, plain, false)
}

func TestExplainGivesTheLastEvent(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, deployment("one", `nodeSelector: {no: where}, `+pause), sample.Workloads("one"), nil)
	stuck(t, d, src, func(s plan.Step) bool { return strings.Contains(s.Reason, "Unschedulable") })
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	unit := observe(t, d, want).Units[0].Key
	for _, key := range []string{"Deployment/" + namespace + "/one", unit} {
		kit.Eventually(t, func() error {
			said := d.Explain(t.Context(), rendering(t, d, src), key)
			if !strings.Contains(said, "FailedScheduling: 0/") || !strings.Contains(said, " ago, from default-scheduler)") {
				return fmt.Errorf("%s: %q", key, said)
			}
			if strings.HasPrefix(said, unit) != (key != unit) {
				return fmt.Errorf("%s should name the pod unless it is asked for: %q", key, said)
			}
			return nil
		})
	}
	for _, key := range []string{"", "nonsense", "ConfigMap/" + namespace + "/none"} {
		if said := d.Explain(t.Context(), rendering(t, d, src), key); said != "" {
			t.Errorf("Explain(%q) = %q", key, said)
		}
	}
	if said := away(t, 500).(*kubernetes.Driver).Explain(t.Context(), rendering(t, d, src), unit); said != "" {
		t.Errorf("a VIM that fails explains %q", said)
	}
	converge(t, d, src, false)
}

func TestPodsThatWereLeftBehindByTheirDeletedOwnerGo(t *testing.T) {
	c := newCluster(t)
	statefulSets, deployments := appsv1.SchemeGroupVersion.WithResource("statefulsets"), appsv1.SchemeGroupVersion.WithResource("deployments")
	for name, x := range map[string]struct {
		kind schema.GroupVersionResource
		vdu  string
	}{"StatefulSet": {statefulSets, "one"}, "Deployment": {deployments, "one"}, "Deployment that is no VDU's": {deployments, "another"}} {
		t.Run(name, func(t *testing.T) {
			kind := x.kind
			d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
			pods := func() (uids []string) {
				t.Helper()
				list, err := api.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range list.Items {
					uids = append(uids, string(p.UID))
				}
				slices.Sort(uids)
				return uids
			}
			manifest := deployment("one", pause)
			if kind.Resource == "statefulsets" {
				manifest = strings.Replace(manifest, "kind: Deployment", "kind: StatefulSet", 1)
			}
			src := sample.Source(uuid.NewString(), namespace, manifest, sample.Workloads(x.vdu), nil)
			converge(t, d, src, true)
			before := pods()
			owners := dynamicClient(t).Resource(kind).Namespace(namespace)
			leaveBehind := func() {
				t.Helper()
				if err := owners.Delete(t.Context(), "one", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}); err != nil {
					t.Fatal(err)
				}
				kit.Eventually(t, func() error {
					if _, err := owners.Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
						return fmt.Errorf("the owner isn't gone: %w", err)
					}
					return nil
				})
			}
			leaveBehind()
			// One that is made anew takes them back.
			kit.Eventually(t, func() error {
				converge(t, d, src, true)
				if after := pods(); len(before) == 0 || !slices.Equal(before, after) {
					t.Fatalf("the pods are %v, and were %v: a successor takes back what was left", after, before)
				}
				owner, err := owners.Get(t.Context(), "one", metav1.GetOptions{})
				if err != nil || owner.GetDeletionTimestamp() != nil {
					return fmt.Errorf("the owner isn't made anew: %w", err)
				}
				return nil
			})
			leaveBehind()
			if o := converge(t, d, src, false); len(o.Units)+len(o.Objects) > 0 {
				t.Errorf("left at the cluster: %+v", o)
			}
			kit.Eventually(t, func() error { // the cluster takes away what they make
				sets, err := api.AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if left := pods(); len(sets.Items)+len(left) > 0 {
					return fmt.Errorf("%d ReplicaSets and %d pods run on", len(sets.Items), len(left))
				}
				return nil
			})
		})
	}
}
