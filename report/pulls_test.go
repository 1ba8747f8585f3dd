package report

import (
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestAPullRequestHasOneCommentThatFollowsItToItsOutcome(t *testing.T) {
	inWorld(t, func(w *world) {
		w.commit(map[string]string{"amf": "1"})
		w.enter(w.begin(lcm.Instantiate, "amf"), lcm.Completed)
		n := w.propose("scale", map[string]string{"amf": "2"})
		w.pass(10 * time.Second)
		if got := w.comments[n]; !strings.HasPrefix(got, "plan 1 of scale") || w.edits[n] != 1 {
			t.Errorf("at first: %d times, %q", w.edits[n], got)
		}
		w.reporter.Delivered()
		w.pass(time.Hour)
		if w.edits[n] != 1 || w.plans != 1 {
			t.Errorf("said %d times and planned %d times while nothing changed", w.edits[n], w.plans)
		}
		w.propose("scale", map[string]string{"amf": "3"})
		w.pass(10 * time.Second)
		if got := w.comments[n]; !strings.HasPrefix(got, "plan 2 of scale") || w.edits[n] != 2 {
			t.Errorf("after a push: %d times, %q", w.edits[n], got)
		}
		w.restart()
		if w.edits[n] != 2 || w.plans != 2 {
			t.Errorf("after a restart: said %d times, planned %d times", w.edits[n], w.plans)
		}
		merged := w.merge(n)
		op := w.begin(lcm.Scale, "amf")
		w.pass(10 * time.Second)
		if got := w.comments[n]; !strings.Contains(got, "merged, 1 operation waits or runs") || !strings.Contains(got, merged[:12]) {
			t.Errorf("once merged: %q", got)
		}
		w.end() // it completes while nobody reports
		w.enter(op, lcm.Completed)
		w.start()
		w.pass(10 * time.Second)
		got := w.comments[n]
		for _, want := range []string{"merged, 1 operation completed", "[SCALE](https://jibe/op/" + op.ID + ")", `COMPLETED`, "plan 2 of scale"} {
			if !strings.Contains(got, want) {
				t.Errorf("at last it lacks %q: %q", want, got)
			}
		}
		edits, calls := w.edits[n], w.calls
		w.restart()
		if left, err := w.store.List(t.Context(), pullPrefix, "", 0); err != nil || len(left) > 0 || w.edits[n] != edits || w.calls > calls+2 {
			t.Errorf("afterwards: %d records, %v; %d edits, %d calls more", len(left), err, w.edits[n]-edits, w.calls-calls)
		}
	})
}

func TestThePullRequestOfAFailureSaysSoWithoutWhatAVIMHasSaid(t *testing.T) {
	inWorld(t, func(w *world) {
		n := w.propose("new", map[string]string{"amf": "1", "a_b|c": "1"})
		w.pass(10 * time.Second)
		w.merge(n)
		w.enter(w.begin(lcm.Instantiate, "amf"), lcm.FailedTemp)
		w.pass(10 * time.Second)
		got := w.comments[n]
		if !strings.Contains(got, "1 of 2 operations failed") || !strings.Contains(got, `| instances/a\_b\|c | not begun yet | waits |`) || strings.Contains(got, "hunter2") {
			t.Error(got)
		}
	})
}

func TestAPullRequestThatIsClosedIsForgottenAndPlannedAnewWhereItIsOpenedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		n := w.propose("idea", map[string]string{"amf": "1"})
		w.pass(10 * time.Second)
		was := w.opened
		w.mu.Lock()
		w.opened = nil
		w.mu.Unlock()
		w.reporter.Delivered()
		w.pass(10 * time.Second)
		if left, err := w.store.List(t.Context(), pullPrefix, "", 0); err != nil || len(left) > 0 {
			t.Errorf("%d records, %v", len(left), err)
		}
		w.mu.Lock()
		w.opened = was
		w.mu.Unlock()
		w.reporter.Delivered()
		w.pass(10 * time.Second)
		if w.plans != 2 || w.edits[n] != 2 {
			t.Errorf("planned %d times, said %d times", w.plans, w.edits[n])
		}
	})
}

func TestAnOperationThatEndsWhileTheStoreTakesNothingIsSaidOnceItDoes(t *testing.T) {
	inWorld(t, func(w *world) {
		n := w.propose("scale", map[string]string{"amf": "1"})
		w.propose("idea", map[string]string{"smf": "1"})
		w.pass(10 * time.Second)
		w.merge(n)
		op := w.begin(lcm.Instantiate, "amf")
		w.pass(10 * time.Second)
		if got := w.comments[n]; !strings.Contains(got, "merged, 1 operation waits or runs") {
			t.Errorf("while it runs: %q", got)
		}
		w.mu.Lock()
		w.full, w.opened = true, nil // the idea is closed, whose record is to go
		w.mu.Unlock()
		w.reporter.Delivered()
		w.enter(op, lcm.Completed)
		w.pass(time.Second)
		w.mu.Lock()
		w.full = false
		w.mu.Unlock()
		w.pass(10 * time.Second)
		if got := w.comments[n]; !strings.Contains(got, "merged, 1 operation completed") {
			t.Errorf("at last: %q", got)
		}
	})
}
