package reconciler_test

import (
	"context"
	"errors"
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
	"github.com/jibe-vnfm/jibe/test/kit"
)

// paced starts a world whose desired repository is on a remote to which pushes are kept apart by the
// interval, as it is when a process starts, and that has one worker. It has pushed nothing yet.
func paced(t *testing.T, interval *time.Duration) *world {
	t.Helper()
	remote := filepath.Join(t.TempDir(), "forge.git")
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", "--bare", "-b", "main", remote).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	first, err := gitrepo.Open(t.Context(), gitrepo.Options{Dir: filepath.Join(t.TempDir(), "first.git"), Remote: remote})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Seed(t.Context(), map[string][]byte{"vims/lab.yaml": []byte("type: sim\ndefault: true\n")}, "A VIM"), first.Close()); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, cloud: sim.NewCloud(), data: t.TempDir(), conf: func(c *reconciler.Config) { c.Workers = 1 },
		git: func(o *gitrepo.Options) { o.Remote, o.PushInterval = remote, *interval }}
	w.start()
	t.Cleanup(func() { w.stop() })
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
	kit.Long(t)
	t.Parallel()

	// Where the machine stands still until the interval is over, nothing is shown: it is tried again with a longer one.
	for interval := 6 * time.Second; !rightedWhileACommitWaits(t, interval); interval *= 2 {
		if interval > gitrepo.MaxPushInterval/2 {
			t.Fatal("the other's commit has landed each time before the drift was put right")
		}
	}
}

// rightedWhileACommitWaits says whether a drift is put right before the commit of another instance lands.
func rightedWhileACommitWaits(t *testing.T, interval time.Duration) bool {
	t.Helper()
	w := paced(t, &interval)
	defer func() { w.stop() }()
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.commitOf(other, "instances/site-b/amf", open(other))
	w.cloud.Drift(web)
	w.last(lcm.Heal, lcm.Completed)
	if w.pinned(other) {
		return false
	}
	w.until("the pass that handed its commit over goes on once it is there", func() bool {
		inst, err := w.log.Instance(t.Context(), other)
		if err != nil || inst.Last == "" || inst.Open != "" {
			return false
		}
		op, err := w.log.Operation(t.Context(), inst.Last)
		return err == nil && op.Type == lcm.Instantiate && op.State == lcm.Completed && w.pinned(other)
	})
	return true
}

func TestACommitThatWaitsWhenTheProcessEndsIsMadeByTheNextOne(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	interval := gitrepo.MaxPushInterval
	w := paced(t, &interval)
	before := w.passes()
	w.commitOf(other, "instances/site-b/amf", open(other))
	w.until("a pass has asked for its commit", func() bool { return w.passes() > before })
	began := time.Now()
	w.stop()
	if took := time.Since(began); took > interval/2 {
		t.Errorf("the process ended after %s", took)
	}
	interval = time.Second
	w.start()
	w.recon.EnqueueAll()
	w.until("it is made", func() bool { return w.pinned(other) })
	w.until("its operation ends", func() bool {
		inst, err := w.log.Instance(context.WithoutCancel(t.Context()), other)
		return err == nil && inst.Last != "" && inst.Open == ""
	})
}
