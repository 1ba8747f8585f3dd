package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/jibe-vnfm/jibe/test/kit"
)

const generationLabel = "vnf.jibe.dev/generation"

// recorded are the kinds that a recorder records.
func recorded() map[string]schema.GroupVersionResource {
	kinds := map[string]schema.GroupVersionResource{"EndpointSlice": {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}}
	for _, kind := range []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Pod", "ConfigMap", "Secret", "Service", "HorizontalPodAutoscaler"} {
		kinds[kind] = resources[kind]
	}
	return kinds
}

// there is the event of what was there when the recording began.
const there watch.EventType = "THERE"

// entry is one object at the moment at which it changed.
type entry struct {
	at     uint64 // the revision of the whole store: all kinds have one order
	event  watch.EventType
	name   string // "Kind/name"
	object *unstructured.Unstructured
}

// recorder records everything that happens to the objects of a namespace.
type recorder struct {
	b *bench

	mu      sync.Mutex
	entries []entry
	broken  error
}

// recorder begins a recording, which ends with the test.
func (b *bench) recorder() *recorder {
	b.Helper()
	f := &recorder{b: b}
	ctx, stop := context.WithCancel(b.Context())
	var watching sync.WaitGroup
	b.Cleanup(func() {
		stop()
		watching.Wait()
	})
	for kind, resource := range recorded() {
		at := b.dynamic().Resource(resource).Namespace(b.namespace)
		list, err := at.List(ctx, metav1.ListOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for i := range list.Items {
			f.add(kind, there, &list.Items[i])
		}
		w, err := at.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			b.Fatal(err)
		}
		watching.Go(func() {
			defer w.Stop()
			for e := range w.ResultChan() {
				u, ok := e.Object.(*unstructured.Unstructured)
				if !ok || e.Type == watch.Error {
					f.mu.Lock()
					f.broken = fmt.Errorf("the watch of %s broke: %v", kind, e.Object)
					f.mu.Unlock()
					return
				}
				f.add(kind, e.Type, u)
			}
		})
	}
	return f
}

func (f *recorder) add(kind string, event watch.EventType, u *unstructured.Unstructured) {
	at, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.broken = err
	}
	f.entries = append(f.entries, entry{at, event, kind + "/" + u.GetName(), u})
}

