package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// snapshot is everything in the namespace, by "Kind/name", without what says nothing of
// what was asked for.
type snapshot map[string]string

// unseen are kinds that tell of others, or of the past.
var unseen = []string{"Event", "EndpointSlice", "Endpoints", "ControllerRevision", "Lease", "PodMetrics"}

// snapshot looks at everything in the namespace. Pods are distinguished by their UIDs where
// same is true; otherwise they are counted by what they run.
func (b *bench) snapshot(same bool) snapshot {
	b.Helper()
	lists, err := discovery.ServerPreferredNamespacedResources(b.api.Discovery())
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		b.Fatal(err)
	}
	texts := map[string][]string{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range l.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || slices.Contains(unseen, r.Kind) {
				continue
			}
			list, err := b.dynamic().Resource(gv.WithResource(r.Name)).Namespace(b.namespace).List(b.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // its definition went meanwhile
			}
			if err != nil {
				b.Fatalf("list %s: %v", r.Name, err)
			}
			for i := range list.Items {
				u := &list.Items[i]
				if r.Kind == "ConfigMap" && u.GetName() == "kube-root-ca.crt" {
					continue // the cluster gives it to each namespace, in its own time
				}
				replicas, counted, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
				if r.Kind == "ReplicaSet" && counted && replicas == 0 {
					continue // the past of a Deployment
				}
				name, text := essence(r.Kind, u, same)
				texts[name] = append(texts[name], text)
			}
		}
	}
	all := snapshot{}
	for name, list := range texts {
		slices.Sort(list) // pods of one owner come in no order
		all[name] = strings.Join(list, "\n")
	}
	return all
}

// essence is the name of the object in a snapshot, and what it says there.
func essence(kind string, u *unstructured.Unstructured, same bool) (name, text string) {
	u = u.DeepCopy()
	name = kind + "/" + u.GetName()
	managed := ""
	for _, m := range u.GetManagedFields() {
		if strings.HasPrefix(m.Manager, "jibe") && m.Subresource == "" && m.FieldsV1 != nil {
			managed += m.FieldsV1.String()
		}
	}
	annotations := u.GetAnnotations()
	for _, counter := range []string{"deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history", "deprecated.daemonset.template.generation"} {
		delete(annotations, counter)
	}
	labels := u.GetLabels()
	if kind == "PersistentVolumeClaim" {
		delete(labels, "vnf.jibe.dev/installation") // a claim that a controller makes gets it a little later
	}
	meta := map[string]any{"labels": labels, "annotations": annotations, "uid": string(u.GetUID()), "managed": managed, "finalizers": u.GetFinalizers()}
	if u.GetDeletionTimestamp() != nil {
		meta["deleting"] = true
	}
	delete(u.Object, "status")
	u.Object["metadata"] = meta
	if kind == "Pod" && !same {
		name = "Pod/of " + labels["app"]
		delete(labels, "pod-template-generation") // counts changes
		delete(meta, "uid")
		delete(meta, "managed")
		spec, _ := u.Object["spec"].(map[string]any)
		delete(spec, "nodeName")
		strip(spec, "volumes")
		for _, key := range []string{"containers", "initContainers"} {
			containers, _ := spec[key].([]any)
			for _, c := range containers {
				strip(c.(map[string]any), "volumeMounts")
			}
		}
	}
	out, err := json.MarshalIndent(u.Object, "", " ")
	if err != nil {
		return name, err.Error()
	}
	return name, string(out)
}

// strip takes away the volumes, or their mounts, that every pod gets under a name of its own.
func strip(of map[string]any, key string) {
	list, _ := of[key].([]any)
	of[key] = slices.DeleteFunc(slices.Clone(list), func(v any) bool {
		m, _ := v.(map[string]any)
		name, _ := m["name"].(string)
		return strings.HasPrefix(name, "kube-api-access-")
	})
}

// unchanged fails the test unless the namespace is as it was.
func (b *bench) unchanged(before snapshot, same bool) {
	b.Helper()
	kit.Eventually(b, func() error { // what was deleted may still be going
		if diff := cmp.Diff(before, b.snapshot(same)); diff != "" {
			return fmt.Errorf("the namespace isn't as it was (-before +after):\n%s", diff)
		}
		return nil
	})
}
