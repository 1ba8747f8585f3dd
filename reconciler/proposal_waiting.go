package reconciler

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// ProposalWait is an operation that waits for its pull request to be merged.
type ProposalWait struct {
	Instance, Operation string
	Type                lcm.Type
	// Since is when it was asked for.
	Since time.Time
	// Away says that the forge couldn't be asked last.
	Away bool
}

// proposed holds which operations wait for their pull requests. It is a view of facts: a restart sees them anew. It
// is safe for concurrent use.
type proposed struct {
	mu sync.Mutex
	of map[string]ProposalWait // by instance
}

func newProposed() *proposed { return &proposed{of: map[string]ProposalWait{}} }

func (x *proposed) tell(op *lcm.Operation, away bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.of[op.Instance] = ProposalWait{Instance: op.Instance, Operation: op.ID, Type: op.Type, Since: op.Started, Away: away}
}

func (x *proposed) done(instance string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.of, instance)
}

// WaitingForPullRequests lists the operations of this process that wait for pull requests, by instance.
func (v *View) WaitingForPullRequests() []ProposalWait {
	x := v.r.proposed
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]ProposalWait, 0, len(x.of))
	for _, w := range x.of {
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b ProposalWait) int { return strings.Compare(a.Instance, b.Instance) })
	return list
}
