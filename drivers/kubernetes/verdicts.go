package kubernetes

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

const (
	// verdictAge is for how long a dry run speaks for others of its shape. It is short, as
	// webhooks, policies and definitions change without a word.
	verdictAge = time.Minute
	// maxVerdicts bounds how many are remembered, maxDoubted of how many objects it is known
	// that they were refused. The one that was used longest ago is forgotten.
	maxVerdicts, maxDoubted = 4096, 4096
)

// question is what a dry run asks, whichever instance asks it. Where two questions are
// the same, the API server's answers differ only by what it knows of one name or namespace.
type question struct {
	tree    string // of the package
	account string // that asks, "" is Jibe's own
	// to is the shape of what is applied. from is that of what stands there, and fields are
	// those that Jibe manages of it; both are zero where nothing stands.
	to, from manifest.Shape
	fields   string
}

// verdict is an answer and how far it reaches.
type verdict struct {
	question
	// namespace is the only one for which it is known, as the rights in others may
	// differ; "" is all.
	namespace string
}

// verdicts remembers which questions the API server answered with yes. It never
// remembers a no, and one no makes it forget everything: whatever stands behind it may be
// new, and concern all. It may be used concurrently.
type verdicts struct {
	mu     sync.Mutex
	taken  *lru.Cache[verdict, time.Time] // when it was given
	asking map[question]chan struct{}     // closed when the answer is there
	// doubted are the objects, with their instances, that were refused last. Each is asked
	// about by itself until it is accepted.
	doubted *lru.Cache[string, bool]
	refusal int // counts refusals
}

func newVerdicts() (*verdicts, error) {
	taken, err := lru.New[verdict, time.Time](maxVerdicts)
	if err != nil {
		return nil, err
	}
	doubted, err := lru.New[string, bool](maxDoubted)
	if err != nil {
		return nil, err
	}
	return &verdicts{taken: taken, doubted: doubted, asking: map[question]chan struct{}{}}, nil
}

// known says whether the question was answered with yes lately. v.mu is held.
func (v *verdicts) known(q question, namespace string) bool {
	for _, key := range []verdict{{q, ""}, {q, namespace}} {
		if at, ok := v.taken.Get(key); ok && time.Since(at) < verdictAge {
			return true
		}
	}
	return false
}

// ask calls dryRun unless the answer is known. While one caller asks, others with the same
// question wait for its answer; where that is no, or is of another namespace only, each asks
// for itself. everywhere says, after a yes, whether it holds for all namespaces. shared reports
// that the answer is a yes which another caller got.
func (v *verdicts) ask(ctx context.Context, q question, namespace string, dryRun func() error, everywhere func() bool) (shared bool, err error) {
	v.mu.Lock()
	if v.known(q, namespace) {
		v.mu.Unlock()
		return true, nil
	}
	other := v.asking[q]
	if other == nil {
		answered := make(chan struct{})
		v.asking[q] = answered
		defer func() {
			v.mu.Lock()
			delete(v.asking, q)
			v.mu.Unlock()
			close(answered)
		}()
	}
	refusal := v.refusal
	v.mu.Unlock()
	if other != nil {
		select {
		case <-other:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		v.mu.Lock()
		known := v.known(q, namespace)
		refusal = v.refusal
		v.mu.Unlock()
		if known {
			return true, nil
		}
	}
	if err := dryRun(); err != nil {
		return false, err
	}
	if everywhere() {
		namespace = ""
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refusal == refusal { // else it may be older than what was refused for
		v.taken.Add(verdict{q, namespace}, time.Now())
	}
	return false, nil
}

// doubts says whether the instance's object was refused when it was last asked about.
func (v *verdicts) doubts(instance, key string) bool {
	return v.doubted.Contains(instance + " " + key)
}

// refused takes note that the instance's object wasn't accepted.
func (v *verdicts) refused(instance, key string) {
	v.doubted.Add(instance+" "+key, true)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refusal++
	v.taken.Purge()
}

// accepted takes note that the instance's object was accepted.
func (v *verdicts) accepted(instance, key string) { v.doubted.Remove(instance + " " + key) }
