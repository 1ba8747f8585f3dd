package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/forge"
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
func (w *world) stand(name string, r Rollout) {
	w.mu.Lock()
	r.Waves = 3
	w.rollouts[name] = r
	w.mu.Unlock()
	w.pass(10 * time.Second)
}

func TestACommitThatDefinesARolloutSaysWhereThatStandsUntilItEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stand("amf-2", Rollout{Phase: "not begun yet", State: forge.Pending})
		c := w.define("amf-2")
		w.pass(10 * time.Second)
		w.stand("amf-2", Rollout{Phase: "running", State: forge.Pending, Wave: 1})
		w.pass(2 * time.Minute) // other words of the same state have time
		for n := range 50 {     // numbers are no status of their own
			w.stand("amf-2", Rollout{Phase: "running", State: forge.Pending, Wave: 1, Selected: 100, Done: n})
		}
		w.stand("amf-2", Rollout{Phase: "halted", State: forge.Failure, Wave: 2, Selected: 100, Done: 60, Failures: 2})
		w.stand("amf-2", Rollout{Phase: "waiting for approval", State: forge.Pending, Wave: 2})
		w.restart()
		w.stand("amf-2", Rollout{Phase: "completed", State: forge.Success, Ended: true, Wave: 3, Selected: 100, Done: 98, Failures: 2})
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
		w.stand("back", Rollout{Phase: "rolled back", State: forge.Failure, Ended: true, Wave: 1})
		w.stand("bad", Rollout{NotObeyed: true})
		for name, want := range map[string]string{
			"back": "failure: rollout back: rolled back",
			"gone": "failure: rollout gone: removed before its end",
			"bad":  "failure: rollout bad: not obeyed",
		} {
			c := w.define(name)
			w.pass(10 * time.Second)
			w.last(c, want)
		}
	})
}

func TestTheCommentOfAPullRequestThatBroughtARolloutFollowsThat(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stand("amf-2", Rollout{Phase: "not begun yet", State: forge.Pending})
		n := w.propose("upgrade", nil)
		w.mu.Lock()
		w.would = []Target{RolloutTarget("rollouts/amf-2.yaml")}
		w.mu.Unlock()
		w.propose("upgrade", map[string]string{"amf": "2"})
		w.pass(10 * time.Second)
		w.merge(n) // into commits of which the last one doesn't have it
		w.stand("amf-2", Rollout{Phase: "halted", State: forge.Failure, Wave: 2, Selected: 30, Done: 12, Failures: 12, Failed: slices.Repeat([]string{"instances/a_b"}, 12)})
		w.pass(time.Minute)
		got := w.comments[n]
		for _, want := range []string{`merged, rollout amf\-2: halted, wave 2 of 3; 1 operation waits or runs`, `| [amf\-2](https://jibe/rollout/amf-2) | halted, wave 2 of 3 | 12 of 30 | `, `instances/a\_b, 2 more |`} {
			if !strings.Contains(got, want) {
				t.Errorf("it lacks %q: %q", want, got)
			}
		}
	})
}
