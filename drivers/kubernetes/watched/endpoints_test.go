package watched

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestASliceWakesAnInstanceOnlyWhileTwoGenerationsStand(t *testing.T) {
	c := NewCache(nil, nil, "", nil, slog.New(slog.DiscardHandler))
	k := &kindCache{cache: c, scope: scope{gk: manifest.KindSlice}, facts: map[string]*Fact{}}
	pods := &kindCache{cache: c, scope: scope{gk: manifest.KindPod}, facts: map[string]*Fact{}}
	c.kinds[scope{gk: manifest.KindSlice}], c.kinds[scope{gk: manifest.KindPod}] = k, pods
	woken := 0
	c.subscribe(func(string) { woken++ })
	slice := func(version int, ready bool) {
		t.Helper()
		if err := k.Update(sample.Object(t, fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,
			metadata: {name: web-x, namespace: n, uid: s, resourceVersion: '%d', labels: {%s: i, %s: web},
				ownerReferences: [{apiVersion: v1, kind: Service, name: web, uid: w, controller: true}]},
			endpoints: [{addresses: [10.0.0.1], conditions: {ready: %v}, targetRef: {kind: Pod, uid: a}}]}`, version, manifest.LabelInstance, labelService, ready))); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(name, generation string) {
		t.Helper()
		if err := pods.Update(sample.Object(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: n, uid: %[1]s, resourceVersion: '1', labels: {%s: i, %s: '%s'}}}",
			name, manifest.LabelInstance, manifest.LabelGeneration, generation))); err != nil {
			t.Fatal(err)
		}
	}
	pod("a", "0")
	woken = 0
	slice(1, false)
	slice(2, true)
	if woken != 0 {
		t.Errorf("with one generation slices woke the instance %d times", woken)
	}
	pod("b", "1")
	woken = 0
	slice(3, true)
	if woken != 0 {
		t.Error("a slice that says the same woke the instance")
	}
	slice(4, false)
	if woken != 1 {
		t.Errorf("a slice that changed woke the instance %d times", woken)
	}
}

// stage is what watches have brought of the instance "i" in the namespace "n".
type stage struct {
	t      *testing.T
	cache  *Cache
	render *manifest.Form
	now    int // the newest version
}

func newStage(t *testing.T, service string) *stage {
	t.Helper()
	c := NewCache(nil, nil, "", nil, slog.New(slog.DiscardHandler))
	for gk := range manifest.Kinds {
		c.kinds[scope{gk: gk}] = &kindCache{cache: c, scope: scope{gk: gk}, facts: map[string]*Fact{}, synced: true}
	}
	template := sample.Object(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {metadata: {labels: {app: web}}}}}")
	return &stage{t: t, cache: c, render: &manifest.Form{Objects: map[string]*unstructured.Unstructured{
		"Service/n/web": sample.Object(t, service), "Deployment/n/web": template,
	}}}
}

// brings has a watch bring the object, at a version that is newer than all before.
func (s *stage) brings(text string) {
	s.t.Helper()
	u := sample.Object(s.t, text)
	s.now++
	u.SetNamespace("n")
	u.SetResourceVersion(fmt.Sprint(s.now))
	u.SetUID(types.UID(u.GetKind() + u.GetName()))
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[manifest.LabelInstance] = "i"
	u.SetLabels(labels)
	gk := u.GroupVersionKind().GroupKind()
	if err := s.cache.kinds[scope{gk: gk}].Update(u); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) pods(generations ...string) {
	s.t.Helper()
	for _, g := range generations {
		s.brings(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: pod%s, labels: {app: web, %s: '%[1]s'}}}", g, manifest.LabelGeneration))
	}
}

func (s *stage) service(generation string) {
	s.t.Helper()
	s.brings(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {%s: x}}, spec: {selector: {app: web, %s: '%s'}}}", manifest.AnnotationDigest, manifest.LabelGeneration, generation))
}

// slice is one of the Service's controller with the pods of the generations.
func (s *stage) slice(name string, generations ...string) {
	s.t.Helper()
	endpoints := ""
	for _, g := range generations {
		endpoints += fmt.Sprintf("{conditions: {ready: true}, targetRef: {kind: Pod, uid: Podpod%s}},", g)
	}
	s.brings(fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %s, labels: {%s: web},
		ownerReferences: [{apiVersion: v1, kind: Service, name: web, uid: Serviceweb, controller: true}]}, endpoints: [%s]}`, name, labelService, endpoints))
}

// waitsFor is why the Service isn't ready for the generation, "" where it is.
func (s *stage) waitsFor(generation string) string {
	s.t.Helper()
	f := s.cache.Get(manifest.KindService, "Service/n/web")
	o := plan.ObservedObject{Ready: true}
	s.cache.switched(newView(s.cache.of("i")), s.render, generation, f, &o)
	if o.Ready != (o.Reason == "") {
		s.t.Errorf("ready is %v: %q", o.Ready, o.Reason)
	}
	return o.Reason
}

