package gitrepo

import (
	"context"
	"time"
)

// turnPatience is how long a batch waits for its turn before it is tried without one.
const turnPatience = time.Minute

// Turn orders several processes that write to one branch of a remote, so that they don't build
// batches in vain. It is for speed alone: whose push counts is decided by compare-and-swap.
type Turn interface {
	// Take waits until nobody else has the turn, or ctx ends. others says that somebody else
	// may have had it since the last time. give ends the turn, may be called twice, and outlives ctx.
	Take(ctx context.Context) (others bool, give func(), err error)
}

// turn is one that was taken; the zero value is none.
type turn struct{ give func() }

func (t turn) end() {
	if t.give != nil {
		t.give()
	}
}

// takeTurn waits for the turn, while nobody holds up readers and writes that are withdrawn, and
// brings the mirror to what others have pushed meanwhile. Where there are no turns now, the
// batch is tried without.
func (r *Repo) takeTurn() turn {
	if r.opt.Turn == nil || r.opt.Remote == "" {
		return turn{}
	}
	ctx, cancel := context.WithTimeout(r.ctx, turnPatience)
	defer cancel()
	others, give, err := r.opt.Turn.Take(ctx)
	if err != nil {
		if r.ctx.Err() == nil {
			r.log.Warn("a batch of commits is tried out of turn", "error", err)
		}
		return turn{}
	}
	if others {
		_ = r.pull(r.ctx) // an error is in Health, and the push meets it again
	}
	return turn{give}
}
