package watched

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/plan"
)

// labelService names the Service of an EndpointSlice. Its controller copies the
// Service's labels too, so that slices are found by the instance's as all else is.
const labelService = "kubernetes.io/service-name"

// sliceFact is what is kept of an EndpointSlice besides.
type sliceFact struct {
	service   string // its key
	endpoints []endpoint
	lost      time.Time // when an address was last seen to be taken out
}

// endpoint is an address to which a Service directs traffic.
type endpoint struct {
	pod   types.UID // "" where it is no pod's
	ready bool
}

func sliceFactOf(u *unstructured.Unstructured) *sliceFact {
	s := &sliceFact{service: shared(manifest.Key(manifest.KindService, u.GetNamespace(), u.GetLabels()[labelService]))}
	for _, e := range raw.Maps(u.Object, "endpoints") {
		// A condition that isn't given is to be read as true.
		ready, given, err := unstructured.NestedBool(e, "conditions", "ready")
		pod := raw.String(e, "targetRef", "uid")
		if raw.String(e, "targetRef", "kind") != manifest.KindPod.Kind {
			pod = ""
		}
		s.endpoints = append(s.endpoints, endpoint{types.UID(pod), ready || !given || err != nil})
	}
	return s
}

// severalGenerations says whether the instance has objects of more than one generation.
// c.mu is held.
func (c *Cache) severalGenerations(instance string) bool {
	seen := ""
	for _, f := range c.instances[instance] {
		switch g := f.generation(); {
		case g == "" || g == seen:
		case seen == "":
			seen = g
		default:
			return true
		}
	}
	return false
}

// wakes says whether a change of the object is of interest to its instance: where
// traffic goes only matters while it is being switched. c.mu is held.
func (c *Cache) wakes(f *Fact) bool {
	return f.GroupKind != manifest.KindSlice || f.TopLevel() || c.severalGenerations(f.Instance)
}

// Unseen returns why objects of the kind can't be seen in the namespace; "" where they can.
// never reports that no right would change that.
func (c *Cache) Unseen(gk schema.GroupKind, namespace string) (why string, never bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.watches(gk) {
		return fmt.Sprintf("the API server has no %s (%s)", gk.Kind, gk.Group), true
	}
	for k := range c.within(gk, []string{namespace}) {
		if k.err != nil {
			return fmt.Sprintf("Jibe can't see any %s; let its credentials list and watch them: %v", gk.Kind, k.err), false
		}
	}
	return "", false
}

// OtherGeneration says whether the instance has something of another generation than the one that
// should stand.
func (c *Cache) OtherGeneration(instance, generation string) bool {
	return newView(c.of(instance)).otherGeneration(generation)
}

// otherGeneration says whether something stands there that is of another generation than
// the one that should.
func (v *view) otherGeneration(generation string) bool {
	return generation != "" && slices.ContainsFunc(v.facts, func(f *Fact) bool {
		g := f.generation()
		return g != "" && g != generation
	})
}

// switched makes a Service ready only when traffic goes where it should: all
// addresses in its EndpointSlices are of pods of the generation, one at least is
// ready if the Service selects a pod that is, and whoever follows them has had time to.
func (c *Cache) switched(v *view, r *manifest.Form, generation string, f *Fact, o *plan.ObservedObject) {
	selector := manifest.Selector(r.Objects[f.Key])
	if len(selector) == 0 || f.Deleting {
		return
	}
	if why, never := c.Unseen(manifest.KindSlice, f.namespace); why != "" {
		o.Ready, o.Reason = false, "whether traffic goes to generation "+generation+" is unknown: "+why
		if never {
			o.Failure = o.Reason
		}
		return
	}
	others, gone, ready, lost := map[string]int{}, 0, 0, time.Time{}
	for _, slice := range v.facts {
		if slice.slice == nil || slice.slice.service != f.Key || slice.Deleting {
			continue
		}
		if slice.slice.lost.After(lost) {
			lost = slice.slice.lost
		}
		for _, e := range slice.slice.endpoints {
			switch pod := v.byUID[e.pod]; {
			case e.pod == "", pod == nil && slice.controller.uid == "":
				// Another cluster or a person added it: it is no generation's.
			case pod == nil:
				gone++
			case pod.generation() != "" && pod.generation() != generation:
				others[pod.generation()]++
			case e.ready:
				ready++
			}
		}
	}
	switch {
	case len(others) > 0:
		other := slices.Min(slices.Collect(maps.Keys(others)))
		o.Ready, o.Reason = false, fmt.Sprintf("its EndpointSlices still hold %s of generation %s", addresses(others[other]), other)
	case gone > 0:
		o.Ready, o.Reason = false, fmt.Sprintf("its EndpointSlices still hold %s of pods that are gone", addresses(gone))
	case ready == 0 && v.awaited(r, generation, f.namespace, selector):
		o.Ready, o.Reason = false, "its EndpointSlices hold no ready address of generation "+generation+" yet"
	default:
		if left := f.traffic.unfollowed(lost); left > 0 {
			o.Ready, o.Reason = false, "it directs traffic to generation "+generation+", and requests may still be sent to where it did before"
			c.remind(f.Instance, left)
		}
	}
}

func addresses(n int) string {
	if n == 1 {
		return "1 address"
	}
	return fmt.Sprintf("%d addresses", n)
}

// awaited says whether a pod of the generation that is ready has the labels.
// Pods have those of their templates: no fact holds them.
func (v *view) awaited(r *manifest.Form, generation, namespace string, selector map[string]string) bool {
	for _, f := range v.facts {
		if f.GroupKind != manifest.KindPod || !f.ready || f.pod.finished || f.namespace != namespace || f.labelled != generation {
			continue
		}
		top := v.top(f)
		if top == nil || r.Objects[top.Key] == nil {
			continue
		}
		labels := manifest.PodLabels(r.Objects[top.Key], top.GroupKind)
		if labels != nil && top.GroupKind == manifest.KindStatefulSet {
			labels[manifest.LabelPodName], labels[manifest.LabelPodIndex] = f.Name, f.Name[strings.LastIndex(f.Name, "-")+1:]
		}
		if manifest.Selects(selector, labels) {
			return true
		}
	}
	return false
}
