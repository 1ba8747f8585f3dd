package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// The resources that an instance consists of.
func deployments() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
}

func statefulSets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
}

func replicaSets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
}

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

// object is one of the package's objects.
type object struct {
	schema.GroupVersionResource
	name string
}

func (o object) String() string { return o.Resource + "/" + o.name }

// parts are an instance's objects, where suffix is what its generation puts at the end of
// their names.
func parts(suffix string) []object {
	return []object{
		{deployments(), "web" + suffix}, {statefulSets(), "store" + suffix}, {core("pods"), "probe" + suffix},
		{core("configmaps"), "settings" + suffix}, {core("services"), "web"}, {core("services"), "store"},
	}
}

// loadedParts is how many of the parts, from the first, have an image.
const loadedParts = 3

// faultEvery is the mean time between two faults of objects.
const faultEvery = 150 * time.Millisecond

// breakObjects kills and edits pods and objects behind Jibe's back until stop is closed.
// A fault that meets an object that isn't there, or no API server, is one that missed.
func (w *world) breakObjects(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	for kit.Rest(ctx, stop, time.Duration(rng.Int64N(int64(2*faultEvery)))) {
		v := w.vnfs[rng.IntN(len(w.vnfs))]
		if v.calm {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, requestWait)
		kind, what, err := w.fault(ctx, rng, v)
		cancel()
		if err != nil {
			w.log.note("chaos", v.id, "missed: %s: %v", what, err)
			w.log.count("faults that missed")
			continue
		}
		w.log.note("chaos", v.id, "%s", what)
		w.log.count("fault: " + kind)
	}
	return nil
}

// fault does one of them. It returns its kind and what it was in full.
func (w *world) fault(ctx context.Context, rng *rand.Rand, v *vnf) (kind, what string, err error) {
	now, err := process.Intent(ctx, w.repository, "main", v.dir)
	if err != nil {
		return "", "look for the generation", err
	}
	all := parts(suffixOf(now))
	if n, err := strconv.Atoi(now.Generation); err == nil && rng.IntN(4) == 0 { // what may be about to go
		all = parts(suffixOf(&desired.Instance{Generation: strings.TrimPrefix(strconv.Itoa(n-1), "0")}))
	}
	part := all[rng.IntN(len(all))]
	loaded := all[rng.IntN(loadedParts)]
	merge := func(o object, patch string) error {
		_, err := w.objects.Resource(o.GroupVersionResource).Namespace(v.namespace).
			Patch(ctx, o.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "chaos"})
		return err
	}
	switch dice := rng.IntN(100); {
	case dice < 22:
		return w.breakPod(ctx, rng, v)
	case dice < 40:
		how := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}[rng.IntN(3)]
		if part.Resource == "statefulsets" && how == metav1.DeletePropagationOrphan {
			w.mu.Lock()
			w.orphaned[v.id] = append(w.orphaned[v.id], part.name)
			w.mu.Unlock()
		}
		err := w.objects.Resource(part.GroupVersionResource).Namespace(v.namespace).Delete(ctx, part.name, metav1.DeleteOptions{PropagationPolicy: &how})
		return "delete " + part.Resource, fmt.Sprintf("delete %s (%s)", part, how), err
	case dice < 55:
		image := fmt.Sprintf("registry.k8s.io/pause:3.%d", rng.IntN(9))
		container, _, _ := strings.Cut(loaded.name, "-")
		patch := fmt.Sprintf(`{"containers":[{"name":%q,"image":%q}]}`, container, image)
		if loaded.Resource == "pods" {
			patch = `{"spec":` + patch + `}`
		} else {
			patch = `{"spec":{"template":{"spec":` + patch + `}}}`
		}
		_, err := w.objects.Resource(loaded.GroupVersionResource).Namespace(v.namespace).
			Patch(ctx, loaded.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "chaos"})
		return "image of " + loaded.Resource, fmt.Sprintf("let %s have image %s", loaded, image), err
	case dice < 72:
		o, n := all[rng.IntN(2)], rng.IntN(5)
		return "replicas of " + o.Resource, fmt.Sprintf("let %s have %d replicas", o, n), merge(o, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
	case dice < 82:
		if part.Resource == "configmaps" {
			part = all[0]
		}
		value := []string{`"chaos"`, "null"}[rng.IntN(2)]
		return "label of " + part.Resource, fmt.Sprintf("let %s have the label tier %s", part, value),
			merge(part, fmt.Sprintf(`{"metadata":{"labels":{"tier":%s}}}`, value))
	case dice < 85:
		w.mu.Lock()
		w.stripped[v.id] = append(w.stripped[v.id], part)
		w.mu.Unlock()
		return "Jibe's label of " + part.Resource, fmt.Sprintf("take Jibe's label off %s", part),
			merge(part, `{"metadata":{"labels":{"vnf.jibe.dev/instance":null}}}`)
	case dice < 93:
		patch := []string{`{"LOG_LEVEL":"debug"}`, `{"MODE":null}`, `{"LOG_LEVEL":null,"MODE":"standby"}`}[rng.IntN(3)]
		return "data of a configmap", "edit the data of the ConfigMap: " + patch, merge(all[3], `{"data":`+patch+`}`)
	}
	return "selector of a service", "let the Service select something else", merge(all[4], `{"spec":{"selector":{"app":"chaos"}}}`)
}

