package watched

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
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
	"github.com/jibe-vnfm/jibe/test/kit"
)

var kindGadget = schema.GroupKind{Group: "example.com", Kind: "Gadget"}

// gadgetCluster also serves Gadgets, in one version, as far as it may show them.
type gadgetCluster struct {
	fakeCluster

	is      sync.Mutex
	version string // that is served, "" for none
	refusal *metav1.Status
	silent  bool // it never answers
}

func (g *gadgetCluster) set(to func()) {
	g.is.Lock()
	to()
	g.is.Unlock()
	g.change(true, func() {})
}

var statusType = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}

// refuse has requests for Gadgets answered with the error; 0 ends that.
func (g *gadgetCluster) refuse(code int32, reason metav1.StatusReason, message string) {
	g.set(func() {
		if g.refusal = nil; code != 0 {
			g.refusal = &metav1.Status{TypeMeta: statusType, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
		}
	})
}

func (g *gadgetCluster) RoundTrip(r *http.Request) (*http.Response, error) {
	g.is.Lock()
	version, refusal, silent := g.version, g.refusal, g.silent
	g.is.Unlock()
	_, asked, gadgets := strings.Cut(r.URL.Path, "/apis/example.com/")
	g.mu.Lock()
	down := g.down
	g.mu.Unlock()
	if !gadgets || down {
		return g.fakeCluster.RoundTrip(r)
	}

	if silent {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if !strings.HasPrefix(asked, version+"/") || version == "" {
		refusal = &metav1.Status{TypeMeta: statusType, Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource"}
	}
	if refusal != nil {
		said := answer(r, refusal)
		said.StatusCode = int(refusal.Code)
		if refusal.Code == http.StatusTooManyRequests {
			said.Header.Set("Retry-After", "1")
		}
		return said, nil
	}
	return g.fakeCluster.RoundTrip(r)
}

func (g *gadgetCluster) Find(gk schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	if gk != kindGadget {
		return oneKind{}.Find(gk)
	}
	g.is.Lock()
	defer g.is.Unlock()
	if g.version == "" {
		return nil, &meta.NoKindMatchError{GroupKind: gk}
	}
	return &meta.RESTMapping{Resource: schema.GroupVersionResource{Group: gk.Group, Version: g.version, Resource: "gadgets"}, GroupVersionKind: gk.WithVersion(g.version), Scope: meta.RESTScopeNamespace}, nil
}

func (g *gadgetCluster) Renew(gk schema.GroupKind) (*meta.RESTMapping, error) { return g.Find(gk) }

// cache watches the cluster. told returns how often instance i1 was notified since the last call.
func (g *gadgetCluster) cache(t *testing.T) (c *Cache, told func() int) {
	t.Helper()
	client, err := dynamic.NewForConfigAndClient(&rest.Config{Host: "https://cluster.example", QPS: -1}, &http.Client{Transport: AnswerOnce(g)})
	if err != nil {
		t.Fatal(err)
	}
	c = NewCache(client, g, "", nil, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Close)

	var mu sync.Mutex
	count := 0
	t.Cleanup(c.subscribe(func(string) { mu.Lock(); count++; mu.Unlock() }))
	return c, func() int {
		mu.Lock()
		defer mu.Unlock()
		n := count
		count = 0
		return n
	}
}

func newGadgetCluster() *gadgetCluster {
	return &gadgetCluster{version: "v1", fakeCluster: fakeCluster{uid: "one", version: 100, objects: map[string]int{"a": 50}}}
}

// look syncs the kinds as a look at an instance does, which waits for a second.
func look(t *testing.T, c *Cache, kinds ...schema.GroupKind) error {
	t.Helper()
	needed := map[schema.GroupKind]bool{}
	for _, gk := range kinds {
		needed[gk] = true
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return c.Sync(ctx, needed)
}

func TestAKindThatCantBeListedIsNamedAndAlone(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		code   int32
		reason metav1.StatusReason
		said   string
	}{
		"the webhook that converts it is gone":  {500, metav1.StatusReasonInternalError, `conversion webhook failed: service "gone" not found`},
		"it is never initialized, for the same": {429, metav1.StatusReasonTooManyRequests, `storage is (re)initializing: conversion webhook failed`},
		"the right to list it was denied":       {403, metav1.StatusReasonForbidden, `User "jibe" cannot list resource "gadgets"`},
	} {
		for _, listed := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", later"}[listed], func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					g := newGadgetCluster()
					c, told := g.cache(t)
					if listed {
						if err := look(t, c, manifest.KindConfigMap, kindGadget); err != nil {
							t.Fatal(err)
						}
					}
					g.refuse(x.code, x.reason, x.said)
					began := time.Now()
					_ = look(t, c, manifest.KindConfigMap, kindGadget)
					kit.Pass(5 * time.Second)
					told()
					kit.Pass(unlistedAfter)

					err := look(t, c, manifest.KindConfigMap, kindGadget)
					unlisted, ok := errors.AsType[*drivers.UnlistedError](err)
					switch {
					case !ok:
						t.Fatalf("the look ends with %v, want an error of the kind", err)
					case unlisted.Kind != "Gadget.example.com" || !strings.Contains(err.Error(), x.said) || !errors.Is(err, drivers.ErrUnavailable):
						t.Errorf("the look ends with %v", err)
					case unlisted.Since.Before(began) || time.Since(unlisted.Since) < unlistedAfter:
						t.Errorf("it is so since %s, want about %s", unlisted.Since, began)
					}
					if listed && told() == 0 {
						t.Error("an instance whose state is stale wasn't looked at again")
					}
					if err := look(t, c, manifest.KindConfigMap); err != nil {
						t.Errorf("another instance can't be looked at either: %v", err)
					}

					told()
					c.Missed("i1")
					g.refuse(0, "", "")
					kit.Pass(2 * retryMost)
					if err := look(t, c, manifest.KindConfigMap, kindGadget); err != nil || told() == 0 {
						t.Errorf("it can be listed again: %v, or its instance wasn't notified", err)
					}
				})
			})
		}
	}
}

func TestAListWithoutAnAnswerIsNamedAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGadgetCluster()
		c, _ := g.cache(t)
		g.silent = true

		err := look(t, c, manifest.KindConfigMap, kindGadget)
		if _, ok := errors.AsType[*drivers.UnlistedError](err); ok || !errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("after a second: %v", err)
		}
		kit.Pass(unlistedAfter)
		err = look(t, c, manifest.KindConfigMap, kindGadget)
		if _, ok := errors.AsType[*drivers.UnlistedError](err); !ok {
			t.Errorf("later: %v, want an error of the kind", err)
		}
	})
}

func TestAVIMThatIsAwayIsNoKindOutOfSight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGadgetCluster()
		c, told := g.cache(t)
		if err := look(t, c, manifest.KindConfigMap, kindGadget); err != nil {
			t.Fatal(err)
		}
		g.refuse(500, metav1.StatusReasonInternalError, "the webhook is gone")
		kit.Pass(unlistedAfter)

		g.change(true, func() { g.down = true })
		for range 3 {
			kit.Pass(unlistedAfter)
			err := look(t, c, manifest.KindConfigMap, kindGadget)
			if _, ok := errors.AsType[*drivers.UnlistedError](err); ok || !errors.Is(err, drivers.ErrUnavailable) {
				t.Errorf("a VIM that is unreachable: %v", err)
			}
		}

		c.Missed("i2") // which has nothing of the kind
		told()
		g.change(false, func() { g.down = false })
		kit.Pass(3 * retryMost)
		if told() == 0 {
			t.Error("the VIM is back, and its instances wait for a kind that they don't have")
		}
	})
}

// An outage leaves its error until the first list after it is there, and that list may be a long one.
func TestAListAfterAnOutageIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGadgetCluster()
		c, _ := g.cache(t)
		if err := look(t, c, manifest.KindConfigMap, kindGadget); err != nil {
			t.Fatal(err)
		}
		g.change(true, func() { g.down = true })
		kit.Pass(3 * unlistedAfter)

		g.set(func() { g.silent = true })
		g.change(false, func() { g.down = false })
		kit.Pass(retryMost) // by then it is asked again
		err := look(t, c, manifest.KindConfigMap, kindGadget)
		if _, ok := errors.AsType[*drivers.UnlistedError](err); ok || !errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("while the list is awaited: %v", err)
		}
		kit.Pass(unlistedAfter)
		err = look(t, c, manifest.KindConfigMap, kindGadget)
		if _, ok := errors.AsType[*drivers.UnlistedError](err); !ok {
			t.Errorf("where it doesn't come: %v, want an error of the kind", err)
		}
	})
}

func TestAVersionThatIsServedNoMoreTakesNoObjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGadgetCluster()
		c, _ := g.cache(t)
		if err := look(t, c, kindGadget); err != nil {
			t.Fatal(err)
		}
		key := manifest.Key(kindGadget, "ns", "a")
		if c.Get(kindGadget, key) == nil {
			t.Fatal("the object isn't known")
		}

		g.set(func() { g.version = "v2" })
		for range 20 {
			kit.Pass(retryFirst)
			if c.Get(kindGadget, key) == nil {
				t.Fatal("the object counts as gone, and only a version of its kind is")
			}
		}
		g.change(true, func() { delete(g.objects, "a"); g.fakeCluster.version = 90 }) // all is listed again
		kit.Pass(2 * retryMost)
		if err := look(t, c, kindGadget); err != nil || c.Get(kindGadget, key) != nil {
			t.Errorf("the other version isn't watched (%v)", err)
		}

		g.change(false, func() { g.objects["a"] = 60 })
		g.set(func() { g.version = "" })
		kit.Pass(2 * retryMost)
		if err := look(t, c, kindGadget); err != nil || c.Get(kindGadget, key) != nil {
			t.Errorf("the kind is gone, and its objects aren't (%v)", err)
		}
	})
}

func TestAListThatIsThrottledIsAwaited(t *testing.T) {
	t.Parallel()
	for _, listed := range []bool{false, true} {
		t.Run(map[bool]string{true: "again", false: "at first"}[listed], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGadgetCluster()
				c, _ := g.cache(t)
				if listed {
					if err := look(t, c, kindGadget); err != nil {
						t.Fatal(err)
					}
				}
				g.refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests")
				time.AfterFunc(3*time.Second, func() { g.refuse(0, "", "") })

				if err := c.Sync(t.Context(), map[schema.GroupKind]bool{manifest.KindConfigMap: true, kindGadget: true}); err != nil {
					t.Errorf("an operation doesn't wait for a server that asks it to: %v", err)
				}
				kit.Pass(2 * time.Second)
				if err := look(t, c, kindGadget); listed && err != nil {
					t.Errorf("what is known counts until the server has had its time: %v", err)
				}
			})
		})
	}
}
