// Package load works with a fleet of small CNFs as people and their clients do, through the API
// and by git, and proves from outside what came of it: each request that was acknowledged has
// one operation and one commit, each push that was accepted is operated on, the cluster runs
// what git says, and subscribers were told of all of it once and in order.
//
// It owns no server: whoever uses it starts and breaks them, and says how one is reached.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// settleWait is the usual [World.Patience].
const settleWait = 8 * time.Minute

// World is what all who work with a fleet share. The exported fields but Servers may not change
// once somebody works.
type World struct {
	// Servers has the present server, or keeps those waiting who work with it.
	Servers *process.Mortal
	// Client reaches the cluster at which the instances run.
	Client kubernetes.Interface
	// Repository is the folder of the bare repository that has the desired branch, as everybody
	// pushes it.
	Repository string
	// Remote is where a push goes.
	Remote func(s *process.Server, rng *rand.Rand) string
	// Busy says which answers, beside 409 and 404, a request may get at any time without having
	// begun anything that was promised. nil is none.
	Busy func(*process.Answer) bool
	// Patience bounds how long everything that was asked for may take once nothing breaks any
	// more, 0 is [settleWait].
	Patience time.Duration
	// Events are the subscribers, each from its own subscription.
	Events []*Subscriber
	// Sent and Acked get a value, where somebody listens, when a request or push is under way,
	// and when one was acknowledged.
	Sent, Acked chan struct{}

	apiOnly atomic.Bool

	mu sync.Mutex
	// namespaces are those that were made, and the directory of whose instance each is.
	namespaces map[string]string
	requests   []request      // acknowledged through the API
	pushes     []process.Push // accepted by git
	unanswered int            // requests and pushes of which nobody knows
	refusals   map[string]int
	failed     []failure
	healers    []*Healer
}

// request is an acknowledged request of the API: CREATE (201), DELETE (204), or one that
// began an operation (202).
type request struct {
	what, operation, instance, dir string
	// doubtful lets it be refused by what a former request came to.
	doubtful bool
}

// failure is an answer that a client would call a failure of the service.
type failure struct {
	at   time.Time // when the request began
	what string
}

// New is a world in which nobody works yet.
func New(servers *process.Mortal, client kubernetes.Interface, repository string) *World {
	return &World{
		Servers: servers, Client: client, Repository: repository, namespaces: map[string]string{}, refusals: map[string]int{},
		Sent: make(chan struct{}, 1), Acked: make(chan struct{}, 1),
	}
}

// Subscribe starts a subscriber, which outlives every server, and subscribes it. The caller
// closes it.
func (w *World) Subscribe(ctx context.Context) (*Subscriber, error) {
	s := newSubscriber()
	if err := w.subscribe(ctx, s); err != nil {
		s.Close()
		return nil, err
	}
	w.Events = append(w.Events, s)
	return s, nil
}

// RequestsAlone has people push nothing from now on, or again. A request begins anew whenever a
// push to the branch was faster: where the machine takes no more pushes than people make, it may
// take longer than any server has for its end.
func (w *World) RequestsAlone(on bool) { w.apiOnly.Store(on) }

// Failures are the answers to requests that began since a moment which a client would call failures of the service:
// none, and those of the classes 5xx. Answers that say that an instance is busy are none.
func (w *World) Failures(since time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, f := range w.failed {
		if !f.at.Before(since) {
			list = append(list, f.at.Format("15:04:05.000 ")+f.what)
		}
	}
	return list
}

// Counts says in words what the world has seen so far.
func (w *World) Counts() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	what := map[string]int{}
	for _, r := range w.requests {
		what[r.what]++
	}
	return fmt.Sprintf("acknowledged: %d requests %v, %d pushes; without an answer: %d; refused: %v; notifications: %d",
		len(w.requests), what, len(w.pushes), w.unanswered, w.refusals, w.events())
}

// events is how many notifications all subscribers have got.
func (w *World) events() (n int) {
	for _, s := range w.Events {
		n += s.Number()
	}
	return n
}

