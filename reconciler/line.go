package reconciler

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// line is where instances wait to be looked at, in the order of their urgency. It is
// a work queue: an instance waits once, and is looked at by one worker at a time.
type line struct {
	order *priority
	queue workqueue.TypedRateLimitingInterface[string]

	mu sync.Mutex
	// open are the operations that are worked on, by instance.
	open map[string]worked
}

// worked is an operation that is worked on.
type worked struct {
	operation string
	u         urgency
}

// A pass that failed is made again after firstRetry, which doubles up to lastRetry.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

func newLine() *line {
	order := newPriority()
	return &line{open: map[string]worked{}, order: order, queue: workqueue.NewTypedRateLimitingQueueWithConfig(
		newPauses(),
		workqueue.TypedRateLimitingQueueConfig[string]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
				Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: order}),
			}),
		})}
}

// add has the instance wait, if it doesn't yet, and never less urgently than it does.
func (l *line) add(id string, u urgency) {
	l.order.ask(id, u)
	l.queue.Add(id)
}

// addAfter adds the instance later. It then is as urgent as u, also if something else brings it here before.
func (l *line) addAfter(id string, u urgency, after time.Duration) {
	l.order.ask(id, u)
	l.queue.AddAfter(id, after)
}

// retry adds the instance after a pause that doubles with each pause that passed in vain, until forget. The
// pause isn't longer than within, if that is positive: a deadline is kept then.
func (l *line) retry(id string, u urgency, within time.Duration) {
	l.order.ask(id, u)
	l.queue.AddRateLimited(id)
	if within > 0 {
		l.queue.AddAfter(id, within) // the earlier of the two counts
	}
}

// moved adds an instance of which something has moved at its VIM.
func (l *line) moved(id string) { l.add(id, l.urgency(id, repairing)) }

// again is how urgent the next look is at an instance that was just looked at: as this one
// was. But where nothing is worked on now, others go first where something is.
func (l *line) again(id string) urgency { return l.urgency(id, max(l.order.done(id), wanted)) }

// urgency is that of the operation that is worked on at the instance, and not less than least.
func (l *line) urgency(id string, least urgency) urgency {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x, ok := l.open[id]; ok {
		return min(x.u, least)
	}
	return least
}

// operationChanged keeps which operations are worked on. What rests in FAILED_TEMP isn't.
func (l *line) operationChanged(op oplog.OperationEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !op.State.Ended() && op.State != lcm.FailedTemp:
		u := atWork
		if op.Automatic {
			u = repairing
		}
		l.open[op.Instance] = worked{op.ID, u}
	case l.open[op.Instance].operation == op.ID:
		delete(l.open, op.Instance)
	}
}
