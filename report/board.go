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
	outcomes map[string]outcome // by the key of the target
	stale    map[string]bool    // the instances of which something has changed since
	restedAt time.Time          // when those were looked at last that tell nobody
	rolledAt time.Time          // when rollouts were
}

// newBoard makes the board of a commit that changes these instances and rollouts, and has so many problems in
// its files.
func newBoard(commit string, targets []Target, broken int) *board {
	return &board{commit: commit, targets: targets, broken: broken, outcomes: map[string]outcome{}, stale: map[string]bool{}}
}

// update looks again at the instances of which something may have changed, and says whether that was
// so.
func (b *board) update(ctx context.Context, f *finder, now time.Time) (changed bool, err error) {
	rested, rolled := now.Sub(b.restedAt) >= rest, now.Sub(b.rolledAt) >= rolloutRest
	for _, x := range b.targets {
		key := x.key()
		was, known := b.outcomes[key]
		var o outcome
		switch {
		case x.Rollout != "":
			if known && !rolled {
				continue
			}
			o, err = f.rollout(ctx, x, was)
		case known && !b.stale[key] && (!rested || was.fate != waits && was.fate != refused):
			continue
		default:
			o, err = f.outcome(ctx, b.commit, x, was)
		}
		if err != nil {
			return changed, err
		}
		changed = changed || !known || o != was
		b.outcomes[key] = o
		delete(b.stale, key)
	}
	if rested {
		b.restedAt = now
	}
	if rolled {
		b.rolledAt = now
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
		all = append(all, b.outcomes[x.key()])
	}
	return summarize(all, b.broken)
}
