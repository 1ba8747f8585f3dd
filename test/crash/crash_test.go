// Package crash kills a working "jibe serve" at random moments, again and again, and
// proves that nothing that it had acknowledged is lost, doubled or left half done. It
// uses the real binary, git, store and Kubernetes control plane, and only what people
// and clients of the API can see.
//
// Three environment variables steer it: JIBE_CRASH_POINTS is how often the process is
// killed (20), JIBE_CRASH_SEED repeats the choices of a run (not its timing, which is the
// machine's), JIBE_CRASH_SLOTS is how many instances there are at a time (6).
package crash_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/load"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/published"
)

// settleWait bounds how long everything that was asked for may take after the last kill.
const settleWait = 8 * time.Minute

// startTimeout is --start-timeout of the process: on a slow machine an operation may wait
// longer for its turn than people would want it to.
const startTimeout = 5 * time.Minute

func TestNothingIsLostOrDoubledByKills(t *testing.T) {
	kubeconfig := kubeenv.Kubeconfig(t)
	client, err := kubernetes.NewForConfig(kubeenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	points := process.Number(t, "JIBE_CRASH_POINTS", 20)
	seed := uint64(process.Number(t, "JIBE_CRASH_SEED", int(time.Now().UnixNano()&0x7fffffff)))
	t.Logf("%d kills; repeat with JIBE_CRASH_SEED=%d", points, seed)

	w := &world{t: t, data: filepath.Join(process.ShortTempDir(t), "data"), binary: process.Binary(t), kills: map[string]int{}}
	w.World = load.New(&w.Mortal, client, filepath.Join(w.data, "desired.git"))
	t.Cleanup(func() {
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.end)
	w.start()
	next := filepath.Join(t.TempDir(), "small-next")
	if err := load.WriteNextPackage(next); err != nil {
		t.Fatal(err)
	}
	w.Present().PushPackages(t, []string{process.SmallVnfd, load.NextVnfd}, process.SmallPackage(), next)
	w.Present().PushFiles(t, map[string]string{"vims/test.yaml": w.Present().Keep(t, "type: kubernetes\ndefault: true\nkubeconfig: file:"+kubeconfig+"\n")})
	published.Held(t)
	if _, err := w.Subscribe(t.Context()); err != nil {
		t.Fatal(err)
	}

	var slots []load.Work
	for i := range process.Number(t, "JIBE_CRASH_SLOTS", 6) {
		s := &load.Slot{Person: load.Person{
			World: w.World, Name: fmt.Sprintf("slot-%d", i), Rng: rand.New(rand.NewPCG(seed, uint64(i+1))), Clone: process.NewClone(t, w.Present().Desired()),
		}}
		slots = append(slots, s.Work)
	}
	end := load.Begin(t.Context(), slots...)
	killer := rand.New(rand.NewPCG(seed, 0))
	for killed := 0; killed < points && !t.Failed(); {
		killed += w.strike(killer)
		if err := w.Kept(t.Context()); err != nil {
			t.Errorf("after %d kills: %v", killed, err)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := w.Prove(t.Context()); err != nil {
		t.Error(err)
	}
	for _, repository := range []string{"desired.git", "packages/packages.git"} {
		if err := process.Fsck(t.Context(), filepath.Join(w.data, repository)); err != nil {
			t.Error(err)
		}
	}
	t.Logf("killed: %v; %s", w.kills, w.Counts()) // an idle run can't pass for a proof
}

// world is what all parts of the test share.
type world struct {
	*load.World
	process.Mortal
	t            *testing.T
	binary, data string
	kills        map[string]int
}

// start starts the process and lets the slots at it.
func (w *world) start() {
	w.t.Helper()
	s, err := process.StartBinary(w.binary, w.data, "--start-timeout", startTimeout.String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.Serve(s)
}

// strike kills the process at a moment that rng chooses, and starts it again. It
// returns how many processes it killed.
func (w *world) strike(rng *rand.Rand) int {
	w.t.Helper()
	// Some work gets done between two kills, else only starting would be tested.
	for range rng.IntN(5) {
		w.expect(w.Acked)
	}
	how, killed := "at any moment", 1
	delay := time.Duration(rng.Int64N(int64(400 * time.Millisecond)))
	switch rng.IntN(4) {
	case 0:
		how = "right after an acknowledgement"
		w.expect(w.Acked)
		delay = time.Duration(rng.Int64N(int64(5 * time.Millisecond)))
	case 1:
		how = "within a request or push"
		w.expect(w.Sent)
		delay = time.Duration(rng.Int64N(int64(40 * time.Millisecond)))
	}
	kit.Pause(w.t.Context(), delay)
	kill(rng, w.Take())
	w.kills[how]++
	for rng.IntN(4) == 0 {
		s, err := process.Spawn(w.binary, w.data, "--start-timeout", startTimeout.String())
		if err != nil {
			w.t.Fatal(err)
		}
		kit.Pause(w.t.Context(), time.Duration(rng.Int64N(int64(200*time.Millisecond))))
		kill(rng, s)
		w.kills["while it starts"]++
		killed++
	}
	w.start()
	return killed
}

// kill is kill -9, at times together with all that the process has started.
func kill(rng *rand.Rand, s *process.Server) {
	if rng.IntN(3) == 0 {
		s.KillGroup()
	} else {
		s.Kill()
	}
}

// expect waits for the slots' next signal, or for their not giving one.
func (w *world) expect(signal <-chan struct{}) {
	select {
	case <-signal: // one from before
	default:
	}
	select {
	case <-signal:
	case <-time.After(time.Second):
	case <-w.t.Context().Done():
	}
}

// end stops the last process.
func (w *world) end() {
	s := w.Present()
	if s == nil {
		return
	}
	if w.t.Failed() {
		w.t.Logf("the end of the log of the last process:\n%s", s.Log())
	}
	s.Kill()
}
