package ha_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/ha"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/published"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// The longest that a replica is stopped, in a short run and in one that has time.
const (
	shortStop = 7 * time.Second
	longStop  = time.Minute
)

// longRun is from when a run has time.
const longRun = 2 * time.Minute

// fsckWait bounds the wait for a repository to be whole once nobody works any more.
const fsckWait = 30 * time.Second

// settleWait bounds how long everything may take once nothing breaks any more.
const settleWait = 3 * time.Minute

func TestNothingIsLostWhereReplicasAndWhatTheyDependOnBreak(t *testing.T) {
	kubeconfig := testenv.Kubeconfig(t)
	if err := ha.Missing(); err != nil {
		if os.Getenv(testenv.EnvRequire) == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	duration := 20 * time.Second
	if text := os.Getenv("JIBE_HA_DURATION"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("JIBE_HA_DURATION=%q: want a duration, as 10m", text)
		}
	}
	seed := uint64(process.Number(t, "JIBE_HA_SEED", int(time.Now().UnixNano()&0x7fffffff)))
	t.Logf("faults for %s; repeat with JIBE_HA_SEED=%d", duration, seed)
	published.Held(t)

	dir := process.ShortTempDir(t)
	r, err := ha.Start(t.Context(), ha.Options{
		Dir: dir, Binary: binary(t), Replicas: process.Number(t, "JIBE_HA_REPLICAS", 3), Redis: 3, Kubeconfig: kubeconfig,
		Out: t.Output(), Args: []string{"--start-timeout", "5m"},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, logs(dir))
	}
	t.Cleanup(func() {
		r.Close()
		if t.Failed() {
			t.Log(logs(dir))
		}
	})
	people, err := r.Invite(t.Context(), seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := people.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	w := people.World
	w.Patience = settleWait
	longest := shortStop
	if duration >= longRun {
		longest = longStop
	}

	stop := people.Begin(t.Context())
	faults := ha.NewFaults(r, longest)
	faults.Flush = os.Getenv("JIBE_HA_FLUSH") == "1"
	calm := make(chan struct{})
	time.AfterFunc(duration, func() { close(calm) })
	if err := faults.Break(t.Context(), seed, calm); err != nil {
		t.Error(err)
	}
	if err := r.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.Kept(t.Context()); err != nil {
		t.Error(err)
	}

	// What is broken no more has to be as quick, and as good, as if it had never been.
	w.RequestsAlone(true)
	time.Sleep(5 * time.Second) // what was under way before may still fail
	before := time.Now()
	if err := r.Roll(t.Context()); err != nil {
		t.Error(err)
	}
	w.RequestsAlone(false)
	if failures := w.Failures(before); len(failures) > 0 {
		t.Errorf("%d requests failed while the replicas were restarted one after the other:\n%s", len(failures), strings.Join(failures, "\n"))
	}
	if n, took, err := r.Takeover(t.Context()); err != nil || took > ha.TakeoverLimit {
		t.Errorf("the last of %d instances of a killed replica was another's after %s, want %s at most: %v", n, took, ha.TakeoverLimit, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	r.Tell("nothing breaks any more, the proof begins")
	if err := w.Prove(t.Context()); err != nil {
		t.Error(err)
	}
	r.Tell("the proof is over")
	t.Logf("%s; heals: %d; faults: %s; answers of pushes that were lost: %d; replicas that ended by themselves: %v",
		w.Counts(), w.Heals(), faults.Counts(), r.Forge.Lost(), r.EndedByThemselves())
	if w.Heals() == 0 {
		t.Error("no pod was healed: nothing is proven of that")
	}
	for _, repository := range append([]string{r.Forge.Repository("desired.git")}, mirrors(t, dir)...) {
		// Replicas still fetch each other's last notes: what comes while git looks, it calls missing.
		err := kit.Poll(t.Context(), fsckWait, func() error {
			out, err := process.Git(t.Context(), repository, "fsck", "--full", "--strict", "--no-dangling", "--no-progress")
			if err == nil && out != "" {
				err = errors.New(out)
			}
			return err
		})
		if err != nil {
			t.Errorf("git fsck of %s: %v", repository, err)
		}
	}
}

// binary is that of this tree, or the one that JIBE_HA_BINARY names.
func binary(t *testing.T) string {
	t.Helper()
	if name := os.Getenv("JIBE_HA_BINARY"); name != "" {
		return name
	}
	return process.Binary(t)
}

// mirrors are the replicas' own repositories.
func mirrors(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "replica-*", "desired.git"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no repositories of replicas in %s: %v", dir, err)
	}
	return all
}

// logEnd is how much of each replica's log is shown, bytes.
const logEnd = 6000

func logs(dir string) string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(dir, "replica-*.log"))
	for _, name := range files {
		text, _ := os.ReadFile(name)
		fmt.Fprintf(&all, "the end of %s:\n%s\n", name, text[max(0, len(text)-logEnd):])
	}
	return all.String()
}
