package watched

import (
	"slices"
	"strings"
	"time"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// Fact is what is kept of an object: a few hundred bytes instead of kilobytes.
// It is never altered once it is in the cache.
type Fact struct {
	// UID is the incarnation.
	UID     types.UID
	version uint64 // resourceVersion
	// Instance is the VNF instance that its label names, "" where there is none, or where the
	// object is another installation's: then Elsewhere is what it names.
	Instance, Elsewhere string
	// installed says that this installation made the object, as its label or its field
	// manager says; former, that a Jibe that knew no installations applied fields of it.
	// marked, that its label names this installation.
	installed, former, marked bool
	// stray says that no watch brings the object, as it has lost the instance's label ([Cache.findOwners]).
	stray    bool
	vdu      string
	labelled string // the generation that its label names
	// GroupKind is its kind, Key its key in plans.
	GroupKind schema.GroupKind
	Key       string
	Name      string
	namespace string
	// Digest is that of the render that stands there, "" where Jibe applied none.
	Digest string
	// Inventory, of the instance's inventory, lists its unusual kinds ([manifest.AnnotationKinds]).
	Inventory string
	// Count is spec.replicas, or -1.
	Count     int
	scheduled int // how many nodes a DaemonSet has a pod for
	controller
	// Deleting says that it waits to be gone.
	Deleting      bool
	deletedByJibe bool
	// created is when the object was made, in seconds since 1970.
	created int64
	ready   bool
	// Dead says that it will never run again, for the reason that is the failure.
	Dead bool
	// Reason is why it isn't ready.
	Reason  string
	failure string
	// revision numbers a Deployment's or DaemonSet's present template, and a ReplicaSet's; of a
	// StatefulSet it names the template that its pods should have.
	revision string
	// unheeded says of a Deployment or StatefulSet that its controller hasn't taken note of its
	// last change yet: revision is that of what was wanted before.
	unheeded bool
	// replaces says of a Deployment, StatefulSet or DaemonSet that its controller replaces every unit of a former
	// template: none is left once it is done.
	replaces bool
	// kept is what a successor takes over of it, of a Service only ([keep]).
	kept string
	// Fields are those that Jibe manages. Instances of one package share them.
	Fields unique.Handle[string]
	// Touched changes whenever somebody else changes more than status and scale.
	Touched uint64
	// immutable identifies the immutable fields of a Pod or Job ([manifest.AnnotationImmutable]).
	immutable string
	// manual says that its owner leaves units as they are when what it makes changes;
	// written is then, and of what makes pods, when Jibe last changed it, in seconds since 1970.
	// set is what else is kept of a StatefulSet.
	manual  bool
	written int64
	// lacks says that it has fewer pods than it should ([lacksPods]).
	lacks bool
	set   setFact
	// leftBy is, of a ReplicaSet that a Deployment's controller made, the key of that Deployment if it was deleted
	// and left it (kubectl delete --cascade=orphan): it goes on making pods until one that selects them takes it back.
	leftBy string
	// makes is the instance that the object's pods are labelled with, makesOf the generation.
	// A pod counts as what it makes.
	makes, makesOf string
	// own are the package's own labels of these pods, or in the selector of a Service ([ownLabels]).
	own unique.Handle[string]
	// class is the storage class of a claim; late says of a StorageClass that its claims are bound
	// once a pod uses them.
	class string
	late  bool
	// scales is, of an autoscaler, the key of the workload whose size it decides on.
	scales string
	// defines is what a CustomResourceDefinition defines.
	defines schema.GroupKind
	pod     *podFact
	slice   *sliceFact
	traffic *traffic // of a Service
}

// controller is the owner that manages the object, if any.
type controller struct {
	uid   types.UID
	group string
	kind  string
	name  string
}

func controllerOf(r metav1.OwnerReference) controller {
	gv, _ := schema.ParseGroupVersion(r.APIVersion) // a version that is none is that of no kind
	return controller{uid: r.UID, group: shared(gv.Group), kind: r.Kind, name: r.Name}
}

func (c controller) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: c.group, Kind: c.kind}
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
	// idle is since when it hasn't been ready, in seconds since 1970; 0 while it is.
	idle int64
	// revision is, of a pod of a DaemonSet, the number of its template.
	revision string
	grace    int // how many seconds it has to end, once it is being deleted
	claims   []string
}

