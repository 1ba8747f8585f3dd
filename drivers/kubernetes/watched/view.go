package watched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
)

// Subjects are the incarnations that an event may be about: the object's own,
// those of its pods that aren't ready, and what stands between. owns says that
// there are such others, or may be.
func (c *Cache) Subjects(instance, key string) (about map[types.UID]bool, owns bool) {
	about = map[types.UID]bool{}
	v := newView(c.of(instance))
	for _, f := range v.facts {
		switch {
		case f.Key == key:
			about[f.UID] = true
			owns = owns || manifest.InfoOf(f.GroupKind).Class == manifest.ClassWorkloads && f.GroupKind != manifest.KindPod
		case f.TopLevel():
		case f.GroupKind == manifest.KindPod && f.ready:
		default:
			if top := v.top(f); top != nil && top.Key == key {
				about[f.UID] = true
			}
		}
	}
	return about, owns
}

// view relates the facts of one instance to each other.
type view struct {
	facts []*Fact
	byUID map[types.UID]*Fact
	// failing and waiting are, by owner's key, what its first pod in trouble says.
	failing, waiting map[string]string
	// running counts, by owner's key, its pods that are ready; former those that are of a template
	// which its controller replaces.
	running, former map[string]int
	// templates are, by key, those of DaemonSets of which a pod has the present number.
	templates map[string]string
	// newest is, by owner's key, when its newest pod was made, in seconds since 1970.
	newest map[string]int64
	// creationFailure is what a workload's controller said last of a pod that it couldn't make.
	creationFailure func(types.UID) creationFailure
	// late reports whether claims of the storage class are bound once a pod uses them; nil of none.
	late func(class string) bool
}

func newView(facts []*Fact) *view {
	v := &view{facts: facts, byUID: make(map[types.UID]*Fact, len(facts)), failing: map[string]string{}, waiting: map[string]string{}, running: map[string]int{}, former: map[string]int{}, templates: map[string]string{}, newest: map[string]int64{}}
	slices.SortFunc(facts, func(a, b *Fact) int { return cmp.Compare(a.Key, b.Key) })
	for _, f := range facts {
		v.byUID[f.UID] = f
	}
	for _, f := range facts {
		if f.GroupKind == manifest.KindPod && f.controller.kind == manifest.KindDaemonSet.Kind {
			if top := v.top(f); top != nil && f.pod.revision != "" && f.pod.revision == top.revision {
				v.templates[top.Key] = f.pod.template
			}
		}
	}
	for _, f := range facts {
		if f.GroupKind != manifest.KindPod {
			continue
		}
		if top := v.top(f); top != nil {
			v.newest[top.Key] = max(v.newest[top.Key], f.pod.created.Unix())
		}
		if f.Deleting || f.pod.finished && f.controller.uid != "" {
			continue
		}
		top := v.top(f)
		if top == nil {
			continue
		}
		if top.replaces && v.outdated(f, top) {
			v.former[top.Key]++
		} else if f.ready {
			v.running[top.Key]++
		}
		if f.ready {
			continue
		}
		reason, failure := v.trouble(f, top)
		if failure != "" && v.failing[top.Key] == "" {
			v.failing[top.Key] = "pod " + f.Name + ": " + failure
		}
		if reason != "" && v.waiting[top.Key] == "" {
			v.waiting[top.Key] = "pod " + f.Name + ": " + reason
		}
	}
	return v
}

// top is the object of the render to which a pod belongs: itself, or the last
// of its owners, which may have been left behind by the render's. nil means that it is nobody's.
func (v *view) top(f *Fact) *Fact {
	for range 8 { // owners could form a ring
		if f.controller.uid == "" {
			break
		}
		owner := v.byUID[f.controller.uid]
		if owner == nil {
			return v.byLabel(f)
		}
		f = owner
	}
	if !f.TopLevel() && f.leftBy == "" {
		return nil
	}
	return f
}

// byLabel finds the top of a pod whose ReplicaSet the watch hasn't brought yet:
// the workload of its VDU. Two watches aren't in step.
func (v *view) byLabel(f *Fact) *Fact {
	for _, x := range v.facts {
		if f.vdu != "" && x.vdu == f.vdu && x.GroupKind != manifest.KindPod && manifest.IsVDUKind(x.GroupKind) && x.TopLevel() {
			return x
		}
	}
	return nil
}

