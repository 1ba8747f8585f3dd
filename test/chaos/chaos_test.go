// Package chaos breaks everything at once and proves that it is repaired: while people work
// with fifty VNF instances through the API and git push, pods and objects are killed and
// edited behind Jibe's back, the API server dies and hangs, and so does Jibe itself. At the
// end all that runs is what git says, and every operation has ended with the right story.
// Some instances are calm: nobody touches their pods, and their package changes in the
// blue-green way alone. Their Service always has an endpoint.
// It uses the real binary, git, store and a Kubernetes control plane of its own.
//
// Environment variables steer it: JIBE_CHAOS_DURATION is how long it breaks things (1m),
// JIBE_CHAOS_SEED repeats the choices of a run (not its timing, which is the machine's),
// JIBE_CHAOS_INSTANCES is how many instances there are (50).
package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/load"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// operationTimeout is --timeout and --start-timeout of the process: the API server is away
// for longer than the default where the machine is slow, which must end no operation.
// shortTimeout is that of what is asked for during the chaos: short, so that what can't be
// done is seen to fail while the test runs. Afterwards it is calmTimeout: all that can be
// done gets done, however slow the machine is.
const (
	operationTimeout = 4 * time.Minute
	shortTimeout     = 15 * time.Second
	calmTimeout      = time.Minute
)

// requestWait bounds one request, push or fault; only a hang takes so long.
const requestWait = 3 * time.Minute

// userCount is how many people work side by side.
const userCount = 4

func TestEverythingConvergesAfterChaos(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	duration := process.Duration(t, "JIBE_CHAOS_DURATION", time.Minute)
	seed := uint64(process.Number(t, "JIBE_CHAOS_SEED", int(time.Now().UnixNano()&0x7fffffff)))
	t.Logf("chaos for %s; repeat with JIBE_CHAOS_SEED=%d", duration, seed)

	w := newWorld(t)
	w.populate(process.Number(t, "JIBE_CHAOS_INSTANCES", 50), rand.New(rand.NewPCG(seed, 0)))

	w.record()
	var all []load.Work
	begin := func(what string, work func(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error) {
		rng := rand.New(rand.NewPCG(seed, uint64(len(all)+1)))
		all = append(all, func(ctx context.Context, stop <-chan struct{}) error {
			err := work(ctx, rng, stop)
			if err != nil {
				w.fail(fmt.Errorf("%s: %w", what, err))
			}
			return err
		})
	}
	begin("break the API server", w.breakAPIServer)
	begin("kill Jibe", w.killJibe)
	begin("break objects", w.breakObjects)
	for i := range userCount {
		u := &user{world: w, Person: load.Person{World: w.people, Name: fmt.Sprintf("user %d", i), Pause: userPause, Clone: process.NewClone(t, w.repository)}}
		for j := i; j < len(w.vnfs); j += userCount {
			u.vnfs = append(u.vnfs, w.vnfs[j])
		}
		begin("ask for changes", u.work)
	}
	end := load.Begin(t.Context(), all...)
	kit.Pause(t.Context(), duration)
	_ = end() // has failed the test
	w.log.note("chaos", "", "no more chaos")
	w.timeout = calmTimeout
	if !t.Failed() {
		w.settle()
	}
	if !t.Failed() {
		w.checkEverything()
	}
	w.report()
}

// world is what all parts of the test share.
type world struct {
	process.Mortal
	t *testing.T
	// dir holds all folders and logs; it stays where the test fails.
	dir, data, binary, repository string
	plane                         *kubeenv.Plane
	client                        kubernetes.Interface
	objects                       dynamic.Interface
	vnfs                          []*vnf
	log                           *timeline
	trees                         map[string]*version // by the tree of the package
	traffic                       *traffic
	timeout                       time.Duration // of the operations that people ask for
	people                        *load.World   // what was asked for, and is expected

	mu      sync.Mutex
	reasons []string // why it failed
	ended   map[string]string
	failed  map[string]bool // UIDs of bare pods that chaos let fail
	// orphaned are the names of the StatefulSets that were deleted and left their pods, by instance.
	orphaned map[string][]string
	stripped map[string][]object // what Jibe's label was taken off, by instance
}

// vnf is one instance.
type vnf struct {
	id, dir, name, namespace string
	calm                     bool // its pods are left in peace
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := process.ShortTempDir(t)
	w := &world{
		t: t, dir: dir, data: filepath.Join(dir, "data"), repository: filepath.Join(dir, "data", "desired.git"),
		log: newTimeline(), ended: map[string]string{}, failed: map[string]bool{},
		stripped: map[string][]object{}, orphaned: map[string][]string{}, timeout: shortTimeout,
	}
	w.plane = startPlane(t, filepath.Join(dir, "cp"))
	w.binary = process.Binary(t)
	config := w.plane.RestConfig(t)
	config.UserAgent = "chaos"
	config.Timeout = 30 * time.Second
	var err error
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if w.objects, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	w.people = load.New(&w.Mortal, w.client, w.repository)
	w.people.Note = func(instance, text string) { w.log.note("user", instance, "%s", text) }
	w.people.Expect = load.Expect{
		Answers: []int{http.StatusConflict, http.StatusServiceUnavailable}, // busy, suspended, nothing to heal; the VIM is away
		Sure:    true, Superseded: true, Operation: w.expectEnd,
	}
	t.Cleanup(func() {
		if s := w.Take(); s != nil {
			s.Kill()
		}
	})
	if err := w.startJibe(); err != nil {
		t.Fatal(err)
	}
	return w
}

// startJibe starts the process and lets the users at it.
func (w *world) startJibe() error {
	args := []string{"--timeout", operationTimeout.String(), "--start-timeout", operationTimeout.String()}
	for _, what := range []lcm.Type{lcm.Heal, lcm.Scale, lcm.ChangePackage, lcm.ModifyInfo} {
		args = append(args, "--timeout-for", fmt.Sprintf("%s=%s", what, w.timeout))
	}
	s, err := process.StartLogged(w.binary, w.data, filepath.Join(w.dir, "jibe.log"), nil, args...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.dir, kubeenv.ServerPID), []byte(strconv.Itoa(s.Pid())), 0o644); err != nil {
		return err
	}
	w.Serve(s)
	w.log.note("chaos", "", "Jibe serves, process %d", s.Pid())
	return nil
}

