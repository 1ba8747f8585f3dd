package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
)

// define commits a file of a rollout.
func (w *world) define(name string) string {
	w.mu.Lock()
	c := w.make(w.head, nil)
	w.defines[c], w.head = []string{name}, c
	w.mu.Unlock()
	w.moved()
	return c
}

// stand has a rollout stand there, and lets the reporter see it.
func (w *world) stand(st automation.RolloutStatus) {
	w.mu.Lock()
	if st.Waves == 0 {
		st.Waves = 3
	}
	w.rollouts[st.Name] = st
	w.mu.Unlock()
	w.pass(10 * time.Second)
}

func TestACommitThatDefinesARolloutSaysWhereThatStandsUntilItEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stand(automation.RolloutStatus{Name: "amf-2", Phase: rollout.Running})
		c := w.define("amf-2")
		w.pass(10 * time.Second)
		w.stand(automation.RolloutStatus{Name: "amf-2", Phase: rollout.Running, Wave: 1})
		w.pass(2 * time.Minute) // other words of the same state have time
		for n := range 50 {     // numbers are no status of their own
			w.stand(automation.RolloutStatus{Name: "amf-2", Phase: rollout.Running, Wave: 1, Counts: rollout.Counts{Selected: 100, Completed: n}})
		}
		w.stand(automation.RolloutStatus{Name: "amf-2", Phase: rollout.Halted, Wave: 2, Counts: rollout.Counts{Selected: 100, Completed: 60, Failed: 2}})
		w.stand(automation.RolloutStatus{Name: "amf-2", Phase: rollout.Approving, Wave: 2})
		w.restart()
		w.stand(automation.RolloutStatus{Name: "amf-2", Phase: rollout.Done, Wave: 3, Counts: rollout.Counts{Selected: 100, Completed: 98, Failed: 2}})
		w.want(c,
			"pending: rollout amf-2: not begun yet",
			"pending: rollout amf-2: running, wave 1 of 3",
			"failure: rollout amf-2: halted, wave 2 of 3",
			"pending: rollout amf-2: waiting for approval, wave 2 of 3",
			"success: rollout amf-2: completed, 2 instances failed")
		if got := w.statuses[c]; got[len(got)-1].Link != "https://jibe/rollout/amf-2" {
			t.Errorf("it leads to %s", got[len(got)-1].Link)
		}
		if n := w.reporter.Counts(); n.Outstanding != 0 {
			t.Errorf("%d are outstanding", n.Outstanding)
		}
	})
}

func TestARolloutThatIsTakenBackOrRemovedOrNotObeyedIsAFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, test := range []struct {
			name, want string
			st         automation.RolloutStatus
		}{
			{"back", "failure: rollout back: rolled back", automation.RolloutStatus{Name: "back", Phase: rollout.RolledBack, Wave: 1}},
			{"stopped", "failure: rollout stopped: aborted", automation.RolloutStatus{Name: "stopped", Phase: rollout.Aborted}},
			{"gone", "failure: rollout gone: removed before its end", automation.RolloutStatus{Name: "other"}},
			{"bad", "failure: rollout bad: not obeyed", automation.RolloutStatus{Name: "bad", Problem: "what a VIM said: hunter2"}},
		} {
			w.stand(test.st)
			c := w.define(test.name)
			w.pass(10 * time.Second)
			w.last(c, test.want)
		}
	})
}

func TestTheCommentOfAPullRequestThatBroughtARolloutFollowsThat(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stand(automation.RolloutStatus{Name: "amf-2", Phase: rollout.Running})
		n := w.propose("upgrade", nil)
		w.mu.Lock()
		w.would = []Target{RolloutTarget("rollouts/amf-2.yaml")}
		w.mu.Unlock()
		w.propose("upgrade", map[string]string{"amf": "2"})
		w.pass(10 * time.Second)
		w.merge(n) // into commits of which the last one doesn't have it
		w.stand(automation.RolloutStatus{Name: "amf-2", Phase: rollout.Halted, Wave: 2, Counts: rollout.Counts{Selected: 30, Completed: 11, Already: 1, Failed: 12},
			Failed: slices.Repeat([]automation.RolloutInstance{{Dir: "instances/a_b", Reason: "hunter2"}}, 12)})
		w.pass(time.Minute)
		got := w.comments[n]
		for _, want := range []string{"merged, rollout amf\\-2: halted, wave 2 of 3; 1 operation waits or runs", "| [amf\\-2](https://jibe/rollout/amf-2) | halted, wave 2 of 3 | 12 of 30 | ", `instances/a\_b, 2 more |`} {
			if !strings.Contains(got, want) {
				t.Errorf("it lacks %q: %q", want, got)
			}
		}
		if strings.Contains(got, "hunter2") {
			t.Error("it tells what a VIM said")
		}
	})
}
