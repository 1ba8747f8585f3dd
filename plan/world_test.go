package plan_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/plan"
)

// world is a tiny VIM. It carries steps out at once; what follows from them
// (pods that come, become ready and go) happens in moves of its own, at random.
type world struct {
	objects []*thing // in order of creation
	units   []*pod
	nodes   int // units of a DaemonSet
	born    int // counts incarnations, which are never reused
	// rigid says that a pod can't be changed once it is made.
	rigid bool
	// taken are incarnations that went by what the world did to them itself.
	taken map[string]bool
}

type thing struct {
	key, inc, digest string
	count            int // -1 where the object has no such number
	ready, deleting  bool
	retention        plan.Retention
	dead             bool   // a bare pod that will never run again
	keep             string // the address of a Service
	finalizer        bool   // it doesn't go while this is set
	generation       string
	leads            string // the generation to which a Service leads traffic
	free             bool   // a Deployment whose number of units an autoscaler decides
}

type pod struct {
	key, id, owner  string
	ownerInc        string
	ready, deleting bool
	finalizer       bool
	generation      string
	made            string // the digest of the owner that made it
}

// outdated says whether the owner makes other units now than this one.
func (u *pod) outdated(x *thing) bool {
	switch kindOf(x.key) {
	case "Deployment", "ReplicaSet":
		return u.owner == x.key && u.ownerInc == x.inc && u.made != x.digest
	}
	return false
}

// broken is the end of the digest of what never becomes ready.
const broken = " broken"

func (w *world) incarnation() string {
	w.born++
	return fmt.Sprint("i", w.born)
}

func (w *world) find(key string) *thing {
	for _, x := range w.objects {
		if x.key == key {
			return x
		}
	}
	return nil
}

// vduOf is the VDU of the workload: its name, without the generation.
func vduOf(key string) string {
	vdu, _, _ := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], "-")
	return vdu
}

func kindOf(key string) string { return key[:strings.IndexByte(key, '/')] }

func retentionOf(key string) plan.Retention {
	switch kindOf(key) {
	case "Namespace":
		return plan.RetainAlways
	case "PersistentVolumeClaim":
		if key == claim {
			return plan.RetainData
		}
		return plan.RetainWithInstance
	}
	return plan.RetainNot
}

// create makes a new incarnation; a Service takes the address over, or gets a new one.
func (w *world) create(key, keep string) *thing {
	x := &thing{key: key, inc: w.incarnation(), count: -1, retention: retentionOf(key)}
	if kindOf(key) == "Service" {
		x.keep = cmp.Or(keep, "address of "+x.inc)
	}
	w.objects = append(w.objects, x)
	return x
}

// take notes that the incarnation goes without anyone having been asked.
func (w *world) take(incarnation string) {
	if w.taken == nil {
		w.taken = map[string]bool{}
	}
	w.taken[incarnation] = true
}

// do carries one step out; doing it again changes nothing.
func (w *world) do(s plan.Step, want plan.Desired) {
	switch s.Action {
	case plan.Apply:
		x := w.find(s.Object)
		if x == nil {
			x = w.create(s.Object, s.Keep)
			x.free = kindOf(x.key) == "Deployment" && slices.ContainsFunc(want.Groups, func(g plan.Group) bool { return g.Owner == x.key && g.Free })
			x.count = replicas(s.Keep)
		}
		for _, d := range want.Objects {
			if d.Key == s.Object && !(w.rigid && kindOf(s.Object) == "Pod" && x.digest != "") {
				x.digest = d.Digest
			}
		}
		switch kindOf(s.Object) {
		case "Deployment", "StatefulSet", "ReplicaSet":
			if !x.free {
				x.count = s.To
			}
			x.generation = want.Generation
		case "ConfigMap", "Pod":
			x.generation = want.Generation
		case "Service":
			x.leads = want.Generation
		}
		x.ready = false
	case plan.Reselect:
		if x := w.find(s.Object); x != nil && x.leads != want.Generation {
			x.digest = "reselected"
		}
	case plan.Scale:
		if x := w.find(s.Object); x != nil {
			x.count, x.ready = s.To, false
		}
	case plan.Delete:
		if x := w.find(s.Object); x != nil && x.inc == s.Incarnation {
			x.deleting = true
		}
	case plan.DeleteUnit:
		for _, u := range w.units {
			if u.key == s.Object && u.id == s.Incarnation {
				u.deleting = true
			}
		}
	}
}

// replicas is the number of units that a successor takes over, or -1.
func replicas(keep string) int {
	n := 0
	if _, err := fmt.Sscanf(keep, "%d replicas", &n); err != nil {
		return -1
	}
	return n
}

