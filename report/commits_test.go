package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestACommitIsPendingUntilItsOperationEndsAndLeadsToIt(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.commit(map[string]string{"amf": "1"})
		w.pass(time.Second)
		w.want(c, "pending: 1 operation waits or runs")
		op := w.begin(lcm.Instantiate, "amf")
		w.pass(3 * time.Second)
		w.enter(op, lcm.Processing)
		w.pass(time.Minute)
		if got := w.statuses[c]; got[len(got)-1].State != forge.Pending || got[len(got)-1].Link != "https://jibe/op/"+op.ID {
			t.Errorf("while it runs: %+v", got)
		}
		w.enter(op, lcm.Completed)
		w.pass(time.Second)
		w.last(c, "success: 1 operation completed")
		if n := w.reporter.Counts(); n.Outstanding != 0 || n.Sent[StatusKind] == 0 {
			t.Errorf("counts are %+v", n)
		}
	})
}

func TestACommitOfAFleetIsAFewCalls(t *testing.T) {
	inWorld(t, func(w *world) {
		n := 1000 // each change is summed up of all, so that it takes two seconds
		if kit.Quick(t) {
			n = 300
		}

		trees := map[string]string{}
		for i := range n {
			trees[fmt.Sprintf("site-%04d", i)] = "1"
		}
		before := w.calls
		c := w.commit(trees)
		var ops []*lcm.Operation
		for id := range trees {
			ops = append(ops, w.begin(lcm.Instantiate, id))
		}
		w.pass(time.Second)
		for i, op := range ops { // a quarter of an hour
			s := lcm.Completed
			if i == 100 || i == n/2 {
				s = lcm.FailedTemp
			}
			w.enter(op, s)
			w.pass(900 * time.Millisecond)
		}
		w.pass(2 * time.Minute)
		said := w.said(c)
		if got := said[len(said)-1]; got != fmt.Sprintf("failure: 2 of %d operations failed", n) {
			t.Errorf("at last: %s", got)
		}
		if len(said) > 6 || w.calls-before > 40 {
			t.Errorf("%d statuses, %d calls:\n%s", len(said), w.calls-before, strings.Join(said, "\n"))
		}
	})
}

func TestAFailureIsSaidWithoutWhatAVIMHasSaidOfItAndARetryThatCompletesIsSuccess(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.commit(map[string]string{"amf": "1", "smf": "1"})
		amf, smf := w.begin(lcm.Scale, "amf"), w.begin(lcm.Scale, "smf")
		w.pass(time.Second)
		w.enter(amf, lcm.FailedTemp)
		w.pass(time.Second)
		w.enter(smf, lcm.Completed)
		w.pass(2 * time.Minute)
		w.enter(amf, lcm.Processing)
		w.pass(time.Second)
		w.enter(amf, lcm.Completed)
		w.pass(time.Second)
		w.want(c,
			"pending: 2 operations wait or run",
			"failure: 1 of 2 operations failed: SCALE of instances/amf (FAILED_TEMP); others wait or run",
			"failure: 1 of 2 operations failed: SCALE of instances/amf (FAILED_TEMP)",
			"pending: some of 2 operations wait or run",
			"success: 2 operations completed")
	})
}

func TestACommitThatIsNotObeyedIsAFailureUntilALaterOneMakesItGood(t *testing.T) {
	inWorld(t, func(w *world) {
		w.refuse("amf", true)
		bad := w.commit(map[string]string{"amf": "99 of them"})
		w.pass(3 * time.Second)
		w.want(bad, "failure: 1 instance not obeyed: instances/amf")
		w.refuse("amf", false)
		good := w.commit(map[string]string{"amf": "9 of them"})
		op := w.begin(lcm.Scale, "amf")
		w.enter(op, lcm.Completed)
		w.pass(3 * time.Second)
		for _, c := range []string{bad, good} { // the operation brings both about
			w.last(c, "success: 1 operation completed")
		}
		unreadable := w.commit(map[string]string{"amf": "broken"})
		w.pass(3 * time.Second)
		w.want(unreadable, "failure: 1 problem in files, which are not obeyed")
	})
}

