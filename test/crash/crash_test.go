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
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// settleWait bounds how long everything that was asked for may take after the last kill.
const settleWait = 8 * time.Minute

// startTimeout is --start-timeout of the process: on a slow machine an operation may wait
// longer for its turn than people would want it to.
const startTimeout = 5 * time.Minute

func TestNothingIsLostOrDoubledByKills(t *testing.T) {
	kubeconfig := testenv.Kubeconfig(t)
	client, err := kubernetes.NewForConfig(testenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	points := process.Number(t, "JIBE_CRASH_POINTS", 20)
	seed := uint64(process.Number(t, "JIBE_CRASH_SEED", int(time.Now().UnixNano()&0x7fffffff)))
	t.Logf("%d kills; repeat with JIBE_CRASH_SEED=%d", points, seed)

	w := &world{
		t: t, data: filepath.Join(process.ShortTempDir(t), "data"), binary: process.Binary(t), client: client,
		namespaces: map[string]string{}, sent: make(chan struct{}, 1), acked: make(chan struct{}, 1),
		refusals: map[string]int{},
	}
	t.Cleanup(w.removeNamespaces)
	t.Cleanup(w.end)
	w.start()
	w.Present().PushPackages(t, []string{process.SmallVnfd, nextVnfd}, process.SmallPackage(), nextPackage(t))
	w.Present().PushFiles(t, map[string]string{"vims/test.yaml": w.Present().Keep(t, "type: kubernetes\ndefault: true\nkubeconfig: file:"+kubeconfig+"\n")})
	w.subscribe()

	stop := make(chan struct{})
	var slots sync.WaitGroup
	for i := range process.Number(t, "JIBE_CRASH_SLOTS", 6) {
		s := &slot{world: w, name: fmt.Sprintf("slot-%d", i), rng: rand.New(rand.NewPCG(seed, uint64(i+1))), clone: process.NewClone(t, w.Present().Desired())}
		slots.Go(func() { s.work(t.Context(), stop) })
	}
	killer := rand.New(rand.NewPCG(seed, 0))
	for killed := 0; killed < points && !t.Failed(); {
		killed += w.strike(killer)
		if err := w.checkAcknowledged(t.Context()); err != nil {
			t.Errorf("after %d kills: %v", killed, err)
		}
	}
	close(stop)
	slots.Wait()
	w.checkEverything()
	w.report()
}

// world is what all parts of the test share.
type world struct {
	process.Mortal
	t            *testing.T
	binary, data string
	client       kubernetes.Interface
	subscriber   subscriber
	// sent and acked tell the killer that a request or push is under way, and that one
	// was acknowledged.
	sent, acked chan struct{}

	mu sync.Mutex
	// namespaces are those that were made, and the directory of whose instance each is.
	namespaces map[string]string
	requests   []request      // acknowledged through the API
	pushes     []process.Push // accepted by git
	unanswered int            // requests and pushes of which nobody knows
	refusals   map[string]int
	kills      map[string]int
}

// request is an acknowledged request of the API: CREATE (201), DELETE (204), or one that
// began an operation (202).
type request struct{ what, operation, instance, dir string }

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
		w.expect(w.acked)
	}
	how, killed := "at any moment", 1
	delay := time.Duration(rng.Int64N(int64(400 * time.Millisecond)))
	switch rng.IntN(4) {
	case 0:
		how = "right after an acknowledgement"
		w.expect(w.acked)
		delay = time.Duration(rng.Int64N(int64(5 * time.Millisecond)))
	case 1:
		how = "within a request or push"
		w.expect(w.sent)
		delay = time.Duration(rng.Int64N(int64(40 * time.Millisecond)))
	}
	w.pause(delay)
	kill(rng, w.Take())
	w.count(how)
	for rng.IntN(4) == 0 {
		s, err := process.Spawn(w.binary, w.data, "--start-timeout", startTimeout.String())
		if err != nil {
			w.t.Fatal(err)
		}
		w.pause(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
		kill(rng, s)
		w.count("while it starts")
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

func (w *world) pause(d time.Duration) {
	select {
	case <-time.After(d):
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

func (w *world) count(how string) {
	if w.kills == nil {
		w.kills = map[string]int{}
	}
	w.kills[how]++
}

// report says what the run consisted of, so that an idle one can't pass for a proof.
func (w *world) report() {
	what := map[string]int{}
	for _, r := range w.requests {
		what[r.what]++
	}
	w.t.Logf("killed: %v", w.kills)
	w.t.Logf("acknowledged: %d requests %v, %d pushes; without an answer: %d; refused: %v; notifications: %d",
		len(w.requests), what, len(w.pushes), w.unanswered, w.refusals, w.subscriber.number())
	if len(w.requests) == 0 || len(w.pushes) == 0 {
		w.t.Error("there were no requests or no pushes: nothing is proven")
	}
}

// signal tells the killer, if it listens.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
