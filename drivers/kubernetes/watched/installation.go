package watched

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
)

// belong notes which installation the object is of.
func (f *Fact) belong(i manifest.Installation, u *unstructured.Unstructured) {
	if i == "" {
		f.installed = true
		return
	}
	switch label := u.GetLabels()[manifest.LabelInstallation]; label {
	case string(i):
		f.installed, f.marked = true, true
	case "":
	default:
		f.Elsewhere, f.Instance = f.Instance, ""
	}
	for _, m := range u.GetManagedFields() {
		f.former = f.former || fields.IsOf("", m)
		f.installed = f.installed || fields.IsOf(i, m)
	}
}

// Owns says whether the object, which is nil where there is none, is this installation's, of the
// instance.
func (c *Cache) Owns(f *Fact, instance string) bool {
	if f == nil || f.Instance != instance || instance == "" {
		return false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.relations(instance).ours(f)
}

// Taken says whether objects of the instance that no installation is named on are this
// installation's.
func (c *Cache) Taken(instance string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.taken[instance]
}

// Former says whether a Jibe that knew no installations has applied fields of the object.
func (f *Fact) Former() bool { return f.former }

// owned are the facts of the instance that are this installation's: a slice that is the
// caller's, of facts that nobody alters. c.mu is held.
func (c *Cache) owned(instance string) []*Fact {
	all := make([]*Fact, 0, len(c.instances[instance]))
	r := c.relations(instance)
	for _, f := range c.instances[instance] {
		if r.ours(f) {
			all = append(all, f)
		}
	}
	return all
}

// relations tell whose what controllers made for the instance is. It doesn't say which
// installation it is of, but who made it does.
type relations struct {
	cache    *Cache
	instance string
	// alone says that there is nobody else's: then all that is the instance's is ours.
	alone bool
	byUID map[types.UID]*Fact
	sets  []*Fact
	// others are the namespaces that have objects of the instance which aren't ours.
	others map[string]bool
}

// relations of the instance. c.mu is held.
func (c *Cache) relations(instance string) *relations {
	r := &relations{cache: c, instance: instance}
	if c.installation == "" {
		r.alone = true
		return r
	}
	// What no installation is named on is somebody else's unless it is known to be ours.
	unknown := func(f *Fact) bool { return f.TopLevel() && !f.installed && !c.taken[instance] }
	if len(c.elsewhere[instance]) == 0 {
		r.alone = true
		for _, f := range c.instances[instance] {
			if unknown(f) {
				r.alone = false
				break
			}
		}
		if r.alone {
			return r
		}
	}
	r.byUID, r.others = map[types.UID]*Fact{}, map[string]bool{}
	for _, all := range []map[string]*Fact{c.instances[instance], c.elsewhere[instance]} {
		for _, f := range all {
			r.byUID[f.UID] = f
			if f.GroupKind == manifest.KindStatefulSet {
				r.sets = append(r.sets, f)
			}
			if f.Elsewhere != "" || unknown(f) {
				r.others[f.namespace] = true
			}
		}
	}
	return r
}

// ours says whether the object, of the instance, is this installation's. Where that can't be
// told of what a controller made, it isn't if others have objects of the instance there.
func (r *relations) ours(f *Fact) bool {
	for range 8 { // owners could form a ring
		switch {
		case f.Elsewhere != "":
			return false
		case r.alone, f.marked:
			return true
		}
		maker := r.byUID[f.controller.uid]
		if f.controller.uid == "" {
			switch {
			case f.leftBy != "": // who made it is gone
			case f.TopLevel() || !f.claimOfSet():
				return f.installed || r.cache.taken[r.instance]
			default:
				maker = r.setOf(f)
			}
		}
		if maker == nil {
			return !r.others[f.namespace]
		}
		f = maker
	}
	return false
}

// setOf is the StatefulSet that a claim was made for, as its name says: "data-db-0" is the one
// of pod db-0.
func (r *relations) setOf(claim *Fact) *Fact {
	pod := strings.TrimRight(claim.Name, "0123456789")
	for _, set := range r.sets {
		if set.namespace == claim.namespace && pod != claim.Name && strings.HasSuffix(pod, "-"+set.Name+"-") {
			return set
		}
	}
	return nil
}

// prove looks for proof that what an earlier version made of the instance, which knew no
// installations, is this installation's: the digest of one of these objects, which nobody can
// make without the installation's key, is that of the render, or of what stood before. As
// earlier versions pruned each other's objects, one proves the others. Where nothing should
// exist and nothing is known of what stood before, no proof is possible: that is refused,
// since what runs must neither be forgotten nor, being another's, be deleted.
func (c *Cache) prove(id string, want plan.Desired, former *plan.Desired) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.installation == "" || c.taken[id] {
		return nil
	}
	var unproven []string
	installed := false
	for key, f := range c.instances[id] {
		switch {
		case !f.TopLevel():
		case f.installed:
			installed = true
		case proves(want, f), former != nil && proves(*former, f):
			c.taken[id] = true
			return nil
		default:
			unproven = append(unproven, key)
		}
	}
	if len(unproven) == 0 || installed || former != nil || len(want.Objects) > 0 {
		return nil
	}
	slices.Sort(unproven)
	return &drivers.RefusedError{Object: unproven[0], Reason: fmt.Sprintf(
		"it and %d more objects of the VNF instance were made by an earlier version of Jibe, and nothing proves which installation's they are: "+
			"give those that are this one's the label %s: %s, and others' that of theirs", len(unproven)-1, manifest.LabelInstallation, c.installation)}
}

func proves(d plan.Desired, f *Fact) bool {
	return slices.ContainsFunc(d.Objects, func(x plan.Object) bool { return x.Key == f.Key && x.Digest != "" && x.Digest == f.Digest })
}

// Unmarked are the objects of the instance that are this installation's but don't say so:
// those of earlier versions, and claims that a StatefulSet has made, which outlive it. What
// proves that the others are ours comes last, so that the proof is there until all are marked.
func (c *Cache) Unmarked(id string, want plan.Desired) []*Fact {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.installation == "" {
		return nil
	}
	var first, last []*Fact
	for _, f := range c.owned(id) {
		switch {
		case f.marked && !f.former, f.stray, f.Deleting, !f.TopLevel() && !f.claimOfSet(), f.claimOfSet() && f.controller.kind == "Pod":
		case proves(want, f):
			last = append(last, f)
		default:
			first = append(first, f)
		}
	}
	return append(first, last...)
}
