package kubernetes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// beside puts a Deployment of the other generation beside the instance's "front", by
// hand: with as many pods, which any Service selects that selects those.
func beside(t *testing.T, api clientset.Interface, namespace, generation string) {
	t.Helper()
	front, err := api.AppsV1().Deployments(namespace).Get(t.Context(), "front", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "front-" + generation, Labels: front.Labels, Annotations: map[string]string{manifest.AnnotationDigest: "other"}},
		Spec:       front.Spec,
	}
	other.Labels[manifest.LabelGeneration] = generation
	other.Spec.Selector.MatchLabels[manifest.LabelGeneration] = generation
	other.Spec.Template.Labels[manifest.LabelGeneration] = generation
	if _, err := api.AppsV1().Deployments(namespace).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// redirected is what Render gives for the generation, where Services direct.
func redirected(t *testing.T, d drivers.Driver, src drivers.Source, generation string) drivers.Rendering {
	t.Helper()
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	want.Generation = generation
	for i, x := range want.Objects {
		want.Objects[i].Directs = strings.HasPrefix(x.Key, "Service/")
	}
	return want
}

func seen(t *testing.T, o plan.Observed, key string) plan.ObservedObject {
	t.Helper()
	for _, x := range o.Objects {
		if x.Key == key {
			return x
		}
	}
	t.Fatalf("%s isn't observed", key)
	return plan.ObservedObject{}
}

// says waits until the object is observed as it should be.
func says(t *testing.T, d drivers.Driver, want drivers.Rendering, key string, right func(plan.ObservedObject) bool) plan.ObservedObject {
	t.Helper()
	var x plan.ObservedObject
	kit.Eventually(t, func() error {
		if x = seen(t, observe(t, d, want), key); !right(x) {
			return fmt.Errorf("%s is %+v", key, x)
		}
		return nil
	})
	return x
}

func selects(t *testing.T, api clientset.Interface, namespace, service string, labels map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"selector": labels}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().Services(namespace).Patch(t.Context(), service, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAServiceIsReadyOnlyWhenItsSlicesHoldTheGenerationAlone(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), map[string]int{"front_aspect": 1})
	converge(t, d, src, true)
	want := redirected(t, d, src, "0")
	key := "Service/" + namespace + "/front"
	selects(t, api, namespace, "front", map[string]any{manifest.LabelGeneration: nil})
	if x := seen(t, observe(t, d, want), key); !x.Ready || x.Generation != "" {
		t.Fatalf("at rest the Service is %+v", x)
	}
	beside(t, api, namespace, "7")
	says(t, d, want, key, func(x plan.ObservedObject) bool {
		return !x.Ready && x.Reason == "its EndpointSlices still hold 2 addresses of generation 7" && x.Failure == ""
	})
	// Each kind has a watch of its own: slices may be seen before the Deployment, or its pods, are.
	var o plan.Observed
	kit.Eventually(t, func() error {
		o = observe(t, d, want)
		at := slices.IndexFunc(o.Objects, func(x plan.ObservedObject) bool { return x.Key == "Deployment/"+namespace+"/front-7" })
		if at < 0 || o.Objects[at].Generation != "7" || o.Objects[at].Keep != `{"replicas":2}` {
			return fmt.Errorf("the Deployment of the other generation isn't among %+v", o.Objects)
		}
		return nil
	})
	if x := seen(t, o, "Deployment/"+namespace+"/front"); x.Generation != "0" || x.Keep != "" {
		t.Errorf("the Deployment is %+v", x)
	}
	for _, u := range o.Units {
		want := "0"
		if strings.HasPrefix(u.Name, "front-7-") {
			want = "7"
		}
		if u.Generation != want {
			t.Errorf("%s is of generation %q, want %q", u.Key, u.Generation, want)
		}
	}
	// What was there needs nobody to ask for it: the change of the slice wakes the instance.
	e := listen(t, d)
	newPerson(t, namespace).caughtUp(t, e) // so it does listen
	selects(t, api, namespace, "front", map[string]any{manifest.LabelGeneration: "7"})
	says(t, d, redirected(t, d, src, "7"), key, func(x plan.ObservedObject) bool { return x.Ready })
	says(t, d, want, key, func(x plan.ObservedObject) bool {
		return x.Reason == "its EndpointSlices still hold 2 addresses of generation 7"
	})
	// An address of no pod (another cluster's) is of no generation.
	if _, err := api.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "far", Labels: map[string]string{discoveryv1.LabelServiceName: "front", manifest.LabelInstance: src.Instance.ID}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := e.of(src.Instance.ID)
	selects(t, api, namespace, "front", map[string]any{manifest.LabelGeneration: "0"})
	says(t, d, want, key, func(x plan.ObservedObject) bool { return x.Ready })
	kit.Eventually(t, func() error {
		if e.of(src.Instance.ID) < before+2 { // of the Service, and of its slice
			return errors.New("the slice woke nobody")
		}
		return nil
	})
	// A Service that leads nowhere while there are pods for it isn't ready either.
	slices, err := api.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=front"})
	if err != nil || len(slices.Items) == 0 {
		t.Fatalf("slices: %v, %v", slices, err)
	}
	selects(t, api, namespace, "front", map[string]any{"app": "nobody"})
	says(t, d, want, key, func(x plan.ObservedObject) bool {
		return !x.Ready && x.Reason == "its EndpointSlices hold no ready address of generation 0 yet"
	})
	converge(t, d, src, true) // which takes the other generation down
	converge(t, d, src, false)
}

