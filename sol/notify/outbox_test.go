package notify_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// unheard waits until an operation adds nothing to the outbox.
func (w *world) unheard() {
	w.t.Helper()
	kit.Until(w.t, "nothing is added to the outbox", func() bool {
		end := func() uint64 {
			n, err := w.oplog.End(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			return n
		}
		was := end()
		w.operate("unheard", lcm.Heal)
		return end() == was
	})
}

func TestTheOutboxGetsNothingWhileNobodyIsSubscribed(t *testing.T) {
	w := newWorld(t)
	w.unheard()
	for range 2 {
		s := newSubscriber(t)
		sub := w.subscribe(notify.Request{CallbackURI: s.URL})
		id := w.operate("amf", lcm.Scale)
		kit.Until(t, "the operation's end is notified", func() bool {
			list := s.list()
			return len(list) > 0 && list[len(list)-1] == id+" COMPLETED"
		})
		if err := w.lcm.Delete(t.Context(), nfvo(), sub.ID); err != nil {
			t.Fatal(err)
		}
		w.unheard()
	}
}

func TestASubscriptionBeginsInTheMiddleOfManyOperationsAndMissesNone(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	w.unheard()
	stop := make(chan struct{})
	var g sync.WaitGroup
	for i := range 4 {
		g.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				op := lcm.Operation{ID: fmt.Sprint("busy-", i, "-", n), Instance: fmt.Sprint("busy", i), Type: lcm.Scale}
				if _, err := w.oplog.Born(t.Context(), op); err != nil {
					t.Error(err)
					return
				}
				for _, e := range []lcm.Event{lcm.Granted, lcm.Converged} {
					if _, err := w.oplog.Record(t.Context(), op.ID, func(op *lcm.Operation, _ *lcm.Instance) error { return op.Advance(e, w.clock.now(), nil) }); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	w.subscribe(notify.Request{CallbackURI: s.URL, Filter: &notify.Filter{OperationStates: []string{"COMPLETED"}}})
	before := map[string]bool{} // these have certainly ended before
	for e := range w.oplog.OperationEntries(oplog.OperationQuery{States: []lcm.State{lcm.Completed}}) {
		before[e.ID] = true
	}
	w.operate("amf", lcm.Scale)
	close(stop)
	g.Wait()
	kit.Until(t, "every operation that ended after the subscription is notified", func() bool {
		told := map[string]bool{}
		for _, n := range s.all() {
			told[fmt.Sprint(n["vnfLcmOpOccId"])] = true
		}
		for e := range w.oplog.OperationEntries(oplog.OperationQuery{States: []lcm.State{lcm.Completed}}) {
			if !before[e.ID] && !told[e.ID] {
				return false
			}
		}
		return true
	})
}

func TestWhatHappensBetweenAStartAndTheDeliveryIsNotified(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	w.subscribe(notify.Request{CallbackURI: s.URL})
	w.stop()
	var err error
	if w.oplog, err = oplog.Open(t.Context(), w.store, w.clock.now); err != nil {
		t.Fatal(err)
	}
	w.operate("amf", lcm.Scale)
	w.restart()
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
}

// TestAnEventOfAFormerVersionIsDelivered puts what it wrote: the whole operation.
func TestAnEventOfAFormerVersionIsDelivered(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	w.subscribe(notify.Request{CallbackURI: s.URL})
	w.stop()
	op := lcm.Operation{ID: "7d7a9f55-6a1f-4d44-bc44-4e1c7d1a4a01", Instance: "amf", Type: lcm.Scale, State: lcm.Completed, StateEntered: w.clock.now(), Started: w.clock.now(),
		Params: json.RawMessage(`{"type":"SCALE_OUT"}`), Story: []lcm.StoryLine{{At: w.clock.now(), Text: "COMPLETED"}}, Journal: plan.Journal{Granted: true, Touched: true},
		UnitsBefore: []plan.Unit{{ID: "u1", Name: "pod1", VDU: "vdu"}}, UnitsAfter: []plan.Unit{{ID: "u1", Name: "pod1", VDU: "vdu"}, {ID: "u2", Name: "pod2", VDU: "vdu"}}}
	text, err := json.Marshal(oplog.Event{Type: oplog.OperationEvent, Time: w.clock.now(), Instance: "amf", Operation: &op})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Put(t.Context(), store.Record{Key: "outbox/", Value: text}); err != nil {
		t.Fatal(err)
	}
	w.restart()
	s.waitFor(t, op.ID+" COMPLETED")
	if vnfcs, _ := s.all()[0]["affectedVnfcs"].([]any); len(vnfcs) != 1 {
		t.Errorf("affected are %v", vnfcs)
	}
}
