package oplog

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/internal/lru"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// Shared says that other processes write the Log's keys too. Then [Log.Follow] MUST run, every
// change is decided on what the store has at that moment, and each event is put: who is
// subscribed may have been told to another process.
func Shared() Option {
	return func(l *Log) {
		l.shared = &shared{moved: make(chan struct{}), mine: map[string][]uint64{}, writing: map[string]string{}}
		l.index.byID = newByID()
		// A change of one doesn't tell whose it is, so that it can't be followed in order.
		l.prepared.kept = lru.New[*record[lcm.Operation]](0, 0)
	}
}

// shared is what a Log needs that isn't the only writer. A nil one does nothing.
type shared struct {
	mu    sync.Mutex
	at    store.Mark    // the index has everything up to it
	moved chan struct{} // closed, and replaced, when at moves
	// mine are the versions that this Log has put and isn't told of yet, by key, and former
	// those before them. What is told a second time only costs another look, so they are bounded.
	mine, former map[string][]uint64
	// writing has the instances of the operations that are being put here, which the index may
	// not have yet: another process may see one, and remove it, before that.
	writing map[string]string
}

// mostMine is how many keys are remembered as put by this Log, twice.
const mostMine = 10_000

// own remembers what this Log has put, of operations and events. What is told of an instance is
// always looked at: it is one small record.
func (s *shared) own(put, stored []store.Record) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, r := range stored {
		if !strings.HasPrefix(r.Key, operationPrefix) && !strings.HasPrefix(r.Key, outboxPrefix) {
			continue
		}
		version := r.Version
		if put[n].Delete {
			version = 0
		}
		s.mine[r.Key] = append(s.mine[r.Key], version)
	}
	if len(s.mine) > mostMine {
		s.former, s.mine = s.mine, map[string][]uint64{}
	}
}

// isOwn says whether a change is this Log's own. It is asked once for each, in their order.
func (s *shared) isOwn(c store.Change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range []map[string][]uint64{s.former, s.mine} {
		versions, ok := m[c.Key]
		if !ok {
			continue
		}
		n := slices.Index(versions, c.Version)
		// What isn't told of any more was told of together with this.
		if n < 0 || n == len(versions)-1 {
			delete(m, c.Key)
		} else {
			m[c.Key] = versions[n+1:]
		}
		if n >= 0 {
			return true
		}
	}
	return false
}

// begin notes the operations that are about to be put, until the returned function is called:
// when the index has what became of them. The caller has the locks of their instances.
func (s *shared) begin(ops []*lcm.Operation) (end func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range ops {
		s.writing[op.ID] = op.Instance
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, op := range ops {
			delete(s.writing, op.ID)
		}
	}
}

// instances returns the operations that are being put here, by instance.
func (s *shared) instances() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := map[string][]string{}
	for id, instance := range s.writing {
		of[instance] = append(of[instance], id)
	}
	return of
}

// writes returns the instance of an operation that is being put here.
func (s *shared) writes(id string) (instance string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	instance, ok = s.writing[id]
	return instance, ok
}

// move says that the index has everything up to a Mark.
func (s *shared) move(to store.Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = to
	close(s.moved)
	s.moved = make(chan struct{})
}

// wait returns once the index has everything up to a Mark, or with the error of ctx.
func (s *shared) wait(ctx context.Context, until store.Mark) error {
	for {
		s.mu.Lock()
		at, moved := s.at, s.moved
		s.mu.Unlock()
		if !at.Before(until) {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// forget forgets what this Log has put: all is looked at again that is told.
func (s *shared) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mine, s.former = map[string][]uint64{}, nil
}

type afreshKey struct{}

// afresh has records read from the store by what decides on them.
func afresh(ctx context.Context) context.Context { return context.WithValue(ctx, afreshKey{}, true) }

func isAfresh(ctx context.Context) bool { return ctx.Value(afreshKey{}) != nil }

// byID finds the entries of operations by their ids. A nil one does nothing.
type byID struct {
	ids   map[uuid.UUID]*compact
	named map[string]*compact
}

func newByID() *byID { return &byID{map[uuid.UUID]*compact{}, map[string]*compact{}} }

// count takes an entry in, or out where n is less than 0.
func (m *byID) count(c *compact, n int) {
	switch {
	case m == nil:
	case c.named != nil && n > 0:
		m.named[*c.named] = c
	case c.named != nil:
		delete(m.named, *c.named)
	case n > 0:
		m.ids[c.id] = c
	default:
		delete(m.ids, c.id)
	}
}

// find returns the entry of an operation, if there is one.
func (m *byID) find(id string) (OperationEntry, bool) {
	c := newCompact(id, 0)
	found, ok := m.ids[c.id]
	if c.named != nil {
		found, ok = m.named[id]
	}
	if !ok {
		return OperationEntry{}, false
	}
	return found.entry(), true
}

// find returns the entry of an operation, if there is one.
func (x *index) find(id string) (OperationEntry, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byID.find(id)
}

// touch notes that an instance was changed. The caller has mu.
func (x *index) touch(id string) {
	if x.touched != nil {
		x.touched[id] = true
	}
}

// replace has y take the place of what x holds, but for the instances that were changed while
// y was made: of those y has what readers have seen. It returns them, with their operations.
func (x *index) replace(y *index) map[string]*look {
	x.mu.Lock()
	defer x.mu.Unlock()
	looks := map[string]*look{}
	for id := range x.touched {
		k := newLook()
		k.record = true
		y.removeOwner(id)
		y.instances.Delete(id)
		if e, ok := x.instances.Get(id); ok {
			y.instances.Set(id, e)
		}
		if o := x.owners[id]; o != nil {
			for _, c := range o.operations {
				y.putOperation(c.entry())
				k.operations[c.name()] = true
			}
		}
		looks[id] = k
	}
	x.instances, x.owners, x.kinds, x.total = y.instances, y.owners, y.kinds, y.total
	x.open, x.contended, x.byID, x.touched = y.open, y.contended, y.byID, nil
	x.changes.NoteAll()
	return looks
}

// operationsOf returns the operations of an instance.
func (x *index) operationsOf(id string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	if o := x.owners[id]; o != nil {
		for _, c := range o.operations {
			names = append(names, c.name())
		}
	}
	return names
}

// removeOwner forgets an instance's operations. The caller has mu.
func (x *index) removeOwner(id string) {
	if o := x.owners[id]; o != nil {
		for _, c := range o.operations {
			x.uncount(c)
		}
		delete(x.owners, id)
	}
}

// setTouched begins or ends that changed instances are noted.
func (x *index) setTouched(to map[string]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.touched = to
}
