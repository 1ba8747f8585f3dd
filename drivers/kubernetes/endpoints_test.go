package kubernetes

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestASliceWakesAnInstanceOnlyWhileTwoGenerationsStand(t *testing.T) {
	c := newCache(nil, nil, slog.New(slog.DiscardHandler))
	k := &kindCache{cache: c, gk: kindSlice, facts: map[string]*fact{}}
	pods := &kindCache{cache: c, gk: kindPod, facts: map[string]*fact{}}
	c.kinds[kindSlice], c.kinds[kindPod] = k, pods
	woken := 0
	c.subscribe(func(string) { woken++ })
	slice := func(version int, ready bool) {
		t.Helper()
		if err := k.Update(object(t, fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,
			metadata: {name: web-x, namespace: n, uid: s, resourceVersion: '%d', labels: {%s: i, %s: web},
				ownerReferences: [{apiVersion: v1, kind: Service, name: web, uid: w, controller: true}]},
			endpoints: [{addresses: [10.0.0.1], conditions: {ready: %v}, targetRef: {kind: Pod, uid: a}}]}`, version, LabelInstance, labelService, ready))); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(name, generation string) {
		t.Helper()
		if err := pods.Update(object(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: n, uid: %[1]s, resourceVersion: '1', labels: {%s: i, %s: '%s'}}}",
			name, LabelInstance, LabelGeneration, generation))); err != nil {
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

func TestAKindThatIsNotServedIsSaidToBeSo(t *testing.T) {
	c := newCache(nil, nil, slog.New(slog.DiscardHandler))
	if why, never := c.blind(kindSlice); !never || !strings.Contains(why, "discovery.k8s.io") {
		t.Errorf("told is %q, %v", why, never)
	}
}

func TestWhatAWebhookMakesOfAnImageIsNotOutdated(t *testing.T) {
	pod := func(image, created, config string) *fact {
		return factOf(kindPod, object(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: '%s', annotations: {%s: '%s'}},
			spec: {containers: [{name: c, image: '%s'}, {name: injected, image: x}]}}`, created, AnnotationConfig, config, image)))
	}
	owner := factOf(kindReplicaSet, object(t, `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r, managedFields: [
		{manager: jibe, operation: Apply, time: '2026-01-01T00:00:10Z', fieldsType: FieldsV1, fieldsV1: {'f:spec': {}}}]}}`))
	m := &mint{owner: owner, atRender: true, config: "1", images: map[string]string{"c:c": "a:2"}}
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
