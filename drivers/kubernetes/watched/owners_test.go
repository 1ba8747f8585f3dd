package watched

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// namedObjects is an API server that is asked for single objects alone, by "resource/name".
type namedObjects struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured
	asked   []string
	status  int // that every request for one is answered with, 0 for none
}

func (s *namedObjects) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(r.URL.Path, "/")
	key := strings.Join(parts[len(parts)-2:], "/")
	if key == "namespaces/kube-system" {
		return answer(r, map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": "kube-system", "uid": "cluster"}}), nil
	}

	s.asked = append(s.asked, key)
	found, status := s.objects[key], http.StatusNotFound
	if s.status != 0 {
		found, status = nil, s.status
	}
	if found == nil {
		resp := answer(r, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": strings.ReplaceAll(http.StatusText(status), " ", "")})
		resp.StatusCode = status
		return resp, nil
	}

	return answer(r, found.Object), nil
}

// answerWith has every request for an object answered with the status, and 0 as it should be.
func (s *namedObjects) answerWith(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// requests are those since the last call.
func (s *namedObjects) requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.asked = nil }()
	return strings.Join(s.asked, " ")
}

// everyKind finds the resource of a kind by its name.
type everyKind struct{}

func (everyKind) Find(gk schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	return &meta.RESTMapping{
		Resource: schema.GroupVersionResource{Group: gk.Group, Version: "v1", Resource: strings.ToLower(gk.Kind) + "s"}, GroupVersionKind: gk.WithVersion("v1"), Scope: meta.RESTScopeNamespace,
	}, nil
}

func (k everyKind) Renew(gk schema.GroupKind) (*meta.RESTMapping, error) { return k.Find(gk) }