const webService = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}"

const followed = ", and requests may still be sent to where it did before"

func TestWhatTrafficWasSwitchedFromStaysUntilWhoeverSendsItHasFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, webService)
		woken := make(chan string, 99)
		s.pods("0", "1")
		s.service("0")
		s.slice("a", "0")
		s.slice("b", "0")
		kit.Pass(following)
		if why := s.waitsFor("0"); why != "" {
			t.Errorf("before anything moves: %s", why)
		}
		s.service("1")
		if why := s.waitsFor("1"); why != "its EndpointSlices still hold 2 addresses of generation 0" {
			t.Errorf("before the slices move: %q", why)
		}
		s.slice("a", "1")
		if why := s.waitsFor("1"); why != "its EndpointSlices still hold 1 address of generation 0" {
			t.Errorf("with one slice of two: %q", why)
		}
		kit.Pass(following) // the controller of slices is slow
		s.slice("b", "1")
		s.cache.subscribe(func(instance string) { woken <- instance })
		began := time.Now()
		if why := s.waitsFor("1"); why != "it directs traffic to generation 1"+followed {
			t.Errorf("when the last address has gone: %q", why)
		}
		if id := <-woken; id != "i" || time.Since(began) != following {
			t.Errorf("%s was woken after %v", id, time.Since(began))
		}
		// What comes, and what becomes ready or not, is nobody's loss.
		s.pods("1")
		s.slice("b", "1", "1")
		s.service("1")
		if why := s.waitsFor("1"); why != "" {
			t.Errorf("a while later: %s", why)
		}
	})
}

func TestAServiceThatIsSwitchedBackDoesNotTrustTheSlicesFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, webService)
		s.pods("0", "1")
		s.service("0")
		s.slice("a", "0")
		s.service("1")
		// Its controller hasn't written a slice yet, and may be about to write those of 1.
		s.service("0")
		if why := s.waitsFor("0"); why != "it directs traffic to generation 0"+followed {
			t.Errorf("switched back at once: %q", why)
		}
		kit.Pass(following)
		if why := s.waitsFor("0"); why != "" {
			t.Errorf("a while later: %s", why)
		}
	})
}

func TestOnlyPodsThatAServiceItselfSelectedAreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, webService)
		s.pods("0", "1")
		s.service("1")
		s.slice("a", "1")
		for name, target := range map[string]string{"none": "", "node": "targetRef: {kind: Node, uid: x}", "foreign": "targetRef: {kind: Pod, uid: y}"} {
			s.brings(fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %s, labels: {%s: web}}, endpoints: [{%s}]}", name, labelService, target))
		}
		kit.Pass(following)
		if why := s.waitsFor("1"); why != "" {
			t.Errorf("with addresses that others added: %s", why)
		}
		s.slice("b", "gone")
		if why := s.waitsFor("1"); why != "its EndpointSlices still hold 1 address of pods that are gone" {
			t.Errorf("with a pod that is gone: %q", why)
		}
	})
}

func TestAServiceThatIsANameForAnotherHostDirectsTrafficToNoPod(t *testing.T) {
	s := newStage(t, "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: ExternalName, externalName: example.com, selector: {app: web}}}")
	s.pods("0", "1")
	s.service("1")
	if why := s.waitsFor("1"); why != "" {
		t.Errorf("it waits for addresses: %s", why)
	}
}