// record is what was recorded from the beginning until now, in the order in which things happened.
func (f *recorder) record() record {
	f.b.Helper()
	var entries []entry
	kit.Eventually(f.b, func() error {
		want := map[string]string{}
		for kind, resource := range recorded() {
			list, err := f.b.dynamic().Resource(resource).Namespace(f.b.namespace).List(f.b.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, u := range list.Items {
				want[kind+"/"+u.GetName()] = u.GetResourceVersion()
			}
		}
		f.mu.Lock()
		entries = slices.Clone(f.entries)
		err := f.broken
		f.mu.Unlock()
		if err != nil {
			return err
		}
		slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
		have := map[string]string{}
		for _, x := range entries {
			if x.event == watch.Deleted {
				delete(have, x.name)
			} else {
				have[x.name] = x.object.GetResourceVersion()
			}
		}
		if !maps.Equal(want, have) {
			return fmt.Errorf("the recording shows\n%v\nnot yet\n%v", have, want)
		}
		return nil
	})
	return entries
}

// record is a stretch of a recording.
type record []entry

// of are the entries of one object, of the kinds of event that are named.
func (s record) of(name string, events ...watch.EventType) record {
	var some record
	for _, x := range s {
		if x.name == name && (len(events) == 0 || slices.Contains(events, x.event)) {
			some = append(some, x)
		}
	}
	return some
}

// first is the revision at which f was true for the first time, 0 if it never was.
func (s record) first(f func(entry) bool) uint64 {
	for _, x := range s {
		if f(x) {
			return x.at
		}
	}
	return 0
}

// born is when the object appeared, gone when it vanished; 0 is never.
func (s record) born(name string) uint64 {
	return s.first(func(x entry) bool { return x.name == name && x.event == watch.Added })
}

func (s record) gone(name string) uint64 {
	return s.first(func(x entry) bool { return x.name == name && x.event == watch.Deleted })
}

// pods are what the recording shows of each pod last, by UID.
func (s record) pods() map[string]*unstructured.Unstructured {
	all := map[string]*unstructured.Unstructured{}
	for _, x := range s {
		if strings.HasPrefix(x.name, "Pod/") {
			all[string(x.object.GetUID())] = x.object
		}
	}
	return all
}

// moment is which pods a service had as endpoints from a revision on, by UID.
type moment struct {
	at   uint64
	pods []string
}

// traffic is the endpoints of the service, from the first ready address on.
func (s record) traffic(service string) []moment {
	parts := map[string][]string{}
	var all []moment
	for _, x := range s {
		if !strings.HasPrefix(x.name, "EndpointSlice/") || x.object.GetLabels()["kubernetes.io/service-name"] != service {
			continue
		}
		delete(parts, x.name)
		if x.event != watch.Deleted {
			parts[x.name] = readyPods(x.object)
		}
		var pods []string
		for _, some := range parts {
			pods = append(pods, some...)
		}
		slices.Sort(pods)
		pods = slices.Compact(pods)
		if len(all) == 0 && len(pods) == 0 {
			continue
		}
		all = append(all, moment{x.at, pods})
	}
	return all
}

// readyPods are the ready endpoints of an EndpointSlice, by UID.
func readyPods(slice *unstructured.Unstructured) []string {
	var pods []string
	list, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
	for _, e := range list {
		endpoint, _ := e.(map[string]any)
		if ready, found, _ := unstructured.NestedBool(endpoint, "conditions", "ready"); found && !ready {
			continue
		}
		uid, _, _ := unstructured.NestedString(endpoint, "targetRef", "uid")
		pods = append(pods, uid)
	}
	return pods
}

// flow is to which generations the service sent traffic, one after the other: "0, 1" is a
// switch without a gap, "0, , 1" one with a gap, "0, 0+1, 1" one with both at once.
func (s record) flow(service string) string {
	return s.route(service, func(pod *unstructured.Unstructured) string { return pod.GetLabels()[generationLabel] })
}

// route is flow with what f says of the pods.
func (s record) route(service string, f func(pod *unstructured.Unstructured) string) string {
	pods := s.pods()
	var all []string
	for _, m := range s.traffic(service) {
		var kinds []string
		for _, uid := range m.pods {
			kind := "unknown"
			if p := pods[uid]; p != nil {
				kind = f(p)
			}
			kinds = append(kinds, kind)
		}
		slices.Sort(kinds)
		all = append(all, strings.Join(slices.Compact(kinds), "+"))
	}
	return strings.Join(slices.Compact(all), ", ")
}

// switched is the revision at which the service first sent traffic to the generation.
func (s record) switched(service, generation string) uint64 {
	pods := s.pods()
	for _, m := range s.traffic(service) {
		for _, uid := range m.pods {
			if p := pods[uid]; p != nil && p.GetLabels()[generationLabel] == generation {
				return m.at
			}
		}
	}
	return 0
}

// readyAt is the revision from which on n pods of the image were ready at once, 0 if
// that never was.
func (s record) readyAt(image string, n int) uint64 {
	ready := map[string]bool{}
	return s.first(func(x entry) bool {
		if !strings.HasPrefix(x.name, "Pod/") {
			return false
		}
		delete(ready, x.name)
		if x.event != watch.Deleted && x.object.GetDeletionTimestamp() == nil && imageOf(x.object) == image && isReady(x.object) {
			ready[x.name] = true
		}
		return len(ready) >= n
	})
}

func isReady(pod *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions")
	for _, c := range conditions {
		if m, _ := c.(map[string]any); m["type"] == "Ready" && m["status"] == "True" {
			return true
		}
	}
	return false
}

// imageOf is the image of the pod's first container.
func imageOf(pod *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	if len(containers) == 0 {
		return ""
	}
	image, _ := containers[0].(map[string]any)["image"].(string)
	return image
}
