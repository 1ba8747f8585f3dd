package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/plan"
)

// heat is a tiny VIM whose one stack owns the units of two VDUs and does nothing for
// them by itself. Work on it is under way until a move of its own ends it.
type heat struct {
	exists, busy, deleting bool
	stalled                string
	digest                 string
	counts                 map[string]int
	servers                []*server
	born                   int
	// ended is what comes about when the work under way ends well.
	ended []func()
}

type server struct {
	vdu, member, id, made string
	dead                  bool
	created               int
}

func (s *server) key() string { return "Server/" + s.vdu + "/" + s.member }

const stackKey = "Stack/vnf-1"

func (h *heat) boot(vdu, member, digest string) {
	h.born++
	h.servers = append(h.servers, &server{vdu: vdu, member: member, id: fmt.Sprint("i", h.born), made: digest, created: h.born})
}

func (h *heat) find(id string) *server {
	if i := slices.IndexFunc(h.servers, func(s *server) bool { return s.id == id }); i >= 0 {
		return h.servers[i]
	}
	return nil
}

// fill makes the members that are missing.
func (h *heat) fill(digest string) {
	for _, vdu := range []string{"web", "db"} {
		of := func() (n int) {
			for _, s := range h.servers {
				if s.vdu == vdu {
					n++
				}
			}
			return n
		}
		for of() < h.counts[vdu] {
			h.boot(vdu, fmt.Sprint("m", h.born), digest)
		}
	}
}

func (h *heat) do(t *rapid.T, s plan.Step, d plan.Desired) {
	digest := ""
	if len(d.Objects) > 0 {
		digest = d.Objects[0].Digest
	}
	work := func(end func()) {
		h.busy, h.stalled = true, ""
		h.ended = append(h.ended, end)
	}
	switch s.Action {
	case plan.Apply:
		if !h.exists {
			h.exists, h.counts = true, map[string]int{}
			for _, g := range d.Groups {
				h.counts[g.VDU] = g.Count
			}
		}
		h.digest = digest
		work(func() { h.fill(digest) })
	case plan.Scale:
		live := 0
		for _, x := range h.servers {
			if x.vdu == s.VDU && !slices.Contains(s.Victims, x.id) {
				live++
			}
		}
		if live > s.To {
			t.Fatalf("%s: the VIM would have to choose who goes: %d are left", s, live)
		}
		h.counts[s.VDU] = s.To
		work(func() {
			h.servers = slices.DeleteFunc(h.servers, func(x *server) bool { return slices.Contains(s.Victims, x.id) })
			h.fill(digest)
		})
	case plan.DeleteUnit:
		work(func() {
			if x := h.find(s.Incarnation); x != nil {
				h.servers = slices.DeleteFunc(h.servers, func(o *server) bool { return o == x })
				h.boot(x.vdu, x.member, digest)
			}
		})
	case plan.Renew:
		if h.busy {
			t.Fatalf("%s while other work is under way", s)
		}
		work(func() {
			if x := h.find(s.Incarnation); x != nil {
				x.made = digest
				h.born++
				x.id = fmt.Sprint("i", h.born)
			}
		})
	case plan.Delete:
		h.deleting = true
		work(func() { *h = heat{born: h.born} })
	}
}

// move lets the work end, well or not.
func (h *heat) move(failed bool) {
	if !h.busy {
		return
	}
	ended := h.ended
	h.busy, h.ended = false, nil
	if failed {
		h.stalled, h.deleting = "no valid host was found", false
		for vdu := range h.counts { // what it has is what it goes on from
			h.counts[vdu] = 0
		}
		for _, s := range h.servers {
			h.counts[s.vdu]++
		}
		return
	}
	for _, end := range ended {
		end()
	}
}

