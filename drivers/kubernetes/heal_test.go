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
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

const healable = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{name: http, port: 80}, {port: 81, protocol: UDP, name: other}]
---
apiVersion: v1
kind: Service
metadata: {name: one}
spec: {clusterIP: None, selector: {app: one}, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: mine}
spec: {storageClassName: jibe-test-none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: turn}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {minReplicas: 1, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: one}
spec:
  serviceName: one
  podManagementPolicy: Parallel
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: jibe-test-none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

// heal replaces the condemned incarnations as an operation would.
func heal(t *testing.T, d drivers.Driver, src drivers.Source, condemned map[string]string) plan.Observed {
	t.Helper()
	in := *src.Instance
	in.Condemned = condemned
	src.Instance = &in
	journal := plan.Journal{}
	var o plan.Observed
	kit.Eventually(t, func() error {
		want, err := d.Render(src)
		if err != nil {
			t.Fatal(err)
		}
		o = observe(t, d, want)
		steps := plan.Compute(want.Desired, o, journal)
		batch := plan.Next(steps)
		journal, _ = journal.Issue(batch)
		var todo []plan.Step
		for _, s := range batch {
			if s.Failure != "" {
				t.Fatalf("%s failed: %s", s.Object, s.Failure)
			}
			if s.Action != plan.Wait {
				todo = append(todo, s)
			}
		}
		if len(todo) > 0 {
			err := d.Do(t.Context(), rendering(t, d, src), todo...)
			var refused *drivers.RefusedError
			if err != nil && !errors.Is(err, drivers.ErrUnavailable) && !(errors.As(err, &refused) && refused.MayPass) {
				t.Fatalf("do %+v: %v", todo, err)
			}
		}
		if len(steps) > 0 {
			return fmt.Errorf("left to do: %+v", steps)
		}
		return nil
	})
	return o
}

func incarnations(o plan.Observed, which func(plan.ObservedObject) bool) map[string]string {
	found := map[string]string{}
	for _, x := range o.Objects {
		if which(x) {
			found[x.Key] = x.Incarnation
		}
	}
	return found
}

func everything(plan.ObservedObject) bool { return true }

