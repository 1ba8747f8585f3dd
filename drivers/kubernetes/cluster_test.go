package kubernetes_test

import (
	"errors"
	"fmt"
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
	clientset "k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func (c *cluster) api(t *testing.T) clientset.Interface {
	t.Helper()
	api, err := clientset.NewForConfig(kubeenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// rendering is what should exist of the source: nothing where it has no package.
func rendering(t *testing.T, d drivers.Driver, src drivers.Source) drivers.Rendering {
	t.Helper()
	if src.Package == nil {
		return drivers.Rendering{Source: src}
	}
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func observe(t *testing.T, d drivers.Driver, want drivers.Rendering) plan.Observed {
	t.Helper()
	o, err := d.Observe(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// turn is one turn of the reconciler's loop.
func turn(t *testing.T, d drivers.Driver, src drivers.Source, exists bool, journal *plan.Journal) (plan.Observed, []plan.Step) {
	t.Helper()
	want := drivers.Rendering{Source: src}
	if exists {
		want = rendering(t, d, src)
	}
	o := observe(t, d, want)
	steps := plan.Compute(want.Desired, o, *journal)
	var todo []plan.Step
	for _, s := range plan.Next(steps) {
		journal.Issued = append(journal.Issued, s.Key())
		if s.Action != plan.Wait {
			todo = append(todo, s)
		}
	}
	if len(todo) > 0 {
		if err := d.Do(t.Context(), want, todo...); err != nil && !errors.Is(err, drivers.ErrUnavailable) {
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
	kit.Eventually(t, func() error {
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
	kit.Eventually(t, func() error {
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
	src := sample.Packaged(uuid.NewString(), c.namespace(t), files, pkg.VNFD, map[string]int{"web_aspect": 1})
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
	src = sample.Packaged(src.Instance.ID, src.Instance.Params["namespace"].(string), files, pkg.VNFD, map[string]int{"web_aspect": 2, "store_aspect": 1})
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
	src := sample.Source(uuid.NewString(), namespace, manifests, sample.Workloads(), nil)
	d := c.connect(t)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Verify(t.Context(), rendering(t, d, src), plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})...); err != nil {
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
	blind := observe(t, c.connect(t), drivers.Rendering{Source: bare})
	radio := "Radio." + namespace + ".example.com/" + namespace + "/north"
	if !slices.ContainsFunc(blind.Objects, func(x plan.ObservedObject) bool { return x.Key == radio }) {
		t.Errorf("a process without the package doesn't see %s: %+v", radio, blind.Objects)
	}
	converge(t, c.connect(t), bare, false)
	for _, x := range observe(t, c.connect(t), drivers.Rendering{Source: bare}).Objects {
		if x.Retention != plan.RetainAlways {
			t.Errorf("%s is left", x.Key)
		}
	}
	if _, err := api.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace went with the instance: %v", err)
	}
	// The next instance of the package uses the namespace and the definition that stand.
	next := sample.Source(uuid.NewString(), namespace, manifests, sample.Workloads(), nil)
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
	kit.Eventually(t, func() error {
		claims, err := api.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(claims.Items) < n {
			return fmt.Errorf("%d claims, want %d", len(claims.Items), n)
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
	big := sample.Source(id, namespace, withClaims, sample.Workloads("one"), map[string]int{"one_aspect": 1})
	wait := stuck(t, d, big, func(s plan.Step) bool { return strings.Contains(s.Reason, "claim data-one-") })
	if wait.Failure != "" {
		t.Errorf("an unbound claim is called a failure: %+v", wait)
	}
	bindClaims(t, api, namespace, 3)
	if o := converge(t, d, big, true); count(o, "ONE") != 3 {
		t.Fatalf("%d units, want 3", count(o, "ONE"))
	}
	small := sample.Source(id, namespace, withClaims, sample.Workloads("one"), nil)
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