// unusual says whether something exists that only the inventory lists.
func (v *view) unusual() bool {
	return slices.ContainsFunc(v.facts, func(f *Fact) bool {
		info := manifest.InfoOf(f.GroupKind)
		return f.TopLevel() && !info.Always && !info.Shared
	})
}

// trouble is why a pod isn't ready. The failure of a pod of a former template
// is no failure of the present one, and what it waits for is nothing that others need.
func (v *view) trouble(f, top *Fact) (reason, failure string) {
	if v.outdated(f, top) {
		return "it has a former template and isn't replaced yet", ""
	}

	reason, failure = f.Reason, f.failure
	for _, name := range f.pod.claims {
		claim := v.claim(f.namespace, name)
		if claim != nil && !claim.ready {
			reason = fmt.Sprintf("claim %s isn't bound to a volume: %s", name, f.Reason)
			break
		}
	}
	return reason, failure
}

func (v *view) claim(namespace, name string) *Fact {
	for _, x := range v.facts {
		if x.GroupKind == manifest.KindClaim && x.namespace == namespace && x.Name == name {
			return x
		}
	}
	return nil
}

// outdated says whether the pod is of a template that its owner had before. All are, as long as
// the owner's controller hasn't seen what it has now: a busy one takes seconds for that.
func (v *view) outdated(f, top *Fact) bool {
	switch {
	case top.unheeded:
		return true
	case top.GroupKind == manifest.KindDeployment:
		set := v.byUID[f.controller.uid]
		return set != nil && set.GroupKind == manifest.KindReplicaSet && top.revision != "" && set.revision != top.revision
	case top.GroupKind == manifest.KindStatefulSet:
		return top.revision != "" && f.pod.template != "" && f.pod.template != top.revision
	case top.GroupKind == manifest.KindDaemonSet:
		// One that had this template before, and has it again, leaves pods of the lower number as they are.
		now := v.templates[top.Key]
		return now != "" && f.pod.template != "" && f.pod.template != now
	}
	return false
}

// unit makes a VNFC of a pod, if it is one: a live pod of a VDU's workload.
func (v *view) unit(f *Fact) (plan.Unit, bool) {
	if f.pod.finished && f.controller.uid != "" {
		return plan.Unit{}, false // its owner replaces it, or has no more use for it
	}
	top := v.top(f)
	vdu, owner, kind := f.vdu, "", f.controller.kind
	if top != nil {
		vdu, owner, kind = cmp.Or(top.vdu, f.vdu), top.Key, top.GroupKind.Kind
	}
	if vdu == "" {
		return plan.Unit{}, false
	}
	u := plan.Unit{
		ID: string(f.UID), Key: f.Key, Name: f.Name, VDU: vdu, Owner: owner, Kind: kind,
		Ready: f.ready, Deleting: f.Deleting, Grace: f.pod.grace, Reason: f.Reason, Failure: f.failure, Generation: f.generation(),
		Orphan:   top == nil && f.controller.uid == "",
		Metadata: map[string]string{"namespace": f.namespace},
	}
	if top != nil && !f.ready && !f.Deleting {
		u.Reason, u.Failure = v.trouble(f, top)
	}
	for name, value := range map[string]string{"node": f.pod.node, "podIP": f.pod.ip, "image": f.pod.image()} {
		if value != "" {
			u.Metadata[name] = value
		}
	}
	if !f.pod.created.IsZero() {
		u.Metadata["creationTime"] = f.pod.created.Format(time.RFC3339)
	}
	return u, true
}

// other describes a pod that lives, or lived, and is no VNFC.
func (v *view) other(f *Fact) (plan.Unit, bool) {
	if f.pod.finished && f.controller.kind != "Job" {
		return plan.Unit{}, false
	}
	u := plan.Unit{
		ID: string(f.UID), Key: f.Key, Name: f.Name, Kind: cmp.Or(f.controller.kind, f.GroupKind.Kind),
		Ready: f.ready, Deleting: f.Deleting,
	}
	top := v.top(f)
	if top != nil {
		u.Owner, u.Kind = top.Key, top.GroupKind.Kind
	}
	switch {
	case f.controller.kind == "Job":
		u.Reason = "pod of Job " + f.controller.name
		if top != nil && top.Name != f.controller.name {
			u.Reason += " of " + top.GroupKind.Kind + " " + top.Name
		}
		u.Reason += ": Kubernetes runs Jobs to completion, they are not healed"
	case top == nil || top == f:
		u.Reason = "no VDU of the VNFD stands for this pod: it is no VNFC"
	default:
		u.Reason = fmt.Sprintf("pod of %s %s, for which no VDU of the VNFD stands: it is no VNFC", top.GroupKind.Kind, top.Name)
	}
	return u, true
}