func TestOneWatchOfSlicesServesAVIM(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	var asked atomic.Int64
	count := func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/endpointslices") {
			asked.Add(1)
		}
		return false
	}
	p.fault.Store(&count)
	d := p.connect(t)
	for range 3 {
		src := sample.Source(uuid.NewString(), c.namespace(t), sample.FrontAndBack, sample.TwoVDUs(), nil)
		converge(t, d, src, true)
		defer converge(t, d, src, false)
	}
	if n := asked.Load(); n < 1 || n > 3 { // a list that is a watch, or where there is none a list and a watch
		t.Errorf("EndpointSlices were asked for %d times", n)
	}
}

func TestWithoutEndpointSlicesOnlyABlueGreenChangeIsRefused(t *testing.T) {
	c := newCluster(t)
	p := newProxy(t)
	deny := func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/endpointslices") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"endpointslices.discovery.k8s.io is forbidden: User \"u\" cannot list resource"}`)
		return true
	}
	p.fault.Store(&deny)
	d, api, namespace := p.connect(t), c.api(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
	converge(t, d, src, true)
	want := redirected(t, d, src, "0")
	step := plan.Step{Action: plan.Apply, Object: "Service/" + namespace + "/front", From: -1, Directs: true}
	if err := d.Verify(t.Context(), rendering(t, d, src), step); err != nil {
		t.Errorf("a change of a Service with one generation: %v", err)
	}
	beside(t, api, namespace, "7")
	says(t, d, want, step.Object, func(x plan.ObservedObject) bool {
		return !x.Ready && strings.Contains(x.Reason, "let its credentials list and watch them") && x.Failure == ""
	})
	if o := converge(t, d, src, false); len(o.Units) > 0 {
		t.Errorf("units are left: %+v", o.Units)
	}
}

// scaledBy is a Deployment whose number of pods is an autoscaler's.
const scaledBy = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: NAME}
spec: {minReplicas: 1, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}}
`