// Summary says in a few words what the world has seen so far.
func (w *World) Summary() string {
	requests, pushes := w.Acknowledged()
	return fmt.Sprintf("%d requests, %d pushes, %d heals, %d events", requests, pushes, w.Heals(), w.events())
}

// Acknowledged is how many requests and pushes were acknowledged so far.
func (w *World) Acknowledged() (requests, pushes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.requests), len(w.pushes)
}

// Worked returns an error where there were no requests or no pushes, which proves nothing.
func (w *World) Worked() error {
	if requests, pushes := w.Acknowledged(); requests == 0 || pushes == 0 {
		return errors.New("there were no requests or no pushes: nothing is proven")
	}
	return nil
}

func (w *World) acknowledge(r request) {
	signal(w.Acked)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r)
}

// unanswer counts what nobody knows of. That a connection was cut is no failure of the test, a
// request that hangs is one.
func (w *World) unanswer(ctx context.Context, began time.Time, what string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer in %s: %w", requestWait, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unanswered++
	w.failed = append(w.failed, failure{began, fmt.Sprintf("%s: no answer: %v", what, err)})
	return nil
}

// refused counts an answer that says no. Only what a client has to expect is in order:
// the instance is busy, or a push that removed it was faster.
func (w *World) refused(began time.Time, what string, a *process.Answer) error {
	busy := w.Busy != nil && w.Busy(a)
	if a.Status != http.StatusConflict && a.Status != http.StatusNotFound && !busy {
		return fmt.Errorf("%s was answered with %d: %s", what, a.Status, a.Body)
	}
	w.count(what, a)
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.Status >= http.StatusInternalServerError {
		w.failed = append(w.failed, failure{began, fmt.Sprintf("%s: %d %s", what, a.Status, a.Body)})
	}
	return nil
}

// count counts an answer that says no.
func (w *World) count(what string, a *process.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals[fmt.Sprintf("%s %d", what, a.Status)]++
}

// push pushes what next makes of an instance's file; nil removes its directory.
func (w *World) push(ctx context.Context, server *process.Server, rng *rand.Rand, clone *process.Clone, dir, message string, next func(old []byte) ([]byte, error)) (commit string, err error) {
	if w.apiOnly.Load() {
		return "", nil
	}
	commit, err = clone.ChangeInstance(ctx, func() string {
		signal(w.Sent)
		return w.Remote(server, rng)
	}, dir, message, next)
	switch {
	case errors.Is(err, process.ErrUnanswered):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.unanswered++
		return "", nil
	case err != nil:
		return "", err // every push here is in order
	case commit != "":
		signal(w.Acked)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pushes = append(w.pushes, process.Push{Commit: commit, Instance: process.Identity(dir), Dir: dir})
	}
	return commit, nil
}

// Prove lets all work come to its end, and then compares what was asked for with git, the
// operations, the cluster and what the subscribers were notified of.
func (w *World) Prove(ctx context.Context) error {
	var operations []process.Operation
	var errs []error
	err := kit.Poll(ctx, cmp.Or(w.Patience, settleWait), func() (err error) {
		operations, err = w.atRest(ctx)
		return err
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("it doesn't come to rest: %w", err))
	}
	errs = append(errs, w.Kept(ctx), w.checkOperations(ctx, operations), w.checkHeals(ctx))
	err = kit.Poll(ctx, cmp.Or(w.Patience, settleWait), func() error {
		created, deleted := w.identifiers()
		var errs []error
		for _, s := range w.Events {
			errs = append(errs, s.check(operations, created, deleted))
		}
		return errors.Join(append(errs, sameOrder(w.Events))...)
	})
	return errors.Join(slices.Concat(errs, []error{err, w.Worked()})...)
}

// identifiers are the instances that were created through the API, and those of them that were
// deleted.
func (w *World) identifiers() (created, deleted []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		switch {
		case r.what == "CREATE":
			created = append(created, r.instance)
		case r.what == "DELETE" && process.Identity(r.dir) == path.Base(r.dir):
			deleted = append(deleted, r.instance)
		}
	}
	return created, deleted
}

// signal tells whoever listens.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
