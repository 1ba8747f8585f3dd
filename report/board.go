package report

import (
	"context"
	"time"
)

// board has what became of one commit at each instance that it changes.
type board struct {
	commit   string
	targets  []Target
	broken   int
	outcomes map[string]outcome // by instance
	stale    map[string]bool    // the instances of which something has changed since
	restedAt time.Time          // when those were looked at last that tell nobody
}

// newBoard makes the board of a commit that changes these instances, and has so many problems in
// its files.
func newBoard(commit string, targets []Target, broken int) *board {
	return &board{commit: commit, targets: targets, broken: broken, outcomes: map[string]outcome{}, stale: map[string]bool{}}
}

// update looks again at the instances of which something may have changed, and says whether that was
// so.
func (b *board) update(ctx context.Context, f *finder, now time.Time) (changed bool, err error) {
	rested := now.Sub(b.restedAt) >= rest
	for _, x := range b.targets {
		was, known := b.outcomes[x.Instance]
		if known && !b.stale[x.Instance] && (!rested || was.fate != waits && was.fate != refused) {
			continue
		}
		o, err := f.outcome(ctx, b.commit, x, was)
		if err != nil {
			return changed, err
		}
		changed = changed || !known || o != was
		b.outcomes[x.Instance] = o
		delete(b.stale, x.Instance)
	}
	if rested {
		b.restedAt = now
	}
	return changed, nil
}

// changed notes that something of an instance has changed, if it is one of the commit's.
func (b *board) changed(instance string) {
	if b == nil {
		return
	}
	if _, is := b.outcomes[instance]; is {
		b.stale[instance] = true
	}
}

// summary is what has become of it in all.
func (b *board) summary() summary {
	all := make([]outcome, 0, len(b.targets))
	for _, x := range b.targets {
		all = append(all, b.outcomes[x.Instance])
	}
	return summarize(all, b.broken)
}