func TestANewDeploymentBeginsWhereTheAutoscalerOfTheOldOneWasAndIsThenLeftToItsOwn(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	id := uuid.NewString()
	of := func(name string) drivers.Source {
		return sample.Source(id, namespace, strings.ReplaceAll(scaledBy, "NAME", name), sample.Workloads(name), nil)
	}
	converge(t, d, of("web"), true)
	scale(t, api, namespace, "web", 4)
	next := of("next")
	want, err := d.Render(next)
	if err != nil {
		t.Fatal(err)
	}
	old := says(t, d, want, "Deployment/"+namespace+"/web", func(x plan.ObservedObject) bool { return x.Keep == `{"replicas":4}` })
	step := plan.Step{Action: plan.Apply, Object: "Deployment/" + namespace + "/next", From: -1, Keep: old.Keep}
	if err := d.Do(t.Context(), rendering(t, d, next), step); err != nil {
		t.Fatal(err)
	}
	replicas := func() int32 {
		x, err := api.AppsV1().Deployments(namespace).Get(t.Context(), "next", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return *x.Spec.Replicas
	}
	if n := replicas(); n != 4 {
		t.Fatalf("the new Deployment begins with %d pods, want 4", n)
	}
	scale(t, api, namespace, "next", 6)
	says(t, d, want, "Deployment/"+namespace+"/next", func(x plan.ObservedObject) bool { return x.Count == 6 })
	for _, again := range []plan.Step{step, {Action: plan.Apply, Object: step.Object, From: 6}} {
		if err := d.Do(t.Context(), rendering(t, d, next), again); err != nil {
			t.Fatal(err)
		}
		if n := replicas(); n != 6 {
			t.Errorf("%+v fought the autoscaler: %d pods, want 6", again, n)
		}
	}
	converge(t, d, next, false)
}

func TestABarePodsImageChangesInPlace(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	id := uuid.NewString()
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: probe}
spec:
  terminationGracePeriodSeconds: 0
  initContainers: [{name: first, image: "registry.k8s.io/pause:3.9", restartPolicy: Always}]
  containers: [{name: c, image: "registry.k8s.io/pause:3.9"}]
`
	before := sample.Source(id, namespace, pod, sample.Workloads("probe"), nil)
	was := converge(t, d, before, true).Units[0]
	after := sample.Source(id, namespace, strings.ReplaceAll(pod, "3.9", "3.10"), sample.Workloads("probe"), nil)
	want, err := d.Render(after)
	if err != nil {
		t.Fatal(err)
	}
	if x := seen(t, observe(t, d, want), was.Key); x.Outgrown != "" {
		t.Fatalf("%s is outgrown: %s", x.Key, x.Outgrown)
	}
	converge(t, d, after, true)
	now, err := api.CoreV1().Pods(namespace).Get(t.Context(), "probe", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if string(now.UID) != was.ID {
		t.Errorf("the Pod was made anew: %s, was %s", now.UID, was.ID)
	}
	for _, list := range [][]corev1.Container{now.Spec.InitContainers, now.Spec.Containers} {
		if list[0].Image != "registry.k8s.io/pause:3.10" {
			t.Errorf("container %s runs %s", list[0].Name, list[0].Image)
		}
	}
	if u := observe(t, d, want).Units[0]; u.Metadata["image"] != "registry.k8s.io/pause:3.10" {
		t.Errorf("the unit tells of image %s", u.Metadata["image"])
	}
	converge(t, d, after, false)
}

const unreplaced = `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: cache}
spec:
  selector: {matchLabels: {app: cache}}
  template:
    metadata: {labels: {app: cache}}
    spec:
      terminationGracePeriodSeconds: 0
      initContainers: [{name: first, image: "a:1"}]
      containers: [{name: c, image: "a:1"}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  updateStrategy: {type: OnDelete}
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "b:1"}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  updateStrategy: {type: OnDelete}
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "d:1"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "e:1"}]}
`

func TestUnitsThatTheirOwnerDoesNotReplaceAreOutdated(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	id, vdus := uuid.NewString(), sample.Workloads("cache", "store", "agent", "web")
	before := sample.Source(id, namespace, unreplaced, vdus, nil)
	o := converge(t, d, before, true)
	was := map[string]bool{}
	for _, u := range o.Units {
		was[u.ID] = true
		if u.Outdated != "" {
			t.Errorf("%s is outdated at rest: %s", u.Key, u.Outdated)
		}
	}
	if len(was) < 5 {
		t.Fatalf("%d units", len(was))
	}
	made := time.Now().Unix() // the API server notes times by the second
	kit.Until(t, "the next second", func() bool { return time.Now().Unix() > made })
	changed := strings.NewReplacer(`first, image: "a:1"`, `first, image: "a:2"`, "b:1", "b:2", "d:1", "d:2", "e:1", "e:2").Replace(unreplaced)
	after := sample.Source(id, namespace, changed, vdus, nil)
	want, err := d.Render(after)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range observe(t, d, want).Units {
		reason := map[string]string{
			"CACHE": `its container first runs image "a:1", not "a:2"`, "STORE": `its container c runs image "b:1", not "b:2"`,
			"AGENT": `its container c runs image "d:1", not "d:2"`, // the Deployment replaces its pods itself
		}[u.VDU]
		if u.Outdated != reason {
			t.Errorf("%s is outdated as %q, want %q", u.Key, u.Outdated, reason)
		}
	}
	for _, u := range converge(t, d, after, true).Units {
		if was[u.ID] || u.Outdated != "" || !strings.HasSuffix(u.Metadata["image"], ":2") && u.VDU != "CACHE" {
			t.Errorf("%s wasn't replaced: %+v", u.Key, u)
		}
	}
	converge(t, d, after, false)
}

func TestTheAPIServerTakesALaterGeneration(t *testing.T) {
	c := newCluster(t)
	d := c.connect(t)
	src := sample.OfGeneration(sample.Source("generation-dry-run", c.namespace(t), sample.EveryKind, sample.Workloads("web", "db"), nil), "1")
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	var steps []plan.Step
	for _, x := range want.Objects {
		steps = append(steps, plan.Step{Action: plan.Apply, Object: x.Key})
	}
	if err := d.Verify(t.Context(), rendering(t, d, src), steps...); err != nil {
		t.Error(err)
	}
}
