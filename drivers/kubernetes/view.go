package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/plan"
)

// subjects are the incarnations that an event may be about: the object's own,
// those of its pods that aren't ready, and what stands between. owns says that
// there are such others, or may be.
func (c *cache) subjects(instance, key string) (about map[types.UID]bool, owns bool) {
	about = map[types.UID]bool{}
	v := newView(c.of(instance))
	for _, f := range v.facts {
		switch {
		case f.key == key:
			about[f.uid] = true
			owns = owns || infoOf(f.gk).class == workloads && f.gk != kindPod
		case f.topLevel():
		case f.gk == kindPod && f.ready:
		default:
			if top := v.top(f); top != nil && top.key == key {
				about[f.uid] = true
			}
		}
	}
	return about, owns
}

// view relates the facts of one instance to each other.
type view struct {
	facts []*fact
	byUID map[types.UID]*fact
	// failing and waiting are, by owner's key, what its first pod in trouble says.
	failing, waiting map[string]string
	// running counts, by owner's key, its pods that are ready.
	running map[string]int
	// complaint is why a workload's controller couldn't make a pod, or "".
	complaint func(types.UID) string
}

func newView(facts []*fact) *view {
	v := &view{facts: facts, byUID: make(map[types.UID]*fact, len(facts)), failing: map[string]string{}, waiting: map[string]string{}, running: map[string]int{}}
	slices.SortFunc(facts, func(a, b *fact) int { return cmp.Compare(a.key, b.key) })
	for _, f := range facts {
		v.byUID[f.uid] = f
	}
	for _, f := range facts {
		if f.gk != kindPod || f.deleting || f.pod.finished && f.controller.uid != "" {
			continue
		}
		top := v.top(f)
		if top == nil {
			continue
		}
		if f.ready {
			v.running[top.key]++
			continue
		}
		reason, failure := v.trouble(f, top)
		if failure != "" && v.failing[top.key] == "" {
			v.failing[top.key] = "pod " + f.name + ": " + failure
		}
		if reason != "" && v.waiting[top.key] == "" {
			v.waiting[top.key] = "pod " + f.name + ": " + reason
		}
	}
	return v
}

// top is the object of the render to which a pod belongs: itself, or the last
// of its owners. nil means that it is nobody's.
func (v *view) top(f *fact) *fact {
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
	if !f.topLevel() {
		return nil
	}
	return f
}

// byLabel finds the top of a pod whose ReplicaSet the watch hasn't brought yet:
// the workload of its VDU. Two watches aren't in step.
func (v *view) byLabel(f *fact) *fact {
	for _, x := range v.facts {
		if f.vdu != "" && x.vdu == f.vdu && x.gk != kindPod && vduKind(x.gk) && x.topLevel() {
			return x
		}
	}
	return nil
}

// unusual says whether something exists that only the inventory tells of.
func (v *view) unusual() bool {
	return slices.ContainsFunc(v.facts, func(f *fact) bool {
		info := infoOf(f.gk)
		return f.topLevel() && !info.always && !info.shared
	})
}

// trouble is why a pod isn't ready. What a pod of an old template suffers from
// is no failure of the new one.
func (v *view) trouble(f, top *fact) (reason, failure string) {
	reason, failure = f.reason, f.failure
	for _, name := range f.pod.claims {
		claim := v.claim(f.namespace, name)
		if claim != nil && !claim.ready {
			reason = fmt.Sprintf("claim %s isn't bound to a volume: %s", name, f.reason)
			break
		}
	}
	if failure != "" && v.outdated(f, top) {
		failure = ""
	}
	return reason, failure
}

func (v *view) claim(namespace, name string) *fact {
	for _, x := range v.facts {
		if x.gk == kindClaim && x.namespace == namespace && x.name == name {
			return x
		}
	}
	return nil
}

func (v *view) outdated(f, top *fact) bool {
	switch top.gk {
	case kindDeployment:
		set := v.byUID[f.controller.uid]
		return set != nil && set.gk == kindReplicaSet && top.revision != "" && set.revision != top.revision
	case kindStatefulSet:
		return top.revision != "" && f.pod.template != "" && f.pod.template != top.revision
	}
	return false
}

