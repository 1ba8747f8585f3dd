package watched

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
)

// Observe reports what the watches know of the instance, compared with what it should be;
// r holds the rendered objects, and is nil where nothing should exist. former is what stood
// before, nil where that isn't known. suspected is asked
// of objects whose digest is right, whether they differ from their render all the same.
// An error wraps [drivers.ErrUnavailable]: something can't be seen.
func (c *Cache) Observe(ctx context.Context, id string, want plan.Desired, former *plan.Desired, r *manifest.Form, suspected func(*Fact) bool) (plan.Observed, error) {
	facts, err := c.facts(ctx, id, want, former)
	if err != nil {
		c.Missed(id)
		return plan.Observed{}, err
	}
	v := newView(facts)
	v.creationFailure, v.late = c.creationFailure, c.late
	wanted := make(map[string]plan.Object, len(want.Objects))
	for _, x := range want.Objects {
		wanted[x.Key] = x
	}
	switching := v.otherGeneration(want.Generation)
	var o plan.Observed
	o.Units, o.Others = c.units(v, facts, v.manualOwners(r, wanted))
	for _, f := range facts {
		x, isWanted := wanted[f.Key]
		switch {
		case f.claimOfSet():
			o.Objects = append(o.Objects, v.object(f))
		case !f.TopLevel() && f.leftBy == "":
		case f.Inventory != "" && !isWanted && v.unusual():
			// The inventory goes last: without it nobody would look for the others.
		case !isWanted && len(want.Objects) > 0 && f.relabelled():
			// It is another instance's, which will claim it: it isn't this one's to prune.
		default:
			seen := v.object(f)
			seen.Autoscaled = c.autoscaler(f.Key)
			if f.Count >= 0 && f.leftBy == "" && !(isWanted && counted(want, f.Key)) {
				seen.Keep = keptReplicas(f.Count) // one of the next generation may begin with it
			}
			if isWanted {
				c.compare(v, r, want.Generation, switching, f, x, &seen)
				if seen.Digest == x.Digest && suspected(f) {
					seen.Digest = "drifted from " + seen.Digest
				}
			}
			o.Objects = append(o.Objects, seen)
		}
	}
	o.Objects = append(o.Objects, c.sharedObjects(id, want)...)
	o.Left = c.handovers(id, want)
	sortObjects(o.Objects)
	slices.SortFunc(o.Units, func(a, b plan.Unit) int { return cmp.Compare(a.Key, b.Key) })
	return o, nil
}

// units are the pods that are VNFCs, and others those that live as such do.
func (c *Cache) units(v *view, facts []*Fact, manual map[string]*manualOwner) (units, others []plan.Unit) {
	for _, f := range facts {
		if f.GroupKind != manifest.KindPod {
			continue
		}
		u, ok := v.unit(f)
		if !ok {
			if u, ok = v.other(f); ok {
				others = append(others, u)
			}
			continue
		}
		if m := manual[u.Owner]; m != nil && f.controller.uid == m.owner.UID && !f.Deleting {
			u.Outdated = m.outdated(f)
		}
		if why := v.blocks(f); why != "" {
			u.Outdated, u.Blocks = cmp.Or(u.Outdated, why), true
		}
		if by := c.autoscaler(u.Owner); by != "" {
			u.Metadata["autoscaler"] = by
		}
		units = append(units, u)
	}
	return units, others
}

// compare adds what of a wanted object isn't as its render. switching reports whether traffic goes to another generation.
func (c *Cache) compare(v *view, r *manifest.Form, generation string, switching bool, f *Fact, x plan.Object, seen *plan.ObservedObject) {
	seen.Outgrown = f.Outgrown(r, x)
	if x.Directs && switching {
		c.switched(v, r, generation, f, seen)
		seen.Marked, seen.Blurred = v.unmarked(r, generation, f) != nil, v.held(r, generation, f) != nil
	}
}

// late reports whether claims of the storage class are bound once a pod uses them.
func (c *Cache) late(class string) bool {
	f := c.Get(manifest.KindStorage, manifest.Key(manifest.KindStorage, "", class))
	return f != nil && f.late
}

// counted says whether the number of the object's units is Jibe's to say.
func counted(want plan.Desired, key string) bool {
	return slices.ContainsFunc(want.Groups, func(g plan.Group) bool { return g.Owner == key && !g.Free })
}

// facts waits until everything that the instance may consist of can be seen.
func (c *Cache) facts(ctx context.Context, id string, want plan.Desired, former *plan.Desired) ([]*Fact, error) {
	needed := always()
	for _, x := range want.Objects {
		gk, _, _, ok := manifest.SplitKey(x.Key)
		if ok && !x.Posted {
			needed[gk] = true
		}
	}
	in := c.namespacesOf(id, want, former)
	if err := c.Sync(ctx, needed, in...); err != nil {
		return nil, err
	}
	proven := func(f *Fact) bool { return proves(want, f) || former != nil && proves(*former, f) }
	if err := c.findOwners(ctx, id, proven); err != nil {
		return nil, err
	}
	if err := c.prove(id, want, former); err != nil {
		return nil, err
	}
	facts := c.of(id)
	more := false
	if slices.ContainsFunc(facts, func(f *Fact) bool { return f.GroupKind == manifest.KindClaim && !f.ready }) {
		needed[manifest.KindStorage], more = false, true // who may not see it waits for the claim
	}
	for _, f := range facts {
		if !f.TopLevel() {
			continue
		}
		for _, gk := range f.unusualKinds() {
			if !needed[gk] {
				needed[gk], more = true, true
			}
		}
	}
	if more {
		if err := c.Sync(ctx, needed, in...); err != nil {
			return nil, err
		}
		facts = c.of(id)
	}
	return facts, nil
}

// handovers are what desired objects that are no longer there hand over to their
// successors, by key.
func (c *Cache) handovers(id string, want plan.Desired) map[string]string {
	var all map[string]string
	for _, x := range want.Objects {
		gk, _, _, _ := manifest.SplitKey(x.Key)
		if gk != manifest.KindService || c.Get(gk, x.Key) != nil {
			continue
		}
		if kept := c.Handover(id, x.Key); kept != "" {
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
func (c *Cache) sharedObjects(id string, want plan.Desired) []plan.ObservedObject {
	var list []plan.ObservedObject
	for _, x := range want.Objects {
		gk, _, _, _ := manifest.SplitKey(x.Key)
		if !manifest.InfoOf(gk).Shared {
			continue
		}
		if f := c.Get(gk, x.Key); f != nil && !c.Owns(f, id) {
			list = append(list, plan.ObservedObject{
				Key: f.Key, Incarnation: string(f.UID), Digest: x.Digest, Count: -1, Ready: f.ready,
				Deleting: f.Deleting, Retention: plan.RetainAlways, Reason: f.Reason, Failure: f.failure,
			})
		}
	}
	return list
}

// sortObjects puts objects into the order in which they are created.
func sortObjects(list []plan.ObservedObject) {
	rank := func(key string) manifest.Class {
		gk, _, name, _ := manifest.SplitKey(key)
		if gk == manifest.KindConfigMap && strings.HasPrefix(name, manifest.InventoryName("")) {
			return manifest.ClassFirst
		}
		return manifest.InfoOf(gk).Class
	}
	slices.SortFunc(list, func(a, b plan.ObservedObject) int {
		return cmp.Or(cmp.Compare(rank(a.Key), rank(b.Key)), cmp.Compare(a.Key, b.Key))
	})
}
