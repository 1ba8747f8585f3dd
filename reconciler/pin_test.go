package reconciler_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// vimFile writes vims/<name>.yaml.
func (w *world) vimFile(name, text string) {
	w.t.Helper()
	_, err := w.repo.WriteVIM(w.t.Context(), name, "Change a VIM", nil, func([]byte) ([]byte, error) { return []byte(text), nil })
	if err != nil {
		w.t.Fatal(err)
	}
	w.recon.EnqueueAll()
}

// problem waits until the instance's problem has these words in it.
func (w *world) problemSays(words string) {
	w.t.Helper()
	w.until("the problem says "+words, func() bool {
		p, ok := w.recon.View().Problem(id)
		return ok && strings.Contains(p.Message, words)
	})
}

func TestWhatRanBeforeVIMsWerePinnedIsPinnedAtTheFirstLookWithoutAnOperation(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.stop()
	unpinned(t, w.data)
	w.start()
	w.until("the VIM is pinned", func() bool { return w.head().VIM == "lab" })
	w.until("the pin is taken for what it is", func() bool {
		inst, err := w.log.Instance(t.Context(), id)
		head, _ := w.repo.Lookup(id)
		return err == nil && inst.Operated.Tree == head.Tree && inst.VIMs == nil
	})
	if n := len(w.operations(lcm.Instantiate)) + len(w.operations(lcm.ModifyInfo)); n != 1 {
		t.Errorf("%d operations, want that which began it all", n)
	}
	w.commit(file("notInstantiated", ""))
	w.last(lcm.Terminate, lcm.Completed)
	if in := w.head(); in.VIM != "" {
		t.Errorf("terminated, it has still the VIM %q that nobody had named", in.VIM)
	}
}

// unpinned leaves a data directory as a process that pinned no VIMs would have.
func unpinned(t *testing.T, data string) {
	t.Helper()
	edited(t, data, func(old desired.Files) desired.Files {
		return desired.Files{"vnf.yaml": []byte(strings.Replace(string(old["vnf.yaml"]), "vim: lab\n", "", 1))}
	})
}