func TestAServiceOfOnePodOfAStatefulSetWaitsForThatPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for pod, want := range map[string]string{
			"db-1-0": "its EndpointSlices hold no ready address of generation 1 yet",
			"db-1-7": "", // there is no such pod, so that nothing is to be waited for
		} {
			s := newStage(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {%s: %s, %s: '1'}}}", manifest.LabelPodName, pod, manifest.LabelGeneration))
			s.render.Objects["StatefulSet/n/db-1"] = sample.Object(t, fmt.Sprintf("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db-1}, spec: {template: {metadata: {labels: {%s: '1'}}}}}", manifest.LabelGeneration))
			s.brings(fmt.Sprintf("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db-1, annotations: {%s: x}}}", manifest.AnnotationDigest))
			s.brings(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: db-1-0, labels: {%s: '1'},
				ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db-1, uid: StatefulSetdb-1, controller: true}]},
				status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}}`, manifest.LabelGeneration))
			s.service("1")
			s.slice("a")
			kit.Pass(following)
			if why := s.waitsFor("1"); why != want {
				t.Errorf("of %s is said %q, want %q", pod, why, want)
			}
		}
	})
}

func TestASliceOfThePackageWakesAsAllOfItsObjectsDo(t *testing.T) {
	s := newStage(t, webService)
	woken := 0
	s.cache.subscribe(func(string) { woken++ })
	slice := fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: own, annotations: {%s: x}, labels: {%s: i}}, endpoints: []}", manifest.AnnotationDigest, manifest.LabelInstance)
	s.brings(slice)
	u := sample.Object(t, slice)
	u.SetNamespace("n")
	u.SetUID("EndpointSliceown")
	if err := s.cache.kinds[scope{gk: manifest.KindSlice}].Delete(u); err != nil || woken != 2 {
		t.Errorf("it woke the instance %d times, want when it came and went (%v)", woken, err)
	}
}

func TestADaemonSetAsksForAPodOfEachNode(t *testing.T) {
	f := FactOf("", manifest.KindDaemonSet, sample.Object(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d, labels: {%s: i}, annotations: {%s: x}},
		spec: {updateStrategy: {type: OnDelete}}, status: {desiredNumberScheduled: 3}}`, manifest.LabelInstance, manifest.AnnotationDigest)))
	v := newView([]*Fact{f})
	v.creationFailure = func(types.UID) creationFailure { return creationFailure{} }
	o := v.object(f)
	if o.Count != 3 || o.Keep != "" {
		t.Errorf("it is observed as %+v", o)
	}
	// Nobody scales it: the number is the cluster's.
	desired := plan.Desired{Objects: []plan.Object{{Key: f.Key, Digest: "x"}}, Groups: []plan.Group{{VDU: "D", Owner: f.Key, Free: true}}}
	pod := func(id, outdated string) plan.Unit {
		return plan.Unit{ID: id, Key: "Pod/n/" + id, Name: id, VDU: "D", Owner: f.Key, Ready: true, Outdated: outdated}
	}
	for _, x := range []struct {
		units []plan.Unit
		first plan.Action
	}{
		{[]plan.Unit{pod("a", "old"), pod("b", "old")}, plan.Wait}, // for the third
		{[]plan.Unit{pod("a", "old"), pod("b", "old"), pod("c", "")}, plan.DeleteUnit},
	} {
		steps := plan.Compute(desired, plan.Observed{Objects: []plan.ObservedObject{o}, Units: x.units}, plan.Journal{})
		if len(steps) == 0 || steps[0].Action != x.first {
			t.Errorf("with %d pods due is %v, want %s first", len(x.units), steps, x.first)
		}
		for _, step := range steps {
			if step.Action == plan.Scale {
				t.Errorf("with %d pods: %s", len(x.units), step)
			}
		}
	}
}

func TestAKindThatIsNotServedIsSaidToBeSo(t *testing.T) {
	c := NewCache(nil, nil, "", nil, slog.New(slog.DiscardHandler))
	if why, never := c.Unseen(manifest.KindSlice, "ns"); !never || !strings.Contains(why, "discovery.k8s.io") {
		t.Errorf("told is %q, %v", why, never)
	}
}

func TestWhatAWebhookMakesOfAnImageIsNotOutdated(t *testing.T) {
	pod := func(image, created, config string) *Fact {
		return FactOf("", manifest.KindPod, sample.Object(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: '%s', annotations: {%s: '%s'}},
			spec: {containers: [{name: c, image: '%s'}, {name: injected, image: x}]}}`, created, manifest.AnnotationConfig, config, image)))
	}
	owner := FactOf("", manifest.KindReplicaSet, sample.Object(t, `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r, managedFields: [
		{manager: jibe, operation: Apply, time: '2026-01-01T00:00:10Z', fieldsType: FieldsV1, fieldsV1: {'f:spec': {}}}]}}`))
	m := &manualOwner{owner: owner, atRender: true, config: "1", images: map[string]string{"c:c": "a:2"}}
	for _, x := range []struct {
		name, image, created, config, why string
		before                            bool // the owner has yet to be brought to its render
	}{
		{name: "as rendered", image: "a:2", created: "2026-01-01T00:00:05Z", config: "1"},
		{name: "made before the change", image: "a:1", created: "2026-01-01T00:00:05Z", config: "1", why: `its container c runs image "a:1", not "a:2"`},
		{name: "made after it, otherwise", image: "mirror/a:2", created: "2026-01-01T00:00:11Z", config: "1"},
		{name: "before the change is made", image: "a:1", created: "2026-01-01T00:00:11Z", config: "1", before: true, why: `its container c runs image "a:1", not "a:2"`},
		{name: "other config", image: "a:2", created: "2026-01-01T00:00:11Z", config: "0", why: "ConfigMaps or Secrets that it uses have changed"},
	} {
		m.atRender = !x.before
		if why := m.outdated(pod(x.image, x.created, x.config)); why != x.why {
			t.Errorf("%s: %q, want %q", x.name, why, x.why)
		}
	}
}
