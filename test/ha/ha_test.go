package ha_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/ha"
	"github.com/jibe-vnfm/jibe/test/ha/clock"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/load"
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

// warmUp is how long people work before the replicas are upgraded.
const warmUp = 5 * time.Second

// fsckWait bounds the wait for a repository to be whole once nobody works any more.
const fsckWait = 30 * time.Second

// settleWait bounds how long everything may take once nothing breaks any more.
const settleWait = 6 * time.Minute

func TestNothingIsLostWhereReplicasAndWhatTheyDependOnBreak(t *testing.T) {
	testenv.Chaos(t, "redis-server, haproxy and a control plane")
	kubeconfig := kubeenv.Kubeconfig(t)
	if err := ha.Missing(); err != nil {
		t.Fatal(err)
	}
	duration := process.Duration(t, "JIBE_HA_DURATION", 20*time.Second)
	seed := uint64(process.Number(t, "JIBE_HA_SEED", int(time.Now().UnixNano()&0x7fffffff)))
	t.Logf("faults for %s; repeat with JIBE_HA_SEED=%d", duration, seed)
	published.Held(t)

	newest, movable := binary(t)
	older, version, err := ha.Older(t.Context(), t.TempDir(), os.Getenv("JIBE_HA_FROM"))
	if err != nil {
		t.Fatal(err)
	}
	dir := process.ShortTempDir(t)
	r, err := ha.Start(t.Context(), ha.Options{
		Dir: dir, Binary: older, Replicas: process.Number(t, "JIBE_HA_REPLICAS", 3), Redis: 3, Kubeconfig: kubeconfig,
		Out: t.Output(), Args: []string{"--start-timeout", "5m"}, OwnDisks: os.Geteuid() == 0,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, logs(dir))
	}
	t.Cleanup(func() {
		r.Close()
		if t.Failed() {
			t.Log(logs(dir))
			t.Logf("all logs are in %s", keep(t, r, dir))
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
	kit.Pause(t.Context(), warmUp)
	r.Tell("upgrade from %s", version)
	unfailing(t, w, "upgraded", func() error { return r.Upgrade(t.Context(), newest) })
	if err := w.Kept(t.Context()); err != nil {
		t.Error(err)
	}

	faults := ha.NewFaults(r, longest)
	faults.Clocks, faults.Forget = movable, w.Forget
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
	unfailing(t, w, "restarted", func() error { return r.Roll(t.Context(), newest) })
	limit := ha.TakeoverLimit
	if duration < longRun {
		limit *= 3 // beside other tests the replicas have a part of a processor
	}
	if n, took, err := r.Takeover(t.Context()); err != nil || took > limit {
		t.Errorf("the last of %d instances of a killed replica was another's after %s, want %s at most: %v", n, took, limit, err)
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
	sound(t, r.Forge.Repository("desired.git"), false)
	for _, mirror := range mirrors(t, dir) {
		sound(t, mirror, true)
	}
}

// sound holds a repository to it that nothing is missing of what it refers to, and no object is
// broken. A fetch or merge that breaks off, as the disk is full or its process killed, leaves objects
// in a mirror that nothing refers to, and that refer to others that never came.
func sound(t *testing.T, repository string, brokenOff bool) {
	t.Helper()
	// Replicas still fetch each other's last notes: what comes while git looks, it calls missing.
	err := kit.Poll(t.Context(), fsckWait, func() error {
		if out, err := process.Git(t.Context(), repository, "rev-list", "--objects", "--all", "--quiet"); err != nil {
			return fmt.Errorf("the history isn't whole: %w\n%s", err, out)
		}
		out, err := process.Git(t.Context(), repository, "fsck", "--full", "--strict", "--no-dangling", "--no-progress")
		for line := range strings.Lines(out) {
			line = strings.TrimSpace(line)
			if !brokenOff || !strings.HasPrefix(line, "missing ") && !strings.HasPrefix(line, "broken link from ") && !strings.HasPrefix(line, "to ") {
				return fmt.Errorf("git fsck: %w\n%s", err, out)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", repository, err)
	}
}

// settled is how long requests that were under way while something broke may still take.
const settled = 5 * time.Second

// unfailing holds what is done to the replicas, one after the other, to it that no request fails.
func unfailing(t *testing.T, w *load.World, what string, do func() error) {
	t.Helper()
	w.RequestsAlone(true)
	defer w.RequestsAlone(false)
	kit.Pause(t.Context(), settled)
	before := time.Now()
	if err := do(); err != nil {
		t.Error(err)
	}
	if failures := w.Failures(before); len(failures) > 0 {
		t.Errorf("%d requests failed while the replicas were %s one after the other:\n%s", len(failures), what, strings.Join(failures, "\n"))
	}
}

// binary is that of this tree, whose clock can be moved, or the one that JIBE_HA_BINARY names.
func binary(t *testing.T) (name string, movable bool) {
	t.Helper()
	if name := os.Getenv("JIBE_HA_BINARY"); name != "" {
		return name, false
	}
	name, err := clock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return name, true
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

// keep copies what is needed to find out what happened to a folder that stays.
func keep(t *testing.T, r *ha.Rig, dir string) string {
	to, err := os.MkdirTemp("", "jibe-ha-")
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, name := range files {
		text, _ := os.ReadFile(name)
		_ = os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o644)
	}
	_ = os.WriteFile(filepath.Join(to, "rig.log"), []byte(strings.Join(r.Told(), "\n")+"\n"), 0o644)
	_ = os.CopyFS(filepath.Join(to, "desired.git"), os.DirFS(r.Forge.Repository("desired.git")))
	return to
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