// edited leaves a data directory with another file of the instance, which was operated on, and no VIM in its record.
func edited(t *testing.T, data string, edit func(old desired.Files) desired.Files) {
	t.Helper()
	repo, err := gitrepo.Open(t.Context(), gitrepo.Options{Dir: filepath.Join(data, "desired.git")})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	db, err := bolt.Open(filepath.Join(data, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rev, err := repo.Write(t.Context(), desired.Write{Instance: id, Subject: "Without a VIM", Change: func(_ desired.Revision, old desired.Files) (desired.Files, error) {
		return edit(old), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := oplog.Open(t.Context(), db, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Adopt(t.Context(), id, func(i *lcm.Instance) error {
		i.Operated, i.Settled, i.PinnedVIM, i.VIMs = rev, rev, "", nil
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestWhatRunsIsLookedAfterWhileItsHeadAsksForAnotherVIM(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.vimFile("other", "type: sim\n")
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.commit(file("instantiated", "vim: other\nlevels: {web: 3}\n"))
	w.problemSays("the VNF runs at VIM lab, and can't be taken to VIM other")
	w.cloud.Lose(web)
	if op := w.last(lcm.Heal, lcm.Completed); !op.Automatic || w.units("VDU1") != 1 {
		t.Errorf("repaired by %+v, %d units", op, w.units("VDU1"))
	}
	w.problemSays("can't be taken to VIM other")
	w.commit(file("instantiated", "levels: {web: 3}\n"))
	w.last(lcm.Scale, lcm.Completed)
	if p, ok := w.recon.View().Problem(id); ok || w.units("VDU1") != 4 {
		t.Errorf("mended, the problem is %+v, and there are %d units", p, w.units("VDU1"))
	}
}

// addressed gives every VIM its endpoint, by which the simulator tells which one it is.
type addressed struct{ noSecrets }

func (addressed) VIM(v *desired.VIM) (drivers.VIM, error) {
	return drivers.VIM{Name: v.Name, Type: v.Type, Endpoint: v.Endpoint}, nil
}

// removable is addressed, until what it reads is gone.
type removable struct {
	addressed
	gone atomic.Bool
}

func (r *removable) VIM(v *desired.VIM) (drivers.VIM, error) {
	if r.gone.Load() {
		return drivers.VIM{}, errors.New("the secret is gone")
	}
	return r.addressed.VIM(v)
}

func TestAVIMThatLeadsElsewhereUnderItsNameIsRefusedUntilItLeadsBack(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) { c.Secrets = addressed{} })
	const a, b = "type: sim\ndefault: true\nendpoint: https://a\n", "type: sim\ndefault: true\nendpoint: https://b\n"
	w.vimFile("lab", a)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.vimFile("lab", b)
	w.cloud.Lose(web)
	w.problemSays("VIM lab isn't the one at which the VNF was instantiated")
	if n := w.recon.View().AtFormerVIMs()["lab"]; n != 1 {
		t.Errorf("%d VNFs are at a former VIM", n)
	}
	if n := len(w.operations(lcm.Heal)); n != 0 {
		t.Errorf("%d repairs were begun there", n)
	}
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	if op := w.last(lcm.Scale, lcm.RolledBack); op.Error == nil || !strings.Contains(op.Error.Detail, "isn't the one at which") {
		t.Errorf("scaled there: %+v", op.Error)
	}
	w.commit(file("notInstantiated", ""))
	if op := w.last(lcm.Terminate, lcm.RolledBack); op.Error == nil || !strings.Contains(op.Error.Detail, "isn't the one at which") {
		t.Errorf("terminated there: %+v", op.Error)
	}
	w.vimFile("lab", a)
	if op := w.last(lcm.Heal, lcm.Completed); !op.Automatic || w.units("VDU1") != 1 {
		t.Errorf("repaired by %+v, %d units", op, w.units("VDU1"))
	}
	if n, file := w.recon.View().AtFormerVIMs()["lab"]; n != 0 || !file {
		t.Errorf("%d VNFs are at a former VIM still", n)
	}
	w.commit(file("notInstantiated", ""))
	w.last(lcm.Terminate, lcm.Completed)
}

func TestAVIMThatIsGoneForGoodIsForgotten(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]string{"and what ran there is built again": "instantiated", "and what ran there ends": "notInstantiated"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *reconciler.Config) { c.Secrets = addressed{} })
			w.vimFile("lab", "type: sim\ndefault: true\nendpoint: https://a\n")
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.vimFile("lab", "type: sim\ndefault: true\nendpoint: https://b\n")
			w.cloud.Lose(web)
			w.problemSays("`jibe vim forget lab`")
			if after == "notInstantiated" {
				w.commit(file("notInstantiated", ""))
				w.last(lcm.Terminate, lcm.RolledBack)
			}

			found, err := w.recon.View().FormerVIM(t.Context(), "lab")
			if err != nil || found.Is != "https://b" || len(found.Instances) != 1 || found.Instances[0].Was != "https://a" {
				t.Fatalf("to be forgotten is %+v: %v", found, err)
			}
			x := found.Instances[0]
			if err := w.log.ForgetVIM(t.Context(), x.Instance, "lab", x.Was, false); err != nil {
				t.Fatal(err)
			}
			w.recon.Enqueue(x.Instance)

			if after == "instantiated" {
				w.last(lcm.Heal, lcm.Completed)
			}
			w.commit(file("notInstantiated", ""))
			w.last(lcm.Terminate, lcm.Completed)
			if n, at := w.units("VDU1"), w.recon.View().AtFormerVIMs()["lab"]; n != 0 || at != 0 {
				t.Errorf("%d units run on, and %d VNFs are at a former VIM", n, at)
			}
			if again, err := w.recon.View().FormerVIM(t.Context(), "lab"); err != nil || len(again.Instances) != 0 {
				t.Errorf("still to be forgotten is %+v: %v", again, err)
			}
		})
	}
}

func TestAVIMThatIsGoneForGoodIsForgottenWhileNoneAnswers(t *testing.T) {
	t.Parallel()

	gone := errors.New("connection refused")
	lost := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, func(c *reconciler.Config) { c.Secrets = addressed{} })
		w.vimFile("lab", "type: sim\ndefault: true\nendpoint: https://a\n")
		w.commit(file("instantiated", ""))
		w.last(lcm.Instantiate, lcm.Completed)
		w.cloud.SetVIMAway("lab", gone, false)
		return w
	}
	forget := func(t *testing.T, w *world) {
		t.Helper()
		found, err := w.recon.View().FormerVIM(t.Context(), "lab")
		if err != nil || found.Is != "" || !strings.Contains(found.Unreachable, "connection refused") || len(found.Instances) != 1 || found.Instances[0].Was != "https://a" {
			t.Fatalf("to be forgotten is %+v: %v", found, err)
		}
		if err := w.log.ForgetVIM(t.Context(), id, "lab", "https://a", true); err != nil {
			t.Fatal(err)
		}
		w.recon.Enqueue(id)
		if again, err := w.recon.View().FormerVIM(t.Context(), "lab"); err != nil || len(again.Instances) != 0 {
			t.Errorf("still to be forgotten is %+v: %v", again, err)
		}
	}
	forgotten := func(w *world) []string {
		w.t.Helper()
		record, err := w.log.Instance(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		return record.GoneVIMs
	}

	terminate := func(w *world) {
		w.t.Helper()
		w.commit(file("notInstantiated", ""))
		w.until("the termination waits", func() bool {
			ops := w.operations(lcm.Terminate)
			if len(ops) == 0 {
				return false
			}
			now, waits := ops[0].Waiting()
			return waits && strings.Contains(now.For, "can't be seen")
		})
	}

	t.Run("a termination that waits for it ends", func(t *testing.T) {
		t.Parallel()
		w := lost(t)
		terminate(w)
		forget(t, w)
		op := w.last(lcm.Terminate, lcm.Completed)
		if !slices.ContainsFunc(op.Story, func(l lcm.StoryLine) bool { return strings.Contains(l.Text, "forgotten as gone for good") }) {
			t.Errorf("its story: %+v", op.Story)
		}
	})

	t.Run("its credentials are gone as well", func(t *testing.T) {
		t.Parallel()
		secrets := new(removable)
		w := newWorld(t, func(c *reconciler.Config) { c.Secrets = secrets })
		w.vimFile("lab", "type: sim\ndefault: true\nendpoint: https://a\n")
		w.commit(file("instantiated", ""))
		w.last(lcm.Instantiate, lcm.Completed)
		secrets.gone.Store(true)
		w.vimFile("lab", "type: sim\ndefault: true\nendpoint: https://c\n")
		terminate(w)

		if found, err := w.recon.View().FormerVIM(t.Context(), "lab"); err != nil || !strings.Contains(found.Unreachable, "the secret is gone") || len(found.Instances) != 1 {
			t.Fatalf("to be forgotten is %+v: %v", found, err)
		}
		if err := w.log.ForgetVIM(t.Context(), id, "lab", "https://a", true); err != nil {
			t.Fatal(err)
		}
		w.recon.Enqueue(id)
		w.last(lcm.Terminate, lcm.Completed)
	})

	t.Run("its record does not say where it ran", func(t *testing.T) {
		t.Parallel()
		w := lost(t)
		if err := w.log.Adopt(t.Context(), id, func(i *lcm.Instance) error { i.VIMs = nil; return nil }); err != nil {
			t.Fatal(err)
		}
		for _, ends := range []bool{false, true} {
			if ends {
				terminate(w)
			}
			if found, err := w.recon.View().FormerVIM(t.Context(), "lab"); err != nil || len(found.Instances) != 1 || found.Instances[0].Was != "" {
				t.Fatalf("to be forgotten is %+v: %v", found, err)
			}
		}
		if err := w.log.ForgetVIM(t.Context(), id, "lab", "", true); err != nil {
			t.Fatal(err)
		}
		w.recon.Enqueue(id)
		w.last(lcm.Terminate, lcm.Completed)
	})

	t.Run("what was terminated before is none of it", func(t *testing.T) {
		t.Parallel()
		w := lost(t)
		w.cloud.SetVIMAway("lab", nil, false)
		w.commit(file("notInstantiated", ""))
		w.wait(3 * time.Second)
		w.last(lcm.Terminate, lcm.Completed)
		w.cloud.SetVIMAway("lab", gone, false)
		if found, err := w.recon.View().FormerVIM(t.Context(), "lab"); err != nil || len(found.Instances) != 0 {
			t.Errorf("to be forgotten is %+v: %v", found, err)
		}
	})

	t.Run("something answers, and refuses the credentials", func(t *testing.T) {
		t.Parallel()
		w := lost(t)
		terminate(w)
		w.cloud.SetVIMAway("lab", &drivers.AnsweredError{Err: errors.New("401 Unauthorized")}, false)
		w.wait(3 * time.Second)
		var refused *drivers.RefusedError
		if found, err := w.recon.View().FormerVIM(t.Context(), "lab"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "mend the credentials") {
			t.Errorf("to be forgotten is %+v: %v", found, err)
		}

		if err := w.log.ForgetVIM(t.Context(), id, "lab", "https://a", true); err != nil { // it was forgotten before it answered
			t.Fatal(err)
		}
		w.looks()
		if op := w.last(lcm.Terminate, lcm.Starting); op.Error != nil {
			t.Errorf("it ended: %+v", op.Error)
		}
	})

	t.Run("another one takes its place", func(t *testing.T) {
		t.Parallel()
		w := lost(t)
		forget(t, w)
		w.cloud.Lose(web)
		w.vimFile("lab", "type: sim\ndefault: true\nendpoint: https://b\n")
		w.cloud.SetVIMAway("lab", nil, false)
		w.wait(3 * time.Second)
		w.last(lcm.Heal, lcm.Completed)
		if names := forgotten(w); len(names) > 0 {
			t.Errorf("it answers, and is still gone for good: %v", names)
		}
		w.commit(file("notInstantiated", ""))
		w.last(lcm.Terminate, lcm.Completed)
		if n := w.units("VDU1"); n != 0 {
			t.Errorf("%d units run on", n)
		}
	})

	t.Run("it was only away", func(t *testing.T) {
		t.Parallel()
		w := lost(t)
		forget(t, w)
		w.cloud.SetVIMAway("lab", nil, false)
		w.wait(3 * time.Second) // its identity isn't asked for more often
		if names := forgotten(w); len(names) > 0 {
			t.Errorf("it answers, and is still gone for good: %v", names)
		}

		w.cloud.SetVIMAway("lab", gone, false)
		terminate(w)
		w.looks()
		if op := w.last(lcm.Terminate, lcm.Starting); op.Error != nil || w.units("VDU1") == 0 {
			t.Errorf("away once more, it ended: %+v, %d units", op.Error, w.units("VDU1"))
		}
		w.cloud.SetVIMAway("lab", nil, false)
		w.wait(3 * time.Second)
		w.last(lcm.Terminate, lcm.Completed)
		if n := w.units("VDU1"); n != 0 {
			t.Errorf("%d units run on", n)
		}
	})
}
