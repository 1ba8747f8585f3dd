package kubernetes

import (
	"sync"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
	"github.com/jibe-vnfm/jibe/plan"
)

// state is everything of an object that differs in its fact once somebody changed it.
type state struct {
	uid     types.UID
	digest  string
	fields  unique.Handle[string]
	touched uint64
}

func stateOf(f *watched.Fact) state { return state{f.UID, f.Digest, f.Fields, f.Touched} }

// finding is what an object was found to be. Without deviations it is cleared: it
// shows no difference, although fields of it are somebody else's.
type finding struct {
	state
	// scale says that only the number of units was looked at.
	scale bool
	// count, want and to are what the deviations depend on besides.
	count int
	want  string // the digest of the render
	to    int    // the number of units
	// until bounds the life of a finding that no watch ends.
	until      time.Time
	deviations []drivers.Deviation
}

// findings remembers what was asked of the VIM, so that it isn't asked again
// until the object changes.
type findings struct {
	mu    sync.RWMutex
	of    map[string]finding // by key of the object
	limit int
}

const (
	// firstLimit is how many findings are kept before it is asked which of the
	// objects still exist.
	firstLimit = 1024
	// missingFor is for how long an object that no watch brings isn't looked for again.
	missingFor = 5 * time.Second
)

func newFindings() *findings { return &findings{of: map[string]finding{}, limit: firstLimit} }

// cleared says whether the object, as it is now, was found not to differ.
func (s *findings) cleared(f *watched.Fact) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x, ok := s.of[f.Key]
	return ok && len(x.deviations) == 0 && !x.scale && x.until.IsZero() && x.state == stateOf(f)
}

// get returns what is known of the object, as it is now (nil: no watch brings it),
// against the render and the number of units.
func (s *findings) get(f *watched.Fact, want string, step plan.Step) ([]drivers.Deviation, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x, ok := s.of[step.Object]
	if !ok || x.want != want || x.to != step.To || x.scale != (step.Action == plan.Scale) {
		return nil, false
	}
	if f == nil {
		return x.deviations, time.Now().Before(x.until)
	}
	return x.deviations, x.until.IsZero() && x.state == stateOf(f) && x.count == f.Count
}

func (s *findings) put(key string, x finding, known *watched.Cache) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[key] = x
	if len(s.of) < s.limit {
		return
	}
	for key := range s.of {
		if gk, _, _, _ := manifest.SplitKey(key); known.Get(gk, key) == nil {
			delete(s.of, key)
		}
	}
	s.limit = max(firstLimit, 2*len(s.of))
}

func (s *findings) forget(key string) {
	s.mu.RLock()
	_, has := s.of[key]
	s.mu.RUnlock()
	if has {
		s.mu.Lock()
		delete(s.of, key)
		s.mu.Unlock()
	}
}
