package reconciler_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
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
