package kubernetes_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

const everyWorkload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: set}
spec: {selector: {matchLabels: {app: set}}, template: {metadata: {labels: {app: set}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bare}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: no-vdu}
spec: {replicas: 2, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {schedule: "0 3 1 1 *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}
---
apiVersion: v1
kind: Service
metadata: {name: agent}
spec: {selector: {app: agent}, ports: [{port: 80}]}
`

// stopped is the same instance, stopped.
func stopped(src drivers.Source) drivers.Source {
	in := *src.Instance
	in.State = desired.Stopped
	src.Instance = &in
	return src
}

// resize changes the number of a Deployment's pods behind Jibe's back.
func resize(t *testing.T, api clientset.Interface, namespace, name string, n int32) {
	t.Helper()
	to := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	if _, err := api.AppsV1().Deployments(namespace).UpdateScale(t.Context(), name, to, metav1.UpdateOptions{FieldManager: "autoscaler"}); err != nil {
		t.Fatal(err)
	}
}

// Pods of a stopped VNF are gone, whatever made them, and come again with its start. The
// autoscaler leaves a workload without pods alone, and goes on when it has some.
func TestEveryKindOfWorkloadStopsAndStarts(t *testing.T) {
	c := newCluster(t)
	api, namespace := c.api(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, everyWorkload, sample.Workloads("web", "set", "agent", "bare"), map[string]int{"set_aspect": 1})
	d := c.connect(t)
	converge(t, d, src, true)
	ctx := t.Context()
	resize(t, api, namespace, "web", 4) // as an autoscaler does
	converge(t, d, src, true)
	service, err := api.CoreV1().Services(namespace).Get(ctx, "agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	converge(t, d, stopped(src), true)
	kit.Eventually(t, func() error {
		pods, err := api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("pod %s is still there", pods.Items[0].Name)
		}
		return err
	})
	if _, err := api.AppsV1().DaemonSets(namespace).Get(ctx, "agent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the DaemonSet is still there: %v", err)
	}
	if job, err := api.BatchV1().CronJobs(namespace).Get(ctx, "nightly", metav1.GetOptions{}); err != nil || job.Spec.Suspend == nil || !*job.Spec.Suspend {
		t.Errorf("the CronJob isn't suspended: %v", err)
	}
	now, err := api.CoreV1().Services(namespace).Get(ctx, "agent", metav1.GetOptions{})
	if err != nil || now.UID != service.UID || now.Spec.Selector["app"] != "agent" {
		t.Errorf("the Service was changed: %v, %v", now, err)
	}

	up := converge(t, d, src, true)
	count := map[string]int{}
	for _, u := range up.Units {
		count[u.VDU]++
	}
	if count["WEB"] < 1 || count["SET"] != 3 || count["AGENT"] < 1 || count["BARE"] != 1 {
		t.Errorf("units after the start: %v", count)
	}
	if other, err := api.AppsV1().Deployments(namespace).Get(ctx, "no-vdu", metav1.GetOptions{}); err != nil || *other.Spec.Replicas != 2 {
		t.Errorf("the Deployment without a VDU: %v, %v", other.Spec.Replicas, err)
	}
	if job, err := api.BatchV1().CronJobs(namespace).Get(ctx, "nightly", metav1.GetOptions{}); err != nil || job.Spec.Suspend != nil && *job.Spec.Suspend {
		t.Errorf("the CronJob is still suspended: %v", err)
	}
	if steps := plan.Compute(rendering(t, d, src).Desired, observe(t, d, rendering(t, d, src)), plan.Journal{}); len(steps) > 0 {
		t.Errorf("left to do after the start: %+v", steps)
	}
}

// Somebody who scales a workload of a stopped VNF up causes drift, which is put right.
func TestWhatSomebodyStartsOfAStoppedVNFIsStoppedAgain(t *testing.T) {
	c := newCluster(t)
	api, namespace := c.api(t), c.namespace(t)
	src := stopped(sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil))
	d := c.connect(t)
	converge(t, d, src, true)
	resize(t, api, namespace, "front", 2)
	kit.Eventually(t, func() error {
		want, steps := look(t, d, src)
		found, err := d.Examine(t.Context(), want, steps...)
		if err == nil && len(found) == 0 {
			err = errors.New("no drift is seen")
		}
		return err
	})
	if up := converge(t, d, src, true); len(up.Units) > 0 {
		t.Errorf("there are %+v", up.Units)
	}
}

// A pod gets the time that it asks for, or what the stop leaves it. Nobody ends the one here,
// as its node doesn't exist.
func TestAStopGivesPodsNoMoreTimeThanItHas(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	const manifests = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: slow}, spec: {selector: {matchLabels: {app: slow}}, template: {
  metadata: {labels: {app: slow}}, spec: {nodeName: nowhere, terminationGracePeriodSeconds: 600, containers: [{name: c, image: i}]}}}}`
	src := sample.Source(uuid.NewString(), namespace, manifests, sample.Workloads("slow"), nil)
	d := c.connect(t)
	var journal plan.Journal
	within := 5
	reach := func(src drivers.Source, seen func(plan.Unit) bool) {
		t.Helper()
		kit.Eventually(t, func() error {
			want := rendering(t, d, src)
			want.Within = &within
			o := observe(t, d, want)
			if len(o.Units) == 1 && seen(o.Units[0]) {
				return nil
			}
			steps := plan.Next(plan.Compute(want.Desired, o, journal))
			journal, _ = journal.Issue(steps)
			if len(steps) > 0 && steps[0].Action != plan.Wait {
				if err := d.Do(t.Context(), want, steps...); err != nil {
					return err
				}
			}
			return fmt.Errorf("seen: %+v; to do: %+v", o.Units, steps)
		})
	}
	reach(src, func(u plan.Unit) bool { return !u.Deleting })
	reach(stopped(src), func(u plan.Unit) bool { return u.Deleting && u.Grace == within })
	pods, err := c.api(t).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 || *pods.Items[0].DeletionGracePeriodSeconds != int64(within) {
		t.Fatalf("%v, %+v", err, pods)
	}
	within = 0
	kit.Eventually(t, func() error {
		want := rendering(t, d, stopped(src))
		want.Within = &within
		o := observe(t, d, want)
		if len(o.Units) == 0 {
			return nil
		}
		steps := plan.Next(plan.Compute(want.Desired, o, journal))
		return errors.Join(fmt.Errorf("still there: %+v", o.Units), d.Do(t.Context(), want, slices.DeleteFunc(steps, func(s plan.Step) bool { return s.Action == plan.Wait })...))
	})
}
