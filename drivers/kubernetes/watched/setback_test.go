package watched

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// client-go slows all errors of a process down by one clock, which isn't that of a test.
func init() { utilruntime.ErrorHandlers = nil }

// fakeCluster is an API server with ConfigMaps of instance i1 in namespace ns. As a real one does, it lets a watch that
// wants to go on from a version of the future wait without a word.
type fakeCluster struct {
	mu      sync.Mutex
	uid     string
	version int
	objects map[string]int // name -> version
	down    bool
	watches []*io.PipeWriter
	lists   int // of whole kinds
	// item adds to an object what others than ConfigMaps have; nil adds nothing.
	item func(object map[string]any)
}

func (f *fakeCluster) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	q := r.URL.Query()
	switch {
	case f.down:
		return nil, fmt.Errorf("dial: connection refused")
	case strings.HasSuffix(r.URL.Path, "/events"):
		return answer(r, map[string]any{"kind": "List", "apiVersion": "v1", "items": []any{}, "metadata": map[string]any{"resourceVersion": "1"}}), nil
	case strings.HasSuffix(r.URL.Path, "/namespaces/kube-system"):
		return answer(r, map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": "kube-system", "uid": f.uid}}), nil
	case q.Get("watch") == "true":
		return f.watch(r, q.Get("sendInitialEvents") == "true"), nil
	case q.Get("fieldSelector") != "":
		return answer(r, f.list(nil)), nil
	}
	f.lists++
	return answer(r, f.list(f.items())), nil
}

func (f *fakeCluster) list(items []any) map[string]any {
	return map[string]any{"kind": "ConfigMapList", "apiVersion": "v1", "items": items, "metadata": map[string]any{"resourceVersion": strconv.Itoa(f.version)}}
}

func (f *fakeCluster) items() []any {
	items := []any{}
	for name, version := range f.objects {
		object := map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{
			"name": name, "namespace": "ns", "uid": f.uid + name, "resourceVersion": strconv.Itoa(version), "labels": map[string]any{manifest.LabelInstance: "i1"},
		}}
		if f.item != nil {
			f.item(object)
		}
		items = append(items, object)
	}
	return items
}

// watch begins a stream; f.mu is held.
func (f *fakeCluster) watch(r *http.Request, initial bool) *http.Response {
	from, to := io.Pipe()
	f.watches = append(f.watches, to)
	context.AfterFunc(r.Context(), func() { _ = to.CloseWithError(io.EOF) })
	if initial {
		f.lists++
		events, end := f.items(), f.list(nil)
		go func() {
			enc := json.NewEncoder(to)
			for _, x := range events {
				_ = enc.Encode(map[string]any{"type": "ADDED", "object": x})
			}
			_ = enc.Encode(map[string]any{"type": "BOOKMARK", "object": map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{
				"resourceVersion": end["metadata"].(map[string]any)["resourceVersion"], "annotations": map[string]any{"k8s.io/initial-events-end": "true"},
			}}})
		}()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: from, Request: r}
}

func answer(r *http.Request, body any) *http.Response {
	text, _ := json.Marshal(body)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(text))), Request: r}
}

// change changes the cluster. Where cut is set, its API server was started again: all watches have ended.
func (f *fakeCluster) change(cut bool, to func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to()
	if cut {
		for _, w := range f.watches {
			_ = w.CloseWithError(io.EOF)
		}
		f.watches = nil
	}
}

// oneKind finds ConfigMaps.
type oneKind struct{}

func (oneKind) Find(gk schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	return &meta.RESTMapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, GroupVersionKind: gk.WithVersion("v1"), Scope: meta.RESTScopeNamespace}, nil
}

func (k oneKind) Renew(gk schema.GroupKind) (*meta.RESTMapping, error) { return k.Find(gk) }