func (h *heat) observe(t *rapid.T, d plan.Desired) plan.Observed {
	var o plan.Observed
	if !h.exists {
		return o
	}
	x := plan.ObservedObject{Key: stackKey, Incarnation: "s", Digest: h.digest, Count: -1, Counts: map[string]int{}, Passive: true,
		Ready: !h.busy && h.stalled == "", Deleting: h.deleting, Stalled: h.stalled, Generation: "0", Retention: plan.RetainData}
	for vdu, n := range h.counts {
		x.Counts[vdu] = n
	}
	o.Objects = append(o.Objects, x)
	for _, s := range h.servers {
		u := plan.Unit{ID: s.id, Key: s.key(), VDU: s.vdu, Owner: stackKey, Ready: !s.dead, Generation: "0", Created: time.Unix(int64(s.created), 0)}
		if s.dead {
			u.Dead = "it was deleted"
		}
		if len(d.Objects) > 0 && s.made != d.Objects[0].Digest {
			u.Outdated = "it is " + s.made
		}
		o.Units = append(o.Units, u)
	}
	if len(o.Units) > 1 {
		o.Units = rapid.Permutation(o.Units).Draw(t, "order")
	}
	return o
}

// right says, by means other than Compute's, whether the stack is what is desired.
func (h *heat) right(d plan.Desired) error {
	if len(d.Objects) == 0 {
		if h.exists {
			return fmt.Errorf("it still exists")
		}
		return nil
	}
	if !h.exists || h.busy || h.stalled != "" || h.digest != d.Objects[0].Digest {
		return fmt.Errorf("the stack is %+v", h)
	}
	for _, g := range d.Groups {
		n := 0
		for _, s := range h.servers {
			if s.vdu != g.VDU {
				continue
			}
			n++
			if s.dead || s.made != h.digest || d.Condemned[s.key()] == s.id {
				return fmt.Errorf("server %+v is dead, old or condemned", s)
			}
		}
		if n != g.Count {
			return fmt.Errorf("%d servers of %s, want %d", n, g.VDU, g.Count)
		}
	}
	return nil
}

// TestAPassiveOwnerIsBroughtToAnythingThroughFailuresAndCrashes lets operations of every
// type follow each other on one stack. Work fails, servers die, the process crashes
// between any two steps, a person retries or rolls back; in the end what is desired
// stands there, no unit went that needn't, and each one was coordinated once it was new.
func TestAPassiveOwnerIsBroughtToAnythingThroughFailuresAndCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &heat{}
		var before plan.Desired
		for round := range 4 {
			d := drawStack(t, h, round)
			d = runOnStack(t, h, before, d)
			if left := plan.Compute(d, h.observe(t, d), plan.Journal{}); len(left) > 0 {
				t.Fatalf("at rest, yet:\n%s", render(left))
			}
			before = d
		}
	})
}

