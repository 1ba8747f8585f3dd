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
	// subscriptions are its own. Nobody knows of one whose creation wasn't answered, which may be told
	// of everything, too.
	subscriptions map[string]bool
	// losses is how often the server forgot whom to notify, and partly are the operations and instances
	// of which it may have been told only in part therefore. gone are operations that the server may
	// not know any more.
	losses int
	partly map[string]bool
	gone   map[string]bool
}

func newSubscriber() *Subscriber {
	s := &Subscriber{seen: map[string]bool{}, subscriptions: map[string]bool{}, partly: map[string]bool{}, gone: map[string]bool{}}
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
	if s.overtaken(n.ID) {
		// Its server may have been killed, or has given it up: that is seen a moment after the request was read.
		select {
		case <-r.Context().Done():
			return
		case <-time.After(goneWait):
		}
	}
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

// goneWait is how long it may take until it is seen that who has sent a request is gone.
const goneWait = time.Second

// overtaken says whether a notification has come before, and later ones since, which may not be.
func (s *Subscriber) overtaken(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.Late && s.seen[id] && s.order[len(s.order)-1].ID != id
}

// Number is how many notifications it has got, each counted once.
func (s *Subscriber) Number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

// story is what a subscriber was told, sorted by what it is about.
type story struct {
	states      map[string][]lcm.State // by operation
	identifiers map[string]int         // by type of notification and instance
	automatic   map[string]bool        // operations
	subject     map[string]string      // what an operation is, and of which instance
}

// own are the notifications by its own subscriptions.
func (s *Subscriber) own() []notify.Notification {
	return slices.DeleteFunc(slices.Clone(s.order), func(n notify.Notification) bool { return !s.subscriptions[n.SubscriptionID] })
}

func (s *Subscriber) story() story {
	told := story{map[string][]lcm.State{}, map[string]int{}, map[string]bool{}, map[string]string{}}
	for _, n := range s.own() {
		if n.OperationPart != nil {
			told.states[n.OperationID] = append(told.states[n.OperationID], n.State)
			told.automatic[n.OperationID] = n.Automatic
			told.subject[n.OperationID] = fmt.Sprintf("%s %s of instance %s, told last at %s", n.Operation, n.OperationID, n.InstanceID, n.TimeStamp.Format(time.RFC3339Nano))
		} else {
			told.identifiers[n.Type+" "+n.InstanceID]++
		}
	}
	return told
}

// wanted are the states of which a subscriber is told, up to the present one.
func wanted(op process.Operation) []lcm.State {
	want := lcm.Path(lcm.Prepared, lcm.State(op.State))
	if op.Type == string(lcm.ModifyInfo) {
		want = slices.DeleteFunc(want, func(s lcm.State) bool { return s == lcm.Starting })
	}
	return want
}

// check says where the notifications don't tell the story of the operations: every
// state, in the order of the state machine, up to the last.
func (s *Subscriber) check(operations []Occurrence, created, deleted []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, b := range s.broken {
		errs = append(errs, fmt.Errorf("notification: %s", b))
	}
	told := s.story()
	for _, op := range operations {
		got, want := told.states[op.ID], wanted(op.Operation)
		delete(told.states, op.ID)
		if !slices.Equal(got, want) && !(s.partly[op.ID] && inPart(got, want, s.losses)) {
			errs = append(errs, fmt.Errorf("the subscriber was notified of %q of %s %s of instance %s, which is %s since %s; want %q", got, op.Type, op.ID, op.Instance, op.State, op.Entered, want))
		}
	}
	for id, got := range told.states {
		if !s.gone[id] && !(s.losses > 0 && told.automatic[id]) { // a repair that is lost while it is under way begins anew
			errs = append(errs, fmt.Errorf("the subscriber was notified of %q of %s, which doesn't exist", got, told.subject[id]))
		}
	}
	for _, id := range created {
		if n := told.identifiers[creation+id]; n != 1 && !(n == 0 && s.partly[id]) {
			errs = append(errs, fmt.Errorf("the subscriber was notified %d times that instance %s was created", n, id))
		}
	}
	for _, id := range deleted {
		if n := told.identifiers[deletion+id]; n != 1 && !(n == 0 && s.partly[id]) {
			errs = append(errs, fmt.Errorf("the subscriber was notified %d times that instance %s was deleted", n, id))
		}
	}
	return errors.Join(errs...)
}

// What identifiers are told of begins with.
const (
	creation = "VnfIdentifierCreationNotification "
	deletion = "VnfIdentifierDeletionNotification "
)

// inPart says whether the states are some of those that were wanted, in their order. Each time that
// records were lost, an operation that was under way may have begun once more.
func inPart(got, want []lcm.State, losses int) bool {
	at := 0
	for _, s := range got {
		n := slices.Index(want, s)
		switch {
		case n < 0:
			return false
		case n < at:
			losses--
		}
		at = n + 1
	}
	return losses >= 0
}
