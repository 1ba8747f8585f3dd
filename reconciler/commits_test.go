package reconciler_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// pushInterval is how far apart pushes are in these tests.
const pushInterval = 6 * time.Second

// paced starts a world whose desired repository is on a remote to which pushes are kept apart, and
// that has one worker.
func paced(t *testing.T) *world {
	t.Helper()
	remote := filepath.Join(t.TempDir(), "forge.git")
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", "--bare", "-b", "main", remote).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w := &world{t: t, cloud: sim.NewCloud(), data: t.TempDir(), conf: func(c *reconciler.Config) { c.Workers = 1 },
		git: func(o *gitrepo.Options) { o.Remote, o.PushInterval = remote, pushInterval }}
	w.start()
	t.Cleanup(func() { w.stop() })
	w.settings()
	return w
}

// open is a file of an instance whose package and VIM are left to Jibe.
func open(instance string) string {
	return fmt.Sprintf("id: %s\nname: other\nvnfdId: %s\nstate: instantiated\nflavour: simple\n", instance, vnfdID)
}

func (w *world) commitOf(instance, dir, text string) {
	w.t.Helper()
	if _, err := w.repo.Write(w.t.Context(), desired.Write{
		Instance: instance, Dir: dir, Subject: "change", By: "Ann <ann@example.com>",
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			return desired.Files{desired.InstanceFile: []byte(text)}, nil
		},
	}); err != nil {
		w.t.Fatal(err)
	}
}

// pinned says whether the instance's package is pinned at head.
func (w *world) pinned(instance string) bool {
	w.t.Helper()
	rev, _ := w.repo.Lookup(instance)
	in, err := w.repo.Read(w.t.Context(), rev)
	if err != nil {
		w.t.Fatal(err)
	}
	return in != nil && in.Package != ""
}

const other = "6c1f2e63-0b1d-4b4d-9b40-707b75c2f1bb"

func TestTheOnlyWorkerPutsADriftRightWhileAnothersCommitWaitsForThePushInterval(t *testing.T) {
	w := paced(t)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.commitOf(other, "instances/site-b/amf", open(other))
	pushed := time.Now()
	w.cloud.Drift(web)
	heal := w.last(lcm.Heal, lcm.Completed)
	if w.pinned(other) {
		t.Fatalf("the other's commit has landed %s after the last push: it shows nothing", time.Since(pushed))
	}
	if took := heal.StateEntered.Sub(pushed); took > pushInterval {
		t.Errorf("the drift was put right after %s, when the interval was over", took)
	}
	w.until("the pass that handed its commit over goes on once it is there", func() bool {
		inst, err := w.log.Instance(t.Context(), other)
		if err != nil || inst.Last == "" || inst.Open != "" {
			return false
		}
		op, err := w.log.Operation(t.Context(), inst.Last)
		return err == nil && op.Type == lcm.Instantiate && op.State == lcm.Completed && w.pinned(other)
	})
}

func TestACommitThatWaitsWhenTheProcessEndsIsMadeByTheNextOne(t *testing.T) {
	w := paced(t)
	before := w.passes()
	w.commitOf(other, "instances/site-b/amf", open(other))
	w.until("a pass has asked for its commit", func() bool { return w.passes() > before })
	began := time.Now()
	w.stop()
	if took := time.Since(began); took > pushInterval {
		t.Errorf("the process ended after %s", took)
	}
	w.start()
	w.recon.EnqueueAll()
	w.until("it is made", func() bool { return w.pinned(other) })
	w.until("its operation ends", func() bool {
		inst, err := w.log.Instance(context.WithoutCancel(t.Context()), other)
		return err == nil && inst.Last != "" && inst.Open == ""
	})
}