// unit makes a VNFC of a pod, if it is one: a live pod of a VDU's workload.
func (v *view) unit(f *fact) (plan.Unit, bool) {
	if f.pod.finished && f.controller.uid != "" {
		return plan.Unit{}, false // its owner replaces it, or has no more use for it
	}
	top := v.top(f)
	vdu, owner, kind := f.vdu, "", f.controller.kind
	if top != nil {
		vdu, owner, kind = cmp.Or(top.vdu, f.vdu), top.key, top.gk.Kind
	}
	if vdu == "" {
		return plan.Unit{}, false
	}
	u := plan.Unit{
		ID: string(f.uid), Key: f.key, Name: f.name, VDU: vdu, Owner: owner, Kind: kind,
		Ready: f.ready, Deleting: f.deleting, Reason: f.reason, Failure: f.failure, Generation: f.generation(),
		Metadata: map[string]string{"namespace": f.namespace},
	}
	if top != nil && !f.ready && !f.deleting {
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

// other tells of a pod that lives, or lived, and is no VNFC.
func (v *view) other(f *fact) (plan.Unit, bool) {
	if f.pod.finished && f.controller.kind != "Job" {
		return plan.Unit{}, false
	}
	u := plan.Unit{
		ID: string(f.uid), Key: f.key, Name: f.name, Kind: cmp.Or(f.controller.kind, f.gk.Kind),
		Ready: f.ready, Deleting: f.deleting,
	}
	top := v.top(f)
	if top != nil {
		u.Owner, u.Kind = top.key, top.gk.Kind
	}
	switch {
	case f.controller.kind == "Job":
		u.Reason = "pod of Job " + f.controller.name
		if top != nil && top.name != f.controller.name {
			u.Reason += " of " + top.gk.Kind + " " + top.name
		}
		u.Reason += ": Kubernetes runs Jobs to completion, they are not healed"
	case top == nil || top == f:
		u.Reason = "no VDU of the VNFD stands for this pod: it is no VNFC"
	default:
		u.Reason = fmt.Sprintf("pod of %s %s, for which no VDU of the VNFD stands: it is no VNFC", top.gk.Kind, top.name)
	}
	return u, true
}

// retention says when an object may go.
func retention(f *fact) plan.Retention {
	switch {
	case infoOf(f.gk).shared:
		return plan.RetainAlways
	case f.claimOfSet(), f.kinds != "":
		return plan.RetainWithInstance
	case f.gk == kindClaim, f.gk == kindVolume:
		return plan.RetainData
	}
	return plan.RetainNot
}

func (v *view) object(f *fact) plan.ObservedObject {
	o := plan.ObservedObject{
		Key: f.key, Incarnation: string(f.uid), Digest: f.digest, Count: f.count, Ready: f.ready,
		Deleting: f.deleting, Retention: retention(f), Reason: f.reason, Failure: f.failure, Keep: f.kept,
		Generation: f.generation(),
	}
	if f.gk == kindDaemonSet {
		o.Count = f.scheduled
	}
	if f.dead {
		o.Dead = f.failure
	}
	// A controller counts in its status what was; a pod may have gone since.
	if due := max(f.count, f.scheduled); f.ready && v.running[f.key] < due {
		o.Ready, o.Reason = false, fmt.Sprintf("%d of %d pods are ready", v.running[f.key], due)
	}
	if f.ready || f.deleting || f.gk == kindPod {
		return o
	}
	pod := cmp.Or(v.failing[f.key], v.waiting[f.key])
	switch said := v.complaint(f.uid); {
	case f.failure != "" && pod != "":
		o.Failure = f.failure + "; " + pod
		o.Reason = o.Failure
	case pod != "":
		o.Failure, o.Reason = v.failing[f.key], pod
	case f.failure == "" && vduKind(f.gk) && said != "":
		o.Reason = said
	}
	return o
}
