package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/published"
)

// slowest is how long the subscriber takes at most for a notification.
const slowest = 200 * time.Millisecond

// Subscriber keeps the notifications that it was sent, each once, in the order of their
// first arrival. Its fields may be set before anybody works.
type Subscriber struct {
	// Late lets one come again after later ones: a replica that slept may carry on with a request
	// that it had begun before.
	Late bool

	server *httptest.Server
	mu     sync.Mutex
	order  []notify.Notification
	seen   map[string]bool
	again  int      // how many came that had come before
	broken []string // what no subscriber should get
}

func newSubscriber() *Subscriber {
	s := &Subscriber{seen: map[string]bool{}}
	s.server = httptest.NewServer(s)
	return s
}

// Close ends it. It is told of nothing more.
func (s *Subscriber) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// ServeHTTP is what it takes notifications with.
func (s *Subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return // cut off: it will come again
	}
	// Now and then it is slow, so that kills meet a delivery. What it could not answer
	// for, it has not taken.
	if rand.IntN(5) == 0 {
		select {
		case <-time.After(rand.N(slowest)):
		case <-r.Context().Done():
		}
	}
	if r.Context().Err() != nil {
		return
	}
	var n notify.Notification
	err = json.Unmarshal(text, &n)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.broken = append(s.broken, err.Error())
	case !s.seen[n.ID]:
		s.seen[n.ID] = true
		s.order = append(s.order, n)
		if err := published.Notification(text); err != nil {
			s.broken = append(s.broken, fmt.Sprintf("%s doesn't conform: %v", text, err))
		}
	case s.order[len(s.order)-1].ID != n.ID && !s.Late:
		// Only the last one can have been without an answer.
		s.broken = append(s.broken, fmt.Sprintf("%s of %s %s came again after later ones", n.ID, n.Type, n.InstanceID))
	default:
		s.again++
	}
	w.WriteHeader(http.StatusNoContent)
}

// Number is how many notifications it has got, each counted once.
func (s *Subscriber) Number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

// check says where the notifications don't tell the story of the operations: every
// state, in the order of the state machine, up to the last.
func (s *Subscriber) check(operations []process.Operation, created, deleted []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, b := range s.broken {
		errs = append(errs, fmt.Errorf("notification: %s", b))
	}
	states := map[string][]lcm.State{}
	identifiers := map[string]int{}
	for _, n := range s.order {
		if n.OperationPart != nil {
			states[n.OperationID] = append(states[n.OperationID], n.State)
		} else {
			identifiers[n.Type+" "+n.InstanceID]++
		}
	}
	for _, op := range operations {
		got := states[op.ID]
		delete(states, op.ID)
		want := lcm.Path(lcm.Prepared, lcm.State(op.State))
		if op.Type == string(lcm.ModifyInfo) {
			want = slices.DeleteFunc(want, func(s lcm.State) bool { return s == lcm.Starting })
		}
		if !slices.Equal(got, want) {
			errs = append(errs, fmt.Errorf("the subscriber was notified of %q of %s %s, which is %s; want %q", got, op.Type, op.ID, op.State, want))
		}
	}
	for id, got := range states {
		errs = append(errs, fmt.Errorf("the subscriber was notified of %q of operation %s, which doesn't exist", got, id))
	}
	for _, id := range created {
		if n := identifiers["VnfIdentifierCreationNotification "+id]; n != 1 {
			errs = append(errs, fmt.Errorf("the subscriber was notified %d times that instance %s was created", n, id))
		}
	}
	for _, id := range deleted {
		if n := identifiers["VnfIdentifierDeletionNotification "+id]; n != 1 {
			errs = append(errs, fmt.Errorf("the subscriber was notified %d times that instance %s was deleted", n, id))
		}
	}
	return errors.Join(errs...)
}

// sameOrder says where subscribers were told of the same events in different orders.
func sameOrder(all []*Subscriber) error {
	var first []string
	for i, s := range all {
		s.mu.Lock()
		var told []string
		for _, n := range s.order {
			what := n.Type + " of instance " + n.InstanceID
			if n.OperationPart != nil {
				what = fmt.Sprintf("%s %s is %s", n.Operation, n.OperationID, n.State)
			}
			told = append(told, what)
		}
		s.mu.Unlock()
		if i == 0 {
			first = told
		}
		for at := range max(len(first), len(told)) {
			if at >= len(first) || at >= len(told) || first[at] != told[at] {
				return fmt.Errorf("subscriber %d was told of %d events and subscriber 0 of %d; the first that differ are %q and %q, number %d",
					i, len(told), len(first), entry(told, at), entry(first, at), at)
			}
		}
	}
	return nil
}

func entry(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "none"
}
