package reconciler

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errCommitting ends a pass that needs a commit which git doesn't have yet. It is no failure: the
// instance is looked at again when the commit is there, or can't be made.
var errCommitting = errors.New("a commit that the instance needs is on its way")

const (
	// commitPatience is how long a pass waits for its commit before it leaves it to itself. Where
	// git is on this machine, one takes some milliseconds, and the pass goes on with it.
	commitPatience = 100 * time.Millisecond
	// commitTime bounds how long a commit may wait until its turn comes. Where pushes are kept
	// apart, that is as many intervals as there are replicas.
	commitTime = 5 * time.Minute
)

// commits are the commits that passes have asked for, one an instance at most. One that takes its
// time outlives the pass that asked for it, so that a slow remote, or an interval between pushes,
// keeps no worker. What is lost with the process is found out by the next one from git.
type commits struct {
	look func(instance string)

	mu       sync.Mutex
	of       map[string]*commit // by instance
	lifetime context.Context
	wg       sync.WaitGroup
}

type commit struct {
	what   string
	cancel context.CancelFunc
	done   chan struct{} // closed when result and err are known
	result any
	err    error
}

func newCommits(look func(instance string)) *commits {
	return &commits{look: look, of: map[string]*commit{}}
}

// begin says that commits which wait are withdrawn when lifetime ends.
func (c *commits) begin(lifetime context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lifetime = lifetime
}

// wait returns when no commit is on its way any more.
func (c *commits) wait() { c.wg.Wait() }

// has says whether a commit of the instance is on its way, or no pass has seen its end.
func (c *commits) has(instance string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[instance] != nil
}

// drop withdraws the instance's commit if it still waits, and forgets it.
func (c *commits) drop(instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.of[instance]; x != nil {
		x.cancel()
		delete(c.of, instance)
	}
}

// ended returns the instance's commit whose end is for the next pass, nil for none.
func (c *commits) ended(instance string) *commit {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.of[instance]; x != nil && x.over() {
		return x
	}
	return nil
}

// forget drops a commit whose end the pass that it was for hasn't asked for: it is of no concern
// any more.
func (c *commits) forget(instance string, x *commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x != nil && c.of[instance] == x {
		delete(c.of, instance)
	}
}

func (x *commit) over() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// start has the commit made, unless one of the instance is on its way already, and returns the one
// that is. What is written has to hold for whatever stands in git by then.
func (c *commits) start(ctx context.Context, t tenure, instance, what string, write func(context.Context) (any, error)) *commit {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.of[instance]; was != nil && (was.what == what || !was.over()) {
		return was
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	ctx, end := t.under(ctx)
	stop := context.AfterFunc(c.lifetime, cancel)
	x := &commit{what: what, cancel: cancel, done: make(chan struct{})}
	c.of[instance] = x
	c.wg.Go(func() {
		defer func() {
			stop()
			end()
			cancel()
		}()
		x.result, x.err = write(ctx)
		close(x.done)
		c.look(instance)
	})
	return x
}

// take returns whether the commit has ended, which the caller has seen then.
func (c *commits) take(instance string, x *commit) bool {
	if !x.over() {
		return false
	}
	c.forget(instance, x)
	return true
}

// committer makes the commits of one instance, for which it is owned.
type committer struct {
	id     string
	tenure tenure
	all    *commits
}

// commitOf makes a commit, which what tells from others of the instance, and returns what came of it. It
// returns errCommitting where that isn't known yet: the next pass asks again, with the same words
// if it still wants the same. The context of write ends with the tenure, and not with the pass.
func commitOf[T any](ctx context.Context, c committer, what string, write func(ctx context.Context) (T, error)) (T, error) {
	var none T
	x := c.all.start(ctx, c.tenure, c.id, what, func(ctx context.Context) (any, error) { return write(ctx) })
	t := time.NewTimer(commitPatience)
	defer t.Stop()
	select {
	case <-x.done:
	case <-t.C:
	case <-ctx.Done():
	}
	if x.what != what || !c.all.take(c.id, x) {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		return none, errCommitting
	}
	result, _ := x.result.(T)
	return result, x.err
}
