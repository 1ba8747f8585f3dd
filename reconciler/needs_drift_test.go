package reconciler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
)

// grown is the instance's file with another flavour.
func grown(extra string) string {
	return strings.Replace(file("instantiated", extra), "flavour: simple", "flavour: large", 1)
}

func TestDriftIsRepairedWhileAnOperationWaitsForWhatItNeeds(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", ""), udm("instantiated", ""))
	w.op(id, lcm.Instantiate, lcm.Completed)
	w.op(udmID, lcm.Instantiate, lcm.Completed)
	w.together(file("instantiated", ""), udm("stopped", ""))
	stopped := w.op(udmID, lcm.Operate, lcm.Completed)
	w.together(grown(needs), "")
	waiting := w.waitsFor(id, lcm.ChangeFlavour, udmDir+", which is stopped")
	repaired := func(n int) (op *lcm.Operation) {
		t.Helper()
		w.until(fmt.Sprintf("repair %d is COMPLETED", n), func() bool {
			all := 0
			ops, err := w.log.Operations(t.Context(), "", 0)
			for _, x := range ops {
				if x.Instance == id && x.Automatic && x.State == lcm.Completed {
					all, op = all+1, x
				}
			}
			return err == nil && all == n
		})
		return op
	}
	w.cloud.Drift(web)
	if op := repaired(1); op.After.Tree != waiting.Before.Tree || op.Type != lcm.Heal {
		t.Errorf("the repair is %+v", op)
	}
	if now := w.waitsFor(id, lcm.ChangeFlavour, udmDir); now.ID != waiting.ID {
		t.Errorf("waiting is %+v", now)
	}
	w.cloud.SetLatency(time.Hour) // another one is in the middle at a restart
	w.cloud.Lose(web)
	w.until("a repair is under way", func() bool {
		rec, err := w.log.Instance(t.Context(), id)
		return err == nil && rec.Care != "" && rec.Open == waiting.ID
	})
	w.stop()
	w.start()
	w.cloud.Hasten()
	repaired(2)
	w.until("no repair is under way", func() bool {
		rec, err := w.log.Instance(t.Context(), id)
		return err == nil && rec.Care == "" && rec.Open == waiting.ID
	})

	// What it waits for comes while a repair is in the middle.
	w.cloud.SetLatency(time.Hour)
	w.cloud.Lose(web)
	w.until("a repair is under way, and what it made isn't ready for long", func() bool {
		rec, err := w.log.Instance(t.Context(), id)
		return err == nil && rec.Care != "" && w.units("VDU1") == 1
	})
	w.cloud.SetLatency(0)
	w.together("", udm("instantiated", ""))
	w.until("the other one is started", func() bool {
		return w.op(udmID, lcm.Operate, lcm.Completed).ID != stopped.ID
	})
	w.cloud.Hasten()
	w.op(id, lcm.ChangeFlavour, lcm.Completed)
	rec, err := w.log.Instance(t.Context(), id)
	if err != nil || rec.Care != "" || rec.Open != "" || rec.Last != waiting.ID {
		t.Errorf("%+v, %v", rec, err)
	}
	ops, err := w.log.Operations(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		if !op.State.Ended() {
			t.Errorf("%s %s is still %s", op.ID, op.Type, op.State)
		}
	}
}

func TestAnInstanceThatIsNewHasNoDriftWhileItWaitsAndACancelEndsTheRepairOfAnother(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", needs), udm("notInstantiated", ""))
	waiting := w.waitsFor(id, lcm.Instantiate, udmDir)
	w.looks()
	if n := w.begun(); n != 1 || len(w.cloud.Instances()) > 0 {
		t.Errorf("%d operations", n)
	}
	if _, err := w.log.Cancel(t.Context(), waiting.ID, lcm.Forceful); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Instantiate, lcm.RolledBack)
	w.until("git has it", func() bool { return w.head().State == desired.NotInstantiated })
	w.together(file("instantiated", ""), "")
	w.op(id, lcm.Instantiate, lcm.Completed)
	w.together(grown(needs), "")
	waiting = w.waitsFor(id, lcm.ChangeFlavour, udmDir)
	w.cloud.SetLatency(time.Hour)
	w.cloud.Lose(web)
	w.until("a repair is under way", func() bool {
		rec, err := w.log.Instance(t.Context(), id)
		return err == nil && rec.Care != ""
	})
	if _, err := w.log.Cancel(t.Context(), waiting.ID, lcm.Forceful); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.cloud.Hasten()
	w.until("nothing is open, and the repair is made", func() bool {
		rec, err := w.log.Instance(t.Context(), id)
		return err == nil && rec.Care == "" && rec.Open == "" && rec.OutstandingCommit == "" && len(w.recon.View().Drifted(id)) == 0
	})
}
