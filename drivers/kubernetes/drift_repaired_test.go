package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// quietly looks a hundred times and wants nothing to do and nothing asked.
func quietly(t *testing.T, p *proxy, d *kubernetes.Driver, src drivers.Source) {
	t.Helper()
	calls := p.calls.Load()
	for range 100 {
		if _, steps := look(t, d, src); len(steps) > 0 {
			t.Fatalf("something is to do: %+v", steps)
		}
	}
	if n := p.calls.Load() - calls; n != 0 {
		t.Errorf("100 looks made %d requests", n)
	}
}

// cleared looks and examines, as a reconciler does at rest, until nothing is left; it
// returns the deviations that it was told on the way.
func cleared(t *testing.T, d *kubernetes.Driver, src drivers.Source) (told []drivers.Deviation) {
	t.Helper()
	kit.Eventually(t, func() error {
		want, steps := look(t, d, src)
		found, err := d.Examine(t.Context(), want, steps...)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, found...)
		if _, steps := look(t, d, src); len(steps) > 0 {
			return fmt.Errorf("left to do: %+v", steps)
		}
		return nil
	})
	return told
}

// apply is a second field manager.
func (p person) apply(t *testing.T, kind, name, content string) {
	t.Helper()
	force := false
	_, err := p.of(kind).Patch(t.Context(), name, types.ApplyPatchType, []byte(content), metav1.PatchOptions{FieldManager: "autopilot", Force: &force})
	if err != nil {
		t.Fatal(err)
	}
}

const autoscaler = `---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: front-back}
spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: front-back}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: helper}
spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: helper}}
`

