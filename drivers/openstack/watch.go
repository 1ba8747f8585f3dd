package openstack

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
)

// The poller looks at the VIM for all instances at once, as Heat and Nova have no watches. It
// looks again soon while something is in progress there, and seldom while nothing is.

// lookPatience bounds one look at the VIM.
const lookPatience = 3 * time.Minute

// afterwards is for how long the poller goes on looking often after something was done at the
// VIM: its effect may not show yet.
const afterwards = 5 * time.Second

// poller makes all snapshots, so that no two are made side by side.
type poller struct {
	wake    chan struct{}
	looking sync.WaitGroup

	mu       sync.Mutex
	started  bool
	snapshot *snapshot     // the last that succeeded
	tried    time.Time     // when the last look began
	err      error         // of the last look
	failures int           // looks that failed in a row
	looked   chan struct{} // closed at the end of the next look
	// done is when the last Do of an instance ended, until a snapshot has seen it.
	done   map[string]time.Time
	lately time.Time // the last Do of all
	seen   map[int]func(instance string)
	next   int
}

func newPoller() *poller {
	return &poller{wake: make(chan struct{}, 1), looked: make(chan struct{}), done: map[string]time.Time{}, seen: map[int]func(string){}}
}

// start begins the looking, once. It goes on until the driver is closed.
func (d *Driver) start() {
	p := d.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started || d.life.Err() != nil {
		return
	}
	p.started = true
	p.looking.Go(func() { d.poll(d.life) })
}

func (d *Driver) poll(ctx context.Context) {
	p := d.poller
	for ctx.Err() == nil {
		d.lookOnce(ctx)
		pause := d.pause()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		case <-p.wake:
		}
	}
}

// pause is the time until the next look: looks begin at the pace that the options give, but at
// least a fourth of it passes between the end of one and the next.
func (d *Driver) pause() time.Duration {
	pace, began := d.pace()
	return max(pace-time.Since(began), pace/4)
}

// pace is how long after the last look, which began when the second result says, the next
// one is to begin.
func (d *Driver) pace() (time.Duration, time.Time) {
	p := d.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.err != nil:
		return min(d.opts.Busy<<min(p.failures, 4), max(d.opts.Rest, d.opts.Busy)), p.tried
	case p.snapshot == nil || p.snapshot.busy || len(p.done) > 0 || time.Since(p.lately) < afterwards:
		return d.opts.Busy, p.tried
	default:
		return d.opts.Rest, p.tried
	}
}

// lookOnce makes a snapshot and notifies those who wait for it and those who watch.
func (d *Driver) lookOnce(ctx context.Context) {
	p := d.poller
	p.mu.Lock()
	last, began := p.snapshot, time.Now()
	p.tried = began
	touched := map[string]bool{}
	for instance := range p.done {
		touched[instance] = true
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	now, err := d.take(ctx, last, touched)

	p.mu.Lock()
	if (err == nil) != (p.err == nil) {
		if err != nil {
			d.log.Warn("the VIM can't be looked at, and is tried again", "error", err)
		} else {
			d.log.Info("the VIM can be looked at again")
		}
	}
	p.err = err
	p.failures++
	var moved []string
	if err == nil {
		moved = changedBetween(last, now)
		p.snapshot, p.failures = now, 0
		d.known.forget(now)
		for instance, at := range p.done {
			if at.Before(began) {
				delete(p.done, instance)
			}
		}
	}
	close(p.looked)
	p.looked = make(chan struct{})
	watchers := slices.Collect(maps.Values(p.seen))
	p.mu.Unlock()
	for _, instance := range moved {
		for _, changed := range watchers {
			changed(instance)
		}
	}
}

// changedBetween are the instances of which something differs.
func changedBetween(last, now *snapshot) []string {
	was := map[string]string{}
	if last != nil {
		for instance, stacks := range last.stacks {
			was[instance] = fingerprintOfAll(stacks)
		}
	}
	var moved []string
	for instance, stacks := range now.stacks {
		if fingerprintOfAll(stacks) != was[instance] {
			moved = append(moved, instance)
		}
		delete(was, instance)
	}
	return append(moved, slices.Collect(maps.Keys(was))...)
}

// fingerprintOfAll is all of an instance's stacks that may change.
func fingerprintOfAll(stacks []*stack) string {
	var all strings.Builder
	for _, s := range stacks {
		all.WriteString(s.ID + s.fingerprint)
		if s.err != nil {
			all.WriteString(s.err.Error())
		}
		for _, name := range slices.Sorted(maps.Keys(s.groups)) {
			all.WriteString(s.groups[name].Status)
		}
		if s.tree == nil {
			continue
		}
		for _, n := range s.tree.all {
			all.WriteString(n.Name + n.Status + n.Physical)
		}
	}
	return all.String()
}

// noteWork notes that something is about to be done to the instance, or was.
func (d *Driver) noteWork(instance string) {
	p := d.poller
	p.mu.Lock()
	p.lately = time.Now()
	p.done[instance] = p.lately
	p.mu.Unlock()
	p.wakeUp()
}

func (p *poller) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// seenSince is a snapshot that began after the last Do of the instance ended.
func (d *Driver) seenSince(ctx context.Context, instance string) (*snapshot, error) {
	if d.life.Err() != nil {
		return nil, errClosed
	}
	d.start()
	p := d.poller
	asked := time.Now()
	for {
		p.mu.Lock()
		now, err, tried, looked := p.snapshot, p.err, p.tried, p.looked
		done, waits := p.done[instance]
		p.mu.Unlock()
		switch {
		case err != nil && (tried.After(asked) || time.Since(tried) < d.opts.Busy) && (!waits || tried.After(done)):
			return nil, err
		case err == nil && now != nil && (!waits || now.began.After(done)):
			return now, nil
		}
		p.wakeUp()
		select {
		case <-looked:
		case <-ctx.Done():
			return nil, unavailableIn(ctx)
		case <-d.life.Done():
			return nil, errClosed
		}
	}
}

// Watch implements [drivers.Watcher].
func (d *Driver) Watch(ctx context.Context, changed func(instance string)) error {
	p := d.poller
	p.mu.Lock()
	id := p.next
	p.next++
	p.seen[id] = changed
	known := p.snapshot
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.seen, id)
		p.mu.Unlock()
	}()
	if known != nil {
		for instance := range known.stacks {
			changed(instance)
		}
	}
	d.start()
	select {
	case <-ctx.Done():
	case <-d.life.Done():
	}
	return nil
}

var _ drivers.Watcher = (*Driver)(nil)
