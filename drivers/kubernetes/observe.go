package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// Observe reports what the watches know of the instance.
func (d *Driver) Observe(ctx context.Context, rendering drivers.Rendering) (plan.Observed, error) {
	src, want, r := rendering.Source, rendering.Desired, formOf(rendering)
	id := src.Instance.ID
	facts, err := d.facts(ctx, id, want)
	if err != nil {
		d.cache.missing(id)
		return plan.Observed{}, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	v := newView(facts)
	v.complaint = d.cache.complaints.about
	wanted := make(map[string]plan.Object, len(want.Objects))
	for _, x := range want.Objects {
		wanted[x.Key] = x
	}
	twofold := v.twofold(want.Generation)
	mints := v.mints(r, wanted)
	var o plan.Observed
	for _, f := range facts {
		if f.gk != kindPod {
			continue
		}
		if u, ok := v.unit(f); ok {
			if m := mints[u.Owner]; m != nil && f.controller.uid == m.owner.uid && !f.deleting {
				u.Outdated = m.outdated(f)
			}
			o.Units = append(o.Units, u)
		} else if u, ok := v.other(f); ok {
			o.Others = append(o.Others, u)
		}
	}
	for _, f := range facts {
		x, isWanted := wanted[f.key]
		switch {
		case f.claimOfSet():
			o.Objects = append(o.Objects, v.object(f))
		case !f.topLevel():
		case f.kinds != "" && !isWanted && v.unusual():
			// The inventory goes last: without it nobody would look for the others.
		case !isWanted && len(want.Objects) > 0 && f.relabelled():
			// Another instance's, which will claim it: nobody's to prune.
		default:
			seen := v.object(f)
			if f.count >= 0 && !(isWanted && counted(want, f.key)) {
				seen.Keep = keptReplicas(f.count) // one of the next generation may begin with it
			}
			if isWanted {
				seen.Outgrown = f.outgrown(r, x)
				if x.Directs && twofold {
					d.directs(v, r, want.Generation, f, &seen)
				}
				if seen.Digest == x.Digest && d.drifted(src, r, f) {
					seen.Digest = "drifted from " + seen.Digest
				}
			}
			o.Objects = append(o.Objects, seen)
		}
	}
	o.Objects = append(o.Objects, d.sharedObjects(id, want)...)
	o.Left = d.left(id, want)
	d.sort(o.Objects)
	slices.SortFunc(o.Units, func(a, b plan.Unit) int { return cmp.Compare(a.Key, b.Key) })
	return o, nil
}

// counted says whether the number of the object's units is Jibe's to say.
func counted(want plan.Desired, key string) bool {
	return slices.ContainsFunc(want.Groups, func(g plan.Group) bool { return g.Owner == key && !g.Free })
}

// facts waits until everything that the instance may consist of can be seen.
func (d *Driver) facts(ctx context.Context, id string, want plan.Desired) ([]*fact, error) {
	needed := make(map[schema.GroupKind]bool, len(kinds))
	for gk, info := range kinds {
		if info.always {
			needed[gk] = gk == kindPod || gk == kindClaim || gk == kindConfigMap
		}
	}
	for _, x := range want.Objects {
		gk, _, _, ok := splitKey(x.Key)
		if ok {
			needed[gk] = true
		}
	}
	if err := d.cache.sync(ctx, needed); err != nil {
		return nil, err
	}
	facts := d.cache.of(id)
	more := false
	for _, f := range facts {
		if f.kinds == "" || !f.topLevel() {
			continue
		}
		for name := range strings.SplitSeq(f.kinds, ",") {
			if gk := parseKind(name); !needed[gk] {
				needed[gk], more = true, true
			}
		}
	}
	if more {
		if err := d.cache.sync(ctx, needed); err != nil {
			return nil, err
		}
		facts = d.cache.of(id)
	}
	return facts, nil
}

// left is what desired objects that are no longer there left to their successors.
func (d *Driver) left(id string, want plan.Desired) map[string]string {
	var all map[string]string
	for _, x := range want.Objects {
		gk, _, _, _ := splitKey(x.Key)
		if gk != kindService || d.cache.get(gk, x.Key) != nil {
			continue
		}
		if kept := d.cache.estate.left(id, x.Key); kept != "" {
			if all == nil {
				all = map[string]string{}
			}
			all[x.Key] = kept
		}
	}
	return all
}

// sharedObjects are the namespaces and definitions of the render that exist but
// aren't the instance's own: they are used as they stand.
func (d *Driver) sharedObjects(id string, want plan.Desired) []plan.ObservedObject {
	var list []plan.ObservedObject
	for _, x := range want.Objects {
		gk, _, _, _ := splitKey(x.Key)
		if !infoOf(gk).shared {
			continue
		}
		if f := d.cache.get(gk, x.Key); f != nil && f.instance != id {
			list = append(list, plan.ObservedObject{
				Key: f.key, Incarnation: string(f.uid), Digest: x.Digest, Count: -1, Ready: f.ready,
				Deleting: f.deleting, Retention: plan.RetainAlways, Reason: f.reason, Failure: f.failure,
			})
		}
	}
	return list
}

// sort puts objects into the order in which they are created.
func (d *Driver) sort(list []plan.ObservedObject) {
	rank := func(key string) class {
		gk, _, name, _ := splitKey(key)
		if gk == kindConfigMap && strings.HasPrefix(name, inventoryName("")) {
			return first
		}
		return infoOf(gk).class
	}
	slices.SortFunc(list, func(a, b plan.ObservedObject) int {
		return cmp.Or(cmp.Compare(rank(a.Key), rank(b.Key)), cmp.Compare(a.Key, b.Key))
	})
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
