package kubernetes_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

func deployment(name, podSpec string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec: {terminationGracePeriodSeconds: 0, %[2]s}
`, name, podSpec)
}

const pause = `containers: [{name: c, image: "registry.k8s.io/pause:3.10"}]`

// limit bounds the namespace's pods and returns when the bound is in force.
func limit(t *testing.T, api clientset.Interface, namespace, pods string) {
	t.Helper()
	_, err := api.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "tight"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse(pods)}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		q, err := api.CoreV1().ResourceQuotas(namespace).Get(t.Context(), "tight", metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			return errors.New("the quota isn't in force yet")
		}
		return err
	})
}

func TestAnExceededQuotaIsNamedAsTheFailure(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	limit(t, api, namespace, "1")
	src := sample.Source(uuid.NewString(), namespace, deployment("one", pause), sample.Workloads("one"), map[string]int{"one_aspect": 1})
	wait := stuck(t, d, src, func(s plan.Step) bool { return s.Failure != "" })
	if !strings.Contains(wait.Failure, "exceeded quota") || wait.Object != "Deployment/"+namespace+"/one" {
		t.Errorf("the failure doesn't tell of the quota: %+v", wait)
	}
	converge(t, d, src, false)
}

// TestAPodThatCanNotBeMadeIsAFailure has the kinds whose controllers say so in events only.
func TestAPodThatCanNotBeMadeIsAFailure(t *testing.T) {
	c := newCluster(t)
	api := c.api(t)
	of := func(kind, podSpec string) string {
		return strings.Replace(deployment("one", podSpec), "kind: Deployment", "kind: "+kind, 1)
	}
	invalid := `priorityClassName: nowhere, ` + pause
	job := strings.Replace("\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: work}\nspec: {template: {spec: {restartPolicy: Never, POD}}}\n", "POD", invalid, 1)
	for name, x := range map[string]struct{ manifest, pods, object, says string }{
		"StatefulSet beyond a quota":       {of("StatefulSet", pause), "0", "StatefulSet", "exceeded quota"},
		"DaemonSet beyond a quota":         {of("DaemonSet", pause), "0", "DaemonSet", "exceeded quota"},
		"StatefulSet that isn't permitted": {of("StatefulSet", invalid), "", "StatefulSet", "no PriorityClass"},
		"DaemonSet that isn't permitted":   {of("DaemonSet", invalid), "", "DaemonSet", "no PriorityClass"},
		"Job that isn't permitted":         {deployment("one", pause) + job, "", "Job", "no PriorityClass"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, namespace := c.connect(t), c.namespace(t)
			if x.pods != "" {
				limit(t, api, namespace, x.pods)
			}
			src := sample.Source(uuid.NewString(), namespace, x.manifest, sample.Workloads("one"), nil)

			wait := stuck(t, d, src, func(s plan.Step) bool { return s.Failure != "" })

			if !strings.HasPrefix(wait.Object, x.object+"/"+namespace+"/") || !strings.Contains(wait.Failure, x.says) {
				t.Errorf("the failure doesn't say why: %+v", wait)
			}
			converge(t, d, src, false)
		})
	}
}

func TestAPodWithoutANodeSaysWhy(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, deployment("one", `nodeSelector: {no: where}, `+pause), sample.Workloads("one"), nil)
	wait := stuck(t, d, src, func(s plan.Step) bool { return strings.Contains(s.Reason, "Unschedulable") })
	if wait.Failure != "" || !strings.Contains(wait.Reason, "one-") || !strings.Contains(wait.Reason, "nodes are available") {
		t.Errorf("the wait should name the pod and the scheduler's reason, and may end well: %+v", wait)
	}
	converge(t, d, src, false)
}

// A kubelet says so in the pod's status; the test writes what it would.
func TestAPodThatCannotStartIsAFailure(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, deployment("one", `nodeSelector: {no: where}, `+pause), sample.Workloads("one"), nil)
	stuck(t, d, src, func(s plan.Step) bool { return strings.Contains(s.Reason, "one-") })
	pods, err := api.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	patch := `{"status":{"containerStatuses":[{"name":"c","ready":false,"restartCount":0,"image":"i","imageID":"",
		"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image \"i\""}}}]}}`
	_, err = api.CoreV1().Pods(namespace).Patch(t.Context(), pods.Items[0].Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	wait := stuck(t, d, src, func(s plan.Step) bool { return s.Failure != "" })
	if !strings.Contains(wait.Failure, pods.Items[0].Name) || !strings.Contains(wait.Failure, "ImagePullBackOff") {
		t.Errorf("the failure should name the pod and why: %+v", wait)
	}
	converge(t, d, src, false)
}

func TestAForeignObjectIsNeverTaken(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"mode": "fast"}}
	if _, err := api.CoreV1().ConfigMaps(namespace).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	src := sample.Source(uuid.NewString(), namespace, "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {mode: fast}}", sample.Workloads(), nil)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	steps := plan.Next(plan.Compute(want.Desired, observe(t, d, want), plan.Journal{}))
	for name, err := range map[string]error{"Verify": d.Verify(t.Context(), rendering(t, d, src), steps...), "Do": d.Do(t.Context(), rendering(t, d, src), steps...)} {
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "not Jibe's") {
			t.Errorf("%s = %v, want a refusal", name, err)
		}
	}
	now, err := api.CoreV1().ConfigMaps(namespace).Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil || len(now.Labels)+len(now.Annotations) > 0 {
		t.Errorf("the foreign object was touched: %+v, %v", now, err)
	}
}

func TestAChangedFieldIsSeenAsDriftAndRepaired(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
	converge(t, d, src, true)
	for name, change := range map[string]func() error{
		"a value changed": func() error {
			_, err := api.CoreV1().ConfigMaps(namespace).Patch(t.Context(), "settings", types.MergePatchType, []byte(`{"data":{"mode":"slow"}}`), metav1.PatchOptions{FieldManager: "person"})
			return err
		},
		"a field removed": func() error {
			_, err := api.CoreV1().ConfigMaps(namespace).Patch(t.Context(), "settings", types.MergePatchType, []byte(`{"data":{"mode":null}}`), metav1.PatchOptions{FieldManager: "person"})
			return err
		},
		"an item of a list changed": func() error {
			_, err := api.CoreV1().Services(namespace).Patch(t.Context(), "front", types.StrategicMergePatchType, []byte(`{"spec":{"ports":[{"port":80,"name":"other"}]}}`), metav1.PatchOptions{FieldManager: "person"})
			return err
		},
		"an object deleted": func() error {
			return api.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "settings", metav1.DeleteOptions{})
		},
		"scaled by hand": func() error {
			_, err := api.AppsV1().Deployments(namespace).Patch(t.Context(), "front", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{FieldManager: "person"})
			return err
		},
	} {
		if err := change(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kit.Eventually(t, func() error {
			if _, steps := turn(t, d, src, true, &plan.Journal{}); len(steps) == 0 {
				return fmt.Errorf("%s: not noticed", name)
			}
			return nil
		})
		converge(t, d, src, true)
		m, err := api.CoreV1().ConfigMaps(namespace).Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil || m.Data["mode"] != "fast" {
			t.Errorf("%s: not repaired: %+v, %v", name, m.Data, err)
		}
	}
	// What others add beside is theirs.
	if _, err := api.CoreV1().ConfigMaps(namespace).Patch(t.Context(), "settings", types.MergePatchType, []byte(`{"data":{"more":"x"}}`), metav1.PatchOptions{FieldManager: "person"}); err != nil {
		t.Fatal(err)
	}
	fresh := c.connect(t)
	_, steps := turn(t, fresh, src, true, &plan.Journal{})
	// A pod that a change above left over may still be on its way out: that is waited for.
	if slices.ContainsFunc(steps, func(s plan.Step) bool { return s.Action != plan.Wait }) {
		t.Errorf("a field that nobody rendered is drift: %+v", steps)
	}
	converge(t, d, src, false)
}

func TestWhatTheServerRefusesNamesTheObject(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	for name, manifest := range map[string]string{
		"unknown kind":      "{apiVersion: nowhere.example.com/v1, kind: Nothing, metadata: {name: a}}",
		"unknown core kind": "{apiVersion: v1, kind: Nothing, metadata: {name: a}}",
		"unknown field":     "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dota: {a: b}}",
		"wrong type":        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: [a]}",
		"invalid value":     "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 0}]}}",
		"missing template":  "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}}}",
		"missing namespace": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: not-there}}",
	} {
		t.Run(name, func(t *testing.T) {
			ns := namespace
			if name == "missing namespace" {
				ns = ""
			}
			src := sample.Source(uuid.NewString(), ns, manifest, sample.Workloads(), nil)
			want, err := d.Render(src)
			if err != nil {
				t.Fatal(err)
			}
			steps := plan.Next(plan.Compute(want.Desired, plan.Observed{}, plan.Journal{}))
			for name, err := range map[string]error{"Verify": d.Verify(t.Context(), rendering(t, d, src), steps...), "Do": d.Do(t.Context(), rendering(t, d, src), steps...)} {
				var refused *drivers.RefusedError
				if !errors.As(err, &refused) || !strings.HasSuffix(refused.Object, "/a") {
					t.Errorf("%s = %v, want a refusal that names the object", name, err)
				}
			}
			converge(t, d, src, false)
		})
	}
}

func TestAVIMThatFailsIsUnavailable(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			d := away(t, status)
			src := sample.Source("i1", "ns", sample.FrontAndBack, sample.TwoVDUs(), nil)
			want, err := d.Render(src)
			if err != nil {
				t.Fatal(err)
			}
			steps := plan.Next(plan.Compute(want.Desired, plan.Observed{}, plan.Journal{}))
			_, observed := d.Observe(t.Context(), want)
			for name, err := range map[string]error{
				"Observe": observed, "Verify": d.Verify(t.Context(), rendering(t, d, src), steps...), "Do": d.Do(t.Context(), rendering(t, d, src), steps...),
			} {
				var refused *drivers.RefusedError
				if !errors.Is(err, drivers.ErrUnavailable) || errors.As(err, &refused) {
					t.Errorf("%s = %v, want ErrUnavailable", name, err)
				}
			}
		})
	}
}

func TestCredentialsWithoutRightsAreNoRefusalOfTheObject(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	config := kubeenv.RestConfig(t)
	vim := drivers.VIM{Name: "powerless", Endpoint: config.Host, CACert: config.CAData, Token: "wrong"}
	d, err := kubernetes.New(vim, kubernetes.Options{Egress: egress.Anywhere()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Observe(t.Context(), want); !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("Observe = %v, want ErrUnavailable", err)
	}
}
