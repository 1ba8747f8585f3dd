package gitrepo

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"
)

// MaxPushInterval bounds [Options.PushInterval]: requests wait as long, and so does whoever waits
// for leases of a store that has lost them.
const MaxPushInterval = time.Minute

// restIntervals is for how many intervals nothing was pushed before notes and pins are pushed
// alone. Else they would often have the push that a request waits for.
const restIntervals = 6

// restPause is how far apart notes and pins are pushed alone at least. Where several replicas
// have notes, each first gets those of the others: after each commit of anybody, that would be as
// much work as the commits themselves, and in their way.
const restPause = 2 * time.Second

// restPatience bounds how long notes and pins wait for a push of their own before the next poll
// tries again.
const restPatience = time.Second

// pacer keeps the pushes to the remote an interval apart. It runs from the end of one to the
// beginning of the next, so that they get to the remote no closer together, however long each is
// on its way. A push after a quiet time begins at once.
//
// A process counts by its own monotonic clock. What others push is known by the turn.
type pacer struct {
	interval time.Duration // 0: pushes aren't kept apart
	turn     Turn          // nil: nobody else pushes
	file     string        // its time is that of the last push, for the next process
	log      *slog.Logger

	next chan struct{} // holds one element while nobody has a permit
	last time.Time     // when the last push of this process ended; of who has the element

	mu   sync.Mutex
	told time.Time // until when the remote has asked to be left alone
}

// rest has nothing pushed for a time, as the remote has asked for.
func (p *pacer) rest(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = time.Now().Add(after)
}

// left is how long the remote is to be left alone still.
func (p *pacer) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.told)
}

func newPacer(opt Options, file string) *pacer {
	p := &pacer{interval: opt.PushInterval, turn: opt.Turn, file: file, log: opt.Log, next: make(chan struct{}, 1)}
	p.next <- struct{}{}
	if st, err := os.Stat(file); err == nil && p.interval > 0 {
		if ago := time.Since(st.ModTime()); ago < p.interval {
			p.last = time.Now().Add(-max(ago, 0))
		}
	}
	return p
}

// permit is the right to push once; its zero value is that of who needs none.
type permit struct{ done func(pushed bool) }

// end is called when the push has ended, or won't be made. Only the first call counts.
func (p permit) end(pushed bool) {
	if p.done != nil {
		p.done(pushed)
	}
}

// wait returns when a push may begin, or ctx ends. Nobody else gets a permit before this one ends.
func (p *pacer) wait(ctx context.Context) (permit, error) {
	if p.interval == 0 {
		if left := p.left(); left > 0 {
			return permit{}, wait(ctx, left)
		}
		return permit{}, nil
	}
	select {
	case <-p.next:
	case <-ctx.Done():
		return permit{}, ctx.Err()
	}
	ended := func(bool) {}
	err := ctx.Err()
	if left := max(p.interval-time.Since(p.last), p.left()); err == nil && left > 0 {
		err = wait(ctx, left)
	}
	if err == nil && p.turn != nil {
		var others func(bool)
		others, err = p.turn.Pace(ctx, p.interval)
		switch {
		case err == nil:
			ended = others
		case ctx.Err() == nil:
			p.log.Warn("how long ago others have pushed isn't known: the push interval holds for this process alone", "error", err)
			err = nil
		}
	}
	if err != nil {
		p.next <- struct{}{}
		return permit{}, err
	}
	var once sync.Once
	return permit{func(pushed bool) {
		once.Do(func() {
			ended(pushed)
			if pushed {
				p.last = time.Now()
				_ = os.Chtimes(p.file, p.last, p.last) // without, the next process pushes too early once
			}
			p.next <- struct{}{}
		})
	}}, nil
}

// idle returns a permit for what nobody waits for, false where others need it more.
func (p *pacer) idle(ctx context.Context) (permit, bool) {
	if p.left() > 0 {
		return permit{}, false
	}
	if p.interval == 0 {
		return permit{}, true
	}
	select {
	case <-p.next:
		quiet := time.Since(p.last) >= restIntervals*p.interval
		p.next <- struct{}{}
		if !quiet {
			return permit{}, false
		}
	default:
		return permit{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, restPatience)
	defer cancel()
	k, err := p.wait(ctx)
	return k, err == nil
}