func drawStack(t *rapid.T, h *heat, round int) plan.Desired {
	if round > 0 && rapid.IntRange(0, 5).Draw(t, "terminate") == 0 {
		return plan.Desired{}
	}
	d := plan.Desired{Generation: "0", CoordinateNew: rapid.Bool().Draw(t, "script"), CoordinateOld: rapid.Bool().Draw(t, "old script"), Condemned: map[string]string{}}
	if rapid.Bool().Draw(t, "web alone") {
		d.CoordinateVDUs = []string{"web"}
	}
	d.Objects = []plan.Object{{Key: stackKey, Digest: rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version")}}
	for _, vdu := range []string{"web", "db"} {
		d.Groups = append(d.Groups, plan.Group{VDU: vdu, Owner: stackKey, Count: rapid.IntRange(0, 3).Draw(t, vdu)})
	}
	for _, s := range h.servers {
		if rapid.IntRange(0, 3).Draw(t, "condemn") == 0 {
			d.Condemned[s.key()] = s.id
		}
	}
	return d
}

// runOnStack carries an operation out; it answers with what is desired in the end.
func runOnStack(t *rapid.T, h *heat, from, to plan.Desired) plan.Desired {
	d := to
	var j plan.Journal
	j.Operation, j.Granted = "CHANGE_VNFPKG", true
	if len(to.Objects) == 0 {
		j.Operation = "TERMINATE"
	}
	o := h.observe(t, d)
	j = j.Aim(d, o)
	j.Known = slices.Clone(o.Units)
	mayGo := mayGo(h, d)
	clean := true
	for turn := 0; ; turn++ {
		if turn > 300 {
			t.Fatalf("still not converged:\n%s", render(plan.Compute(d, h.observe(t, d), j)))
		}
		calm := turn > 60
		if !calm && rapid.IntRange(0, 9).Draw(t, "a server dies") == 0 && len(h.servers) > 0 {
			h.servers[rapid.IntRange(0, len(h.servers)-1).Draw(t, "which")].dead = true
			clean = false
		}
		if h.busy && rapid.Bool().Draw(t, "work ends") {
			failed := !calm && rapid.IntRange(0, 5).Draw(t, "it fails") == 0
			clean = clean && !failed
			h.move(failed)
		}
		o := h.observe(t, d)
		steps := plan.Compute(d, o, j)
		passes(t, d, o, j, steps)
		if len(steps) == 0 {
			break
		}
		batch := plan.Next(steps)
		if slices.ContainsFunc(batch, func(s plan.Step) bool { return s.Failure != "" }) {
			j.Issued = nil // a person tries again, or rolls back
			if !j.Rollback && len(from.Objects) > 0 && len(to.Objects) > 0 && rapid.Bool().Draw(t, "roll back") {
				coordinate := d
				d = from
				d.CoordinateNew, d.CoordinateOld, d.CoordinateVDUs = coordinate.CoordinateNew, coordinate.CoordinateOld, coordinate.CoordinateVDUs
				d.Condemned = nil
				j.Rollback, j.Targets, clean = true, nil, false
			}
			if slices.ContainsFunc(batch, func(s plan.Step) bool { return strings.Contains(s.Failure, "was replaced") }) {
				j.Targets = nil
			}
			continue
		}
		crash := rapid.IntRange(0, 2*len(batch)).Draw(t, "crash after")
		j, _ = j.Issue(batch)
		for i, s := range batch {
			if !calm && i == crash {
				break
			}
			j = stepOnStack(t, h, d, j, s, mayGo, clean)
		}
	}
	if err := h.right(d); err != nil {
		t.Fatalf("at the end %v", err)
	}
	return d
}

// mayGo are the units that an undisturbed operation may take down.
func mayGo(h *heat, d plan.Desired) map[string]bool {
	may := map[string]bool{}
	for _, s := range h.servers {
		if len(d.Objects) == 0 || s.dead || d.Condemned[s.key()] == s.id {
			may[s.id] = true
		}
	}
	for _, g := range d.Groups {
		var of []*server
		for _, s := range h.servers {
			if s.vdu == g.VDU {
				of = append(of, s)
			}
		}
		slices.SortFunc(of, func(a, b *server) int { return b.created - a.created })
		for _, s := range of[:max(0, len(of)-g.Count)] {
			may[s.id] = true // the newest
		}
	}
	return may
}

func stepOnStack(t *rapid.T, h *heat, d plan.Desired, j plan.Journal, s plan.Step, mayGo map[string]bool, clean bool) plan.Journal {
	switch s.Action {
	case plan.Hook:
		if base, unit := plan.HookUnit(s.Object); unit != "" {
			i := slices.IndexFunc(h.servers, func(x *server) bool { return x.key() == unit })
			if i < 0 || h.busy || h.servers[i].made != d.Objects[0].Digest {
				t.Fatalf("%s: %s runs although its unit isn't as it should be: %+v", s, base, h)
			}
			if base == plan.CoordinateRollback && !slices.Contains(j.Begun, plan.CoordinateNew+"@"+unit) {
				t.Fatalf("%s although nothing was begun there", s)
			}
			if len(d.CoordinateVDUs) > 0 && h.servers[i].vdu != "web" {
				t.Fatalf("%s speaks to a VDU that isn't to be spoken to", s)
			}
		} else if base == plan.CoordinateNew && slices.ContainsFunc(d.Groups, func(g plan.Group) bool { return d.CoordinateVDUs == nil || g.VDU == "web" }) {
			t.Fatalf("%s for the whole VNF, whose units change one by one", s)
		}
		j.Begun = append(slices.Clone(j.Begun), s.Object)
		if rapid.IntRange(0, 5).Draw(t, "the script is cut short") > 0 {
			j.Hooks = append(slices.Clone(j.Hooks), s.Object)
		}
		return j
	case plan.DeleteUnit:
		if x := h.find(s.Incarnation); clean && x != nil && !mayGo[s.Incarnation] {
			t.Fatalf("%s needn't go", s)
		}
	case plan.Scale:
		for _, id := range s.Victims {
			x := h.find(id)
			if clean && x != nil && !mayGo[id] && !slices.ContainsFunc(s.Victims, func(v string) bool { return mayGo[v] }) {
				t.Fatalf("%s takes %s, which needn't go", s, id)
			}
		}
	}
	h.do(t, s, d)
	return j
}