// watching is a cache that has seen all ConfigMaps of the cluster. notified counts what was told of instance i1.
func watching(t *testing.T, f *fakeCluster) (c *Cache, notified func() int) {
	t.Helper()
	client, err := dynamic.NewForConfigAndClient(&rest.Config{Host: "https://cluster.example", QPS: -1}, &http.Client{Transport: f})
	if err != nil {
		t.Fatal(err)
	}
	c = NewCache(client, oneKind{}, "", nil, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Close)

	var mu sync.Mutex
	count := 0
	t.Cleanup(c.subscribe(func(string) { mu.Lock(); count++; mu.Unlock() }))
	if err := c.Sync(t.Context(), map[schema.GroupKind]bool{manifest.KindConfigMap: true}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return c, func() int {
		mu.Lock()
		defer mu.Unlock()
		n := count
		count = 0
		return n
	}
}

// names are those of the instance's objects that are known.
func names(c *Cache) string {
	found := ""
	for _, name := range []string{"a", "b"} {
		if c.Get(manifest.KindConfigMap, "ConfigMap/ns/"+name) != nil {
			found += name
		}
	}
	return found
}

func TestAStoreRestoredFromACopyIsListedAgain(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		cut     bool          // the API server was started again
		away    time.Duration // for how long it was away
		version int           // of the store afterwards
		within  time.Duration
	}{
		"its versions went back":                             {cut: true, version: 60, within: 5 * time.Second},
		"it was unreachable, and has caught up its versions": {cut: true, away: time.Minute, version: 120, within: 5 * time.Second},
		"no watch has ended":                                 {version: 120, within: relistMost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fakeCluster{uid: "one", version: 100, objects: map[string]int{"a": 50, "b": 90}}
				c, notified := watching(t, f)
				if got := names(c); got != "ab" {
					t.Fatalf("known are %q", got)
				}
				notified()

				f.change(x.cut, func() { f.down = x.away > 0; f.version = x.version; delete(f.objects, "b") })
				kit.Pass(x.away)
				f.change(false, func() { f.down = false })
				kit.Pass(x.within)

				if got := names(c); got != "a" {
					t.Errorf("known are %q after the restore, want what the store has: a", got)
				}
				if notified() == 0 {
					t.Error("the instance wasn't looked at again")
				}
			})
		})
	}
}

func TestAnotherClusterAtTheAddressIsNoticed(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		cut    bool
		within time.Duration
	}{
		"at a new connection":              {cut: true, within: 5 * time.Second},
		"though no watch ended, by asking": {within: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fakeCluster{uid: "one", version: 100, objects: map[string]int{"a": 50, "b": 90}}
				c, notified := watching(t, f)
				if is, err := c.Identity(t.Context()); is != "one" || err != nil {
					t.Fatalf("the cluster is %q (%v)", is, err)
				}
				notified()

				// The new one has a higher version: nothing but its identity tells.
				f.change(x.cut, func() { f.uid, f.version, f.objects = "two", 5000, map[string]int{} })
				kit.Pass(x.within)

				if got := names(c); got != "" {
					t.Errorf("%q of the former cluster is still known", got)
				}
				if notified() == 0 {
					t.Error("the instance wasn't looked at again")
				}
				if is, err := c.Identity(t.Context()); is != "two" || err != nil {
					t.Errorf("the cluster is %q (%v), want the new one", is, err)
				}
			})
		})
	}
}

func TestAKindIsListedAgainWithinTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{uid: "one", version: 100, objects: map[string]int{"a": 50}}
		_, _ = watching(t, f)

		kit.Pass(time.Hour)

		f.change(false, func() {
			if f.lists < 1+6 || f.lists > 1+9 {
				t.Errorf("listed %d times within an hour, want once every 7 to 10 minutes", f.lists)
			}
		})
	})
}

// eventCluster has events in the place of ConfigMaps.
type eventCluster struct{ fakeCluster }

func (e *eventCluster) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.Clone(r.Context())
	asked.URL.Path = strings.Replace(r.URL.Path, "/events", "/configmaps", 1)
	if q := asked.URL.Query(); !strings.HasPrefix(q.Get("fieldSelector"), "metadata.name") {
		q.Del("fieldSelector")
		asked.URL.RawQuery = q.Encode()
	}
	return e.fakeCluster.RoundTrip(asked)
}

func TestEventsOfAStoreThatWasSetBackAreListedAgain(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		cut     bool
		away    time.Duration
		version int
		within  time.Duration
	}{
		"its versions went back":                             {cut: true, version: 60, within: 5 * time.Second},
		"it was unreachable, and has caught up its versions": {cut: true, away: time.Minute, version: 120, within: time.Minute},
		"no watch has ended":                                 {version: 120, within: relistMost + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &eventCluster{fakeCluster{uid: "one", version: 100, objects: map[string]int{"e1": 90}}}
				f.item = func(object map[string]any) {
					object["metadata"].(map[string]any)["creationTimestamp"] = "2026-01-01T09:00:00Z"
					object["message"], object["involvedObject"] = "exceeded quota", map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "namespace": "ns", "name": "d", "uid": "d"}
				}
				client, err := dynamic.NewForConfigAndClient(&rest.Config{Host: "https://cluster.example", QPS: -1}, &http.Client{Transport: f})
				if err != nil {
					t.Fatal(err)
				}
				c := newCreationFailures("", func(types.UID, string) {})
				go c.run(t.Context(), client)
				synctest.Wait()
				if c.of("d").message == "" {
					t.Fatal("the event isn't known")
				}

				kit.Pass(time.Minute) // a watch that ends at once is listed again anyway
				f.change(x.cut, func() { f.down = x.away > 0; f.version = x.version; delete(f.objects, "e1") })
				kit.Pass(x.away)
				f.change(false, func() { f.down = false })
				kit.Pass(x.within)

				if said := c.of("d").message; said != "" {
					t.Errorf("%q is still known, and the store has no such event", said)
				}
			})
		})
	}
}