func TestWhatOthersOwnIsNoDrift(t *testing.T) {
	c := newCluster(t)
	namespace := c.namespace(t)
	injecting(t, c, namespace)
	line, p := newProxy(t), newPerson(t, namespace)
	d := line.connect(t)
	src := sample.Source(uuid.NewString(), namespace, all+autoscaler, sample.TwoVDUs(), nil)
	converge(t, d, src, true)
	front := p.get(t, "Deployment", "front")
	if s := fmt.Sprint(front.Object); !strings.Contains(s, "mesh-proxy") || !strings.Contains(s, "mesh.example.com/status") || !strings.Contains(s, "mirror.example.com/pause") {
		t.Fatalf("the webhook changed nothing: %v", s)
	}
	quietly(t, line, d, src)

	// Another field manager, an autoscaler, and people who add what nobody rendered.
	p.apply(t, "Deployment", "front", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: front, annotations: {autopilot.example.com/x: "1"}, labels: {autopilot: "yes"}},
		spec: {revisionHistoryLimit: 3, template: {metadata: {labels: {autopilot: "yes"}}, spec: {containers: [{name: front, env: [{name: PILOT, value: auto}]}]}}}}`)
	p.apply(t, "Service", "front", `{apiVersion: v1, kind: Service, metadata: {name: front, annotations: {autopilot.example.com/x: "1"}},
		spec: {sessionAffinity: ClientIP, ports: [{name: extra, port: 99}]}}`)
	for _, change := range []func(context.Context) error{
		p.patch("ConfigMap", "settings", `{"data":{"more":"x"},"metadata":{"labels":{"more":"x"},"annotations":{"more":"x"}}}`),
		p.patch("Secret", "pin", `{"stringData":{"more":"x"}}`),
		p.patch("Deployment", "front", `{"spec":{"template":{"spec":{"containers":[{"name":"debug","image":"debug:1"},{"name":"front","env":[{"name":"DEBUG","value":"1"}]}]}}}}`),
		func(ctx context.Context) error {
			for _, x := range [][2]string{{"StatefulSet", "front-back"}, {"Deployment", "helper"}} {
				if _, err := p.of(x[0]).Patch(ctx, x[1], types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "kube-controller-manager"}, "scale"); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		if err := change(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if told := cleared(t, d, src); len(told) != 0 {
		t.Errorf("told is %v", told)
	}
	seen := func() error {
		want, steps := look(t, d, src)
		if len(steps) > 0 {
			_, err := d.Examine(t.Context(), want, steps...)
			return errors.Join(fmt.Errorf("left to do: %+v", steps), err)
		}
		if n := count(observe(t, d, want), "VDU2"); n != 3 {
			return fmt.Errorf("%d units of the autoscaled set", n)
		}
		return nil
	}
	kit.Eventually(t, seen)
	quietly(t, line, d, src)

	// A process that begins anew asks at most once, and not again.
	again := line.connect(t)
	if told := cleared(t, again, src); len(told) != 0 {
		t.Errorf("after a restart, told is %v", told)
	}
	quietly(t, line, again, src)

	// Drift beside all of that is reported alone, and repaired alone.
	if err := p.patch("Deployment", "front", `{"spec":{"template":{"spec":{"containers":[{"name":"front","image":"other:1"}]}}}}`)(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := examined(t, d, src, func(found []drivers.Deviation) bool { return len(found) > 0 })
	if len(found) != 1 || found[0].Field != "spec.template.spec.containers[name=front].image" || found[0].By != byHand ||
		found[0].Have != `"other:1"` || found[0].Want != `"mirror.example.com/pause:3.10"` {
		t.Errorf("told is %+v", found)
	}
	converge(t, d, src, true)
	front = p.get(t, "Deployment", "front")
	for _, kept := range []string{"mesh-proxy", "PILOT", "DEBUG", "debug:1", "mirror.example.com/pause:3.10", "autopilot.example.com/x"} {
		if !strings.Contains(fmt.Sprint(front.Object), kept) {
			t.Errorf("the repair removed %s", kept)
		}
	}
	quietly(t, line, d, src)
	converge(t, d, src, false)
}

func TestAFieldOfSomebodyElseWithTheRightValueIsClearedUntilItChanges(t *testing.T) {
	c := newCluster(t)
	line, namespace := newProxy(t), c.namespace(t)
	d, p := line.connect(t), newPerson(t, namespace)
	e := listen(t, d)
	src := sample.Source(uuid.NewString(), namespace, all, sample.TwoVDUs(), nil)
	converge(t, d, src, true)
	slow := p.patch("ConfigMap", "settings", `{"data":{"mode":"slow"}}`)
	// There and back before anybody looks.
	if err := errors.Join(slow(t.Context()), p.patch("ConfigMap", "settings", `{"data":{"mode":"fast"}}`)(t.Context())); err != nil {
		t.Fatal(err)
	}
	p.caughtUp(t, e)
	var want drivers.Rendering
	var steps []plan.Step
	version := p.get(t, "ConfigMap", "settings").GetResourceVersion()
	kit.Eventually(t, func() error {
		if want, steps = look(t, d, src); len(steps) == 0 {
			return errors.New("it isn't suspected")
		}
		return nil
	})
	calls := line.calls.Load()
	for range 10 {
		if found, err := d.Examine(t.Context(), want, steps...); err != nil || len(found) > 0 {
			t.Fatalf("Examine = %v, %v", found, err)
		}
	}
	// The watch may have shown the change on the way only.
	if n := line.calls.Load() - calls; n > 4 {
		t.Errorf("10 examinations made %d requests, want a look and a dry run of each version", n)
	}
	cleared(t, d, src)
	quietly(t, line, d, src)
	if now := p.get(t, "ConfigMap", "settings").GetResourceVersion(); now != version {
		t.Error("an examination changed the object")
	}
	if err := slow(t.Context()); err != nil {
		t.Fatal(err)
	}
	drifted := func(found []drivers.Deviation) bool { return len(found) == 1 && found[0].Field == "data.mode" }
	examined(t, d, src, drifted)
	// A drift that is only reported is asked for once, however often it is looked at.
	calls = line.calls.Load()
	for range 50 {
		if found := examined(t, d, src, drifted); found[0].By != byHand {
			t.Fatalf("told is %+v", found)
		}
	}
	if n := line.calls.Load() - calls; n != 0 {
		t.Errorf("50 examinations of one drift made %d requests", n)
	}
	converge(t, d, src, true)
	converge(t, d, src, false)
}

// caughtUp waits until the driver's watch has brought all that was done to ConfigMaps: it brings one after the other.
func (p person) caughtUp(t *testing.T, e *ears) {
	t.Helper()
	id := uuid.NewString()
	last := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": id, "labels": map[string]any{manifest.LabelInstance: id}}}}
	if _, err := p.of("ConfigMap").Create(t.Context(), last, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	looks := 0
	kit.Eventually(t, func() error {
		looks++ // and a change, as those who listen may have begun to after the last
		if err := p.patch("ConfigMap", id, fmt.Sprintf(`{"data":{"look":"%d"}}`, looks))(t.Context()); err != nil {
			return err
		}
		if e.of(id) == 0 {
			return errors.New("the watch hasn't brought the last ConfigMap yet")
		}
		return nil
	})
}

func TestOfManyDeviationsTheLastCountsTheOthers(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	p := newPerson(t, namespace)
	var data, change []string
	for i := range 30 {
		data, change = append(data, fmt.Sprintf("k%02d: v", i)), append(change, fmt.Sprintf(`"k%02d":%q`, i, strings.Repeat("x", 500)))
	}
	manifest := "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {" + strings.Join(data, ", ") + "}}"
	src := sample.Source(uuid.NewString(), namespace, manifest, sample.Workloads(), nil)
	converge(t, d, src, true)
	if err := p.patch("ConfigMap", "settings", `{"data":{`+strings.Join(change, ",")+`}}`)(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := examined(t, d, src, func(found []drivers.Deviation) bool { return len(found) > 0 })
	if len(found) != 20 || found[18].Field != "data.k18" || found[19].Field != "…" || !strings.Contains(found[19].Have, "11 more") {
		t.Errorf("%d deviations, of which the last are %+v", len(found), found[max(0, len(found)-2):])
	}
	if n := len([]rune(found[0].Have)); n > 120 {
		t.Errorf("a value of %d characters", n)
	}
	converge(t, d, src, false)
}

func TestAnObjectThatIsGoneDeadLeavingOrNotWantedIsReportedAsAWhole(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	p := newPerson(t, namespace)
	manifests := "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, finalizers: [example.com/hold]}}\n---\n" +
		"{apiVersion: v1, kind: Pod, metadata: {name: probe}, spec: {terminationGracePeriodSeconds: 0, " + pause + "}}\n"
	src := sample.Source(uuid.NewString(), namespace, manifests, sample.Workloads(), nil)
	converge(t, d, src, true)
	told := func(name string, want func(drivers.Deviation) bool) {
		t.Helper()
		examined(t, d, src, func(found []drivers.Deviation) bool { return len(found) == 1 && found[0].Field == "" && want(found[0]) })
	}

	stranger := p.get(t, "ConfigMap", "settings")
	extra := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "extra", Labels: stranger.GetLabels(), Annotations: stranger.GetAnnotations()}}
	if _, err := api.CoreV1().ConfigMaps(namespace).Create(t.Context(), extra, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	told("extra", func(x drivers.Deviation) bool {
		return x.Object == "ConfigMap/"+namespace+"/extra" && x.Have == "present" && x.Want == ""
	})
	converge(t, d, src, true)

	evicted := `{"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."}}`
	if _, err := api.CoreV1().Pods(namespace).Patch(t.Context(), "probe", types.StrategicMergePatchType, []byte(evicted), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	told("probe", func(x drivers.Deviation) bool {
		return x.Object == "Pod/"+namespace+"/probe" && strings.Contains(x.Have, "Evicted") && x.Want == "present"
	})
	converge(t, d, src, true)

	if err := p.delete("ConfigMap", "settings")(t.Context()); err != nil {
		t.Fatal(err)
	}
	told("settings", func(x drivers.Deviation) bool {
		return x.Object == "ConfigMap/"+namespace+"/settings" && strings.Contains(x.Have, "being deleted") && strings.Contains(x.Have, "example.com/hold") && x.Want == "present"
	})
	release := p.json("ConfigMap", "settings", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	if err := release(t.Context()); err != nil {
		t.Fatal(err)
	}
	told("settings", func(x drivers.Deviation) bool { return x.Have == "" && x.Want == "present" })
	converge(t, d, src, true)

	if err := release(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := examined(t, d, src, func(found []drivers.Deviation) bool { return len(found) == 1 })
	if found[0].Field != "metadata.finalizers[example.com/hold]" || found[0].Want != `"example.com/hold"` || found[0].Have != "" {
		t.Errorf("of a finalizer removed is told %+v", found)
	}
	gone := sample.Source(src.Instance.ID, namespace, strings.Replace(manifests, ", finalizers: [example.com/hold]", "", 1), sample.Workloads(), nil)
	converge(t, d, gone, false)
}

func TestOnlyItsOwnDigestProvesAnObjectTheInstances(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	p := newPerson(t, namespace)
	manifests := "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {a: b}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: two}, data: {a: b}}\n"
	src := sample.Source(uuid.NewString(), namespace, manifests, sample.Workloads(), nil)
	converge(t, d, src, true)
	copied := map[string]string{manifest.AnnotationDigest: p.get(t, "ConfigMap", "one").GetAnnotations()[manifest.AnnotationDigest]}
	if err := p.delete("ConfigMap", "two")(t.Context()); err != nil {
		t.Fatal(err)
	}
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "two", Annotations: copied}, Data: map[string]string{"a": "b"}}
	if _, err := api.CoreV1().ConfigMaps(namespace).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	found := examined(t, d, src, func(found []drivers.Deviation) bool { return len(found) > 0 })
	if len(found) != 1 || found[0].Object != "ConfigMap/"+namespace+"/two" || !strings.Contains(found[0].Have, "isn't this instance's") {
		t.Errorf("told is %+v", found)
	}
	_, steps := look(t, d, src)
	steps = slices.DeleteFunc(steps, func(s plan.Step) bool { return s.Action != plan.Apply })
	var refused *drivers.RefusedError
	if err := d.Do(t.Context(), rendering(t, d, src), steps...); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "not Jibe's") {
		t.Errorf("Do = %v, want a refusal", err)
	}
	if err := d.Verify(t.Context(), rendering(t, d, src), steps...); !errors.As(err, &refused) {
		t.Errorf("Verify = %v, want a refusal", err)
	}
	if err := p.delete("ConfigMap", "two")(t.Context()); err != nil {
		t.Fatal(err)
	}
	converge(t, d, src, true)
	converge(t, d, src, false)
}

func TestAnObjectThatWasGivenAnothersLabelIsNotDeletedButClaimedBack(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	p := newPerson(t, namespace)
	mine := sample.Source(uuid.NewString(), namespace, "{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}, data: {a: b}}", sample.Workloads(), nil)
	theirs := sample.Source(uuid.NewString(), namespace, "{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs}, data: {a: b}}", sample.Workloads(), nil)
	converge(t, d, mine, true)
	converge(t, d, theirs, true)
	before := p.get(t, "ConfigMap", "mine").GetUID()
	if err := p.patch("ConfigMap", "mine", `{"metadata":{"labels":{"vnf.jibe.dev/instance":"`+theirs.Instance.ID+`"}}}`)(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := examined(t, d, mine, func(found []drivers.Deviation) bool { return len(found) > 0 })
	if len(found) != 1 || found[0].Field != "metadata.labels[vnf.jibe.dev/instance]" || found[0].By != byHand {
		t.Errorf("told is %+v", found)
	}
	if _, steps := look(t, d, theirs); len(steps) > 0 {
		t.Errorf("the other instance would do %+v", steps)
	}
	converge(t, d, mine, true)
	settled(t, d, theirs)
	if after := p.get(t, "ConfigMap", "mine").GetUID(); after != before {
		t.Error("the object was made anew")
	}
	converge(t, d, mine, false)
	converge(t, d, theirs, false)
}

func TestAWorkloadWhoseLabelAPersonPutBackGoesWhenItIsNoLongerDesired(t *testing.T) {
	c := newCluster(t)
	d, namespace, id := c.connect(t), c.namespace(t), uuid.NewString()
	p := newPerson(t, namespace)
	settings, web, helper := sample.ConfigMap("cm", "a"), sample.Deployment("web", "cm"), sample.Deployment("helper", "cm")
	both := sample.Source(id, namespace, settings+"\n---\n"+web+"\n---\n"+helper, sample.Workloads("web", "helper"), nil)
	one := sample.Source(id, namespace, settings+"\n---\n"+web, sample.Workloads("web"), nil)
	converge(t, d, both, true)
	for _, label := range []string{"null", `"` + id + `"`} {
		if err := p.patch("Deployment", "helper", `{"metadata":{"labels":{"vnf.jibe.dev/instance":`+label+`}}}`)(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	kit.Eventually(t, func() error { // between the two changes nothing shows whose it is: the watch may have brought the first alone
		converge(t, d, one, true)
		if _, err := p.of("Deployment").Get(t.Context(), "helper", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the workload that is no longer desired stays (%w)", err)
		}
		return nil
	})
	converge(t, d, one, false)
}

func TestWhatAnApplyWouldBringFromOthersIsNotReported(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	p := newPerson(t, namespace)
	src := sample.Source(uuid.NewString(), namespace, all, sample.TwoVDUs(), nil)
	converge(t, d, src, true)
	change := p.patch("Deployment", "helper", `{"spec":{"template":{"spec":{"containers":[{"name":"helper","image":"other:1"}]}}}}`)
	if err := change(t.Context()); err != nil {
		t.Fatal(err)
	}
	injecting(t, c, namespace) // too late for what stands there
	found := examined(t, d, src, func(found []drivers.Deviation) bool { return len(found) > 0 })
	if len(found) != 1 || found[0].Field != "spec.template.spec.containers[name=helper].image" {
		t.Errorf("told is %+v", found)
	}
	converge(t, d, src, true)
	converge(t, d, src, false)
}