// same says whether the facts differ in nothing that anyone decides on.
func (f *Fact) same(g *Fact) bool {
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
		if p.node != q.node || p.ip != q.ip || p.images != q.images || p.config != q.config || p.finished != q.finished || p.waiting != q.waiting || p.template != q.template || p.revision != q.revision || p.grace != q.grace {
			return false
		}
	}
	if f.slice != nil && g.slice != nil && (f.slice.service != g.slice.service || !slices.Equal(f.slice.endpoints, g.slice.endpoints)) {
		return false
	}
	return a == b
}

// maxUnusual bounds how many kinds of an inventory are looked for. A user who may write in the namespace
// may have written it.
const maxUnusual = 256

// unusualKinds returns the kinds that the inventory lists, none of what is no inventory.
func (f *Fact) unusualKinds() []schema.GroupKind {
	if f.Inventory == "" {
		return nil
	}
	var kinds []schema.GroupKind
	for name := range strings.SplitSeq(f.Inventory, ",") {
		if len(kinds) == maxUnusual {
			break
		}
		kinds = append(kinds, manifest.ParseKind(name))
	}
	return kinds
}

// FactOf reads the facts of an object, as the installation sees it.
func FactOf(i manifest.Installation, gk schema.GroupKind, u *unstructured.Unstructured) *Fact {
	labels, annotations, pods := u.GetLabels(), u.GetAnnotations(), manifest.PodLabels(u, gk)
	f := &Fact{
		UID: u.GetUID(), version: parseVersion(u.GetResourceVersion()), GroupKind: gk,
		Instance: labels[manifest.LabelInstance], vdu: labels[manifest.LabelVDU], labelled: shared(labels[manifest.LabelGeneration]),
		Name: u.GetName(), namespace: u.GetNamespace(),
		Digest: annotations[manifest.AnnotationDigest],
		Count:  -1, Deleting: u.GetDeletionTimestamp() != nil, created: u.GetCreationTimestamp().Unix(),
		revision: annotations["deployment.kubernetes.io/revision"],
		Fields:   unique.Make(""), kept: keptOf(gk, u), makes: shared(pods[manifest.LabelInstance]), makesOf: shared(pods[manifest.LabelGeneration]), own: ownLabels(gk, u, pods),
	}
	if gk == manifest.KindConfigMap && f.Name == manifest.InventoryName(f.Instance) {
		f.Inventory = annotations[manifest.AnnotationKinds]
	}
	f.belong(i, u)
	f.Key = manifest.Key(gk, f.namespace, f.Name)
	if k := annotations[manifest.AnnotationKey]; k != "" && f.namespace == "" {
		f.Key = k
	}
	if owner := metav1.GetControllerOf(u); owner != nil {
		f.controller = controllerOf(*owner)
	} else if refs := u.GetOwnerReferences(); gk == manifest.KindClaim && f.Digest == "" && len(refs) > 0 {
		// A claim goes with whoever owns it, be it called the controller or not.
		f.controller = controllerOf(refs[0])
	}
	if gk == manifest.KindSlice {
		f.slice = sliceFactOf(u)
		if f.controller.uid != "" {
			f.ready = true
			return f
		}
	}
	if f.controller.uid == "" {
		f.Fields, f.Touched = fields.Managed(i, gk, u) // what is made for others is never compared
		f.keepInstance(i, u)
	}
	if manifest.IsScalable(gk) {
		f.Count = 1
		if n, found, err := unstructured.NestedInt64(u.Object, "spec", "replicas"); found && err == nil {
			f.Count = int(n)
		}
	}
	f.readKind(u, labels, annotations)
	if f.manual = f.manual && f.controller.uid == ""; f.manual || makesPods(gk) {
		f.written = writtenAt(i, u)
	}
	assess(f, u)
	f.lacks = makesPods(gk) && lacksPods(f, u)
	if f.Deleting {
		f.ready, f.Dead, f.failure = false, false, ""
		f.Reason = leaving(f, u)
	}
	return f
}

