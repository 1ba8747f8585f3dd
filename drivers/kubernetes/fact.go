package kubernetes

import (
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
	colour    string // the generation that its label names
	gk        schema.GroupKind
	key       string
	name      string
	namespace string
	digest    string
	kinds     string // of an inventory
	count     int    // spec.replicas, or -1
	scheduled int    // how many nodes a DaemonSet has a pod for
	controller
	deleting bool
	told     bool // to go, by Jibe
	ready    bool
	dead     bool // it will never run again, for the reason that is the failure
	reason   string
	failure  string
	// revision numbers a Deployment's present template, and a ReplicaSet's; of a
	// StatefulSet it names the template that its pods should have.
	revision string
	// kept is what a successor takes over of it, of a Service only ([keep]).
	kept string
	// fields are those that Jibe manages. Instances of one package share them.
	fields unique.Handle[string]
	// touched changes whenever somebody else changes more than status and scale.
	touched uint64
	// mould is that of a Pod or Job, of which not everything can be changed.
	mould string
	// manual says that its owner leaves units as they are when what it makes changes;
	// written is then when Jibe last changed it, in seconds since 1970.
	manual  bool
	written int64
	// makes is the instance that the object's pods are labelled with.
	makes string
	// defines is what a CustomResourceDefinition defines.
	defines schema.GroupKind
	pod     *podFact
	slice   *sliceFact
	lead    *lead // of a Service
}

// controller is the owner that manages the object, if any.
type controller struct {
	uid  types.UID
	kind string
	name string
}

// podFact is what is kept of a pod besides.
type podFact struct {
	node, ip string
	// images are those of its containers, config is AnnotationConfig. Pods of one
	// package share them.
	images   unique.Handle[string]
	config   string
	created  time.Time
	finished bool // it ran to its end, well or not
	waiting  bool // for a node
	template string
	claims   []string
}

// same says whether nothing differs that anyone decides on.
func (f *fact) same(g *fact) bool {
	a, b := *f, *g
	a.version, b.version = 0, 0
	a.pod, b.pod = nil, nil
	a.slice, b.slice = nil, nil
	if f.pod != nil && g.pod != nil {
		p, q := *f.pod, *g.pod
		if !slices.Equal(p.claims, q.claims) {
			return false
		}
		p.claims, q.claims = nil, nil
		if p.node != q.node || p.ip != q.ip || p.images != q.images || p.config != q.config || p.finished != q.finished || p.waiting != q.waiting || p.template != q.template {
			return false
		}
	}
	if f.slice != nil && g.slice != nil && (f.slice.service != g.slice.service || !slices.Equal(f.slice.endpoints, g.slice.endpoints)) {
		return false
	}
	return a == b
}

