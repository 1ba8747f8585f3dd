package reconciler

import (
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// memory is what a process remembers of an instance beyond git, the VIM and the
// store: when it saw what. A restart loses it, which only makes a clock begin
// anew; no decision about what should run depends on it.
type memory struct {
	mu sync.Mutex
	of map[string]*recollection
}

type recollection struct {
	// failing is the failure of a wait that was seen and is not yet believed,
	// doubted the refusal.
	failing, doubted sighting
	// from is where the clock of the open operation was set again, as nothing could
	// be done before: the VIM was away, or the instance suspended.
	from    time.Time
	stopped bool
	// attempt is the attempt that was seen of the open operation, and rests the end of a repair.
	attempt, rests sighting
	// repeats counts batches that had to be started again although they had been
	// before; started says that the last one was, without an error; quiet is until
	// when nothing is started again.
	repeats int
	started bool
	quiet   time.Time
	// blocked is what the VIM last said to a repair that rests.
	blocked answer
}

// sighting is something that was seen, and since when.
type sighting struct {
	what  string
	since time.Time
}

// answer is what the VIM said when it was asked about an attempt of an operation.
type answer struct {
	operation string
	attempt   int
	refused   bool // at any time since the attempt failed
	at        time.Time
}

func newMemory() *memory { return &memory{of: make(map[string]*recollection)} }

// with runs f on what is remembered of the instance, and forgets what is empty
// afterwards.
func (m *memory) with(id string, f func(*recollection)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of[id]
	if r == nil {
		r = &recollection{}
	}
	f(r)
	if reflect.ValueOf(*r).IsZero() {
		delete(m.of, id)
		return
	}
	m.of[id] = r
}

// forget drops what is remembered of the instance.
func (m *memory) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}

// clocks reads and sets what is remembered of one instance: since when it fails, how long
// nothing could be done for its operation, how often a batch was started in vain. It touches
// nothing else.
type clocks struct {
	memory *memory
	id     string
	now    func() time.Time
}

// stands says for how long the instance has been failing; "" means that it isn't.
func (c clocks) stands(reason string) (stood time.Duration) {
	c.memory.with(c.id, func(r *recollection) {
		switch {
		case reason == "":
			r.failing = sighting{}
			return
		case r.failing.what == "":
			r.failing = sighting{reason, c.now()}
		}
		stood = c.now().Sub(r.failing.since)
	})
	return stood
}

// doubts says for how long the same object has been refused without a pause.
func (c clocks) doubts(object string) (stood time.Duration) {
	c.memory.with(c.id, func(r *recollection) {
		if r.doubted.what != object {
			r.doubted = sighting{object, c.now()}
		}
		stood = c.now().Sub(r.doubted.since)
	})
	return stood
}

// refusedBefore says whether the VIM has refused the repair since this attempt failed, and
// when it was asked last; the zero time where it wasn't.
func (c clocks) refusedBefore(failed *lcm.Operation) (refused bool, asked time.Time) {
	c.memory.with(c.id, func(r *recollection) {
		if r.blocked.operation == failed.ID && r.blocked.attempt == failed.Attempt {
			refused, asked = r.blocked.refused, r.blocked.at
		}
	})
	return refused, asked
}

// asked notes what the VIM said of the repair.
func (c clocks) asked(failed *lcm.Operation, refused bool) {
	was, _ := c.refusedBefore(failed)
	c.memory.with(c.id, func(r *recollection) {
		r.blocked = answer{failed.ID, failed.Attempt, refused || was, c.now()}
	})
}

// obstructed notes that the attempt has just met an obstacle of which its VIM reports when it
// has gone.
func (c clocks) obstructed(op *lcm.Operation) {
	c.memory.with(c.id, func(r *recollection) {
		r.blocked = answer{operation: op.ID, attempt: op.Attempt, refused: true}
	})
}

// halt stops the clock of the operation: nothing can be done for it now.
func (c clocks) halt() {
	c.memory.with(c.id, func(r *recollection) { r.stopped = true })
}

// resume sets the clock anew if it was stopped.
func (c clocks) resume() {
	c.memory.with(c.id, func(r *recollection) {
		if r.stopped {
			r.stopped, r.from = false, c.now()
		}
	})
}

// clock is when the time of the operation began.
func (c clocks) clock() (from time.Time) {
	c.memory.with(c.id, func(r *recollection) { from = r.from })
	return from
}

// attempt is when this process saw the operation's attempt first. Its record says when it began by the
// clock of some machine, which may have been set since, and needn't be this one.
func (c clocks) attempt(op *lcm.Operation) (since time.Time) {
	what := op.ID + " " + strconv.FormatInt(op.AttemptStarted.UnixNano(), 10)
	c.memory.with(c.id, func(r *recollection) {
		if r.attempt.what != what {
			r.attempt = sighting{what, c.now()}
		}
		since = r.attempt.since
	})
	return since
}

// rests is since when the operation is in its state. A record's time is believed only once, when it is
// seen first, and not if it is still to come: a clock that is set later changes nothing.
func (c clocks) rests(op *lcm.Operation) (since time.Time) {
	what := op.ID + " " + strconv.FormatInt(op.StateEntered.UnixNano(), 10)
	c.memory.with(c.id, func(r *recollection) {
		if r.rests.what != what {
			now := c.now()
			r.rests = sighting{what, now.Add(-max(now.Sub(op.StateEntered), 0))}
		}
		since = r.rests.since
	})
	return since
}

// A batch that is due again and again although it was started is undone by
// somebody, or by nobody in sight: it is started with growing pauses.
const (
	patientRepeats = 5
	repeatPause    = 50 * time.Millisecond
	maxRepeatPause = 10 * time.Second
)

// pace counts the batches that are started once more, and says how long to wait
// before this one may be.
func (c clocks) pace(fresh bool) (times int, wait time.Duration) {
	now := c.now()
	c.memory.with(c.id, func(r *recollection) {
		if fresh {
			r.repeats, r.quiet = 0, time.Time{}
			return
		}
		if wait = r.quiet.Sub(now); wait > 0 {
			return
		}
		if r.started {
			r.repeats++
		}
		if over := r.repeats - patientRepeats; over > 0 {
			r.quiet = now.Add(min(repeatPause<<min(over, 10), maxRepeatPause))
		}
		times = r.repeats
	})
	return times, wait
}

// begun notes whether the batch was started without an error, as then nothing of
// it was refused.
func (c clocks) begun(ok bool) {
	c.memory.with(c.id, func(r *recollection) {
		if r.started = ok; ok {
			r.doubted = sighting{} // a refusal that comes now is another one
		}
	})
}

// ended forgets what concerns one operation only.
func (c clocks) ended() {
	c.memory.with(c.id, func(r *recollection) {
		*r = recollection{}
	})
}