// jibeLives is how long a process lives on average.
const jibeLives = 8 * time.Second

// killJibe kills the process now and then until stop is closed, and always leaves one that
// serves.
func (w *world) killJibe(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	for kit.Rest(ctx, stop, time.Duration(rng.Int64N(int64(2*jibeLives)))) {
		s := w.Take()
		w.log.count("Jibe killed")
		if rng.IntN(3) == 0 {
			w.log.note("chaos", "", "kill Jibe, process %d, and all that it started", s.Pid())
			s.KillGroup()
		} else {
			w.log.note("chaos", "", "kill Jibe, process %d", s.Pid())
			s.Kill()
		}
		kit.Rest(ctx, stop, time.Duration(rng.Int64N(int64(2*time.Second))))
		if err := w.startJibe(); err != nil {
			return err
		}
	}
	return nil
}

// about is an error about one instance, whose timeline is shown where the test fails for it.
func (w *world) about(v *vnf, format string, args ...any) error {
	return fmt.Errorf("instance %s (%s, namespace %s): %w", v.id, v.dir, v.namespace, fmt.Errorf(format, args...))
}

// fail fails the test and remembers why, as the reasons are shown once more at the very
// end: long timelines follow them, of which a reader may see the end alone.
func (w *world) fail(err error) {
	w.t.Helper()
	w.t.Error(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reasons = append(w.reasons, err.Error())
}

// report says what the run consisted of, so that an idle one can't pass for a proof.
func (w *world) report() {
	w.t.Logf("%s", w.log.counted())
	w.t.Log(w.people.Counts())
	if err := w.people.Worked(); err != nil {
		w.t.Error(err)
	}
	if w.t.Failed() {
		if err := w.tell(); err != nil {
			w.t.Log(errors.Join(errors.New("the timeline can't be shown"), err))
		}
		w.t.Logf("it failed because:\n%s", strings.Join(w.reasons, "\n"))
	}
}
