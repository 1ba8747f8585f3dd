package watched

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// roleCluster is an API server whose credentials have rights in some namespaces alone, each a fakeCluster with
// ConfigMaps of the instance that has the namespace's name.
type roleCluster struct {
	in     map[string]*fakeCluster
	spaces map[string]*fakeCluster // the namespaces themselves

	mu        sync.Mutex
	anonymous bool            // the namespace kube-system may not be read
	denied    map[string]bool // namespaces in which the rights were taken away
	refused   []string        // requests that were
	selected  []string        // names by which namespaces were listed or watched
}

func newRoleCluster(namespaces ...string) *roleCluster {
	c := &roleCluster{in: map[string]*fakeCluster{}, spaces: map[string]*fakeCluster{}, denied: map[string]bool{}}
	for _, namespace := range namespaces {
		f := &fakeCluster{uid: "one", version: 100, objects: map[string]int{"x": 50, "y": 90}}
		f.item = func(object map[string]any) {
			metadata := object["metadata"].(map[string]any)
			metadata["namespace"], metadata["uid"] = namespace, namespace+metadata["name"].(string)
			metadata["labels"] = map[string]any{manifest.LabelInstance: namespace}
		}
		c.in[namespace] = f
		c.spaces[namespace] = &fakeCluster{uid: "one", version: 100, objects: map[string]int{namespace: 7}, item: func(object map[string]any) {
			object["kind"], object["status"] = "Namespace", map[string]any{"phase": "Active"}
			delete(object["metadata"].(map[string]any), "namespace")
		}}
	}
	return c
}

func (c *roleCluster) set(to func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to()
}

func (c *roleCluster) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, path, _ := strings.Cut(r.URL.Path, "/api/v1/")
	namespace, rest, inside := strings.Cut(strings.TrimPrefix(path, "namespaces/"), "/")
	switch name, named := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); {
	case path == "namespaces/kube-system" && !c.anonymous:
		return c.any().RoundTrip(r)
	case path == "namespaces" && named && c.in[name] != nil:
		c.selected = append(c.selected, name)
		return c.spaces[name].RoundTrip(r)
	case inside && rest != "" && c.in[namespace] != nil && !c.denied[namespace]:
		return c.in[namespace].RoundTrip(r)
	}
	c.refused = append(c.refused, r.Method+" "+r.URL.Path)
	said := answer(r, &metav1.Status{TypeMeta: statusType, Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "forbidden: " + r.URL.Path})
	said.StatusCode = http.StatusForbidden
	return said, nil
}

// any is one of the namespaces, all of which tell the same cluster.
func (c *roleCluster) any() *fakeCluster {
	for _, f := range c.in {
		return f
	}
	return nil
}

// byName finds kinds by their names.
type byName struct{}

func (byName) Find(gk schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	scope := meta.RESTScopeNamespace
	if gk == manifest.KindNamespace || gk == manifest.KindStorage {
		scope = meta.RESTScopeRoot
	}
	plural, _ := meta.UnsafeGuessKindToResource(gk.WithVersion("v1"))
	return &meta.RESTMapping{Resource: plural, GroupVersionKind: gk.WithVersion("v1"), Scope: scope}, nil
}

func (k byName) Renew(gk schema.GroupKind) (*meta.RESTMapping, error) { return k.Find(gk) }

// cache watches the namespaces. told returns which instances were notified since the last call.
func (c *roleCluster) cache(t *testing.T, namespaces ...string) (cache *Cache, told func() []string) {
	t.Helper()
	client, err := dynamic.NewForConfigAndClient(&rest.Config{Host: "https://cluster.example", QPS: -1}, &http.Client{Transport: AnswerOnce(c)})
	if err != nil {
		t.Fatal(err)
	}
	cache = NewCache(client, byName{}, "", namespaces, slog.New(slog.DiscardHandler))
	t.Cleanup(cache.Close)
	var mu sync.Mutex
	var all []string
	t.Cleanup(cache.subscribe(func(instance string) { mu.Lock(); all = append(all, instance); mu.Unlock() }))
	return cache, func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		was := all
		all = nil
		return was
	}
}

var configMaps = map[schema.GroupKind]bool{manifest.KindConfigMap: true}

// has returns the names of the ConfigMaps that are known in the namespace.
func has(c *Cache, namespace string) (found string) {
	for _, name := range []string{"x", "y", "z"} {
		if c.Get(manifest.KindConfigMap, "ConfigMap/"+namespace+"/"+name) != nil {
			found += name
		}
	}
	return found
}

func TestOnlyTheNamedNamespacesAreAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newRoleCluster("a", "b", "other")
		c, told := f.cache(t, "a", "b")

		if err := c.Sync(t.Context(), configMaps); err != nil {
			t.Fatal(err)
		}

		if has(c, "a") != "xy" || has(c, "b") != "xy" || has(c, "other") != "" {
			t.Errorf("known are %q, %q and %q", has(c, "a"), has(c, "b"), has(c, "other"))
		}
		told()
		f.in["a"].change(true, func() { f.in["a"].version = 110; f.in["a"].objects["z"] = 110 })
		kit.Pass(5 * time.Second)
		if got := told(); !slices.Equal(got, []string{"a"}) || has(c, "a") != "xyz" {
			t.Errorf("notified were %v of one change in namespace a, known are %q", got, has(c, "a"))
		}
		if n := len(c.of("a")); n != 3 {
			t.Errorf("the instance has %d objects, want each once", n)
		}
		if !c.Stands(t.Context(), "a") {
			t.Error("namespace a isn't known to stand")
		}
		f.set(func() {
			if len(f.refused) > 0 {
				t.Errorf("asked for more than there are rights to: %v", f.refused)
			}
			if !slices.Contains(f.selected, "a") || slices.Contains(f.selected, "other") {
				t.Errorf("namespaces were selected by %v", f.selected)
			}
		})
	})
}