func scale(t *testing.T, api clientset.Interface, namespace, name string, n int32) {
	t.Helper()
	now, err := api.AppsV1().Deployments(namespace).GetScale(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now.Spec.Replicas, now.ResourceVersion = n, "" // whatever its controller does meanwhile
	if _, err := api.AppsV1().Deployments(namespace).UpdateScale(t.Context(), name, now, metav1.UpdateOptions{FieldManager: "autoscaler"}); err != nil {
		t.Fatal(err)
	}
}

func TestAHealOfTheWholeKeepsAddressesDataAndWhatAnAutoscalerGave(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	id := uuid.NewString()
	big := sample.Source(id, namespace, healable, sample.Workloads("web", "one"), map[string]int{"one_aspect": 1})
	stuck(t, d, big, func(s plan.Step) bool {
		return strings.Contains(s.Object, "PersistentVolumeClaim/"+namespace+"/mine") || strings.Contains(s.Reason, "claim data-one-")
	})
	bindClaims(t, api, namespace, 4)
	if o := converge(t, d, big, true); count(o, "ONE") != 3 {
		t.Fatalf("%d units, want 3", count(o, "ONE"))
	}
	// Two claims are left behind by a scale-in, and still name the set as their owner.
	src := sample.Source(id, namespace, healable, sample.Workloads("web", "one"), nil)
	scale(t, api, namespace, "web", 4)
	kit.Eventually(t, func() error {
		if n := count(converge(t, d, src, true), "WEB"); n != 4 {
			return fmt.Errorf("%d units of the autoscaled Deployment, want 4", n)
		}
		return nil
	})
	before := converge(t, d, src, true)
	retention := map[string]plan.Retention{}
	for _, x := range before.Objects {
		retention[x.Key] = x.Retention
	}
	for key, want := range map[string]plan.Retention{
		"PersistentVolumeClaim/" + namespace + "/mine":       plan.RetainData,
		"ConfigMap/" + namespace + "/jibe-" + id:             plan.RetainWithInstance,
		"Service/" + namespace + "/web":                      plan.RetainNot,
		"Lease/" + namespace + "/turn":                       plan.RetainNot,
		"PersistentVolumeClaim/" + namespace + "/data-one-0": plan.RetainWithInstance,
		"PersistentVolumeClaim/" + namespace + "/data-one-2": plan.RetainWithInstance,
	} {
		if got, ok := retention[key]; !ok || got != want {
			t.Errorf("%s is there %v and has retention %q, want %q", key, ok, got, want)
		}
	}
	service, err := api.CoreV1().Services(namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := func(s *corev1.Service) string {
		return fmt.Sprint(s.Spec.ClusterIPs, s.Spec.IPFamilies, *s.Spec.IPFamilyPolicy, s.Spec.Ports)
	}

	condemned := incarnations(before, func(x plan.ObservedObject) bool { return x.Retention == plan.RetainNot })
	for round := range 2 {
		after := heal(t, d, src, condemned)
		now := incarnations(after, everything)
		for key, was := range incarnations(before, everything) {
			if condemned[key] != "" && now[key] == was {
				t.Errorf("round %d: %s was healed and is the same", round, key)
			}
			if condemned[key] == "" && now[key] != was {
				t.Errorf("round %d: %s should have been left: %s, now %s", round, key, was, now[key])
			}
		}
		if n := count(after, "WEB"); n != 4 {
			t.Errorf("round %d: %d units of the autoscaled Deployment, want 4", round, n)
		}
		healed, err := api.CoreV1().Services(namespace).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || spec(healed) != spec(service) {
			t.Errorf("round %d: addresses %s, now %s, %v", round, spec(service), spec(healed), err)
		}
		set, err := api.AppsV1().StatefulSets(namespace).Get(t.Context(), "one", metav1.GetOptions{})
		if err != nil || set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted != "Delete" {
			t.Errorf("round %d: the StatefulSet lost its policy: %+v, %v", round, set.Spec.PersistentVolumeClaimRetentionPolicy, err)
		}
		if _, steps := turn(t, c.connect(t), src, true, &plan.Journal{}); len(steps) > 0 {
			t.Errorf("round %d: a new process finds something to do: %+v", round, steps)
		}
		before = after
		condemned = incarnations(after, func(x plan.ObservedObject) bool { return x.Retention == plan.RetainNot })
	}

	// A later apply, of another render, carries nothing: the server must not give up
	// what Jibe set once.
	changed := strings.NewReplacer("port: 81", "port: 82", "image: i", "image: j").Replace(healable)
	next := sample.Source(id, namespace, changed, sample.Workloads("web", "one"), nil)
	if n := count(converge(t, d, next, true), "WEB"); n != 4 {
		t.Errorf("%d units of the autoscaled Deployment after a change, want 4", n)
	}
	now, err := api.CoreV1().Services(namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || !slices.Equal(now.Spec.ClusterIPs, service.Spec.ClusterIPs) || now.Spec.Ports[0].NodePort != service.Spec.Ports[0].NodePort {
		t.Errorf("addresses %s, after a change %s, %v", spec(service), spec(now), err)
	}
	deployment, err := api.AppsV1().Deployments(namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || *deployment.Spec.Replicas != 4 {
		t.Errorf("a change took the autoscaler's replicas away: %v, %v", deployment.Spec.Replicas, err)
	}

	converge(t, d, next, false)
	claims, err := api.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 0 {
		t.Errorf("%d claims after terminate, want none (%v)", len(claims.Items), err)
	}
	if _, err := api.CoreV1().ConfigMaps(namespace).Get(t.Context(), "jibe-"+id, metav1.GetOptions{}); err == nil {
		t.Error("the inventory outlived the instance")
	}
}

func TestAnAddressTakenMeanwhileIsNamed(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}", sample.Workloads(), nil)
	o := converge(t, d, src, true)
	kept := o.Objects[0].Keep
	converge(t, d, src, false)
	var was string
	for _, part := range strings.Split(kept, `"`) {
		if strings.Count(part, ".") == 3 {
			was = part
		}
	}
	thief := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "thief"}, Spec: corev1.ServiceSpec{ClusterIP: was, Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := api.CoreV1().Services(namespace).Create(t.Context(), thief, metav1.CreateOptions{}); err != nil {
		t.Fatalf("%s of %s: %v", was, kept, err)
	}
	err := d.Do(t.Context(), rendering(t, d, src), plan.Step{Action: plan.Apply, Object: "Service/" + namespace + "/web", From: -1, Keep: kept})
	var refused *drivers.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, was) || !strings.Contains(refused.Reason, "taken by another Service") {
		t.Errorf("Do = %v, want a refusal that tells of %s", err, was)
	}
	if err := api.CoreV1().Services(namespace).Delete(t.Context(), "thief", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		return d.Do(t.Context(), rendering(t, d, src), plan.Step{Action: plan.Apply, Object: "Service/" + namespace + "/web", From: -1, Keep: kept})
	})
	if o := converge(t, d, src, true); o.Objects[0].Keep != kept {
		t.Errorf("kept %s, now %s", kept, o.Objects[0].Keep)
	}
	converge(t, d, src, false)
}

func TestAServiceDeletedByHandComesBackUnderItsAddressUnlessThatIsTaken(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: NodePort, ports: [{port: 80}]}}", sample.Workloads(), nil)
	services := api.CoreV1().Services(namespace)
	converge(t, d, src, true)
	was, err := services.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	remove := func(before func()) {
		t.Helper()
		if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		before()
		want, err := d.Render(src)
		if err != nil {
			t.Fatal(err)
		}
		kit.Eventually(t, func() error {
			if o, err := d.Observe(t.Context(), want); err != nil || len(o.Left) == 0 {
				return fmt.Errorf("nothing is left of the Service: %+v, %w", o, err)
			}
			return nil
		})
		converge(t, d, src, true)
	}
	remove(func() {})
	now, err := services.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || now.UID == was.UID || now.Spec.ClusterIP != was.Spec.ClusterIP || now.Spec.Ports[0].NodePort != was.Spec.Ports[0].NodePort {
		t.Errorf("it came back as %+v (%v), not with %s and %d", now, err, was.Spec.ClusterIP, was.Spec.Ports[0].NodePort)
	}
	remove(func() {
		thief := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "thief"}, Spec: corev1.ServiceSpec{ClusterIP: was.Spec.ClusterIP, Ports: []corev1.ServicePort{{Port: 80}}}}
		kit.Eventually(t, func() error {
			_, err := services.Create(t.Context(), thief, metav1.CreateOptions{})
			return err
		})
	})
	if now, err = services.Get(t.Context(), "web", metav1.GetOptions{}); err != nil || now.Spec.ClusterIP == was.Spec.ClusterIP || now.Spec.ClusterIP == "" {
		t.Errorf("it came back as %+v (%v)", now, err)
	}
	converge(t, d, src, false)
}

const barePod = `{apiVersion: v1, kind: Pod, metadata: {name: probe}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, nodeSelector: {no: where}, containers: [{name: c, image: i}]}}`

// end writes what a kubelet would into the status of a pod.
func end(t *testing.T, api clientset.Interface, namespace, name, status string) {
	t.Helper()
	_, err := api.CoreV1().Pods(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}