func TestACommitOfNoInstanceIsNotSpokenOfAndOneThatChangesNothingThatRunsIsGood(t *testing.T) {
	inWorld(t, func(w *world) {
		w.end()
		first := w.commit(map[string]string{"amf": "1"})
		w.enter(w.begin(lcm.Instantiate, "amf"), lcm.Completed)
		w.start()
		w.pass(5 * time.Second)
		none := w.commit(nil)
		w.pass(5 * time.Second)
		w.want(none)
		w.want(first, "success: 1 operation completed")
		comment := w.commit(map[string]string{"amf": "1 # and a comment"})
		w.mu.Lock()
		rev := w.operated["amf"]
		rev.Tree = "1 # and a comment" // adopted without an operation
		w.operated["amf"] = rev
		w.mu.Unlock()
		w.pass(5 * time.Second)
		w.last(comment, "success: it begins no operation by itself")
	})
}

func TestACommitWhoseOperationGaveWayBecomesWhatTheOneBecomesThatTookItsPlace(t *testing.T) {
	inWorld(t, func(w *world) {
		one := w.commit(map[string]string{"amf": "1"})
		first := w.begin(lcm.Instantiate, "amf")
		w.pass(3 * time.Second)
		two := w.commit(map[string]string{"amf": "2"})
		w.mu.Lock()
		first.GaveWay = true
		w.mu.Unlock()
		w.enter(first, lcm.FailedTemp)
		w.pass(3 * time.Second)
		for _, s := range w.said(one) {
			if !strings.HasPrefix(s, "pending") {
				t.Errorf("while it rests: %s", s)
			}
		}
		second := w.begin(lcm.Instantiate, "amf")
		w.mu.Lock()
		first.SupersededBy = second.ID
		w.mu.Unlock()
		w.enter(first, lcm.Failed)
		w.pass(3 * time.Second)
		w.enter(second, lcm.Completed)
		w.pass(3 * time.Second)
		for _, c := range []string{one, two} {
			w.last(c, "success: 1 operation completed")
			for _, s := range w.said(c) {
				if strings.HasPrefix(s, "failure") {
					t.Errorf("of %s: %s", c, s)
				}
			}
		}
	})
}

func TestARepairSaysNothingOfTheCommitThatItRestores(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.commit(map[string]string{"amf": "1"})
		w.enter(w.begin(lcm.Instantiate, "amf"), lcm.Completed)
		w.pass(3 * time.Second)
		repair := w.begin(lcm.Heal, "amf")
		w.mu.Lock()
		repair.Automatic = true
		w.mu.Unlock()
		w.enter(repair, lcm.FailedTemp)
		w.restart()
		w.last(c, "success: 1 operation completed")
	})
}

func TestWhatIsUnsaidWhenAProcessDiesIsSaidByTheNext(t *testing.T) {
	inWorld(t, func(w *world) {
		one := w.commit(map[string]string{"amf": "1"})
		op := w.begin(lcm.Instantiate, "amf")
		w.pass(3 * time.Second)
		w.end()
		w.enter(op, lcm.Completed)
		two := w.commit(map[string]string{"smf": "1"})
		w.enter(w.begin(lcm.Instantiate, "smf"), lcm.RolledBack)
		w.start()
		w.pass(5 * time.Second)
		w.last(one, "success: 1 operation completed")
		w.want(two, "failure: 1 of 1 operation failed: INSTANTIATE of instances/smf (ROLLED_BACK)")
		calls := w.calls
		w.restart()
		if more := w.calls - calls; more > 2 { // the pull requests, and maybe a status that stands
			t.Errorf("%d calls at a start where all was said", more)
		}
	})
}

func TestAForgeIsLeftAloneForAsLongAsItAsksAndThenTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mu.Lock()
		w.fails = func() error {
			return fmt.Errorf("%w: %w", forge.ErrLimited, &forge.Error{Status: 429, Wait: 10 * time.Minute})
		}
		before := w.calls
		w.mu.Unlock()
		c := w.commit(map[string]string{"amf": "1"})
		w.pass(9 * time.Minute)
		if n := w.calls - before; n != 1 {
			t.Errorf("%d calls within what the forge asked for", n)
		}
		if n := w.reporter.Counts(); n.Outstanding != 1 || n.Failed[StatusKind] != 1 || time.Since(n.Since) < 8*time.Minute {
			t.Errorf("counts are %+v", n)
		}
		w.mu.Lock()
		w.fails = nil
		w.mu.Unlock()
		w.pass(2 * time.Minute)
		w.want(c, "pending: 1 operation waits or runs")
	})
}

