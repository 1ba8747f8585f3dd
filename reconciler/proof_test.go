package reconciler_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

const evilEndpoint = "https://evil.example"

// watched is a world that notes the VIMs to which Jibe connects.
type watched struct {
	*world
	mu    sync.Mutex
	calls []string
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{}
	w.world = newWorld(t, func(c *reconciler.Config) {
		c.Driver = func(v drivers.VIM) (drivers.Driver, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, v.Endpoint)
			return sim.New(w.cloud, v), nil
		}
	})
	return w
}

// draft pushes a change to a branch that isn't followed: the VNF at a VIM of the attacker's.
func (w *watched) draft() desired.Revision {
	w.t.Helper()
	rev, err := w.repo.Propose(w.t.Context(), "draft", desired.Write{
		Instance: id, Subject: "A draft", By: "Eve <eve@example.com>",
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			return desired.Files{desired.InstanceFile: []byte(file("instantiated",
				"vimConnectionInfo: {mine: {vimType: sim, interfaceInfo: {endpoint: \""+evilEndpoint+"\"}, accessInfo: {username: a}}}\nlevels: {web: 3}\n"))}, nil
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return rev
}

// untouched checks that nothing of the draft has come about.
func (w *watched) untouched() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.calls, evilEndpoint) {
		w.t.Errorf("Jibe connected to the VIM that the draft names: %v", w.calls)
	}
	if now := w.head(); now != nil && len(now.VIMConnections) > 0 {
		w.t.Errorf("the draft was committed: %+v", now.VIMConnections)
	}
}

func record(rev desired.Revision) map[string]any {
	return map[string]any{"instance": rev.Instance, "dir": rev.Dir, "commit": rev.Commit, "tree": rev.Tree}
}

// refused waits until a problem names what git doesn't prove.
func (w *watched) refused() {
	w.t.Helper()
	w.until("the problem is shown", func() bool {
		w.recon.Enqueue(id)
		return slices.ContainsFunc(w.recon.View().Problems(), func(p reconciler.Problem) bool {
			return p.Instance == id && strings.Contains(p.Message, "git doesn't prove")
		})
	})
}

// stopped waits until the operation has stopped for what git doesn't prove.
func (w *watched) stopped(op string) {
	w.t.Helper()
	w.until("the operation has stopped", func() bool {
		w.recon.Enqueue(id)
		op, err := w.log.Operation(w.t.Context(), op)
		return err == nil && (op.State == lcm.FailedTemp || op.State.Ended()) && op.Error != nil && strings.Contains(op.Error.Detail, "git doesn't prove")
	})
}

func TestARecordThatNamesADraftRunsNothingOfIt(t *testing.T) {
	t.Parallel()

	running := func(t *testing.T) (*watched, desired.Revision) {
		t.Helper()
		w := newWatched(t)
		w.commit(file("instantiated", ""))
		w.last(lcm.Instantiate, lcm.Completed)
		evil := w.draft()
		return w, evil
	}
	failed := func(t *testing.T) (*watched, desired.Revision, *lcm.Operation) {
		t.Helper()
		w := newWatched(t)
		w.failToScale("out of memory")
		op := w.last(lcm.Scale, lcm.FailedTemp)
		return w, w.draft(), op
	}

	for name, change := range map[string]func(rec map[string]any){
		"with a repair":   func(rec map[string]any) { rec["automatic"] = true },
		"with a begun":    func(rec map[string]any) { rec["journal"] = map[string]any{"issued": []string{"Apply Workload/web"}} },
		"with a rollback": func(rec map[string]any) { rec["state"] = "ROLLING_BACK"; rec["before"] = rec["after"] },
		"with a proposal": func(rec map[string]any) { rec["state"], rec["proposal"] = "STARTING", map[string]any{} },
		"as it was":       func(map[string]any) {},
	} {
		t.Run("operation "+name, func(t *testing.T) {
			t.Parallel()
			w, evil, op := failed(t)

			w.stop()
			w.change("operation/"+op.ID, func(rec map[string]any) {
				rec["after"], rec["state"] = record(evil), "PROCESSING"
				change(rec)
			})
			w.start()
			w.stopped(op.ID)

			w.untouched()
		})
	}
	t.Run("rollback", func(t *testing.T) {
		t.Parallel()
		w, evil, op := failed(t)

		w.stop()
		w.change("operation/"+op.ID, func(rec map[string]any) { rec["before"] = record(evil) })
		w.start()
		if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
			t.Fatal(err)
		}
		w.recon.Enqueue(id)
		w.stopped(op.ID)

		w.untouched()
	})
	t.Run("heal", func(t *testing.T) {
		t.Parallel()
		w, evil := running(t)

		w.stop()
		w.change("instance/"+id, func(rec map[string]any) { rec["operated"], rec["settled"] = record(evil), record(evil) })
		w.start()
		w.refused()

		w.untouched()
		if n := w.units("web"); n > 1 {
			t.Errorf("%d units", n)
		}
	})
	t.Run("terminate", func(t *testing.T) {
		t.Parallel()
		w, evil := running(t)

		w.stop()
		w.change("instance/"+id, func(rec map[string]any) { rec["operated"], rec["settled"] = record(evil), record(evil) })
		w.start()
		w.commit("")
		w.refused()

		w.untouched()
	})
	t.Run("another instance's revision", func(t *testing.T) {
		t.Parallel()
		w, _ := running(t)
		other := id[:len(id)-1] + "7"
		theirs, err := w.repo.Write(t.Context(), desired.Write{
			Instance: other, Dir: "instances/other", Subject: "another", By: "Ann <ann@example.com>",
			Change: func(desired.Revision, desired.Files) (desired.Files, error) {
				return desired.Files{desired.InstanceFile: []byte(strings.Replace(file("instantiated", ""), id, other, 1))}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.recon.Enqueue(other)
		w.until("the other runs", func() bool { return slices.Contains(w.cloud.Instances(), other) })

		w.stop()
		w.change("instance/"+id, func(rec map[string]any) { rec["operated"], rec["settled"] = record(theirs), record(theirs) })
		w.start()
		w.commit("")
		w.refused()

		if !slices.Contains(w.cloud.Instances(), other) {
			t.Error("the other instance was terminated")
		}
	})
}
