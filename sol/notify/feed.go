package notify

import (
	"context"
	"log/slog"
	"sort"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

const (
	// page is how many events are read at a time.
	page = 25
	// recentEvents is how many events the feed holds in memory, and recentUnits how many units
	// and resources they may name together.
	recentEvents = 500
	recentUnits  = 20_000
	// storeRetry is the pause after the store couldn't be read or written.
	storeRetry = time.Second
)

// feed reads every event of the outbox once, for all workers: it counts what waits for each,
// and holds the newest events, so that workers that keep up needn't read and decode them
// again. A worker is only given what was counted for it.
type feed struct {
	oplog *oplog.Log

	mu      sync.Mutex
	life    int                  // grows when all that was read is forgotten
	seq     uint64               // everything up to it was counted
	covers  uint64               // recent has all events after it, up to seq
	recent  []oplog.Event        // the newest, in order
	units   int                  // of recent
	readers map[*worker]struct{} // those that are counted for
	news    chan struct{}        // closed, and replaced, when seq grows
	anew    chan struct{}        // wakes run when all was forgotten
}

func newFeed(l *oplog.Log) *feed {
	return &feed{oplog: l, readers: map[*worker]struct{}{}, news: make(chan struct{}), anew: make(chan struct{}, 1)}
}

// run reads what is there, and then what is added, until ctx ends.
func (f *feed) run(ctx context.Context, log *slog.Logger) {
	wake, unsignal := f.oplog.Signal()
	defer unsignal()
	for ctx.Err() == nil {
		f.mu.Lock()
		after, life := f.seq, f.life
		f.mu.Unlock()
		events, err := f.oplog.Events(ctx, after, page)
		switch {
		case err != nil && ctx.Err() == nil:
			log.Error("notifications are held up by the store", "error", err)
			pause(ctx, storeRetry)
		case err != nil:
		case len(events) > 0:
			f.take(events, life)
		default:
			select {
			case <-wake:
			case <-f.anew:
			case <-ctx.Done():
			}
		}
	}
}

// forget has everything read anew: the store went back, so that numbers come again. No worker
// may have joined.
func (f *feed) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.life++
	f.seq, f.covers, f.recent, f.units = 0, 0, nil, 0
	select {
	case f.anew <- struct{}{}:
	default: // it is about to read
	}
}

// take counts events and hands them to who waits. They were read in a life of the feed.
func (f *feed) take(events []oplog.Event, life int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if life != f.life {
		return
	}
	for w := range f.readers {
		w.count(events)
	}
	f.recent = append(f.recent, events...)
	for _, e := range events {
		f.units += units(e)
	}
	gone := 0
	for ; gone < len(f.recent) && (len(f.recent)-gone > recentEvents || f.units > recentUnits); gone++ {
		f.units -= units(f.recent[gone])
		f.covers = f.recent[gone].Seq
	}
	f.recent = append([]oplog.Event(nil), f.recent[gone:]...) // workers may still read the old one
	f.seq = events[len(events)-1].Seq
	close(f.news)
	f.news = make(chan struct{})
}

// units is how many units and resources an event names, which makes its size.
func units(e oplog.Event) int {
	if e.Operation == nil {
		return 0
	}
	op := e.Operation
	return len(op.UnitsBefore) + len(op.UnitsAfter) + len(op.ResourcesBefore) + len(op.ResourcesAfter)
}

// join has everything counted for w that comes after its cursor.
func (f *feed) join(ctx context.Context, w *worker) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.counted = w.after // which may be ahead of what was read so far
	for w.counted < f.seq {
		events, err := slice(ctx, f.oplog, w.counted, f.seq, f.covers, f.recent)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		w.count(events)
	}
	f.readers[w] = struct{}{}
	return nil
}

// leave ends what join began.
func (f *feed) leave(w *worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, w)
}

// next returns some of the events after seq, in order, and the newest that was counted. Where
// there are none, news is closed once there are.
func (f *feed) next(ctx context.Context, seq uint64) (events []oplog.Event, end uint64, news <-chan struct{}, err error) {
	f.mu.Lock()
	end, covers, recent, news := f.seq, f.covers, f.recent, f.news
	f.mu.Unlock()
	if seq >= end {
		return nil, end, news, nil
	}
	events, err = slice(ctx, f.oplog, seq, end, covers, recent)
	return events, end, news, err
}

// slice returns at most a page of the events after seq and up to end: from recent, which has
// those after covers, or from the store.
func slice(ctx context.Context, l *oplog.Log, seq, end, covers uint64, recent []oplog.Event) ([]oplog.Event, error) {
	events := recent
	if seq < covers {
		var err error
		if events, err = l.Events(ctx, seq, page); err != nil {
			return nil, err
		}
	}
	up := func(to uint64) int { // how many come up to it
		return sort.Search(len(events), func(i int) bool { return events[i].Seq > to })
	}
	first := up(seq)
	return events[first:min(up(end), first+page)], nil
}
