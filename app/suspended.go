package app

import (
	"context"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// marks remembers which instances are suspended or held, by the content of their
// directory: a scrape reads only the files that changed since the last one.
type marks struct {
	repo reader
	mu   sync.Mutex
	of   map[string]mark // by instance, all of them
}

// reader is what marks need of the desired repository.
type reader interface {
	Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error)
}

// mark is what the file of one instance says at one tree.
type mark struct {
	tree      string
	suspended bool
	held      string    // the operation
	seen      time.Time // when that was read first
}

func newMarks(repo reader) *marks { return &marks{repo: repo, of: map[string]mark{}} }

// read counts the suspended instances of list, which is the whole head, and
// returns those that are held. What can't be read now is what it was.
func (m *marks) read(ctx context.Context, list []desired.Revision) (suspended int, held map[string]mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held = map[string]mark{}
	there := make(map[string]mark, len(list))
	for _, rev := range list {
		was, known := m.of[rev.Instance]
		now := was
		if !known || was.tree != rev.Tree {
			if in, err := m.repo.Read(ctx, rev); err == nil {
				now = mark{tree: rev.Tree, suspended: in.Suspend, held: in.Held, seen: time.Now()}
				if was.held == in.Held && known {
					now.seen = was.seen
				}
			}
		}
		there[rev.Instance] = now
		if now.suspended {
			suspended++
		}
		if now.held != "" {
			held[rev.Instance] = now
		}
	}
	m.of = there
	return suspended, held
}
