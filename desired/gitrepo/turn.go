package gitrepo

import (
	"context"
	"time"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
)

// turnPatience is how long a batch waits for its turn before it is tried without one, beside the
// push intervals that the others may wait for.
const (
	turnPatience          = time.Minute
	turnPatienceIntervals = 6
)

// Turn orders several processes that write to one branch of a remote, so that they don't build
// batches in vain. It is for speed alone: whose push counts is decided by compare-and-swap.
type Turn interface {
	// Take waits until nobody else has the turn, or ctx ends. others says that somebody else
	// may have had it since the last time. give ends the turn, may be called twice, and outlives ctx.
	Take(ctx context.Context) (others bool, give func(), err error)
	// Pace waits until the last push of all processes has ended an interval ago, or ctx ends.
	// Nobody else's Pace returns before ended is called, once, which says whether a push was made.
	// ended outlives ctx. Whoever paces needn't have the turn.
	Pace(ctx context.Context, interval time.Duration) (ended func(pushed bool), err error)
}

// turn is the right to write a batch and to push it once; the zero value is that of who needs none.
type turn struct {
	give   func()
	permit permit
	// asked is when it was asked for, and began when the push might begin.
	asked, began time.Time
}

func (t turn) end() {
	t.permit.end(false)
	if t.give != nil {
		t.give()
	}
}

// nextPush waits until a push may begin, for some writes, or for one.
func (r *Repo) nextPush(ctx context.Context, ps ...*pending) (permit, error) {
	from := time.Now()
	k, err := r.pace.wait(ctx)
	if err == nil {
		for range max(1, len(ps)) {
			r.held(from, time.Now())
		}
	}
	return k, err
}

// takeTurn waits until a batch may be written and pushed, while nobody holds up readers and writes
// that are withdrawn, and brings the mirror to what others have pushed meanwhile. Where there are no
// turns now, the batch is tried without. It fails only where the repository closes, and the push
// interval would hold the batch up.
func (r *Repo) takeTurn() (turn, error) {
	t := turn{asked: time.Now()}
	others := false
	if r.opt.Remote == "" {
		return t, nil
	}
	if r.opt.Turn != nil {
		ctx, cancel := context.WithTimeout(r.ctx, turnPatience+turnPatienceIntervals*r.opt.PushInterval)
		defer cancel()
		var err error
		if others, t.give, err = r.opt.Turn.Take(ctx); err != nil {
			if r.ctx.Err() == nil {
				r.log.Warn("a batch of commits is tried out of turn", "error", err)
			}
			others, t.give = false, nil
		}
	}
	// Before the permit: what settles a doubt needs one of its own.
	r.settleLeft(context.WithoutCancel(r.ctx))
	var err error
	if t.permit, err = r.pace.wait(r.ctx); err != nil {
		t.end()
		return turn{}, objects.ErrClosed
	}
	t.began = time.Now()
	// An error is in Health, and the push meets it again.
	switch {
	case r.opt.PushInterval > 0: // a push that is lost would cost an interval
		_ = r.pull(r.ctx)
		r.gatherNotes(r.ctx)
	case others:
		_ = r.pullAccepted(r.ctx)
	}
	return t, nil
}
