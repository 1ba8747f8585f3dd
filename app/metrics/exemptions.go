package metrics

import (
	"iter"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// exemptions counts which instances are suspended or held. It passes over them only when
// head has moved since the last scrape, and reads no file.
type exemptions struct {
	repo headRepo
	now  func() time.Time

	mu    sync.Mutex
	known exempt
}

// headRepo is what exemptions need of the desired repository.
type headRepo interface {
	Head() string
	Heads(after string) iter.Seq[desired.Head]
}

// exempt is what the instances at one head say. It is never changed.
type exempt struct {
	head      string
	at        time.Time
	instances int
	suspended int
	held      map[string]exemption // by instance
	tally     tally
}

// exemption says that an instance is held.
type exemption struct {
	operation string
	seen      time.Time // when that was seen first
}

// exemptAge bounds for how long the answer about one commit is used again: a person may
// accept what is held back of it, without a commit.
const exemptAge = time.Minute

func newExemptions(repo headRepo) *exemptions { return &exemptions{repo: repo, now: time.Now} }

// read returns what the instances at head say.
func (e *exemptions) read() exempt {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	// Asked first: what comes with a later commit is seen at the next scrape at the latest.
	head := e.repo.Head()
	if e.known.held != nil && e.known.head == head && now.Sub(e.known.at) < exemptAge {
		return e.known
	}
	next := exempt{head: head, at: now, held: map[string]exemption{}, tally: newTally()}
	for h := range e.repo.Heads("") {
		next.instances++
		next.tally.add(h)
		if h.Suspend {
			next.suspended++
		}
		if h.Held == "" {
			continue
		}
		x := exemption{operation: h.Held, seen: now}
		if was := e.known.held[h.Instance]; was.operation == h.Held {
			x.seen = was.seen
		}
		next.held[h.Instance] = x
	}
	e.known = next
	return next
}