// listed is a cache whose watches have brought the objects, and no others, of every kind.
func listed(t *testing.T, server http.RoundTripper, i manifest.Installation, objects ...*unstructured.Unstructured) *Cache {
	t.Helper()
	client, err := dynamic.NewForConfigAndClient(&rest.Config{Host: "https://cluster.example", QPS: -1}, &http.Client{Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	c := NewCache(client, everyKind{}, i, nil, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Close)
	for gk, info := range manifest.Kinds {
		if !info.Always {
			continue
		}
		k := &kindCache{cache: c, scope: scope{gk: gk}, facts: map[string]*Fact{}}
		c.kinds[scope{gk: gk}] = k
		var list []any
		for _, u := range objects {
			if u.GroupVersionKind().GroupKind() == gk {
				list = append(list, u)
			}
		}
		if err := k.Replace(list, "5"); err != nil {
			t.Fatal(err)
		}
	}

	return c
}

const (
	labelledI1    = "vnf.jibe.dev/instance: i1"
	appliedByA    = "managedFields: [{manager: jibe-a, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:replicas': {}}}}]"
	appliedByB    = "managedFields: [{manager: jibe-b, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:replicas': {}}}}]"
	writtenByHand = "managedFields: [{manager: kubectl, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:replicas': {}}}}]"
)

// workload has pods that carry the label of instance i1, and no label of its own.
func workload(t *testing.T, kind, name, metadata string) *unstructured.Unstructured {
	t.Helper()
	return sample.Object(t, fmt.Sprintf("apiVersion: apps/v1\nkind: %s\nmetadata: {name: %s, namespace: ns, uid: %[2]s, resourceVersion: '7', %s}\n"+
		"spec: {replicas: 1, template: {metadata: {labels: {%s}}}}\n", kind, name, metadata, labelledI1))
}

// made is a pod or ReplicaSet that the owner made.
func made(t *testing.T, kind, name, metadata, ownerKind, owner string) *unstructured.Unstructured {
	t.Helper()
	version := map[string]string{"Pod": "v1"}[kind]
	if version == "" {
		version = "apps/v1"
	}
	return sample.Object(t, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: ns, uid: %[3]s, resourceVersion: '4', labels: {vnf.jibe.dev/vdu: V, %s}, "+
		"ownerReferences: [{apiVersion: apps/v1, kind: %s, name: %s, uid: %[6]s, controller: true}]}\n"+
		"spec: {template: {metadata: {labels: {%s}}}}\nstatus: {phase: Running, conditions: [{type: Ready, status: 'True'}]}\n", version, kind, name, metadata, ownerKind, owner, labelledI1))
}

// found is what is observed of instance i1, where nothing of it should exist: objects and units.
func found(t *testing.T, c *Cache) string {
	t.Helper()
	o, err := c.Observe(t.Context(), "i1", plan.Desired{}, nil, nil, func(*Fact) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, x := range o.Objects {
		all = append(all, x.Key)
	}
	for _, u := range o.Units {
		all = append(all, u.Name+" of "+u.Owner)
	}
	slices.Sort(all)

	return strings.Join(all, ", ")
}

func TestPodsAreKnownByAnOwnerThatLostItsLabel(t *testing.T) {
	t.Parallel()
	replicas, pod := made(t, "ReplicaSet", "r", labelledI1, "Deployment", "d"), made(t, "Pod", "p", labelledI1, "ReplicaSet", "r")
	member := made(t, "Pod", "s-0", labelledI1, "StatefulSet", "s")
	for name, x := range map[string]struct {
		watched []*unstructured.Unstructured
		others  []*unstructured.Unstructured // that no watch brings
		a, b    string                       // what is the installation's
	}{
		"a Deployment": {
			[]*unstructured.Unstructured{replicas, pod}, []*unstructured.Unstructured{workload(t, "Deployment", "d", appliedByA)},
			"Deployment/ns/d, p of Deployment/ns/d", "",
		},
		"a Deployment and its ReplicaSet": {
			[]*unstructured.Unstructured{pod}, []*unstructured.Unstructured{workload(t, "Deployment", "d", appliedByA), made(t, "ReplicaSet", "r", "x: y", "Deployment", "d")},
			"Deployment/ns/d, p of Deployment/ns/d", "",
		},
		"a StatefulSet": {
			[]*unstructured.Unstructured{member}, []*unstructured.Unstructured{workload(t, "StatefulSet", "s", appliedByA)},
			"StatefulSet/ns/s, s-0 of StatefulSet/ns/s", "",
		},
		"one of another installation": {
			[]*unstructured.Unstructured{replicas, pod}, []*unstructured.Unstructured{workload(t, "Deployment", "d", appliedByB)},
			"", "Deployment/ns/d, p of Deployment/ns/d",
		},
		"one that says which installation's it is": {
			[]*unstructured.Unstructured{member}, []*unstructured.Unstructured{workload(t, "StatefulSet", "s", "labels: {vnf.jibe.dev/installation: b}, "+appliedByB)},
			"", "StatefulSet/ns/s, s-0 of StatefulSet/ns/s",
		},
		"one that is not Jibe's": {
			[]*unstructured.Unstructured{member}, []*unstructured.Unstructured{workload(t, "StatefulSet", "s", writtenByHand)}, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &namedObjects{objects: map[string]*unstructured.Unstructured{}}
			for _, u := range x.others {
				server.objects[strings.ToLower(u.GetKind())+"s/"+u.GetName()] = u
			}
			for i, want := range map[manifest.Installation]string{"a": x.a, "b": x.b} {
				if got := found(t, listed(t, server, i, x.watched...)); got != want {
					t.Errorf("installation %s sees %q, want %q", i, got, want)
				}
			}
		})
	}
}

func TestAnOwnerThatIsGoneIsAskedForOnce(t *testing.T) {
	t.Parallel()
	pod := made(t, "Pod", "p", labelledI1, "ReplicaSet", "r")
	successor := workload(t, "ReplicaSet", "r", "x: y")
	successor.SetUID("another")
	for name, server := range map[string]*namedObjects{
		"gone":             {},
		"another has it":   {objects: map[string]*unstructured.Unstructured{"replicasets/r": successor}},
		"it can't be read": {status: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := listed(t, server, "a", pod)
			for range 3 {
				if got := found(t, c); got != "p of " {
					t.Errorf("seen are %q, want the pod", got)
				}
			}
			if got := server.requests(); got != "replicasets/r" {
				t.Errorf("asked for %q", got)
			}
		})
	}
}

