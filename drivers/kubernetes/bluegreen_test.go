package kubernetes_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// targets records where a Service directs traffic, as its slices show from moment to moment.
type targets struct {
	mu     sync.Mutex
	slices map[string]*discoveryv1.EndpointSlice
	begun  bool
	gaps   []string
}

func record(t *testing.T, c *cluster, namespace, service string) *targets {
	t.Helper()
	w, err := c.api(t).DiscoveryV1().EndpointSlices(namespace).Watch(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	l := &targets{slices: map[string]*discoveryv1.EndpointSlice{}}
	go func() {
		for e := range w.ResultChan() {
			if slice, ok := e.Object.(*discoveryv1.EndpointSlice); ok {
				l.take(e.Type, slice)
			}
		}
	}()
	return l
}

func (l *targets) take(kind watch.EventType, slice *discoveryv1.EndpointSlice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slices[slice.Name] = slice; kind == watch.Deleted {
		delete(l.slices, slice.Name)
	}
	if ready := l.ready(); len(ready) > 0 {
		l.begun = true
	} else if l.begun {
		l.gaps = append(l.gaps, fmt.Sprintf("%s of %s at %s", kind, slice.Name, time.Now().Format(time.StampMilli)))
	}
}

// ready are the names of the pods that are ready. l.mu is held.
func (l *targets) ready() []string {
	var names []string
	for _, slice := range l.slices {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready && e.TargetRef != nil {
				names = append(names, e.TargetRef.Name)
			}
		}
	}
	return names
}

// targetsOf asks to which pods the Service directs traffic now.
func targetsOf(t *testing.T, api clientset.Interface, namespace, service string) []string {
	t.Helper()
	list, err := api.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		t.Fatal(err)
	}
	now := &targets{slices: map[string]*discoveryv1.EndpointSlice{}}
	for i := range list.Items {
		now.slices[list.Items[i].Name] = &list.Items[i]
	}
	return now.ready()
}

func TestThroughoutABlueGreenChangeTheServiceHasAReadyPod(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	before, after := changed(uuid.NewString(), namespace, desired.BlueGreen, strings.ReplaceAll(sample.FrontAndBack, "pause:3.10", "pause:3.9"))
	converge(t, d, before, true)
	l := record(t, c, namespace, "front")
	kit.Eventually(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.ready()) != 2 {
			return fmt.Errorf("the Service directs traffic to %v", l.ready())
		}
		return nil
	})
	for _, target := range []struct {
		src     drivers.Source
		journal plan.Journal
		next    bool
	}{
		{after, plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}, true},
		{before, plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true, Rollback: true}, false},
	} {
		want, err := d.Render(target.src)
		if err != nil {
			t.Fatal(err)
		}
		switched := false
		kit.Eventually(t, func() error {
			steps := plan.Compute(want.Desired, observe(t, d, want), target.journal)
			next := plan.Next(steps)
			target.journal, _ = target.journal.Issue(next)
			var todo []plan.Step
			for _, s := range next {
				switch s.Action {
				case plan.Hook:
					target.journal.Hooks = append(target.journal.Hooks, s.Object)
				case plan.Delete:
					for _, name := range targetsOf(t, api, namespace, "front") {
						if strings.HasPrefix(name, "front-1-") != target.next {
							t.Errorf("%s, while the Service directs traffic to %s", s, name)
						}
					}
					todo = append(todo, s)
				case plan.Apply:
					switched = switched || s.Directs
					todo = append(todo, s)
				case plan.Wait:
				default:
					todo = append(todo, s)
				}
			}
			if len(todo) > 0 {
				if err := d.Do(t.Context(), rendering(t, d, target.src), todo...); err != nil {
					t.Fatal(err)
				}
			}
			if len(steps) > 0 {
				return fmt.Errorf("left to do: %+v", steps)
			}
			return nil
		})
		if !switched {
			t.Error("traffic was never switched")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.gaps) > 0 {
		t.Errorf("at times the Service directed traffic nowhere: %v", l.gaps)
	}
	converge(t, d, before, false)
}

func TestTheNextGenerationBeginsWithAsManyPodsAsTheAutoscalerGaveTheLast(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	id := uuid.NewString()
	before := sample.Source(id, namespace, strings.ReplaceAll(scaledBy, "NAME", "web"), sample.Workloads("web"), nil)
	converge(t, d, before, true)
	scale(t, api, namespace, "web", 4)
	kit.Eventually(t, func() error {
		if n := count(converge(t, d, before, true), "WEB"); n != 4 {
			return fmt.Errorf("%d units, want 4", n)
		}
		return nil
	})
	after := sample.Source(id, namespace, strings.NewReplacer("NAME", "web", "image: i", "image: j").Replace(scaledBy), sample.Workloads("web"), nil)
	after.Instance.Generation, after.Instance.Update.Strategy = "1", desired.BlueGreen
	want, err := d.Render(after)
	if err != nil {
		t.Fatal(err)
	}
	steps := plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})
	if err := d.Verify(t.Context(), rendering(t, d, after), steps...); err != nil {
		t.Fatal(err)
	}
	if err := d.Do(t.Context(), rendering(t, d, after), plan.Next(steps)...); err != nil {
		t.Fatal(err)
	}
	x, err := api.AppsV1().Deployments(namespace).Get(t.Context(), "web-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *x.Spec.Replicas != 4 {
		t.Errorf("the next generation begins with %d pods, want 4", *x.Spec.Replicas)
	}
	kit.Eventually(t, func() error { // the garbage collector takes pods of the former Deployment later than that
		if n := count(converge(t, d, after, true), "WEB"); n != 4 {
			return fmt.Errorf("%d units after the change, want 4", n)
		}
		return nil
	})
	converge(t, d, after, false)
}
