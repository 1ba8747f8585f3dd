package reconciler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

const (
	udmID  = "5b0e1d52-9a0c-4a3c-8a3f-6f1a64b1e0bb"
	udmDir = "instances/core/udm"
	udmWeb = "Workload/" + udmID + "/web"
	needs  = "needs: [{instance: " + udmDir + "}]\n"
)

// udm is the file of the instance that the other one needs.
func udm(state, extra string) string {
	return strings.NewReplacer(id, udmID, "name: amf", "name: udm").Replace(file(state, extra))
}

// together commits the files of both instances at once; "" leaves one as it is.
func (w *world) together(amf, udm string) {
	w.t.Helper()
	files := map[string][]byte{}
	for d, text := range map[string]string{dir: amf, udmDir: udm} {
		if text != "" {
			files[d+"/"+desired.InstanceFile] = []byte(text)
		}
	}
	if err := w.repo.Seed(w.t.Context(), files, "change"); err != nil {
		w.t.Fatal(err)
	}
}

// op is the last operation of an instance, once it is of this type and state.
func (w *world) op(instance string, typ lcm.Type, state lcm.State) (op *lcm.Operation) {
	w.t.Helper()
	w.until(fmt.Sprintf("%s of %s is %s", typ, instance, state), func() bool {
		inst, err := w.log.Instance(w.t.Context(), instance)
		if err != nil || inst.Last == "" && inst.Open == "" {
			return false
		}
		last := inst.Open
		if last == "" {
			last = inst.Last
		}
		op, err = w.log.Operation(w.t.Context(), last)
		return err == nil && op.Type == typ && op.State == state
	})
	return op
}

// waitsFor waits until the last operation of an instance waits for this.
func (w *world) waitsFor(instance string, typ lcm.Type, what string) *lcm.Operation {
	w.t.Helper()
	var op *lcm.Operation
	w.until(fmt.Sprintf("%s of %s waits for %s", typ, instance, what), func() bool {
		inst, err := w.log.Instance(w.t.Context(), instance)
		if err != nil || inst.Open == "" {
			return false
		}
		if op, err = w.log.Operation(w.t.Context(), inst.Open); err != nil || op.Type != typ {
			return false
		}
		now, ok := op.Waiting()
		return ok && strings.Contains(now.For, what)
	})
	if op.State != lcm.Starting {
		w.t.Errorf("%s of %s waits in %s", typ, instance, op.State)
	}
	return op
}

// begunAt is when an operation left STARTING.
func begunAt(t *testing.T, op *lcm.Operation) time.Time {
	t.Helper()
	for _, line := range op.Story {
		if line.Text == string(lcm.Processing) {
			return line.At
		}
	}
	t.Fatalf("%s has never begun: %v", op.Type, op.Story)
	return time.Time{}
}

// inTurn fails unless the second operation began when the first had ended, and soon: it was woken, and
// didn't look by itself.
func inTurn(t *testing.T, first, second *lcm.Operation) {
	t.Helper()
	ended := first.StateEntered.Truncate(time.Millisecond)
	if at := begunAt(t, second); at.Before(ended) || at.Sub(ended) > 10*time.Second {
		t.Errorf("%s began %s after the end of %s", second.Type, at.Sub(ended), first.Type)
	}
}

func TestInstancesOfOneCommitBeginAfterThoseThatTheyNeedAndEndBefore(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.cloud.SetLatency(time.Hour)
	w.together(file("instantiated", needs), udm("instantiated", ""))
	w.waitsFor(id, lcm.Instantiate, "what it needs: "+udmDir+", whose INSTANTIATE is under way")
	w.until("the other one is being made", func() bool { return len(w.cloud.Instances()) > 0 })
	if list := w.cloud.Instances(); len(list) != 1 {
		t.Errorf("%v run", list)
	}
	w.cloud.Hasten()
	inTurn(t, w.op(udmID, lcm.Instantiate, lcm.Completed), w.op(id, lcm.Instantiate, lcm.Completed))
	if list := w.recon.View().WaitingForInstances(); len(list) > 0 {
		t.Errorf("%v is still seen to wait", list)
	}
	w.cloud.Hold(web, true)
	w.together(file("notInstantiated", needs), udm("notInstantiated", ""))
	w.waitsFor(udmID, lcm.Terminate, "the end of those that need it: "+dir)
	w.cloud.Hold(web, false)
	inTurn(t, w.op(id, lcm.Terminate, lcm.Completed), w.op(udmID, lcm.Terminate, lcm.Completed))
}

