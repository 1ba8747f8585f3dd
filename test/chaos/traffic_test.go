package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/desired"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// traffic is where the Services "web" of calm instances send traffic, as the watch of the
// EndpointSlices tells it.
type traffic struct {
	mu sync.Mutex
	// slices are the ready pods of each EndpointSlice, by namespace and name.
	slices map[string]map[string][]string
	served map[string]bool // the namespaces whose Service has had an endpoint
	events int
	gaps   []gap
}

// gap is a time in which a Service had no endpoint.
type gap struct {
	at        time.Time
	namespace string
}

// record begins to watch the traffic; it ends with the test.
func (w *world) record() {
	w.traffic = &traffic{slices: map[string]map[string][]string{}, served: map[string]bool{}}
	ctx, stop := context.WithCancel(w.t.Context())
	var watching sync.WaitGroup
	w.t.Cleanup(func() {
		stop()
		watching.Wait()
	})
	watching.Go(func() {
		for ctx.Err() == nil {
			// The API server goes now and then, and a watch with it.
			if err := w.watch(ctx); err != nil && ctx.Err() == nil {
				kit.Pause(ctx, 100*time.Millisecond)
			}
		}
	})
}

// watch follows the EndpointSlices until the watch ends.
func (w *world) watch(ctx context.Context) error {
	which := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"}
	all := w.client.DiscoveryV1().EndpointSlices("")
	list, err := all.List(ctx, which)
	if err != nil {
		return err
	}
	now := map[string]map[string][]string{}
	for i := range list.Items {
		x := &list.Items[i]
		if now[x.Namespace] == nil {
			now[x.Namespace] = map[string][]string{}
		}
		now[x.Namespace][x.Name] = ready(x)
	}
	w.traffic.replace(now)
	which.ResourceVersion = list.ResourceVersion
	// The client's timeout ends a watch, too: the list that follows shows what it missed.
	events, err := all.Watch(ctx, which)
	if err != nil {
		return err
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		x, ok := e.Object.(*discoveryv1.EndpointSlice)
		if !ok {
			return fmt.Errorf("watch: %v", e.Object)
		}
		pods := ready(x)
		if e.Type == "DELETED" {
			pods = nil
		}
		w.traffic.change(x.Namespace, x.Name, pods)
	}
	return nil
}

// ready are the ready endpoints of a slice.
func ready(x *discoveryv1.EndpointSlice) []string {
	var pods []string
	for _, e := range x.Endpoints {
		if (e.Conditions.Ready == nil || *e.Conditions.Ready) && e.TargetRef != nil {
			pods = append(pods, string(e.TargetRef.UID))
		}
	}
	return pods
}

func (t *traffic) replace(now map[string]map[string][]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slices = now
	for namespace := range t.served {
		if now[namespace] == nil {
			now[namespace] = map[string][]string{}
		}
	}
	for namespace := range now {
		t.judge(namespace)
	}
}

func (t *traffic) change(namespace, name string, pods []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slices[namespace] == nil {
		t.slices[namespace] = map[string][]string{}
	}
	t.slices[namespace][name] = pods
	t.judge(namespace)
}

func (t *traffic) judge(namespace string) {
	t.events++
	for _, pods := range t.slices[namespace] {
		if len(pods) > 0 {
			t.served[namespace] = true
			return
		}
	}
	if t.served[namespace] {
		t.gaps = append(t.gaps, gap{time.Now(), namespace})
	}
}

// checkTraffic says where the Service of a calm instance had no endpoint.
func (w *world) checkTraffic() error {
	w.traffic.mu.Lock()
	defer w.traffic.mu.Unlock()
	var errs []error
	calm := 0
	for _, v := range w.vnfs {
		if !v.calm {
			continue
		}
		calm++
		if !w.traffic.served[v.namespace] {
			errs = append(errs, w.about(v, "its Service was never seen with an endpoint: nothing is proven"))
		}
		for _, g := range w.traffic.gaps {
			if g.namespace == v.namespace {
				errs = append(errs, w.about(v, "its Service had no endpoint at %s", g.at.Format("15:04:05.000")))
			}
		}
	}
	w.t.Logf("the traffic of %d calm instances was watched; %d moments of all instances were seen", calm, w.traffic.events)
	return errors.Join(errs...)
}

// checkServices says where a Service doesn't send traffic to exactly the ready pods of its
// instance's generation.
func (w *world) checkServices(ctx context.Context, intents map[string]*desired.Instance) error {
	lists, err := w.client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	targets := map[string][]string{} // by namespace/service
	for i := range lists.Items {
		x := &lists.Items[i]
		service := x.Namespace + "/" + x.Labels[discoveryv1.LabelServiceName]
		targets[service] = append(targets[service], ready(x)...)
	}
	pods, err := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range w.vnfs {
		now := intents[v.id]
		want := map[string][]string{}
		for _, p := range pods.Items {
			if p.Namespace == v.namespace && p.Labels[generationLabel] == generationOf(now) && p.Labels["app"] != "probe" {
				want[p.Labels["app"]] = append(want[p.Labels["app"]], string(p.UID))
			}
		}
		for _, service := range slices.Sorted(maps.Keys(want)) {
			have := slices.Sorted(slices.Values(targets[v.namespace+"/"+service]))
			if should := slices.Sorted(slices.Values(want[service])); !slices.Equal(have, should) {
				errs = append(errs, w.about(v, "Service %s sends traffic to the pods %v, want %v", service, have, should))
			}
		}
	}
	return errors.Join(errs...)
}
