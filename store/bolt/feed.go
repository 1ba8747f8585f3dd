package bolt

import (
	"context"
	"fmt"
	"sort"
	"sync"

	"github.com/jibe-vnfm/jibe/store"
)

// feedKept is how many changes are kept for those who follow them.
const feedKept = 100_000

// feed tells of what was put. The process is the only writer of its file, and mostly nobody
// asks: changes are kept only from the first question on.
type feed struct {
	// mu is held from before a batch can be seen until it is told of: a Mark between the two would be behind what
	// has been read.
	mu    sync.Mutex
	epoch uint64 // new with each opening of the file, as puts are counted anew
	put   uint64
	// asked says that somebody has taken a Mark; kept are the changes behind the Put number
	// from, by number.
	asked bool
	from  uint64
	kept  []numbered
	more  chan struct{} // closed with the next change
}

type numbered struct {
	store.Change
	put uint64
}

func newFeed(epoch uint64) feed { return feed{epoch: epoch, more: make(chan struct{})} }

// add tells of the writes of a batch that is durable. The caller has mu.
func (f *feed) add(batch []*call) {
	added := false
	for _, c := range batch {
		if c.err != nil || len(c.stored) == 0 {
			continue
		}
		f.put++
		if !f.asked {
			f.from = f.put
			continue
		}
		added = true
		for _, r := range c.stored {
			n := numbered{store.Change{Key: r.Key, Version: r.Version}, f.put}
			if r.Delete {
				n.Version = 0
			}
			f.kept = append(f.kept, n)
		}
	}
	if len(f.kept) > feedKept {
		// Half goes at once, so that a busy store doesn't move them all with each write.
		gone := len(f.kept) - feedKept/2
		f.from = f.kept[gone-1].put
		f.kept = append([]numbered(nil), f.kept[gone:]...)
	}
	if added {
		close(f.more)
		f.more = make(chan struct{})
	}
}

// Mark implements [store.Store].
func (s *Store) Mark(ctx context.Context) (store.Mark, error) {
	if err := s.usable(ctx); err != nil {
		return store.Mark{}, fmt.Errorf("mark: %w", err)
	}
	f := &s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = true
	return store.Mark{Epoch: f.epoch, Put: f.put}, nil
}

// Changes implements [store.Store].
func (s *Store) Changes(ctx context.Context, after store.Mark) ([]store.Change, store.Mark, error) {
	for {
		if err := s.usable(ctx); err != nil {
			return nil, after, fmt.Errorf("changes: %w", err)
		}
		changes, next, more, err := s.feed.since(after)
		if err != nil || next != after {
			return changes, next, err
		}
		select {
		case <-more:
		case <-s.done:
		case <-ctx.Done():
		}
	}
}

// since returns the changes after a Mark, and a channel that is closed with the next one.
func (f *feed) since(after store.Mark) ([]store.Change, store.Mark, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = true
	if after.Epoch != f.epoch || after.Put > f.put || after.Put < f.from {
		return nil, after, nil, fmt.Errorf("changes after %d of epoch %d: %w", after.Put, after.Epoch, store.ErrLost)
	}
	first := sort.Search(len(f.kept), func(i int) bool { return f.kept[i].put > after.Put })
	var out []store.Change
	for _, n := range f.kept[first:] {
		out = append(out, n.Change)
	}
	return out, store.Mark{Epoch: f.epoch, Put: f.put}, f.more, nil
}
