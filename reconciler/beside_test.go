package reconciler_test

import (
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// healBeside does what the API does for a heal of all VNFCs while head waits: it prepares the operation, commits, and
// begins it.
func (w *world) healBeside(op string) *lcm.Operation {
	w.t.Helper()
	rec, err := w.log.Instance(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	head, _ := w.repo.Lookup(id)
	base, err := w.repo.Files(w.t.Context(), rec.Operated)
	if err != nil {
		w.t.Fatal(err)
	}
	doomed := map[string]string{}
	units, _ := w.live()
	for _, u := range units {
		doomed[u.Key] = u.ID
	}
	if err := w.log.Prepare(w.t.Context(), lcm.Operation{ID: op, Instance: id, Type: lcm.Heal, Before: rec.Operated, Beside: head, UnitsBefore: units}); err != nil {
		w.t.Fatal(err)
	}
	made, err := w.repo.Write(w.t.Context(), desired.Write{Instance: id, Subject: "HEAL", Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: op}},
		Change: func(_ desired.Revision, now desired.Files) (desired.Files, error) {
			text, err := desired.Edit(dir+"/vnf.yaml", now[desired.InstanceFile], desired.KeyValue{Path: []string{"condemned"}, Value: doomed})
			return desired.Files{desired.InstanceFile: text}, err
		},
		Beside: &desired.Beside{From: rec.Operated, Subject: "Put back", By: "Ann <ann@example.com>", Change: func(waits, made desired.Files) (desired.Files, error) {
			return desired.Carry(dir, base, made, waits)
		}}})
	if err != nil {
		w.t.Fatal(err)
	}
	begun, err := w.log.Commit(w.t.Context(), op, made)
	if err != nil {
		w.t.Fatal(err)
	}
	w.recon.Enqueue(id)
	return begun
}

// settle commits a file of settings.
func (w *world) settle(name, text string) {
	w.t.Helper()
	if err := w.repo.Seed(w.t.Context(), map[string][]byte{name: []byte(text)}, "Settings"); err != nil {
		w.t.Fatal(err)
	}
}

// frozenScale is a world in which a commit that scales out waits.
func frozenScale(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(c *reconciler.Config) { c.Timeout = 10 * time.Hour })
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.rule(frozen(time.Hour))
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.waiting(lcm.Scale)
	return w
}

// names are the ids of the VNFCs that run.
func (w *world) names() (ids map[string]bool) {
	ids = map[string]bool{}
	units, _ := w.live()
	for _, u := range units {
		ids[u.ID] = true
	}
	return ids
}

func TestAHealIsBroughtAboutWhileACommitWaitsAndThatIsOperatedOnOnceAfterwards(t *testing.T) {
	t.Parallel()

	w := frozenScale(t)
	was := w.names()
	begun := w.healBeside("heal-1")
	healed := w.last(lcm.Heal, lcm.Completed)
	if healed.ID != "heal-1" || healed.After != begun.After {
		t.Errorf("%+v", healed)
	}
	for unit := range w.names() {
		if was[unit] {
			t.Errorf("unit %s was not replaced", unit)
		}
	}
	w.waiting(lcm.Scale)
	w.looks()
	if n := w.begun(); n != 2 || w.units("VDU1") != 1 {
		t.Fatalf("%d operations, %d VNFCs: what waits was not left alone", n, w.units("VDU1"))
	}
	w.stop()
	w.start()
	w.waiting(lcm.Scale)
	now := w.names()
	w.passed.Add(int64(2 * time.Hour))
	w.looks()
	op := w.last(lcm.Scale, lcm.Completed)
	if op.Before.Tree != healed.After.Tree || op.RequestedBy != "Ann <ann@example.com>" {
		t.Errorf("it leads from %+v, and is asked for by %s", op.Before, op.RequestedBy)
	}
	if n := w.begun(); n != 3 || w.units("VDU1") != 3 {
		t.Errorf("%d operations, %d VNFCs", n, w.units("VDU1"))
	}
	for unit := range now {
		if !w.names()[unit] {
			t.Errorf("unit %s was healed twice", unit)
		}
	}
}