func TestDirectoriesThatGoTogetherEndInTurnAlsoAfterARestart(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", needs), udm("instantiated", ""))
	w.op(id, lcm.Instantiate, lcm.Completed)
	w.cloud.Hold(web, true)
	w.commit("")
	w.op(id, lcm.Terminate, lcm.Processing)
	w.remove(udmID, udmDir)
	w.waitsFor(udmID, lcm.Terminate, dir)
	w.stop() // what another instance needed stands in no file by now
	w.start()
	w.waitsFor(udmID, lcm.Terminate, dir)
	w.until("its wait is seen", func() bool { return len(w.recon.View().WaitingForInstances()) == 1 })
	w.cloud.Hold(web, false)
	w.until("both are gone", func() bool {
		_, one := w.log.InstanceEntry(id)
		_, two := w.log.InstanceEntry(udmID)
		return !one && !two && len(w.cloud.Instances()) == 0
	})
}

// remove commits the removal of an instance's directory.
func (w *world) remove(instance, dir string) {
	w.t.Helper()
	_, err := w.repo.Write(w.t.Context(), desired.Write{Instance: instance, Dir: dir, Subject: "remove", By: "Ann <ann@example.com>",
		Change: func(desired.Revision, desired.Files) (desired.Files, error) { return nil, nil }})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestAWaitHasAClockOfItsOwnAndSurvivesARestart(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", needs), udm("notInstantiated", ""))
	op := w.waitsFor(id, lcm.Instantiate, udmDir+", which git doesn't ask to be instantiated")
	w.wait(time.Hour)
	w.stop()
	w.start()
	w.wait(time.Hour)
	if again := w.waitsFor(id, lcm.Instantiate, udmDir); again.ID != op.ID || len(again.Story) != len(op.Story) {
		t.Errorf("it is another operation by now, or tells its story twice: %v", again.Story)
	}
	if n := len(w.cloud.Instances()); n != 0 {
		t.Errorf("%d instances run", n)
	}
	w.together("", udm("instantiated", ""))
	inTurn(t, w.op(udmID, lcm.Instantiate, lcm.Completed), w.op(id, lcm.Instantiate, lcm.Completed))
}

func TestACancelEndsAWaitAtOnce(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", needs), udm("notInstantiated", ""))
	op := w.waitsFor(id, lcm.Instantiate, udmDir)
	if now, err := w.log.Cancel(t.Context(), op.ID, lcm.Forceful); err != nil || now.State != lcm.RolledBack {
		t.Fatalf("it is %s: %v", now.State, err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Instantiate, lcm.RolledBack)
	w.until("git has it", func() bool { return w.head().State == desired.NotInstantiated })
	w.until("nothing waits", func() bool { return len(w.recon.View().WaitingForInstances()) == 0 })
}

func TestANewerCommitTakesThePlaceOfWhatWaitsAndATakenBackNeedFreesIt(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", ""), udm("instantiated", ""))
	w.op(id, lcm.Instantiate, lcm.Completed)
	w.op(udmID, lcm.Instantiate, lcm.Completed)
	w.together("", udm("stopped", ""))
	w.op(udmID, lcm.Operate, lcm.Completed)

	w.commit(strings.Replace(file("instantiated", needs), "flavour: simple", "flavour: large", 1))
	first := w.waitsFor(id, lcm.ChangeFlavour, udmDir+", which is stopped")
	w.commit(file("instantiated", "levels: {web: 1}\n"+needs))
	scaled := w.last(lcm.Scale, lcm.Completed)
	if op, err := w.log.Operation(t.Context(), first.ID); err != nil || op.State != lcm.RolledBack || !strings.Contains(op.Error.Detail, "gives way to the newer commit") {
		t.Errorf("the former operation is %+v, %v", op, err)
	}

	w.commit(strings.Replace(file("instantiated", "levels: {web: 1}\n"+needs), "flavour: simple", "flavour: large", 1))
	second := w.waitsFor(id, lcm.ChangeFlavour, udmDir)
	w.commit(strings.Replace(file("instantiated", "levels: {web: 1}\n"), "flavour: simple", "flavour: large", 1))
	if op := w.last(lcm.ChangeFlavour, lcm.Completed); op.ID != second.ID || op.ID == scaled.ID {
		t.Errorf("the need was taken back, and another operation than the one that waited was made: %+v", op)
	}
}

func TestCareOfWhatRunsWaitsForNobody(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", needs), udm("instantiated", ""))
	w.op(id, lcm.Instantiate, lcm.Completed)
	w.together("", udm("stopped", ""))
	w.op(udmID, lcm.Operate, lcm.Completed)
	w.cloud.Drift(web)
	w.last(lcm.Heal, lcm.Completed)
	w.commit(file("instantiated", "levels: {web: 2}\n"+needs))
	w.last(lcm.Scale, lcm.Completed)
	w.commit(file("stopped", "levels: {web: 2}\n"+needs))
	w.last(lcm.Operate, lcm.Completed)
	w.commit(file("instantiated", "levels: {web: 2}\n"+needs))
	w.waitsFor(id, lcm.Operate, udmDir)
	w.together("", udm("instantiated", ""))
	w.last(lcm.Operate, lcm.Completed)
}

func TestWhatIsNeededMustRunInTheVersionThatIsAskedFor(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) { c.Packages = catalogue{} })
	asks := "needs: [{instance: " + udmDir + ", version: \">=2\"}]\n"
	w.together(file("instantiated", asks), udm("instantiated", "drift: report\n"))
	w.waitsFor(id, lcm.Instantiate, udmDir+", which runs version 1.0 and not >=2")
	newer := strings.NewReplacer(vnfdID, vnfd2, tree1, tree2).Replace(udm("instantiated", "drift: report\n"))
	w.together("", newer)
	inTurn(t, w.op(udmID, lcm.ChangePackage, lcm.Completed), w.op(id, lcm.Instantiate, lcm.Completed))

	w.commit(file("notInstantiated", asks))
	w.last(lcm.Terminate, lcm.Completed)
	w.cloud.Lose(udmWeb)
	w.commit(file("instantiated", asks))
	w.waitsFor(id, lcm.Instantiate, udmDir+", of which not all runs: "+udmWeb)
	w.together("", strings.Replace(newer, "drift: report\n", "", 1))
	w.last(lcm.Instantiate, lcm.Completed)
}

