package reconciler

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// pauses are those between the retries of an instance. A pause doubles only after it has passed: what moves at a VIM begins
// further passes within it, and if they fail too, as long as a definition isn't served yet, they don't lengthen it.
type pauses struct {
	workqueue.TypedRateLimiter[string]
	mu  sync.Mutex
	end map[string]time.Time // of the pause of an instance
}

func newPauses() *pauses {
	return &pauses{
		TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
		end:              map[string]time.Time{},
	}
}

// When implements [workqueue.TypedRateLimiter].
func (p *pauses) When(id string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if left := p.end[id].Sub(now); left > 0 {
		return left
	}
	pause := p.TypedRateLimiter.When(id)
	p.end[id] = now.Add(pause)
	return pause
}

// Forget implements [workqueue.TypedRateLimiter].
func (p *pauses) Forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.end, id)
	p.TypedRateLimiter.Forget(id)
}