// factOf reads the facts of an object.
func factOf(gk schema.GroupKind, u *unstructured.Unstructured) *fact {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	f := &fact{
		uid: u.GetUID(), version: parseVersion(u.GetResourceVersion()), gk: gk,
		instance: labels[LabelInstance], vdu: labels[LabelVDU], colour: shared(labels[LabelGeneration]),
		name: u.GetName(), namespace: u.GetNamespace(),
		digest: annotations[AnnotationDigest], kinds: annotations[AnnotationKinds],
		count: -1, deleting: u.GetDeletionTimestamp() != nil,
		revision: annotations["deployment.kubernetes.io/revision"],
		fields:   unique.Make(""), kept: keptOf(gk, u), makes: shared(podLabels(u, gk)[LabelInstance]),
	}
	f.key = keyOf(gk, f.namespace, f.name)
	if k := annotations[AnnotationKey]; k != "" && f.namespace == "" {
		f.key = k
	}
	if owner := metav1.GetControllerOf(u); owner != nil {
		f.controller = controller{uid: owner.UID, kind: owner.Kind, name: owner.Name}
	} else if refs := u.GetOwnerReferences(); gk == kindClaim && f.digest == "" && len(refs) > 0 {
		// A claim goes with whoever owns it, be it called the controller or not.
		f.controller = controller{uid: refs[0].UID, kind: refs[0].Kind, name: refs[0].Name}
	}
	if gk == kindSlice {
		f.slice = sliceFactOf(u)
		if f.controller.uid != "" {
			f.ready = true
			return f
		}
	}
	if f.controller.uid == "" {
		f.fields, f.touched = managed(gk, u) // what is made for others is never compared
	}
	if scalable(gk) {
		f.count = 1
		if n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas"); found && err == nil {
			f.count = int(n)
		}
	}
	switch gk {
	case kindJob:
		f.mould = annotations[AnnotationMould]
	case kindReplicaSet:
		f.manual = true
	case kindDaemonSet:
		f.manual = onDelete(u)
		n, _, _ := unstructured.NestedInt64(u.Object, "status", "desiredNumberScheduled")
		f.scheduled = int(n)
	case kindStatefulSet:
		f.manual = onDelete(u)
		f.revision, _, _ = unstructured.NestedString(u.Object, "status", "updateRevision")
	case kindService:
		f.lead = &lead{generation: shared(selectorOf(u)[LabelGeneration]), version: f.version}
	case kindCRD:
		f.defines, _ = definition(u)
	case kindPod:
		f.pod, f.mould = podFactOf(u), annotations[AnnotationMould]
	}
	if f.manual = f.manual && f.controller.uid == ""; f.manual {
		f.written = writtenAt(u)
	}
	assess(f, u)
	if f.deleting {
		f.ready, f.dead, f.failure = false, false, ""
		f.reason = leaving(f, u)
	}
	return f
}

// shared is s in memory that all facts share which have the same.
func shared(s string) string { return unique.Make(s).Value() }

// generation is that of which the object is, "" for what generations share or
// what is made for a while (the pods of a Job).
func (f *fact) generation() string {
	if f.claimOfSet() || f.controller.kind == "Job" || f.gk == kindSlice {
		return ""
	}
	return f.colour
}

// leaving tells what an object that was told to go waits for.
func leaving(f *fact, u *unstructured.Unstructured) string {
	said := "being deleted"
	if f.pod != nil && f.pod.node != "" {
		said += " on node " + f.pod.node
	}
	// A pod's timestamp lies ahead by its time of grace.
	at := u.GetDeletionTimestamp().UTC()
	if grace := u.GetDeletionGracePeriodSeconds(); grace != nil {
		at = at.Add(-time.Duration(*grace) * time.Second)
	}
	said += " since " + at.Format(time.RFC3339)
	held := u.GetFinalizers()
	if slices.Contains(held, metav1.FinalizerDeleteDependents) {
		held = slices.DeleteFunc(slices.Clone(held), func(x string) bool { return x == metav1.FinalizerDeleteDependents })
		said += ", until what it owns is gone"
	}
	if len(held) > 0 {
		said += ", held by finalizer " + strings.Join(held, ", ")
	}
	if f.gk == kindPod {
		// Why the control plane evicts it: "Taint manager: deleting due to NoExecute taint".
		if c := condition(u, "DisruptionTarget"); c["status"] == "True" && str(c, "message") != "" {
			said += " (" + str(c, "message") + ")"
		}
	}
	return said
}

// relabelled says that the object's label, by which it is the instance's, was
// written by somebody else over what Jibe had applied. Where the pods that it makes have
// the label too, it is the instance's all the same: somebody put back what was taken off.
func (f *fact) relabelled() bool {
	if f.makes != "" && f.makes == f.instance {
		return false
	}
	var set fieldSet
	if f.fields.Value() == "" || json.Unmarshal([]byte(f.fields.Value()), &set) != nil {
		return false
	}
	return !fieldPath{"f:metadata", "f:labels", "f:" + LabelInstance}.in(set)
}
