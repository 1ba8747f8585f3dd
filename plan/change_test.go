package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/plan"
)

// TestEveryChangeOfPackageKeepsTrafficAndComesToItsEnd changes the package of one
// instance again and again, rolling and blue-green. Processes crash between any two
// steps, views are stale, pods die and lose their readiness, scripts lead traffic
// over by themselves, releases are broken, attempts are repeated, and any moment may be
// that of a rollback. Traffic must never be led to units that aren't ready, nothing
// may go to which it leads, and in the end there is one generation, the desired one.
func TestEveryChangeOfPackageKeepsTrafficAndComesToItsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{rigid: true}
		from := drawRelease(t, "v0", "0")
		for i := range from.Objects {
			from.Objects[i].Digest = healthy(from.Objects[i].Digest)
		}
		first := beginChange(t, w, plan.Desired{}, from)
		first.j.Operation = "INSTANTIATE"
		if !first.finish(t) {
			t.Fatal("it can't be instantiated")
		}
		generations := 0
		for n := range rapid.IntRange(1, 3).Draw(t, "changes") {
			generation := from.Generation
			if rapid.IntRange(0, 2).Draw(t, "blue-green") > 0 {
				generations++
				generation = fmt.Sprint(generations)
			}
			to := drawRelease(t, fmt.Sprint("v", n+1), generation)
			to.Condemned = drawCondemned(t, w)
			c := beginChange(t, w, from, to)
			c.disturb(t)
			if !c.finish(t) {
				if c.j.Rollback {
					t.Fatal("it can't be rolled back")
				}
				c.rollBack()
				if !c.finish(t) {
					t.Fatal("it can't be rolled back")
				}
			}
			c.ended(t)
			if !c.j.Rollback {
				from = to
				from.Condemned = nil
			}
		}
	})
}

// disturb carries the change on for a while, among all that may go wrong. It may be
// rolled back whenever it has made a step.
func (c *change) disturb(t *rapid.T) {
	rough := rapid.Bool().Draw(t, "rough")
	turn := c.turn()
	for range rapid.IntRange(0, 60).Draw(t, "rounds") {
		if now := c.turn(); now != turn && !c.j.Rollback && rapid.IntRange(0, 6).Draw(t, "roll back") == 0 {
			c.rollBack()
			c.actOnStaleView(t, rapid.IntRange(0, 6).Draw(t, "times"), false)
		} else {
			turn = now
		}
		switch rapid.SampledFrom([]string{
			"act", "act", "act", "act", "act on a stale view", "happen", "settle", "settle", "settle", "it is scaled automatically", "retry", "fail",
		}).Draw(t, "next") {
		case "act":
			c.act(t, c.look(t), true)
		case "act on a stale view":
			c.actOnStaleView(t, 1, true)
		case "happen":
			if moves := c.w.moves(); len(moves) > 0 {
				moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]()
			}
		case "settle":
			c.settle()
		case "it is scaled automatically":
			for _, x := range c.w.objects {
				if x.free {
					x.count = rapid.IntRange(1, 3).Draw(t, "count")
				}
			}
		case "retry":
			c.j.Issued = nil
		case "fail":
			if n := len(c.w.units); rough && n > 0 {
				c.unitFails(rapid.IntRange(0, n-1).Draw(t, "unit"), rapid.Bool().Draw(t, "dies"))
			}
		}
	}
}

// turn changes with every step that the change makes.
func (c *change) turn() string {
	return fmt.Sprint(len(c.j.Issued), len(c.j.Begun), c.j.Redirected, c.pruned)
}

// unitFails lets a unit die, or not be ready for a while.
func (c *change) unitFails(i int, dies bool) {
	c.rough = true
	if u := c.w.units[i]; dies {
		c.w.take(u.id)
		c.w.units = slices.Delete(c.w.units, i, i+1)
	} else {
		u.ready = false
	}
}

// actOnStaleView acts by one view that may be behind, again and again.
func (c *change) actOnStaleView(t *rapid.T, times int, mayCrash bool) {
	oldest := max(c.floor, len(c.views)-4)
	if oldest >= len(c.views) {
		return
	}
	view := rapid.IntRange(oldest, len(c.views)-1).Draw(t, "view")
	for range times {
		if view >= c.floor { // no process has crashed since
			c.act(t, c.views[view], mayCrash)
		}
	}
}

// drawCondemned is a tombstone or two that stand in the intent as it comes: those of a
// generation that goes are moot.
func drawCondemned(t *rapid.T, w *world) map[string]string {
	condemned := map[string]string{}
	if len(w.units) == 0 || rapid.IntRange(0, 3).Draw(t, "condemned") > 0 {
		return condemned
	}
	u := w.units[rapid.IntRange(0, len(w.units)-1).Draw(t, "unit")]
	condemned[u.key] = u.id
	if x := w.find(u.owner); x != nil && rapid.Bool().Draw(t, "its owner too") {
		condemned[x.key] = x.inc
	}
	return condemned
}