func TestAnOwnerThatCantBeReadHoldsItsInstanceAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &namedObjects{status: http.StatusInternalServerError}
		c := listed(t, server, "a", made(t, "Pod", "p", labelledI1, "ReplicaSet", "r"))
		observe := func(instance string) error {
			_, err := c.Observe(t.Context(), instance, plan.Desired{}, nil, nil, func(*Fact) bool { return false })
			return err
		}

		began := time.Now()
		for range 3 {
			kind, ok := errors.AsType[*drivers.UnlistedError](observe("i1"))
			if !ok || kind.Kind != "ReplicaSet" || !kind.Since.Equal(began) || !strings.Contains(kind.Error(), "read ReplicaSet/ns/r") {
				t.Fatalf("the instance with the pod: %+v", kind)
			}
			kit.Pass(time.Second)
		}
		if err := observe("i2"); err != nil {
			t.Errorf("another instance: %v", err)
		}

		server.answerWith(http.StatusUnauthorized)
		if err := observe("i1"); !drivers.Answered(err) {
			t.Errorf("refused credentials: %v", err)
		}
		server.answerWith(0)
		if err := observe("i1"); err != nil {
			t.Errorf("once it can be read: %v", err)
		}
	})
}

func TestAnOwnerWithoutItsLabelIsFollowedUntilItIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, member := workload(t, "StatefulSet", "s", appliedByA), made(t, "Pod", "s-0", labelledI1, "StatefulSet", "s")
		server := &namedObjects{objects: map[string]*unstructured.Unstructured{"statefulsets/s": set}}
		c := listed(t, server, "a", member)
		pods, sets := c.kinds[scope{gk: manifest.KindPod}], c.kinds[scope{gk: manifest.KindStatefulSet}]
		looks := 0
		t.Cleanup(c.subscribe(func(string) { looks++ }))
		if got := found(t, c); got != "StatefulSet/ns/s, s-0 of StatefulSet/ns/s" {
			t.Fatalf("seen are %q", got)
		}

		// A list, in which it can't be, and the end of its last pod don't have it forgotten.
		if err := sets.Replace(nil, "9"); err != nil {
			t.Fatal(err)
		}
		if err := pods.Delete(member); err != nil {
			t.Fatal(err)
		}
		if got := found(t, c); got != "StatefulSet/ns/s" {
			t.Errorf("seen are %q, want the owner, which still exists", got)
		}

		// While it is being deleted no watch tells, so it is looked at again.
		leaving := set.DeepCopy()
		leaving.SetResourceVersion("10")
		leaving.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		server.mu.Lock()
		server.objects["statefulsets/s"] = leaving
		server.mu.Unlock()
		found(t, c)
		looks = 0
		kit.Pass(leavingPause)
		synctest.Wait()
		if looks != 1 {
			t.Errorf("the instance was looked at %d times within %v, want once", looks, leavingPause)
		}
		server.mu.Lock()
		delete(server.objects, "statefulsets/s")
		server.mu.Unlock()
		if got := found(t, c); got != "" {
			t.Errorf("seen are %q, want nothing", got)
		}
	})
}

func TestAnOwnerThatHasItsLabelAgainIsNoStray(t *testing.T) {
	t.Parallel()
	set, member := workload(t, "StatefulSet", "s", appliedByA), made(t, "Pod", "s-0", labelledI1, "StatefulSet", "s")
	server := &namedObjects{objects: map[string]*unstructured.Unstructured{"statefulsets/s": set}}
	c := listed(t, server, "a", member)
	found(t, c)
	server.requests()

	labelled := set.DeepCopy()
	labelled.SetResourceVersion("8")
	labelled.SetLabels(map[string]string{manifest.LabelInstance: "i1", manifest.LabelInstallation: "a"})
	if err := c.kinds[scope{gk: manifest.KindStatefulSet}].Update(labelled); err != nil {
		t.Fatal(err)
	}

	if got := found(t, c); got != "StatefulSet/ns/s, s-0 of StatefulSet/ns/s" {
		t.Errorf("seen are %q", got)
	}
	if got := server.requests(); got != "" {
		t.Errorf("asked for %q, which the watch brings", got)
	}
}

// The answer to a look at an owner may come after its watch has deleted it.
func TestAnOwnerThatItsWatchDeletedStaysGone(t *testing.T) {
	t.Parallel()

	c := listed(t, &namedObjects{}, "")
	gk := schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	old := workload(t, "StatefulSet", "db", "labels: {"+labelledI1+"}")
	if err := c.kinds[scope{gk: gk}].Bookmark("9"); err != nil { // it had version 7, and was deleted by 9
		t.Fatal(err)
	}

	c.putStray("i1", owner{gk: gk, namespace: "ns", name: "db", uid: old.GetUID()}, old, func(*Fact) bool { return true })
	if c.Get(gk, manifest.Key(gk, "ns", "db")) != nil {
		t.Error("it is there again, and no watch will ever delete it")
	}
}