func TestWhatWaitedBeforeAHealDoesNotTakeItsPlaceWhereItsWindowOpens(t *testing.T) {
	t.Parallel()

	w := frozenScale(t)
	w.cloud.SetLatency(time.Hour)
	w.healBeside("heal-1")
	w.last(lcm.Heal, lcm.Processing)
	w.passed.Add(int64(2 * time.Hour))
	w.looks()
	w.looks()
	if op := w.last(lcm.Heal, lcm.Processing); op.ID != "heal-1" {
		t.Errorf("%+v", op)
	}
	w.cloud.Hasten()
	w.last(lcm.Scale, lcm.Completed)
	if op, err := w.log.Operation(t.Context(), "heal-1"); err != nil || op.State != lcm.Completed || w.begun() != 3 {
		t.Errorf("%+v, %v; %d operations", op, err, w.begun())
	}
}

func TestAHealThatDoesNotComeAboutLeavesNothingOfItInWhatWaits(t *testing.T) {
	t.Parallel()

	for _, state := range []lcm.State{lcm.RolledBack, lcm.Failed} {
		t.Run(string(state), func(t *testing.T) {
			w := frozenScale(t)
			waits := w.head()
			if state == lcm.RolledBack {
				w.settle("granting.yaml", "policy:\n- {name: not now, operations: [HEAL], deny: true}\n")
			}
			w.cloud.Fail(web, "no quota")
			w.healBeside("heal-1")
			if state == lcm.Failed {
				w.last(lcm.Heal, lcm.FailedTemp)
				if _, err := w.log.Fail(t.Context(), "heal-1"); err != nil {
					t.Fatal(err)
				}
				w.recon.Enqueue(id)
			}
			op := w.last(lcm.Heal, state)
			w.waiting(lcm.Scale)
			if now := w.head(); !desired.Equal(waits, now) || len(now.Condemned) > 0 || now.Held != "" {
				t.Errorf("head is %+v", now)
			}
			rec, err := w.log.Instance(t.Context(), id)
			if err != nil || rec.Operated.Tree == op.After.Tree {
				t.Errorf("%+v, %v", rec, err)
			}
			if stands, err := w.repo.Read(t.Context(), rec.Operated); err != nil || len(stands.Condemned) > 0 || (stands.Held != "") != (state == lcm.Failed) {
				t.Errorf("what stands is %+v, %v", stands, err)
			}
			w.cloud.Fail(web, "")
			w.passed.Add(int64(2 * time.Hour))
			w.looks()
			w.last(lcm.Scale, lcm.Completed)
		})
	}
}

func TestARepairThatTakesItsTimeIsNotGivenUpForACommitThatWaits(t *testing.T) {
	t.Parallel()

	w := frozenScale(t)
	w.cloud.SetLatency(time.Hour)
	w.cloud.Lose(web)
	op := w.last(lcm.Heal, lcm.Processing)
	w.looks()
	w.looks()
	if now, err := w.log.Operation(t.Context(), op.ID); err != nil || now.State != lcm.Processing || now.Attempt != 1 {
		t.Errorf("%+v, %v", now, err)
	}
	w.cloud.Hasten()
	w.last(lcm.Heal, lcm.Completed)
}

func TestWhatRunsIsLookedAfterWhileItsRemovalWaits(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.rule(frozen(time.Hour))
	w.commit("")
	w.waiting(lcm.Terminate)
	w.cloud.Drift(web)
	w.last(lcm.Heal, lcm.Completed)
	w.waiting(lcm.Terminate)
	w.passed.Add(int64(2 * time.Hour))
	w.looks()
	w.until("it has ended", func() bool { return len(w.cloud.Instances()) == 0 })
}
