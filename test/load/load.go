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
	// Remote is where a push goes; nil is the server's repository, by path or URL.
	Remote func(s *process.Server, rng *rand.Rand) string
	// Expect is what the caller tolerates.
	Expect Expect
	// Versions are the vnfdIds of the packages by their trees; nil leaves the trees unchecked.
	Versions map[string]string
	// Note gets a line for whatever is asked of an instance, and what was answered; nil drops it.
	Note func(instance, text string)
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
	requests   []Request      // acknowledged through the API
	pushes     []process.Push // accepted by git
	unanswered int            // requests and pushes whose outcome is unknown
	accepted   int            // changes that a forge brought and Jibe held until they were accepted
	refusals   map[string]int
	failed     []failure
	healers    []*Healer
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
		what[r.What]++
	}
	return fmt.Sprintf("acknowledged: %d requests %v, %d pushes; without an answer: %d; refused: %v; accepted although they end many: %d; notifications: %d",
		len(w.requests), what, len(w.pushes), w.unanswered, w.refusals, w.accepted, w.events())
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

// Prove lets all work come to its end, and then compares what was asked for with git, the
// operations, the cluster and what the subscribers were notified of.
func (w *World) Prove(ctx context.Context) error {
	var operations []Occurrence
	var errs []error
	err := kit.Poll(ctx, cmp.Or(w.Patience, settleWait), func() (err error) {
		operations, err = w.atRest(ctx)
		return err
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("it doesn't come to rest: %w", err))
	}
	errs = append(errs, w.Kept(ctx), w.CheckAsked(ctx, operations), w.checkDeleted(ctx), w.checkHeals(ctx))
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
		case r.What == "CREATE":
			created = append(created, r.Instance)
		case r.What == "DELETE" && process.Identity(r.Dir) == path.Base(r.Dir):
			deleted = append(deleted, r.Instance)
		}
	}
	return created, deleted
}
