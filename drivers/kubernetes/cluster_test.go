package kubernetes_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/reconciler/plan"
	"github.com/jibe-vnfm/jibe/test/testenv"
	"github.com/jibe-vnfm/jibe/vnfd"
)

const patience = 60 * time.Second

func (c *cluster) api(t *testing.T) clientset.Interface {
	t.Helper()
	api, err := clientset.NewForConfig(testenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// eventually polls, as a cluster moves by itself.
func eventually(t *testing.T, done func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("gave up after %v: %v", patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func observe(t *testing.T, d drivers.Driver, src drivers.Source, want plan.Desired) plan.Observed {
	t.Helper()
	o, err := d.Observe(t.Context(), src, want)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// turn is one turn of the reconciler's loop.
func turn(t *testing.T, d drivers.Driver, src drivers.Source, exists bool, journal *plan.Journal) (plan.Observed, []plan.Step) {
	t.Helper()
	var want plan.Desired
	if exists {
		var err error
		if want, err = d.Render(src); err != nil {
			t.Fatal(err)
		}
	}
	o := observe(t, d, src, want)
	steps := plan.Compute(want, o, *journal)
	var todo []plan.Step
	for _, s := range plan.Next(steps) {
		journal.Issued = append(journal.Issued, s.Key())
		if s.Action != plan.Wait {
			todo = append(todo, s)
		}
	}
	if len(todo) > 0 {
		if err := d.Do(t.Context(), src, todo...); err != nil && !errors.Is(err, drivers.ErrUnavailable) {
			t.Fatalf("do %+v: %v", todo, err)
		}
	}
	return o, steps
}

// converge brings the instance up (or down) and sees to it that it goes in the end.
func converge(t *testing.T, d drivers.Driver, src drivers.Source, exists bool) plan.Observed {
	t.Helper()
	var o plan.Observed
	var journal plan.Journal
	eventually(t, func() error {
		seen, steps := turn(t, d, src, exists, &journal)
		o = seen
		for _, s := range steps {
			if s.Failure != "" {
				t.Fatalf("%s failed: %s", s.Object, s.Failure)
			}
		}
		if len(steps) > 0 {
			return fmt.Errorf("left to do: %+v", steps)
		}
		return nil
	})
	return o
}

// stuck brings the instance up until a wait says what the text asks for.
func stuck(t *testing.T, d drivers.Driver, src drivers.Source, says func(plan.Step) bool) plan.Step {
	t.Helper()
	var found plan.Step
	var journal plan.Journal
	eventually(t, func() error {
		_, steps := turn(t, d, src, true, &journal)
		for _, s := range steps {
			if s.Action == plan.Wait && says(s) {
				found = s
				return nil
			}
		}
		return fmt.Errorf("no such wait among %+v", steps)
	})
	return found
}

func count(o plan.Observed, vdu string) (n int) {
	for _, u := range o.Units {
		if u.VDU == vdu && !u.Deleting {
			n++
		}
	}
	return n
}

func TestEveryKindOfWorkloadRuns(t *testing.T) {
	c := newCluster(t)
	d := c.connect(t)
	files := os.DirFS("../../examples/packages/every-kind")
	pkg, err := vnfd.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	src := packaged(uuid.NewString(), c.namespace(t), files, pkg.VNFD, map[string]int{"web_aspect": 1})
	o := converge(t, d, src, true)
	for vdu, want := range map[string]int{"WEB": 3, "WEB_ADMIN": 1, "CACHE": 2, "STORE": 1, "PROBE": 1} {
		if n := count(o, vdu); n != want {
			t.Errorf("%d units of %s, want %d", n, vdu, want)
		}
	}
	if count(o, "AGENT") == 0 {
		t.Error("the DaemonSet has no units")
	}
	kinds := map[string]string{}
	for _, u := range o.Units {
		kinds[u.VDU] = u.Kind
		if u.Metadata["node"] == "" || u.Metadata["podIP"] == "" || u.Metadata["image"] == "" || u.Metadata["creationTime"] == "" {
			t.Errorf("unit without facts: %+v", u)
		}
		if strings.HasPrefix(u.Name, "web-admin") != (u.VDU == "WEB_ADMIN") {
			t.Errorf("pod %s is taken for VDU %s", u.Name, u.VDU)
		}
	}
	for vdu, want := range map[string]string{"WEB": "Deployment", "CACHE": "ReplicaSet", "STORE": "StatefulSet", "PROBE": "Pod", "AGENT": "DaemonSet"} {
		if kinds[vdu] != want {
			t.Errorf("units of %s are of kind %q, want %q", vdu, kinds[vdu], want)
		}
	}
	src = packaged(src.Instance.ID, src.Instance.Params["namespace"].(string), files, pkg.VNFD, map[string]int{"web_aspect": 2, "store_aspect": 1})
	o = converge(t, d, src, true)
	for vdu, want := range map[string]int{"WEB": 5, "CACHE": 3, "STORE": 2} {
		if n := count(o, vdu); n != want {
			t.Errorf("%d units of %s after scaling, want %d", n, vdu, want)
		}
	}
	converge(t, d, src, false)
}

const custom = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: radios.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Radio, plural: radios, singular: radio, listKind: RadioList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {cells: {type: integer}}}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE}
---
apiVersion: GROUP/v1
kind: Radio
metadata: {name: north}
spec: {cells: 3}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: door}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
apiVersion: v1
kind: Secret
metadata: {name: pin}
stringData: {pin: "1234"}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAMESPACE-reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAMESPACE-reader}
subjects: [{kind: ServiceAccount, name: robot}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: budget}
spec: {minAvailable: 1, selector: {matchLabels: {app: x}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaled}
spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: nobody}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: wall}
spec: {podSelector: {matchLabels: {app: x}}, policyTypes: [Ingress]}
`

// What a package brings of unusual kinds is found again by a process that has
// never seen the package, and is gone after terminate; definitions and
// namespaces stay.
func TestUnusualKindsAreFoundWithoutThePackage(t *testing.T) {
	c := newCluster(t)
	api := c.api(t)
	namespace := fmt.Sprintf("custom-%d", time.Now().UnixNano())
	manifests := strings.NewReplacer("GROUP", namespace+".example.com", "NAMESPACE", namespace).Replace(custom)
	t.Cleanup(func() {
		ctx := t.Context()
		_ = api.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	})
	src := source(uuid.NewString(), namespace, manifests, workloads(), nil)
	d := c.connect(t)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Verify(t.Context(), src, plan.Compute(want, observe(t, d, src, want), plan.Journal{})...); err != nil {
		t.Fatalf("Verify: %v", err)
	}
	up := converge(t, d, src, true)
	if len(up.Objects) != len(want.Objects) {
		t.Errorf("%d objects are observed, %d were rendered", len(up.Objects), len(want.Objects))
	}
	again := c.connect(t)
	if _, steps := turn(t, again, src, true, &plan.Journal{}); len(steps) > 0 {
		t.Errorf("a new process finds something to do: %+v", steps)
	}
	bare := src
	bare.Package = nil
	blind := observe(t, c.connect(t), bare, plan.Desired{})
	radio := "Radio." + namespace + ".example.com/" + namespace + "/north"
	if !slices.ContainsFunc(blind.Objects, func(x plan.ObservedObject) bool { return x.Key == radio }) {
		t.Errorf("a process without the package doesn't see %s: %+v", radio, blind.Objects)
	}
	converge(t, c.connect(t), bare, false)
	for _, x := range observe(t, c.connect(t), bare, plan.Desired{}).Objects {
		if x.Retention != plan.RetainAlways {
			t.Errorf("%s is left", x.Key)
		}
	}
	if _, err := api.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace went with the instance: %v", err)
	}
	// The next instance of the package uses the namespace and the definition that stand.
	next := source(uuid.NewString(), namespace, manifests, workloads(), nil)
	converge(t, d, next, true)
	next.Package = nil
	converge(t, d, next, false)
}

const withClaims = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: one}
spec:
  serviceName: one
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: jibe-test-none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

// bindClaims does what a provisioner does, as the test cluster has none.
func bindClaims(t *testing.T, api clientset.Interface, namespace string, n int) {
	t.Helper()
	eventually(t, func() error {
		claims, err := api.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(claims.Items) < n {
			return fmt.Errorf("%d claims, %v", len(claims.Items), err)
		}
		for _, claim := range claims.Items {
			if claim.Spec.VolumeName != "" {
				continue
			}
			volume := &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + claim.Name},
				Spec: corev1.PersistentVolumeSpec{
					Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
					AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
					PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}},
					ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID},
				},
			}
			if _, err := api.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return nil
	})
	t.Cleanup(func() {
		volumes, err := api.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return
		}
		for _, v := range volumes.Items {
			if strings.HasPrefix(v.Name, namespace+"-") {
				_ = api.CoreV1().PersistentVolumes().Delete(t.Context(), v.Name, metav1.DeleteOptions{})
			}
		}
	})
}

func TestScaleInKeepsClaimsAndTerminateDeletesThem(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	id := uuid.NewString()
	big := source(id, namespace, withClaims, workloads("one"), map[string]int{"one_aspect": 1})
	wait := stuck(t, d, big, func(s plan.Step) bool { return strings.Contains(s.Reason, "claim data-one-") })
	if wait.Failure != "" {
		t.Errorf("an unbound claim is called a failure: %+v", wait)
	}
	bindClaims(t, api, namespace, 3)
	if o := converge(t, d, big, true); count(o, "ONE") != 3 {
		t.Fatalf("%d units, want 3", count(o, "ONE"))
	}
	small := source(id, namespace, withClaims, workloads("one"), nil)
	o := converge(t, d, small, true)
	if n := count(o, "ONE"); n != 1 {
		t.Errorf("%d units after scale-in, want 1", n)
	}
	claims, err := api.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 3 {
		t.Errorf("%d claims after scale-in, want 3 (%v)", len(claims.Items), err)
	}
	converge(t, c.connect(t), small, false)
	claims, err = api.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 0 {
		t.Errorf("%d claims after terminate, want none (%v)", len(claims.Items), err)
	}
}

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
	eventually(t, func() error {
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
	src := source(uuid.NewString(), namespace, deployment("one", pause), workloads("one"), map[string]int{"one_aspect": 1})
	wait := stuck(t, d, src, func(s plan.Step) bool { return s.Failure != "" })
	if !strings.Contains(wait.Failure, "exceeded quota") || wait.Object != "Deployment/"+namespace+"/one" {
		t.Errorf("the failure doesn't tell of the quota: %+v", wait)
	}
	converge(t, d, src, false)
}

func TestAStatefulSetBeyondItsQuotaSaysWhy(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	limit(t, api, namespace, "0")
	manifest := strings.Replace(deployment("one", pause), "kind: Deployment", "kind: StatefulSet", 1)
	src := source(uuid.NewString(), namespace, manifest, workloads("one"), nil)
	wait := stuck(t, d, src, func(s plan.Step) bool { return strings.Contains(s.Reason, "exceeded quota") })
	if wait.Object != "StatefulSet/"+namespace+"/one" || wait.Failure != "" {
		t.Errorf("the wait should give the quota as its reason: %+v", wait)
	}
	converge(t, d, src, false)
}

func TestAPodWithoutANodeSaysWhy(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	src := source(uuid.NewString(), namespace, deployment("one", `nodeSelector: {no: where}, `+pause), workloads("one"), nil)
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
	src := source(uuid.NewString(), namespace, deployment("one", `nodeSelector: {no: where}, `+pause), workloads("one"), nil)
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
	src := source(uuid.NewString(), namespace, "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {mode: fast}}", workloads(), nil)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	steps := plan.Next(plan.Compute(want, observe(t, d, src, want), plan.Journal{}))
	for name, err := range map[string]error{"Verify": d.Verify(t.Context(), src, steps...), "Do": d.Do(t.Context(), src, steps...)} {
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

func TestAChangedFieldIsSeenAsDriftAndPutRight(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	src := source(uuid.NewString(), namespace, frontAndBack, twoVDUs(), nil)
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
		eventually(t, func() error {
			if _, steps := turn(t, d, src, true, &plan.Journal{}); len(steps) == 0 {
				return fmt.Errorf("%s: not noticed", name)
			}
			return nil
		})
		converge(t, d, src, true)
		m, err := api.CoreV1().ConfigMaps(namespace).Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil || m.Data["mode"] != "fast" {
			t.Errorf("%s: not put right: %+v, %v", name, m.Data, err)
		}
	}
	// What others add beside is theirs.
	if _, err := api.CoreV1().ConfigMaps(namespace).Patch(t.Context(), "settings", types.MergePatchType, []byte(`{"data":{"more":"x"}}`), metav1.PatchOptions{FieldManager: "person"}); err != nil {
		t.Fatal(err)
	}
	fresh := c.connect(t)
	if _, steps := turn(t, fresh, src, true, &plan.Journal{}); len(steps) != 0 {
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
			src := source(uuid.NewString(), ns, manifest, workloads(), nil)
			want, err := d.Render(src)
			if err != nil {
				t.Fatal(err)
			}
			steps := plan.Next(plan.Compute(want, plan.Observed{}, plan.Journal{}))
			for name, err := range map[string]error{"Verify": d.Verify(t.Context(), src, steps...), "Do": d.Do(t.Context(), src, steps...)} {
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
			src := source("i1", "ns", frontAndBack, twoVDUs(), nil)
			want, err := d.Render(src)
			if err != nil {
				t.Fatal(err)
			}
			steps := plan.Next(plan.Compute(want, plan.Observed{}, plan.Journal{}))
			_, observed := d.Observe(t.Context(), src, want)
			for name, err := range map[string]error{
				"Observe": observed, "Verify": d.Verify(t.Context(), src, steps...), "Do": d.Do(t.Context(), src, steps...),
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
	config := testenv.RestConfig(t)
	vim := drivers.VIM{Name: "powerless", Endpoint: config.Host, CACert: config.CAData, Token: "wrong"}
	d, err := kubernetes.New(vim, kubernetes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	src := source(uuid.NewString(), namespace, frontAndBack, twoVDUs(), nil)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Observe(t.Context(), src, want); !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("Observe = %v, want ErrUnavailable", err)
	}
}
