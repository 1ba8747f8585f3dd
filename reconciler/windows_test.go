package reconciler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// rule commits a file with windows and freezes for all instances.
func (w *world) rule(text string) {
	w.t.Helper()
	if err := w.repo.Seed(w.t.Context(), map[string][]byte{"instances/" + desired.MaintenanceFile: []byte(text)}, "When work may begin"); err != nil {
		w.t.Fatal(err)
	}
}

// frozen is a file with a freeze from an hour ago until a time from now.
func frozen(until time.Duration) string {
	now := time.Now()
	return fmt.Sprintf("freezes:\n- {from: %s, until: %s, reason: new year}\n", now.Add(-time.Hour).Format(time.RFC3339), now.Add(until).Format(time.RFC3339))
}

// waiting waits until an operation of the type is seen to wait.
func (w *world) waiting(typ lcm.Type) (x reconciler.Waiting) {
	w.t.Helper()
	w.until(fmt.Sprintf("%s waits", typ), func() bool {
		var ok bool
		x, ok = w.recon.View().WaitingOf(id)
		return ok && x.Type == typ
	})
	return x
}

// begun is how many operations the instance has ever had.
func (w *world) begun() int {
	w.t.Helper()
	ops, err := w.log.Operations(w.t.Context(), "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(ops)
}

func TestACommitWaitsUntilItMayBeginAndWhatStandsIsLookedAfter(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.rule(frozen(time.Hour))
	head := w.commit(file("instantiated", "levels: {web: 2}\n"))
	x := w.waiting(lcm.Scale)
	if x.Commit != head.Commit || !strings.Contains(x.Why, "frozen (new year), by instances/maintenance.yaml") || x.Until.Before(time.Now()) {
		t.Errorf("it waits by %+v", x)
	}
	w.looks()
	if n := w.begun(); n != 1 || w.units("VDU1") != 1 {
		t.Fatalf("%d operations, %d VNFCs", n, w.units("VDU1"))
	}
	if _, ok := w.recon.View().Problem(id); ok {
		t.Error("the file is a problem, although nothing is wrong with it")
	}
	w.cloud.Drift(web)
	w.last(lcm.Heal, lcm.Completed)
	if n := w.units("VDU1"); n != 1 {
		t.Errorf("%d VNFCs after the repair: it was made by what still waits", n)
	}
	w.passed.Add(int64(2 * time.Hour))
	w.looks()
	w.last(lcm.Scale, lcm.Completed)
	if _, ok := w.recon.View().WaitingOf(id); ok {
		t.Error("it is still seen to wait")
	}
}

func TestACommitThatIsTakenBackWaitsForNothing(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.rule(frozen(time.Hour))
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.waiting(lcm.Scale)
	w.commit(file("instantiated", ""))
	w.until("nothing waits", func() bool {
		_, ok := w.recon.View().WaitingOf(id)
		return !ok
	})
	w.passed.Add(int64(2 * time.Hour))
	w.looks()
	if n := w.begun(); n != 1 {
		t.Errorf("%d operations", n)
	}
}

func TestAnInstantiationWaitsAndItsFileIsFilledInMeanwhile(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.rule(frozen(time.Hour))
	w.commit(strings.Replace(file("instantiated", ""), "vim: lab\n", "", 1))
	w.waiting(lcm.Instantiate)
	w.until("the VIM is filled in", func() bool { return w.head().VIM == "lab" })
	w.looks()
	if n := w.begun(); n != 0 {
		t.Fatalf("%d operations", n)
	}
	w.rule("windows:\n- {cron: \"* * * * *\", lasts: 1h}\n")
	w.looks()
	w.last(lcm.Instantiate, lcm.Completed)
}

func TestARollbackByGitPassesAndAHealUnlessItIsNamed(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.failToScale("no quota")
	w.last(lcm.Scale, lcm.FailedTemp)
	w.rule(frozen(time.Hour))
	w.cloud.Fail(web, "")
	w.commit(file("instantiated", ""))
	w.last(lcm.Scale, lcm.RolledBack)
	units, _ := w.live()
	w.commit(file("instantiated", fmt.Sprintf("condemned: {%q: %s}\n", units[0].Key, units[0].ID)))
	w.last(lcm.Heal, lcm.Completed)

	w.rule(frozen(time.Hour) + "binds: [HEAL]\n")
	units, _ = w.live()
	w.commit(file("instantiated", fmt.Sprintf("condemned: {%q: %s}\n", units[0].Key, units[0].ID)))
	w.waiting(lcm.Heal)
	n := w.begun()
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.last(lcm.Scale, lcm.Completed)
	if w.begun() != n+1 {
		t.Errorf("%d operations began beside the scaling, which isn't bound", w.begun()-n-1)
	}
}

func TestARepairWaitsOnlyWhereHealIsNamed(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.rule(frozen(time.Hour) + "binds: [HEAL]\n")
	w.cloud.Drift(web)
	w.until("the drift is seen and not repaired", func() bool {
		return len(w.recon.View().Drifted(id)) > 0
	})
	w.looks()
	if n := w.begun(); n != 1 {
		t.Errorf("%d operations", n)
	}
	w.passed.Add(int64(2 * time.Hour))
	w.looks()
	w.last(lcm.Heal, lcm.Completed)
}

func TestAFileThatCannotBeReadHoldsWhatIsBelowIt(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.rule("windows:\n- {cron: \"every night\", lasts: 1h}\n")
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	p := w.problem("every night")
	if !strings.Contains(p.Message, "instances/maintenance.yaml:2") {
		t.Errorf("the problem is %+v", p)
	}
	w.rule("")
	w.looks()
	w.last(lcm.Scale, lcm.Completed)
}

func TestAnOverrideCountsByWhoCommittedAndIsAudited(t *testing.T) {
	t.Parallel()

	audited := make(chan string, 10)
	w := &world{t: t, cloud: sim.NewCloud(), data: t.TempDir(), git: func(o *gitrepo.Options) { o.Key = []byte("a key of 32 bytes for these tests") }}
	w.conf = func(c *reconciler.Config) {
		c.Overridden = func(_ context.Context, op *lcm.Operation, _, reason string) {
			audited <- string(op.Type) + ": " + reason
		}
	}
	w.start()
	t.Cleanup(func() { w.stop() })
	w.settings()
	w.rule(frozen(time.Hour))
	_, err := w.repo.Write(t.Context(), desired.Write{Instance: id, Dir: dir, Subject: "change", Trailers: []desired.Trailer{{Key: desired.TrailerOverride, Value: "emergency calls fail"}},
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			// What is filled in is one more commit, which hands the override on.
			return desired.Files{desired.InstanceFile: []byte(strings.Replace(file("instantiated", ""), "vim: lab\n", "", 1))}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	op := w.last(lcm.Instantiate, lcm.Completed)
	if said := <-audited; said != "INSTANTIATE: emergency calls fail" {
		t.Errorf("the audit log has %q", said)
	}
	if len(op.Story) == 0 || !strings.Contains(op.Story[0].Text, "emergency calls fail") {
		t.Errorf("the story is %+v", op.Story)
	}
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.waiting(lcm.Scale) // it was for the one before
}
