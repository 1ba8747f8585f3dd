package reconciler

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// urgency says what goes first among the instances that wait to be looked at.
type urgency uint8

// The urgencies, the most urgent first.
const (
	// atWork: an operation that somebody wants is under way, or the API has just asked for one.
	// What has begun is ended before more begins, as its time runs.
	atWork urgency = iota
	// wanted: git asks for something new.
	wanted
	// repairing: something has moved at the VIM, or a repair is under way.
	repairing
	// idle: nothing is known to be amiss.
	idle
	urgencies
)

// String is how the metrics name the urgency.
func (u urgency) String() string {
	return [...]string{atWork: "operation", wanted: "commit", repairing: "repair", idle: "idle"}[u]
}

// patience is after how many turns of others one goes to the urgency, if it has
// somebody waiting: nobody starves. The most urgent need none.
var patience = [urgencies]int{wanted: 4, repairing: 8, idle: 16}

// priority is the order in which instances are looked at: the most urgent first, those that are
// equally urgent as they came, and nobody never. A [workqueue.TypedInterface] has it as its
// Queue, and calls Push, Touch, Pop and Len under its own lock.
type priority struct {
	mu sync.Mutex
	// asked is how urgent the next Push or Touch of an instance is. Who adds one says so
	// before, as the work queue itself only hands on ids.
	asked   map[string]urgency
	waiting [urgencies]list.List // of place
	places  map[string]*list.Element
	// skipped counts for how many turns those of an urgency were passed over.
	skipped [urgencies]int
	// taken is how urgent those were that are looked at now.
	taken map[string]urgency
	// now is the clock, and waited is told how long each waited.
	now    func() time.Time
	waited func(u urgency, waited time.Duration)
}

// place is that of one instance which waits.
type place struct {
	id    string
	u     urgency
	since time.Time
}

var _ workqueue.Queue[string] = (*priority)(nil)

func newPriority() *priority {
	return &priority{asked: map[string]urgency{}, places: map[string]*list.Element{}, taken: map[string]urgency{},
		now: time.Now, waited: func(urgency, time.Duration) {}}
}

// ask makes the next Push or Touch of the instance at least as urgent as u.
func (p *priority) ask(id string, u urgency) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u < p.wish(id) {
		p.asked[id] = u
	}
}

// wish is what was asked for the instance; without a word it is idle. p.mu is held.
func (p *priority) wish(id string) urgency {
	if u, ok := p.asked[id]; ok {
		return u
	}
	return idle
}

// Push implements [workqueue.Queue].
func (p *priority) Push(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(id, p.wish(id), p.now())
}

// put is for an instance that has no place. p.mu is held.
func (p *priority) put(id string, u urgency, since time.Time) {
	delete(p.asked, id)
	p.places[id] = p.waiting[u].PushBack(place{id, u, since})
}

// oldest is since when the instance waits that has waited longest, the zero time where none does.
// One that was moved up stands behind others that came later, so that it may be missed for their
// turns.
func (p *priority) oldest() (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for u := range urgencies {
		if front := p.waiting[u].Front(); front != nil {
			if at := front.Value.(place).since; since.IsZero() || at.Before(since) {
				since = at
			}
		}
	}
	return since
}

// Touch implements [workqueue.Queue]: an instance that waits already moves up.
func (p *priority) Touch(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u, at := p.wish(id), p.places[id]
	if was := at.Value.(place); u < was.u {
		p.waiting[was.u].Remove(at)
		p.put(id, u, was.since)
	}
	delete(p.asked, id)
}

// Len implements [workqueue.Queue].
func (p *priority) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.places)
}

// Pop implements [workqueue.Queue]. There is somebody who waits.
func (p *priority) Pop() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.turn()
	at := p.waiting[u].Front()
	next := p.waiting[u].Remove(at).(place)
	delete(p.places, next.id)
	p.taken[next.id] = u
	p.waited(u, p.now().Sub(next.since))
	return next.id
}

// turn says whose turn it is: that of the least urgent whose patience is at its end, else of
// the most urgent. p.mu is held.
func (p *priority) turn() urgency {
	next := urgencies
	for u := atWork; u < urgencies; u++ {
		if p.waiting[u].Len() == 0 {
			p.skipped[u] = 0
		} else if next == urgencies || p.skipped[u] >= patience[u] {
			next = u
		}
	}
	for u := range urgencies {
		p.skipped[u]++
	}
	p.skipped[next] = 0
	return next
}

// done says how urgent the instance was that was looked at.
func (p *priority) done(id string) urgency {
	p.mu.Lock()
	defer p.mu.Unlock()
	u, ok := p.taken[id]
	if !ok {
		return idle
	}
	delete(p.taken, id)
	return u
}
