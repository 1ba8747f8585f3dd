package hooks

import (
	"context"
	"sync"

	"github.com/jibe-vnfm/jibe/hooks/coordinator"
)

// Registry holds the hooks under way, one an instance at most. A hook outlives the pass
// that started it, so that it keeps no worker of the reconciler.
type Registry struct {
	mu       sync.Mutex
	runs     map[string]*run // by instance
	lifetime context.Context
	wg       sync.WaitGroup
}

type run struct {
	operation, hook string
	cancel          context.CancelCauseFunc
	stop            chan struct{}
	stopped         bool
	now             State
}

// State says how far a hook is.
type State struct {
	Done bool
	// Output and Err are what came of it, once it is done.
	Output Output
	Err    error
}

// NewRegistry returns a Registry whose hooks end with lifetime at the latest.
func NewRegistry(lifetime context.Context) *Registry {
	return &Registry{runs: map[string]*run{}, lifetime: lifetime}
}

// Get returns the state of the instance's hook, and false where none is known. A hook of
// another operation, or of another name, is ended and forgotten.
func (r *Registry) Get(instance, operation, hook string) (State, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.runs[instance]
	if x == nil {
		return State{}, false
	}
	if x.operation != operation || x.hook != hook {
		x.cancel(coordinator.ErrDropped)
		delete(r.runs, instance)
		return State{}, false
	}
	return x.now, true
}

// Has says whether the instance has a hook that is under way, or whose end hasn't been looked at.
func (r *Registry) Has(instance string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[instance] != nil
}

// Drop ends the hook of the instance and forgets it.
func (r *Registry) Drop(instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.runs[instance]; x != nil {
		x.cancel(coordinator.ErrDropped)
		delete(r.runs, instance)
	}
}

// Stop tells the work for the hook of the instance that its result isn't needed any more. Work
// that can't come to an earlier end passes that over.
func (r *Registry) Stop(instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.runs[instance]; x != nil && !x.stopped {
		x.stopped = true
		close(x.stop)
	}
}

// Start has work done for the hook, and returns at once. The context of work ends with the
// Registry's lifetime, or when the hook is dropped, with [coordinator.ErrDropped] as its cause;
// stop is closed by [Registry.Stop]. ended is called when the state tells that the hook is done.
func (r *Registry) Start(instance, operation, hook string, work func(ctx context.Context, stop <-chan struct{}) (Output, error), ended func()) {
	ctx, cancel := context.WithCancelCause(r.lifetime)
	x := &run{operation: operation, hook: hook, cancel: cancel, stop: make(chan struct{})}
	r.mu.Lock()
	r.runs[instance] = x
	r.mu.Unlock()
	r.wg.Go(func() {
		defer cancel(nil)
		out, err := work(ctx, x.stop)
		r.mu.Lock()
		x.now = State{Done: true, Output: out, Err: err}
		r.mu.Unlock()
		ended()
	})
}

// Wait returns when no hook is under way any more.
func (r *Registry) Wait() { r.wg.Wait() }