// waitsForPod reports whether the object is a claim that isn't bound before a pod uses it. Where a pod
// does, that one isn't ready before the claim is bound.
func (v *view) waitsForPod(f *Fact) bool {
	return f.GroupKind == manifest.KindClaim && !f.ready && !f.Deleting && f.failure == "" && v.late != nil && v.late(f.class)
}

// retention says when an object may go.
func retention(f *Fact) plan.Retention {
	switch {
	case manifest.InfoOf(f.GroupKind).Shared:
		return plan.RetainAlways
	case f.claimOfSet(), f.Inventory != "":
		return plan.RetainWithInstance
	case f.GroupKind == manifest.KindClaim, f.GroupKind == manifest.KindVolume:
		return plan.RetainData
	}
	return plan.RetainNot
}

// hasData reports whether data are, or may be, lost with the object: those of claims that Kubernetes deletes after it. What
// a custom resource's operator does isn't known.
func (v *view) hasData(f *Fact) bool {
	switch f.GroupKind {
	case manifest.KindClaim, manifest.KindVolume:
		return true
	}
	if f.set.takesClaims || manifest.IsCustom(f.GroupKind) {
		return true
	}
	return slices.ContainsFunc(v.facts, func(x *Fact) bool {
		return x.GroupKind == manifest.KindClaim && v.owns(f, x)
	})
}

// owns reports whether the object is one of the owners of the other, or of those.
func (v *view) owns(f, of *Fact) bool {
	for range 8 { // owners could form a ring
		if of == nil || of.controller.uid == "" {
			return false
		}
		if of.controller.uid == f.UID {
			return true
		}
		of = v.byUID[of.controller.uid]
	}
	return false
}

func (v *view) object(f *Fact) plan.ObservedObject {
	o := plan.ObservedObject{
		Key: f.Key, Incarnation: string(f.UID), Digest: f.Digest, Count: f.Count, Ready: f.ready,
		Deleting: f.Deleting, Retention: retention(f), Reason: f.Reason, Failure: f.failure, Keep: f.kept,
		Generation: f.generation(), LeftBy: f.leftBy, Ordered: f.GroupKind == manifest.KindStatefulSet,
		Data: v.hasData(f),
	}
	if f.created > 0 {
		o.Created = time.Unix(f.created, 0).UTC()
	}
	if f.GroupKind == manifest.KindDaemonSet {
		o.Count = f.scheduled
	}
	if v.waitsForPod(f) {
		o.Ready, o.Reason = true, ""
	}
	if f.Dead {
		o.Dead = f.failure
	}
	// A controller counts in its status what was; a pod may have gone since. And its status may be
	// seen before its last pods are: two watches aren't in step.
	switch due := max(f.Count, f.scheduled); {
	case !f.ready:
	case v.running[f.Key] < due:
		o.Ready, o.Reason = false, fmt.Sprintf("%d of %d pods are ready", v.running[f.Key], due)
	case v.former[f.Key] > 0:
		o.Ready, o.Reason = false, fmt.Sprintf("%d pods of its former template are still there", v.former[f.Key])
	}
	if f.ready || f.Deleting || f.GroupKind == manifest.KindPod {
		return o
	}
	pod := cmp.Or(v.failing[f.Key], v.waiting[f.Key])
	failure := cmp.Or(f.failure, v.creationFails(f))
	switch {
	case failure != "" && pod != "":
		o.Failure = failure + "; " + pod
		o.Reason = o.Failure
	case f.failure != "":
	case failure != "":
		o.Failure, o.Reason = failure, failure
	case pod != "":
		o.Failure, o.Reason = v.failing[f.Key], pod
	case manifest.IsVDUKind(f.GroupKind) || f.GroupKind == manifest.KindJob:
		o.Reason = cmp.Or(v.creationFailure(f.UID).message, o.Reason)
	}
	return o
}