// readKind reads what only objects of the kind have.
func (f *Fact) readKind(u *unstructured.Unstructured, labels, annotations map[string]string) {
	switch f.GroupKind {
	case manifest.KindDeployment:
		f.unheeded, f.replaces = unheeded(u), true
	case manifest.KindJob:
		f.immutable = annotations[manifest.AnnotationImmutable]
	case manifest.KindReplicaSet:
		f.manual = true
		if hash := labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" && f.controller.uid == "" && f.Fields.Value() == "" {
			f.leftBy = manifest.Key(manifest.KindDeployment, f.namespace, strings.TrimSuffix(f.Name, "-"+hash))
		}
	case manifest.KindDaemonSet:
		f.manual, f.revision = onDelete(u), annotations["deprecated.daemonset.template.generation"]
		f.replaces = !f.manual
		n, _, _ := unstructured.NestedInt64(u.Object, "status", "desiredNumberScheduled")
		f.scheduled = int(n)
	case manifest.KindStatefulSet:
		f.manual, f.unheeded = onDelete(u), unheeded(u)
		f.revision, _, _ = unstructured.NestedString(u.Object, "status", "updateRevision")
		f.set = setFactOf(u)
		f.replaces = !f.manual && f.set.partition == 0
	case manifest.KindService:
		f.traffic = &traffic{generation: shared(manifest.Selector(u)[manifest.LabelGeneration])}
	case manifest.KindClaim:
		f.class = shared(raw.String(u.Object, "spec", "storageClassName"))
	case manifest.KindStorage:
		f.late = raw.String(u.Object, "volumeBindingMode") == "WaitForFirstConsumer"
	case manifest.KindAutoscaler:
		f.scales = scaledBy(u)
	case manifest.KindCRD:
		f.defines, _ = manifest.Definition(u)
	case manifest.KindPod:
		f.pod, f.immutable = podFactOf(u), annotations[manifest.AnnotationImmutable]
	}
}

// makesPods kinds make their pods themselves, and tell only in events that they couldn't.
func makesPods(gk schema.GroupKind) bool {
	return gk == manifest.KindStatefulSet || gk == manifest.KindDaemonSet || gk == manifest.KindJob
}

// shared is s, in memory that all facts with the same text share.
func shared(s string) string { return unique.Make(s).Value() }

// generation is the one to which the object belongs; "" for objects that generations share
// or that are made for a while (the pods of a Job).
func (f *Fact) generation() string {
	if f.claimOfSet() || f.controller.kind == "Job" || f.GroupKind == manifest.KindSlice {
		return ""
	}
	return f.labelled
}

// leaving says what an object that is being deleted waits for.
func leaving(f *Fact, u *unstructured.Unstructured) string {
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
	if f.GroupKind == manifest.KindPod {
		// Why the control plane evicts it: "Taint manager: deleting due to NoExecute taint".
		if c := condition(u, "DisruptionTarget"); c["status"] == "True" && raw.String(c, "message") != "" {
			said += " (" + raw.String(c, "message") + ")"
		}
	}
	return said
}

// relabelled says that the object's label, by which it is the instance's, was
// written by somebody else over what Jibe had applied. Where the pods that it makes have
// the label too, it is the instance's all the same: somebody put back what was taken off.
func (f *Fact) relabelled() bool {
	if f.makes != "" && f.makes == f.Instance {
		return false
	}
	ours := fields.Parse(f.Fields.Value())
	return !ours.Empty() && !fields.In(fieldpath.MakePathOrDie("metadata", "labels", manifest.LabelInstance), ours)
}
