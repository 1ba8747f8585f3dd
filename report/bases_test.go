package report

import (
	"fmt"
	"testing"
	"time"
)

func TestAPlanIsMadeAnewWhereTheBaseMovesInWhatThePullRequestTouchesAndNoWhereElse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.commit(map[string]string{"amf": "1", "smf": "1"})
		n := w.propose("scale", map[string]string{"amf": "2"})
		w.pass(10 * time.Second)
		want := func(when string, plans int) {
			t.Helper()
			if w.plans != plans || w.edits[n] != plans {
				t.Errorf("%s: planned %d times and said %d times, want %d", when, w.plans, w.edits[n], plans)
			}
		}
		want("at first", 1)
		for i := range 200 {
			w.commit(map[string]string{"smf": fmt.Sprint("other ", i)})
			w.pass(time.Second)
		}
		w.pass(time.Hour)
		want("while others moved", 1)
		w.commit(map[string]string{"amf": "5"})
		w.commit(map[string]string{"amf": "6"})
		w.pass(quietFor / 2)
		want("while it may still move", 1)
		w.pass(quietFor)
		want("once it rested", 2)
		w.restart()
		want("after a restart", 2)
		w.end()
		w.commit(map[string]string{"amf": "7"})
		w.start()
		w.pass(2 * quietFor)
		want("of what moved while nobody reported", 3)
		w.commit(map[string]string{"vims": "other"})
		w.pass(2 * quietFor)
		want("where settings changed", 4)
		for i := range 60 {
			w.commit(map[string]string{"amf": fmt.Sprint("busy ", i)})
			w.pass(5 * time.Second)
		}
		if more := w.plans - 4; more < 4 || more > 6 {
			t.Errorf("planned %d times in five minutes in which it moved every five seconds", more)
		}
	})
}

func TestAsManyPlansAsAreLeftBehindAreMadeAnewAtTheirPaceAndAllOfThem(t *testing.T) {
	const many = 120
	inWorld(t, func(w *world) {
		w.commit(map[string]string{"amf": "1", "smf": "1"})
		for i := range many {
			w.propose(fmt.Sprint("change-", i), map[string]string{"amf": fmt.Sprint("2-", i)})
		}
		w.pass(10 * time.Second)
		if w.plans < 4*plansPerSecond || w.plans > 12*plansPerSecond {
			t.Errorf("%d plans in the first ten seconds", w.plans)
		}
		w.pass(2 * time.Minute)
		if w.plans != many {
			t.Fatalf("%d plans at first", w.plans)
		}
		calls := w.calls
		w.commit(map[string]string{"amf": "3"})
		w.pass(quietFor + time.Minute)
		if more := w.plans - many; more < plansPerMinute || more > 2*plansPerMinute+1 {
			t.Errorf("%d plans were made anew in the first minute", more)
		}
		w.pass(many / plansPerMinute * time.Minute)
		if w.plans != 2*many {
			t.Errorf("%d plans at last", w.plans)
		}
		for n, edits := range w.edits {
			if edits != 2 {
				t.Errorf("the comment of %d was said %d times", n, edits)
			}
		}
		if more := w.calls - calls - many; more > 5 {
			t.Errorf("%d requests beside the comments", more)
		}
		calls = w.calls
		for i := range 60 {
			w.commit(map[string]string{"smf": fmt.Sprint("other ", i)})
			w.pass(time.Second)
		}
		if w.plans != 2*many || w.calls-calls > 60/int(lookPause/time.Second)+60+5 {
			t.Errorf("%d plans and %d requests for a minute of commits elsewhere", w.plans-2*many, w.calls-calls)
		}
	})
}