func TestAForgeThatIsAwayIsAskedLessAndLess(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mu.Lock()
		w.fails = func() error { return &forge.Error{} }
		before := w.calls
		w.mu.Unlock()
		c := w.commit(map[string]string{"amf": "1"})
		w.pass(time.Hour)
		if n := w.calls - before; n < 60 || n > 300 {
			t.Errorf("%d calls in an hour", n)
		}
		w.mu.Lock()
		w.fails = nil
		w.mu.Unlock()
		w.pass(2 * longestPause)
		w.want(c, "pending: 1 operation waits or runs")
	})
}

func TestOneCommitThatTheForgeRefusesHoldsUpNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		bad := ""
		w.mu.Lock()
		w.fails = func() error {
			if len(w.statuses) == 0 && bad == "" {
				return &forge.Error{Status: 422, Message: "No commit found"}
			}
			return nil
		}
		w.mu.Unlock()
		one := w.commit(map[string]string{"amf": "1"})
		w.pass(3 * time.Second)
		w.want(one)
		w.mu.Lock()
		bad = one
		w.mu.Unlock()
		two := w.commit(map[string]string{"smf": "1"})
		w.pass(500 * time.Millisecond)
		w.want(two, "pending: 1 operation waits or runs")
	})
}

func TestAPersonsCommitDoesNotWaitForThoseOfRequestsWhichAreGivenUpWhereTheyAreTooMany(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mu.Lock()
		w.slow = 2 * time.Second // as the rate has it
		w.mu.Unlock()
		const batches, each = 3, 900
		for b := range batches {
			w.mu.Lock()
			for i := range each {
				c := w.make(w.head, map[string]string{fmt.Sprintf("vnf-%d-%d", b, i): "1"})
				w.own[c], w.head = true, c
			}
			w.mu.Unlock()
			w.moved("vnf")
			w.pass(5 * time.Second)
		}
		person := w.commit(map[string]string{"amf": "1"})
		w.pass(10 * time.Second)
		w.want(person, "pending: 1 operation waits or runs")
		n := w.reporter.Counts()
		if n.Outstanding > mostOpen || n.Dropped[StatusKind] < batches*each-mostOpen-50 {
			t.Errorf("%d are outstanding, %d were given up", n.Outstanding, n.Dropped[StatusKind])
		}
	})
}

func TestAPushOfAFleetIsOneStatusThoughEachOfItsInstancesIsPinned(t *testing.T) {
	inWorld(t, func(w *world) {
		w.mu.Lock()
		w.slow = time.Second // as the rate has it
		w.mu.Unlock()
		trees := map[string]string{}
		for i := range 300 {
			trees[fmt.Sprintf("site-%03d", i)] = "1"
		}
		push := w.commit(trees)
		w.mu.Lock()
		var pins []string
		for id := range trees {
			c := w.make(w.head, map[string]string{id: "1, pinned"})
			w.own[c], w.fillsIn[c], w.head = true, true, c
			pins = append(pins, c)
		}
		wave := w.make(w.head, map[string]string{"amf": "2"})
		w.own[wave], w.head = true, wave
		w.mu.Unlock()
		w.moved("amf")
		w.pass(10 * time.Second)
		for _, c := range pins {
			w.want(c)
		}
		w.want(push, "pending: 300 operations wait or run")
		w.want(wave, "pending: 1 operation waits or runs")
	})
}

func TestACommitThatWaitsIsNotSaidToBeDoneByAHealBesideIt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.commit(map[string]string{"amf": "1"})
		w.enter(w.begin(lcm.Instantiate, "amf"), lcm.Completed)
		waits := w.commit(map[string]string{"amf": "2"})
		w.pass(5 * time.Second)
		healed := w.commit(map[string]string{"amf": "1, healed"})
		heal := w.begin(lcm.Heal, "amf")
		w.mu.Lock()
		heal.Beside = desired.Revision{Instance: "amf", Commit: waits, Tree: "2"}
		w.mu.Unlock()
		back := w.commit(map[string]string{"amf": "2, healed"})
		w.enter(heal, lcm.Completed)
		w.pass(2 * time.Minute)
		w.last(waits, "pending: 1 operation waits or runs")
		w.last(healed, "success: 1 operation completed")
		w.last(back, "pending: 1 operation waits or runs")
		w.enter(w.begin(lcm.Scale, "amf"), lcm.Completed)
		w.pass(10 * time.Second)
		w.last(waits, "success: 1 operation completed")
		w.last(back, "success: 1 operation completed")
	})
}
