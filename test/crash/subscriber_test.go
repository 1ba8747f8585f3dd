package crash_test

import (
	"encoding/json"
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

// subscriber keeps the notifications that it was sent, each once, in the order of their
// first arrival.
type subscriber struct {
	mu     sync.Mutex
	order  []notify.Notification
	seen   map[string]bool
	broken []string // what no subscriber should get
}

// subscribe starts the subscriber, which outlives every process, and subscribes it.
func (w *world) subscribe() {
	w.t.Helper()
	published.Held(w.t)
	w.subscriber.seen = map[string]bool{}
	s := httptest.NewServer(&w.subscriber)
	w.t.Cleanup(s.Close)
	w.Present().Want(w.t, http.StatusCreated, http.MethodPost, process.Subscriptions, map[string]any{"callbackUri": s.URL + "/notify"}, nil)
}

func (s *subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	case s.order[len(s.order)-1].ID != n.ID:
		// Only the last one can have been without an answer.
		s.broken = append(s.broken, fmt.Sprintf("%s of %s %s came again after later ones", n.ID, n.Type, n.InstanceID))
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *subscriber) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

// check says where the notifications don't tell the story of the operations: every
// state, in the order of the state machine, up to the last.
func (s *subscriber) check(operations []process.Operation, created, deleted []string) []error {
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
	return errs
}
