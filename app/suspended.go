package app

import (
	"context"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// exemptions remembers which instances are suspended or held, by the content of their
// directory: a scrape reads only the files that changed since the last one.
type exemptions struct {
	repo reader
	mu   sync.Mutex
	of   map[string]exemption // by instance, all of them
}

// reader is what exemptions need of the desired repository.
type reader interface {
	Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error)
}

// exemption is what the file of one instance says at one tree.
type exemption struct {
	tree      string
	suspended bool
	held      string    // the operation
	seen      time.Time // when that was read first
}

func newExemptions(repo reader) *exemptions {
	return &exemptions{repo: repo, of: map[string]exemption{}}
}

// read counts the suspended instances of list, which is the whole head, and
// returns those that are held. A file that can't be read now counts as it last was.
func (e *exemptions) read(ctx context.Context, list []desired.Revision) (suspended int, held map[string]exemption) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held = map[string]exemption{}
	there := make(map[string]exemption, len(list))
	for _, rev := range list {
		was, known := e.of[rev.Instance]
		now := was
		if !known || was.tree != rev.Tree {
			if in, err := e.repo.Read(ctx, rev); err == nil {
				now = exemption{tree: rev.Tree, suspended: in.Suspend, held: in.Held, seen: time.Now()}
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
	e.of = there
	return suspended, held
}