// wanted is the number of units that the object makes.
func (w *world) wanted(x *thing) int {
	switch {
	case x.deleting:
		return 0
	case kindOf(x.key) == "DaemonSet":
		return w.nodes
	case x.count > 0:
		return x.count
	case x.free:
		return 1 // until its autoscaler says otherwise
	}
	return 0
}

func (w *world) live(x *thing) (live []*pod) {
	for _, u := range w.units {
		if u.owner == x.key && u.ownerInc == x.inc && !u.deleting {
			live = append(live, u)
		}
	}
	return live
}

// moves are the things that may happen next without anyone's doing. When there
// are none, the world is at rest.
func (w *world) moves() (moves []func()) {
	for _, x := range w.objects {
		live := w.live(x)
		ready := len(live) == w.wanted(x) && !slices.ContainsFunc(live, func(u *pod) bool { return !u.ready }) && !strings.HasSuffix(x.digest, broken)
		for _, u := range live {
			if kindOf(x.key) == "Deployment" && u.outdated(x) {
				ready = false
				moves = append(moves, func() { u.deleting = true; w.take(u.id) })
			}
		}
		switch n := w.wanted(x); {
		case len(live) < n:
			moves = append(moves, func() { w.spawn(x) })
		case len(live) > n:
			for _, u := range live {
				moves = append(moves, func() { u.deleting = true; w.take(u.id) })
			}
		}
		if x.deleting && x.finalizer {
			continue
		}
		if x.deleting { // whether its units are gone or not: collection is in the background
			moves = append(moves, func() {
				w.objects = slices.DeleteFunc(w.objects, func(o *thing) bool { return o == x })
			})
		} else if x.ready != ready && !x.dead {
			moves = append(moves, func() { x.ready = ready })
		}
	}
	for _, u := range w.units {
		owned := slices.ContainsFunc(w.objects, func(x *thing) bool { return x.key == u.owner && x.inc == u.ownerInc })
		switch {
		case u.deleting && u.finalizer:
		case u.deleting:
			moves = append(moves, func() {
				w.units = slices.DeleteFunc(w.units, func(o *pod) bool { return o == u })
			})
		case !owned:
			moves = append(moves, func() { u.deleting = true; w.take(u.id) })
		case !u.ready && !strings.HasSuffix(u.made, broken):
			moves = append(moves, func() { u.ready = true })
		}
	}
	return moves
}

// spawn makes one unit of x: under a fresh name, or a StatefulSet's under the
// lowest free one, with a claim that outlives it.
func (w *world) spawn(x *thing) {
	u := &pod{id: w.incarnation(), owner: x.key, ownerInc: x.inc, generation: x.generation, made: x.digest}
	u.key = "Pod/" + x.key + "-" + u.id
	if kindOf(x.key) == "StatefulSet" {
		taken := func(key string) bool {
			return slices.ContainsFunc(w.units, func(o *pod) bool { return o.key == key })
		}
		n := 0
		for u.key = fmt.Sprintf("Pod/%s-%d", x.key, n); taken(u.key); n++ {
			u.key = fmt.Sprintf("Pod/%s-%d", x.key, n+1)
		}
		if own := "PersistentVolumeClaim/" + u.key; w.find(own) == nil {
			w.objects = append(w.objects, &thing{key: own, inc: w.incarnation(), digest: "claim", count: -1, ready: true, retention: retentionOf(own)})
		}
	}
	w.units = append(w.units, u)
}

// meddle does something that nobody asked for: people edit, resize, remove and
// replace, nodes go, pods die and are replaced, finalizers hold things up.
func (w *world) meddle(t *rapid.T) {
	what := rapid.SampledFrom([]string{"kill", "drain", "unready", "evict", "edit", "resize", "remove", "replace", "nodes", "hold up"}).Draw(t, "meddle")
	if what == "nodes" {
		w.nodes = rapid.IntRange(0, 2).Draw(t, "nodes")
		return
	}
	if what == "evict" {
		if x := w.find("Pod/amf/bare"); x != nil {
			x.dead, x.ready = true, false
		}
		return
	}
	if what == "kill" || what == "drain" || what == "unready" {
		if len(w.units) == 0 {
			return
		}
		i := rapid.IntRange(0, len(w.units)-1).Draw(t, "unit")
		switch u := w.units[i]; what {
		case "kill":
			w.take(u.id)
			w.units = slices.Delete(w.units, i, i+1)
		case "drain":
			w.take(u.id)
			u.deleting = true
		case "unready":
			u.ready = false
		}
		return
	}
	if len(w.objects) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.objects)-1).Draw(t, "object")
	switch x := w.objects[i]; what {
	case "edit":
		x.digest = "by hand"
	case "resize":
		if x.count >= 0 {
			x.count = rapid.IntRange(0, 3).Draw(t, "count")
		}
	case "remove":
		w.take(x.inc)
		x.deleting = true
	case "replace":
		w.take(x.inc)
		w.objects = slices.Delete(w.objects, i, i+1)
		y := w.create(x.key, "")
		y.digest, y.count = x.digest, x.count
	case "hold up":
		x.finalizer = true
		for _, u := range w.units {
			u.finalizer = u.owner == x.key
		}
	}
}

