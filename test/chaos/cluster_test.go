package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

// checkCluster says where what runs isn't what head wants: the objects with all that the
// package says of them, as many pods as the scale level says, each with the right image and
// ready, and nothing else.
func (w *world) checkCluster(ctx context.Context, intents map[string]*desired.Instance) error {
	live := map[string]map[string]*unstructured.Unstructured{} // by namespace, then resource/name
	kinds := append(parts(""), object{replicaSets(), ""})
	for i, o := range kinds {
		if slices.ContainsFunc(kinds[:i], func(other object) bool { return other.GroupVersionResource == o.GroupVersionResource }) {
			continue
		}
		list, err := w.objects.Resource(o.GroupVersionResource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, x := range list.Items {
			if live[x.GetNamespace()] == nil {
				live[x.GetNamespace()] = map[string]*unstructured.Unstructured{}
			}
			live[x.GetNamespace()][o.Resource+"/"+x.GetName()] = &x
		}
	}
	var errs []error
	for _, v := range w.vnfs {
		now := intents[v.id]
		for key, incarnation := range now.Condemned {
			if strings.HasPrefix(key, "Pod/") {
				for _, o := range live[v.namespace] {
					if string(o.GetUID()) == incarnation {
						errs = append(errs, w.about(v, "the condemned %s %s lives", key, incarnation))
					}
				}
			}
		}
		wanted, err := w.render(v.id, now)
		if err != nil {
			errs = append(errs, w.about(v, "%w", err))
			continue
		}
		for _, problem := range compare(wanted, live[v.namespace], suffixOf(now), int64(1+now.Levels["front"])) {
			errs = append(errs, w.about(v, "%w", problem))
		}
	}
	return errors.Join(errs...)
}

// compare says how the objects of one namespace differ from what must run, with a number
// of front ends. suffix is what the generation puts at the end of names.
func compare(wanted, live map[string]*unstructured.Unstructured, suffix string, fronts int64) []error {
	var errs []error
	web, store, probes := "web"+suffix, "store"+suffix, "pods/probe"+suffix
	left := maps.Clone(live)
	delete(left, "configmaps/kube-root-ca.crt")
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		want, have := wanted[key].DeepCopy(), live[key]
		delete(left, key)
		if have == nil {
			errs = append(errs, fmt.Errorf("%s is missing", key))
			continue
		}
		if key == "deployments/"+web {
			if err := unstructured.SetNestedField(want.Object, fronts, "spec", "replicas"); err != nil {
				return append(errs, err)
			}
		}
		if err := within(key, want.Object, have.Object); err != nil {
			errs = append(errs, err)
		}
		if have.GetDeletionTimestamp() != nil {
			errs = append(errs, fmt.Errorf("%s is being deleted", key))
		}
		for _, field := range []string{"replicas", "readyReplicas", "updatedReplicas"} {
			n, ok, _ := unstructured.NestedInt64(want.Object, "spec", "replicas")
			if is, _, _ := unstructured.NestedInt64(have.Object, "status", field); ok && is != n {
				errs = append(errs, fmt.Errorf("%s has status.%s %d, want %d", key, field, is, n))
			}
		}
	}
	pods := map[string]int64{}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		o := left[key]
		switch kind, _, _ := strings.Cut(key, "/"); {
		case kind == "replicasets" && owned(o, "Deployment", web):
			if n, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); n > 0 && n != fronts {
				errs = append(errs, fmt.Errorf("%s has %d replicas, want %d", key, n, fronts))
			}
		case kind == "pods" && owned(o, "ReplicaSet", ""):
			pods["web"]++
			errs = append(errs, checkPod(o, wanted["deployments/"+web], "spec", "template", "spec"))
		case kind == "pods" && owned(o, "StatefulSet", store):
			pods["store"]++
			errs = append(errs, checkPod(o, wanted["statefulsets/"+store], "spec", "template", "spec"))
		default:
			errs = append(errs, fmt.Errorf("%s is nobody's", key))
		}
	}
	if probe := live[probes]; probe != nil {
		errs = append(errs, checkPod(probe, wanted[probes], "spec"))
	}
	if want := map[string]int64{"web": fronts, "store": 1}; !maps.Equal(pods, want) {
		errs = append(errs, fmt.Errorf("the pods are %v, want %v", pods, want))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// checkPod says whether the pod has the spec that the package gives it, and is ready.
func checkPod(pod, of *unstructured.Unstructured, spec ...string) error {
	want, _, err := unstructured.NestedMap(of.Object, spec...)
	if err != nil {
		return err
	}
	have, _, err := unstructured.NestedMap(pod.Object, "spec")
	if err != nil {
		return err
	}
	if err := within("pods/"+pod.GetName(), want, have); err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(pod.Object, "status", "conditions")
	if err != nil {
		return err
	}
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "True" && pod.GetDeletionTimestamp() == nil {
			return nil
		}
	}
	return fmt.Errorf("pod %s %s is not ready", pod.GetName(), pod.GetUID())
}

// owned says whether a controller of the kind and name ("" is any) has made the object.
func owned(o *unstructured.Unstructured, kind, name string) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.Kind == kind && (name == "" || owner.Name == name)
}

// within says where have doesn't have all that want does. What others added is theirs.
func within(where string, want, have any) error {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is absent", where)
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if err := within(where+"."+key, want[key], have[key]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return fmt.Errorf("%s has not %d elements: %v", where, len(want), have)
		}
		for i := range want {
			if err := within(fmt.Sprintf("%s[%d]", where, i), want[i], have[i]); err != nil {
				return err
			}
		}
		return nil
	}
	// Numbers come as float64 from YAML and as int64 from the API server.
	if !reflect.DeepEqual(want, have) && fmt.Sprint(want) != fmt.Sprint(have) {
		return fmt.Errorf("%s is %v, want %v", where, have, want)
	}
	return nil
}

// checkShown compares what the API shows with head, and the VNFCs with the pods that run.
func (w *world) checkShown(ctx context.Context, s *process.Server) error {
	instances, err := process.All[shown](ctx, s, process.Instances+"?all_fields")
	if err != nil {
		return err
	}
	pods, err := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	run := map[string][]string{}
	for _, p := range pods.Items {
		run[p.Namespace] = append(run[p.Namespace], string(p.UID))
	}
	errs := []error{w.people.CheckInstances(ctx)}
	for _, in := range instances {
		v := w.vnf(in.ID)
		var ids []string
		for _, x := range in.Info.Units {
			ids = append(ids, x.ID)
		}
		slices.Sort(ids)
		slices.Sort(run[v.namespace])
		if in.State != "INSTANTIATED" || !slices.Equal(ids, run[v.namespace]) {
			errs = append(errs, w.about(v, "it is shown as %s with the VNFCs %v, and the pods are %v", in.State, ids, run[v.namespace]))
		}
	}
	return errors.Join(errs...)
}