func TestAnInstanceThatNobodyHasAskedToEndKeepsWhatItNeedsFromEnding(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", needs), udm("instantiated", ""))
	w.op(id, lcm.Instantiate, lcm.Completed)
	w.together("", udm("notInstantiated", ""))
	op := w.waitsFor(udmID, lcm.Terminate, dir+", which nobody has asked to end")
	w.commit(file("instantiated", ""))
	w.recon.Moved(id)
	if last := w.op(udmID, lcm.Terminate, lcm.Completed); last.ID != op.ID {
		t.Error("another operation has ended it")
	}
}

func TestNeedsOfAnotherProjectKeepNothingFromEnding(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", needs), udm("instantiated", ""))
	w.op(id, lcm.Instantiate, lcm.Completed)
	if err := w.repo.Seed(t.Context(), map[string][]byte{"projects/far.yaml": []byte("instances: [site-a/**]\nvims: [lab]\nrepositories: [shelf]\n")}, "It is another's by now"); err != nil {
		t.Fatal(err)
	}
	w.together("", udm("notInstantiated", ""))
	w.op(udmID, lcm.Terminate, lcm.Completed)
	w.commit(strings.Replace(file("instantiated", needs), "flavour: simple", "flavour: large", 1))
	w.waitsFor(id, lcm.ChangeFlavour, udmDir+", which is another project's")
}

func TestAContainerUpdateWaitsBeforeItsFirstStep(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) { c.Packages = catalogue{} })
	w.together(file("instantiated", ""), udm("notInstantiated", ""))
	w.op(id, lcm.Instantiate, lcm.Completed)
	done := w.cloud.Calls().VIM()
	update := "base: " + tree1 + "\noverlays: [{package: " + tree2 + "}]\nupdate: {strategy: container}\n" + needs
	newer := strings.NewReplacer("vnfdId: "+vnfdID, "vnfdId: "+vnfd2, "\npackage: "+tree1, "\npackage: "+tree2).Replace(file("instantiated", update))
	w.commit(newer)
	waits := func() *lcm.Operation {
		var op *lcm.Operation
		w.until("the update waits", func() bool {
			inst, err := w.log.Instance(t.Context(), id)
			if err != nil || inst.Open == "" {
				return false
			}
			op, err = w.log.Operation(t.Context(), inst.Open)
			if err != nil {
				return false
			}
			now, ok := op.Waiting()
			return ok && op.Type == lcm.ModifyInfo && strings.Contains(now.For, udmDir)
		})
		return op
	}
	op := waits()
	w.wait(time.Hour)
	if n := w.cloud.Calls().VIM(); op.State != lcm.Processing || n != done {
		t.Errorf("it is %s, and %d calls were made", op.State, n-done)
	}
	w.together("", udm("instantiated", ""))
	if last := w.last(lcm.ModifyInfo, lcm.Completed); last.ID != op.ID {
		t.Error("another operation was made")
	}
}

func TestUnitsThatBecomeReadyAtTheVIMWakeWhoeverWaitsForThem(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("notInstantiated", needs), udm("instantiated", ""))
	w.op(udmID, lcm.Instantiate, lcm.Completed)
	w.cloud.SetLatency(time.Hour)
	seen, _ := w.recon.View().Running(t.Context(), udmID)
	if len(seen.Units) == 0 || !w.cloud.Kill(seen.Units[0].ID) {
		t.Fatalf("nothing runs that could be killed: %+v", seen)
	}
	w.commit(file("instantiated", needs))
	w.waitsFor(id, lcm.Instantiate, udmDir+", of which not all runs: ")
	ready := time.Now()
	w.cloud.Hasten()
	if at := begunAt(t, w.last(lcm.Instantiate, lcm.Completed)); at.Sub(ready) > 10*time.Second {
		t.Errorf("it began %s later", at.Sub(ready))
	}
	if op := w.op(udmID, lcm.Instantiate, lcm.Completed); op.Automatic {
		t.Error("an operation has repaired it")
	}
}