func TestVersionsAreComparedInEachNamespace(t *testing.T) {
	t.Parallel()
	for name, anonymous := range map[string]bool{"": false, "where the cluster doesn't say which it is": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newRoleCluster("a", "b")
				f.anonymous = anonymous
				f.in["b"].version = 5000
				c, told := f.cache(t, "a", "b")
				if err := c.Sync(t.Context(), configMaps); err != nil {
					t.Fatal(err)
				}
				told()

				f.in["a"].change(true, func() { f.in["a"].version = 60; delete(f.in["a"].objects, "y") })
				kit.Pass(5 * time.Second)

				if has(c, "a") != "x" || has(c, "b") != "xy" {
					t.Errorf("known are %q and %q, want what the store has: x and xy", has(c, "a"), has(c, "b"))
				}
				if got := told(); !slices.Contains(got, "a") || slices.Contains(got, "b") {
					t.Errorf("notified were %v, want the instance in namespace a", got)
				}
			})
		})
	}
}

func TestEachNamespaceIsListedWithinTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newRoleCluster("a", "b")
		c, _ := f.cache(t, "a", "b")
		if err := c.Sync(t.Context(), configMaps); err != nil {
			t.Fatal(err)
		}

		f.in["b"].change(false, func() { f.in["b"].version = 120; delete(f.in["b"].objects, "y") }) // no watch tells
		kit.Pass(relistMost)

		if has(c, "b") != "x" {
			t.Errorf("known are %q, want x", has(c, "b"))
		}
		kit.Pass(time.Hour - relistMost)
		for name, in := range f.in {
			in.change(false, func() {
				if in.lists < 1+6 || in.lists > 1+9 {
					t.Errorf("namespace %s was listed %d times within an hour, want once every 7 to 10 minutes", name, in.lists)
				}
			})
		}
	})
}

func TestANamespaceOutOfSightConcernsItsInstances(t *testing.T) {
	t.Parallel()
	for name, anonymous := range map[string]bool{"": false, "where the cluster doesn't say which it is": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newRoleCluster("a", "b")
				f.anonymous, f.denied["a"] = anonymous, true
				c, told := f.cache(t, "a", "b")
				want := func(namespace string) plan.Desired {
					return plan.Desired{Objects: []plan.Object{{Key: "ConfigMap/" + namespace + "/x"}}}
				}

				for _, all := range []error{
					c.Sync(t.Context(), configMaps, c.namespacesOf("a", want("a"), nil)...),
					c.Sync(t.Context(), configMaps, c.namespacesOf("gone", plan.Desired{}, nil)...), // which may have had something in each
				} {
					var unlisted *drivers.UnlistedError
					if !errors.As(all, &unlisted) || unlisted.Kind != "ConfigMap" || !strings.Contains(all.Error(), "namespace a: ") {
						t.Errorf("%v", all)
					}
				}
				if err := c.Sync(t.Context(), configMaps, c.namespacesOf("b", want("b"), nil)...); err != nil {
					t.Errorf("the instance in namespace b can't be seen: %v", err)
				}
				told()

				f.set(func() { clear(f.denied) })
				kit.Pass(10 * time.Second)

				if err := c.Sync(t.Context(), configMaps); err != nil {
					t.Error(err)
				}
				if got := told(); !slices.Contains(got, "a") || has(c, "a") != "xy" {
					t.Errorf("notified were %v, known are %q", got, has(c, "a"))
				}
			})
		})
	}
}

func TestAnotherClusterIsDroppedInEachNamespace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newRoleCluster("a", "b")
		c, told := f.cache(t, "a", "b")
		if err := c.Sync(t.Context(), configMaps); err != nil {
			t.Fatal(err)
		}
		told()

		for _, in := range f.in { // its versions are higher, and no watch ends: nothing but its identity tells
			in.change(false, func() { in.uid, in.version, in.objects = "two", 9000, map[string]int{} })
		}
		kit.Pass(time.Minute)

		if has(c, "a") != "" || has(c, "b") != "" {
			t.Errorf("%q and %q of the former cluster are still known", has(c, "a"), has(c, "b"))
		}
		if got := told(); !slices.Contains(got, "a") || !slices.Contains(got, "b") {
			t.Errorf("notified were %v", got)
		}
	})
}

func TestEventsAreWatchedInEachNamespace(t *testing.T) {
	t.Parallel()
	c := NewCache(nil, noKinds{}, "", []string{"a", "b"}, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Close)
	places := make([]string, 0, 2)
	for _, events := range c.creationFailures {
		places = append(places, events.namespace)
	}
	c.creationFailures[1].latest["set"] = creationFailure{event: "b/e", message: "exceeded quota", at: 9}

	if said := c.creationFailure("set").message; said != "exceeded quota" || !slices.Equal(places, []string{"a", "b"}) {
		t.Errorf("%q is known of %v", said, places)
	}
}