// relabel gives the objects back the label that was taken off them, as a person does whom
// Jibe has reported that an object isn't its own: it knows one without its label only by what
// it last rendered, which is another thing once the package has changed. A ConfigMap they
// delete: one that the package has comes anew, and of one that it has no more nothing but the label
// says whose it is, which isn't enough for Jibe to delete it.
func (w *world) relabel(ctx context.Context) error {
	var errs []error
	for _, v := range w.vnfs {
		for _, o := range w.stripped[v.id] {
			objects := w.objects.Resource(o.GroupVersionResource).Namespace(v.namespace)
			if o.Resource == "configmaps" {
				if err := objects.Delete(ctx, o.name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
					errs = append(errs, err)
				}
				continue
			}
			_, err := objects.Patch(ctx, o.name, types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"labels":{"vnf.jibe.dev/instance":%q}}}`, v.id), metav1.PatchOptions{FieldManager: "chaos"})
			if !apierrors.IsNotFound(err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// breakPod kills one of the instance's pods in one of the ways in which pods go.
func (w *world) breakPod(ctx context.Context, rng *rand.Rand, v *vnf) (kind, what string, err error) {
	pods, err := w.client.CoreV1().Pods(v.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", "choose a pod", err
	}
	dice := rng.IntN(100)
	if len(pods.Items) == 0 {
		return "", "choose a pod", fmt.Errorf("there is none")
	}
	p := pods.Items[rng.IntN(len(pods.Items))]
	name := fmt.Sprintf("%s %s", p.Name, p.UID)
	switch {
	case dice < 30:
		return "delete pods", "delete pod " + name, w.client.CoreV1().Pods(v.namespace).Delete(ctx, p.Name, metav1.DeleteOptions{})
	case dice < 50:
		return "delete pods at once", "delete pod at once: " + name,
			w.client.CoreV1().Pods(v.namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	case dice < 75:
		return "evict pods", "evict pod " + name, w.client.CoreV1().Pods(v.namespace).EvictV1(ctx,
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: v.namespace}})
	}
	// As a kubelet does that runs out of memory. A ReplicaSet leaves such a pod where it
	// is, for people to look at, so that only those are let fail that somebody replaces.
	if len(p.OwnerReferences) > 0 && p.OwnerReferences[0].Kind == "ReplicaSet" {
		return "", "let pod fail", fmt.Errorf("%s is of a ReplicaSet", p.Name)
	}
	w.mu.Lock()
	w.failed[string(p.UID)] = true
	w.mu.Unlock()
	_, err = w.client.CoreV1().Pods(v.namespace).Patch(ctx, p.Name, types.StrategicMergePatchType,
		[]byte(fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."}}`, p.UID)),
		metav1.PatchOptions{FieldManager: "chaos"}, "status")
	return "let pods fail", "let pod fail: " + name, err
}
