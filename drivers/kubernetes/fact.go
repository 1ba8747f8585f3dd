package kubernetes

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// fact is what is kept of an object: a few hundred bytes instead of kilobytes.
// It is never altered once it is in the cache.
type fact struct {
	uid       types.UID
	version   uint64 // resourceVersion
	instance  string
	vdu       string
	gk        schema.GroupKind
	key       string
	name      string
	namespace string
	digest    string
	kinds     string // of an inventory
	count     int    // spec.replicas, or -1
	controller
	deleting bool
	ready    bool
	reason   string
	failure  string
	// revision numbers a Deployment's present template, and a ReplicaSet's; of a
	// StatefulSet it names the template that its pods should have.
	revision string
	// fields are those that Jibe manages. Instances of one package share them.
	fields unique.Handle[string]
	// defines is what a CustomResourceDefinition defines.
	defines schema.GroupKind
	pod     *podFact
}

// controller is the owner that manages the object, if any.
type controller struct {
	uid  types.UID
	kind string
	name string
}

// podFact is what is kept of a pod besides.
type podFact struct {
	node, ip, image, generation string
	created                     time.Time
	finished                    bool // it ran to its end, well or not
	waiting                     bool // for a node
	template                    string
	claims                      []string
}

// same says whether nothing differs that anyone decides on.
func (f *fact) same(g *fact) bool {
	a, b := *f, *g
	a.version, b.version = 0, 0
	a.pod, b.pod = nil, nil
	if f.pod != nil && g.pod != nil {
		p, q := *f.pod, *g.pod
		if !slices.Equal(p.claims, q.claims) {
			return false
		}
		p.claims, q.claims = nil, nil
		if p.node != q.node || p.ip != q.ip || p.image != q.image || p.finished != q.finished || p.waiting != q.waiting || p.template != q.template {
			return false
		}
	}
	return a == b
}

// factOf reads the facts of an object.
func factOf(gk schema.GroupKind, u *unstructured.Unstructured) *fact {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	f := &fact{
		uid: u.GetUID(), version: parseVersion(u.GetResourceVersion()), gk: gk,
		instance: labels[LabelInstance], vdu: labels[LabelVDU],
		name: u.GetName(), namespace: u.GetNamespace(),
		digest: annotations[AnnotationDigest], kinds: annotations[AnnotationKinds],
		count: -1, deleting: u.GetDeletionTimestamp() != nil,
		revision: annotations["deployment.kubernetes.io/revision"],
		fields:   managedFields(u),
	}
	f.key = keyOf(gk, f.namespace, f.name)
	if k := annotations[AnnotationKey]; k != "" && f.namespace == "" {
		f.key = k
	}
	if owner := metav1.GetControllerOf(u); owner != nil {
		f.controller = controller{uid: owner.UID, kind: owner.Kind, name: owner.Name}
	}
	if scalable(gk) {
		f.count = 1
		if n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas"); found && err == nil {
			f.count = int(n)
		}
	}
	switch gk {
	case kindStatefulSet:
		f.revision, _, _ = unstructured.NestedString(u.Object, "status", "updateRevision")
	case kindCRD:
		f.defines, _ = definition(u)
	case kindPod:
		f.pod = podFactOf(u)
	}
	assess(f, u)
	if f.deleting {
		f.ready, f.failure = false, ""
		f.reason = "being deleted"
		if held := u.GetFinalizers(); len(held) > 0 {
			f.reason = "being deleted, held by finalizer " + strings.Join(held, ", ")
		}
	}
	return f
}

// managedFields are the fields that Jibe has applied and still owns.
func managedFields(u *unstructured.Unstructured) unique.Handle[string] {
	for _, m := range u.GetManagedFields() {
		if m.Manager == fieldManager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" && m.FieldsV1 != nil {
			var compact bytes.Buffer
			if json.Compact(&compact, m.FieldsV1.GetRawBytes()) == nil {
				return unique.Make(compact.String())
			}
		}
	}
	return unique.Make("")
}
