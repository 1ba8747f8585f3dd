package reconciler_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
)

// failToInstantiate leaves the instance not instantiated and held, with what its instantiation had made.
func (w *world) failToInstantiate() *lcm.Operation {
	w.t.Helper()
	w.cloud.Fail(web, "no memory")
	w.commit(file("instantiated", "params: {size: small}\n"))
	op := w.last(lcm.Instantiate, lcm.FailedTemp)
	if _, err := w.log.Fail(w.t.Context(), op.ID); err != nil {
		w.t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Instantiate, lcm.Failed)
	w.until("the outcome is in git", func() bool { return w.head().Held == op.ID })
	w.cloud.Fail(web, "")

	if in := w.head(); in.State != desired.NotInstantiated || in.VIM != "lab" {
		w.t.Fatalf("the file says state %s, vim %q", in.State, in.VIM)
	}
	return op
}

// remains are the objects that the VIM has of the instance.
func (w *world) remains() []string {
	w.t.Helper()
	keys, err := w.recon.View().Remains(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return keys
}

func TestWhatAFailedInstantiationLeftIsAProblem(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	op := w.failToInstantiate()

	if left := w.remains(); len(left) == 0 {
		t.Fatal("nothing is seen of what is left")
	}
	w.until("it is a problem", func() bool {
		p, ok := w.recon.View().Problem(id)
		return ok && strings.Contains(p.Message, op.ID) && strings.Contains(p.Message, web) && strings.Contains(p.Remedy, id+"/terminate")
	})
}

func TestWhatAFailedInstantiationLeftIsEndedByGit(t *testing.T) {
	t.Parallel()

	for name, text := range map[string]string{
		"the directory goes": "",
		"the mark is lifted": file("notInstantiated", ""),
		"it is as before":    "id: " + id + "\nname: amf\nvnfdId: " + vnfdID + "\nstate: notInstantiated\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.failToInstantiate()

			w.commit(text)
			w.recon.Enqueue(id)

			w.until("all is gone", func() bool { return !slices.Contains(w.cloud.Instances(), id) })
			w.until("it is no problem any more", func() bool { _, ok := w.recon.View().Problem(id); return !ok })
			if text != "" {
				w.last(lcm.Terminate, lcm.Completed)
			}
		})
	}
}

func TestAFailedInstantiationIsTakenOverByTheNext(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.failToInstantiate()

	w.commit(file("instantiated", ""))

	w.last(lcm.Instantiate, lcm.Completed)
	if in := w.head(); in.Held != "" {
		t.Errorf("it is held by %s", in.Held)
	}
	if n := w.units("VDU1"); n != 1 {
		t.Errorf("%d units, want 1", n)
	}
}

func TestEditsOfWhatIsHeldLeaveItsRemainsAlone(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	op := w.failToInstantiate()

	w.commit(file("notInstantiated", "held: "+op.ID+"\nmetadata: {note: seen}\n"))

	w.last(lcm.ModifyInfo, lcm.Completed)
	if left := w.remains(); len(left) == 0 || w.head().Held != op.ID {
		t.Errorf("left %v, held %q", left, w.head().Held)
	}
}

func TestRemainsAreNotLostByAnotherVIM(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	op := w.failToInstantiate()
	if err := w.repo.Seed(t.Context(), map[string][]byte{"vims/other.yaml": []byte("type: sim\n")}, "A VIM"); err != nil {
		t.Fatal(err)
	}

	w.commit(file("instantiated", "vim: other\n"))

	w.until("it is refused", func() bool {
		p, ok := w.recon.View().Problem(id)
		return ok && strings.Contains(p.Message, op.ID) && strings.Contains(p.Message, "would be lost")
	})
}

// TestRemainsWithoutAVIMSayWhatToDo has a file as an earlier version of Jibe left it: without the VIM that the request
// to instantiate had named.
func TestRemainsWithoutAVIMSayWhatToDo(t *testing.T) {
	t.Parallel()

	w := &world{t: t, cloud: sim.NewCloud(), data: t.TempDir()}
	w.start()
	t.Cleanup(func() { w.stop() })
	w.vimFile("lab", "type: sim\n")
	op := w.failToInstantiate()
	w.stop()
	former := forgetVIMInFile(t, w.data, "held: "+op.ID+"\n")
	w.start()

	says := []string{"what operation " + op.ID + " left", "names no VIM", "add vim: NAME", "known are [lab]"}
	for _, want := range says {
		w.problemSays(want)
	}
	w.commit("") // to remove the directory alone ends nothing
	if op := w.last(lcm.Terminate, lcm.RolledBack); op.Error == nil || !strings.Contains(op.Error.Detail, says[2]) {
		t.Errorf("removed, it ends with %+v", op.Error)
	}

	w.commit(former + "vim: lab\n")
	w.until("what is left is seen", func() bool {
		p, ok := w.recon.View().Problem(id)
		return ok && strings.Contains(p.Remedy, "terminate ends it")
	})
	w.commit("")
	w.until("all is gone", func() bool { return !slices.Contains(w.cloud.Instances(), id) })
}

// forgetVIMInFile leaves a data directory with a file of the instance that names no VIM, and has a line more.
func forgetVIMInFile(t *testing.T, data, line string) (text string) {
	t.Helper()
	text = "id: " + id + "\nname: amf\nvnfdId: " + vnfdID + "\nstate: notInstantiated\n" + line
	edited(t, data, func(desired.Files) desired.Files { return desired.Files{"vnf.yaml": []byte(text)} })
	return text
}