// release takes every finalizer away.
func (w *world) release() {
	for _, x := range w.objects {
		x.finalizer = false
	}
	for _, u := range w.units {
		u.finalizer = false
	}
}

// alive says whether the incarnation exists in truth, on its way out or not.
func (w *world) alive(incarnation string) bool {
	return slices.ContainsFunc(w.objects, func(x *thing) bool { return x.inc == incarnation }) ||
		slices.ContainsFunc(w.units, func(u *pod) bool { return u.id == incarnation })
}

// observe is what a driver would report. A bare pod is an object and a unit.
func (w *world) observe(t *rapid.T) plan.Observed {
	var o plan.Observed
	for _, x := range w.objects {
		ox := plan.ObservedObject{Key: x.key, Incarnation: x.inc, Digest: x.digest, Count: x.count, Ready: x.ready, Deleting: x.deleting, Retention: x.retention, Keep: x.keep, Generation: x.generation}
		if x.free {
			ox.Keep = fmt.Sprintf("%d replicas", w.wanted(x))
		}
		if x.dead {
			ox.Dead = "Evicted"
		}
		if x.finalizer && x.deleting {
			ox.Reason = "finalizer"
		}
		if kindOf(x.key) == "Pod" {
			o.Units = append(o.Units, plan.Unit{ID: x.inc, Key: x.key, Owner: x.key, VDU: vduOf(x.key), Ready: x.ready, Deleting: x.deleting, Generation: x.generation})
		}
		o.Objects = append(o.Objects, ox)
	}
	for _, u := range w.units {
		seen := plan.Unit{ID: u.id, Key: u.key, Owner: u.owner, VDU: vduOf(u.owner), Ready: u.ready, Deleting: u.deleting, Generation: u.generation}
		if strings.HasSuffix(u.made, broken) {
			seen.Failure = "it is broken"
		}
		if x := w.find(u.owner); x != nil && kindOf(x.key) == "ReplicaSet" && u.outdated(x) {
			seen.Outdated = "it is " + u.made
		}
		o.Units = append(o.Units, seen)
	}
	if len(o.Units) > 1 {
		o.Units = rapid.Permutation(o.Units).Draw(t, "order")
	}
	return o
}

// ready says, by means other than Compute's, whether everything that is desired
// exists as it should. It is the reference that Compute is judged by.
func ready(d plan.Desired, o plan.Observed) error {
	for _, want := range d.Objects {
		i := slices.IndexFunc(o.Objects, func(x plan.ObservedObject) bool { return x.Key == want.Key })
		if i < 0 {
			return fmt.Errorf("%s is missing", want.Key)
		}
		x := o.Objects[i]
		if x.Deleting || !x.Ready || x.Digest != want.Digest {
			return fmt.Errorf("%s isn't as desired: %+v", want.Key, x)
		}
		units, unready := 0, 0
		for _, u := range o.Units {
			if u.Owner == want.Key {
				units++
				if !u.Ready || u.Deleting || u.Outdated != "" {
					unready++
				}
			}
		}
		count, free := 0, true
		for _, g := range d.Groups {
			if g.Owner == want.Key && !g.Free {
				free = false
				count += g.Count
			}
		}
		if unready > 0 || !free && units != count {
			return fmt.Errorf("%s has %d units, %d of them not ready or outdated, and should have %d", want.Key, units, unready, count)
		}
		if !free && x.Count >= 0 && x.Count != count {
			return fmt.Errorf("%s asks for %d units and should for %d", want.Key, x.Count, count)
		}
	}
	return nil
}

// equal says, by means other than Compute's, whether what exists is what is desired.
func equal(d plan.Desired, o plan.Observed) error {
	if err := ready(d, o); err != nil {
		return err
	}
	owners := map[string]bool{}
	for _, want := range d.Objects {
		owners[want.Key] = true
	}
	for _, x := range o.Objects {
		kept := x.Retention == plan.RetainAlways || x.Retention == plan.RetainWithInstance && len(d.Objects) > 0
		if d.Condemned[x.Key] == x.Incarnation {
			return fmt.Errorf("%s is condemned and still there", x.Key)
		}
		if !owners[x.Key] && !kept {
			return fmt.Errorf("%s isn't desired and still there", x.Key)
		}
	}
	for _, u := range o.Units {
		if d.Condemned[u.Key] == u.ID {
			return fmt.Errorf("%s is condemned and still there", u.Key)
		}
		if !owners[u.Owner] {
			return fmt.Errorf("%s of %s isn't desired and still there", u.Key, u.Owner)
		}
	}
	return nil
}
