package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/plan"
)

// labelService names the Service of an EndpointSlice. Its controller copies the
// Service's labels too, so that slices are found by the instance's as all else is.
const labelService = "kubernetes.io/service-name"

// sliceFact is what is kept of an EndpointSlice besides.
type sliceFact struct {
	service   string // its key
	endpoints []endpoint
}

// endpoint is an address to which a Service leads.
type endpoint struct {
	pod   types.UID // "" where it is no pod's
	ready bool
}

func sliceFactOf(u *unstructured.Unstructured) *sliceFact {
	s := &sliceFact{service: shared(keyOf(kindService, u.GetNamespace(), u.GetLabels()[labelService]))}
	for _, e := range mapsAt(u.Object, "endpoints") {
		// A condition that isn't given is to be read as true.
		ready, given, err := unstructured.NestedBool(e, "conditions", "ready")
		pod := str(e, "targetRef", "uid")
		if str(e, "targetRef", "kind") != kindPod.Kind {
			pod = ""
		}
		s.endpoints = append(s.endpoints, endpoint{types.UID(pod), ready || !given || err != nil})
	}
	return s
}

// twofold says whether the instance has objects of more than one generation.
// c.mu is held.
func (c *cache) twofold(instance string) bool {
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
// traffic goes is only asked while it is led elsewhere. c.mu is held.
func (c *cache) wakes(f *fact) bool {
	return f.gk != kindSlice || f.topLevel() || c.twofold(f.instance)
}

// blind says why objects of the kind can't be seen at all; "" where they can.
// never says that no right would change that.
func (c *cache) blind(gk schema.GroupKind) (why string, never bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch k := c.kinds[gk]; {
	case k == nil:
		return fmt.Sprintf("the API server has no %s (%s)", gk.Kind, gk.Group), true
	case k.err != nil:
		return fmt.Sprintf("Jibe can't see any %s; let its credentials list and watch them: %v", gk.Kind, k.err), false
	}
	return "", false
}

// beside says whether the instance has something of another generation than the one that
// should stand.
func (c *cache) beside(instance, generation string) bool {
	return newView(c.of(instance)).twofold(generation)
}

// twofold says whether something stands there that is of another generation than
// the one that should.
func (v *view) twofold(generation string) bool {
	return generation != "" && slices.ContainsFunc(v.facts, func(f *fact) bool {
		g := f.generation()
		return g != "" && g != generation
	})
}

// directs makes a Service ready only when traffic goes where it should: all
// addresses in its EndpointSlices are of pods of the generation, and one at least is
// ready if the Service selects a pod that is.
func (c *cache) directs(v *view, r *render, generation string, f *fact, o *plan.ObservedObject) {
	selector := selectorOf(r.objects[f.key])
	if len(selector) == 0 || f.deleting {
		return
	}
	if why, never := c.blind(kindSlice); why != "" {
		o.Ready, o.Reason = false, "whether traffic goes to generation "+generation+" can't be told: "+why
		if never {
			o.Failure = o.Reason
		}
		return
	}
	others, gone, ready, newest := map[string]int{}, 0, 0, uint64(0)
	for _, slice := range v.facts {
		if slice.slice == nil || slice.slice.service != f.key || slice.deleting {
			continue
		}
		newest = max(newest, slice.version)
		for _, e := range slice.slice.endpoints {
			switch pod := v.byUID[e.pod]; {
			case e.pod == "", pod == nil && slice.controller.uid == "":
				// What another cluster or a person adds is no generation's.
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
		if left := f.lead.unsettled(newest); left > 0 {
			o.Ready, o.Reason = false, "its EndpointSlices may be those from before it was led to generation "+generation
			c.remind(f.instance, left)
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
func (v *view) awaited(r *render, generation, namespace string, selector map[string]string) bool {
	for _, f := range v.facts {
		if f.gk != kindPod || !f.ready || f.pod.finished || f.namespace != namespace || f.colour != generation {
			continue
		}
		top := v.top(f)
		if top == nil || r.objects[top.key] == nil {
			continue
		}
		labels := podLabels(r.objects[top.key], top.gk)
		if labels != nil && top.gk == kindStatefulSet {
			labels[labelPodName], labels[labelPodIndex] = f.name, f.name[strings.LastIndex(f.name, "-")+1:]
		}
		if selects(selector, labels) {
			return true
		}
	}
	return false
}
