// Package members says which replicas serve the fleet, and which of them looks after which
// instance.
//
// A replica is a process; the others see it as a member, by a lease in the store that it renews
// with each heartbeat: its session. Whatever else a replica holds is attached to that one
// lease, so that nothing is renewed for each instance. Instances are dealt to the living members by a pure
// function ([Owner]). Dealing only spreads the work: members may disagree for a moment, and it is
// leases that keep two from working on one instance, and the store's fence that keeps out one that slept.
//
// The package knows the store's contract alone. It decides nothing of instances, and writes
// nothing but the members' own records.
package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/store"
)

// prefix is that of the names of sessions, and of the keys of the members' records.
const prefix = "member/"

// How long a session lasts beyond its last renewal, and how often it is renewed: where several
// processes share the store, and where no other can open it.
const (
	sharedSession, sharedHeartbeat = 4 * time.Second, time.Second
	aloneSession, aloneHeartbeat   = 30 * time.Second, 10 * time.Second
)

// Config says how a process becomes a member. Store and Log are required.
type Config struct {
	Store store.Store
	Log   *slog.Logger
	// Shared says that other processes may have the same store open: sessions are short then.
	Shared bool
	// Session is how long a session lasts beyond its last renewal, and Heartbeat how often it is
	// renewed; 0 is the default: 4 s and 1 s where the store is shared, else 30 s and 10 s.
	Session, Heartbeat time.Duration
	// Holder is the name of this process in leases, which no process had before; "" makes one.
	Holder string
	// Host and Version are for people: where the member runs, and what.
	Host, Version string
	// Now is the clock by which sessions end; nil is time.Now, whose readings are monotonic.
	Now func() time.Time
}

// Member is this process as the others see it. It is safe for concurrent use.
type Member struct {
	config Config
	holder string
	since  time.Time

	session atomic.Pointer[Session]
	lost    atomic.Uint64 // sessions
	living  atomic.Pointer[table]

	stop    context.CancelFunc
	stopped chan struct{}

	// fresh says that the others, or those who are told here, don't know of the session yet. It is the heartbeat's own.
	fresh bool

	mu       sync.Mutex
	seen     map[string]time.Time // of the others' sessions, when they end as was read last
	silent   bool                 // somebody hasn't renewed since then
	failing  bool                 // the last heartbeat
	onChange []func()
	changed  chan struct{} // closed with the next change
}

// Join makes this process a member, under a name that no process had before, and keeps it one
// until [Member.Leave]. ctx bounds the first heartbeat alone.
func Join(ctx context.Context, c Config) (*Member, error) {
	if c.Store == nil || c.Log == nil {
		return nil, errors.New("join the members: the configuration is incomplete")
	}
	session, heartbeat := aloneSession, aloneHeartbeat
	if c.Shared {
		session, heartbeat = sharedSession, sharedHeartbeat
	}
	c.Session, c.Heartbeat = cmp.Or(c.Session, session), cmp.Or(c.Heartbeat, heartbeat)
	if c.Now == nil {
		c.Now = time.Now
	}
	m := &Member{config: c, holder: cmp.Or(c.Holder, uuid.NewString()), since: c.Now().UTC(), stopped: make(chan struct{}), changed: make(chan struct{})}
	m.living.Store(newTable([]string{m.holder}))
	if err := m.beat(ctx); err != nil {
		if s := m.session.Load(); s != nil {
			s.close()
			err = errors.Join(err, c.Store.Release(ctx, s.lease))
		}
		return nil, fmt.Errorf("join the members: %w", err)
	}
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	go m.beats(ctx)
	return m, nil
}

// Leave ends the session, so that others take over at once. Nothing may be under way under it
// any more.
func (m *Member) Leave(ctx context.Context) error {
	m.stop()
	<-m.stopped
	s := m.session.Load()
	held := s.Held()
	s.close()
	if !held {
		return nil // the others have seen to it
	}
	if err := errors.Join(m.erase(ctx), m.config.Store.Release(ctx, s.lease)); err != nil {
		return fmt.Errorf("leave the members: %w", err)
	}
	return nil
}

// Holder is the name of this process in leases: a UUID that is new with each start.
func (m *Member) Holder() string { return m.holder }

// Session is the session that is held now, nil where none is: the store couldn't be reached
// in time.
func (m *Member) Session() *Session {
	if s := m.session.Load(); s.Held() {
		return s
	}
	return nil
}

// Lost is how many sessions ended before they were given back: the store couldn't be reached in time, has
// lost them, or the process slept. It counts a session when the next one begins.
func (m *Member) Lost() uint64 { return m.lost.Load() }

// Living are the holders of the members as they were seen last, sorted, this one among them.
func (m *Member) Living() []string { return slices.Clone(m.living.Load().ids) }

// Mine says whether the instance is dealt to this member.
func (m *Member) Mine(instance string) bool { return m.living.Load().owner(instance) == m.holder }

// OwnerOf is the holder of the member that the instance is dealt to.
func (m *Member) OwnerOf(instance string) string { return m.living.Load().owner(instance) }

// Gone says whether the process with this name has ended, or has lost its session; it asks the
// store. Nobody ("") is gone.
func (m *Member) Gone(ctx context.Context, holder string) (bool, error) {
	if holder == "" || holder == m.holder {
		return holder == "", nil
	}
	leases, err := m.config.Store.Leases(ctx, prefix+holder)
	if err != nil {
		return false, fmt.Errorf("whether member %s lives: %w", holder, err)
	}
	return !slices.ContainsFunc(leases, func(l store.Lease) bool { return l.Name == prefix+holder }), nil
}

// Shared says whether other processes may have the same store open.
func (m *Member) Shared() bool { return m.config.Shared }

// Lasts is how long a session lasts beyond its last renewal: so long may one that was lost
// seem alive.
func (m *Member) Lasts() time.Duration { return m.config.Session }

// Heartbeat is how often the session is renewed.
func (m *Member) Heartbeat() time.Duration { return m.config.Heartbeat }

// OnChange has f called when members come or go, and when this one has a new session. f must not
// block.
func (m *Member) OnChange(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onChange = append(m.onChange, f)
}

// beats renews the session until ctx ends.
func (m *Member) beats(ctx context.Context) {
	defer close(m.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(m.pause()):
		}
		err := m.beat(ctx)
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		news := (err != nil) != m.failing
		m.failing = err != nil
		m.mu.Unlock()
		switch {
		case news && err != nil:
			m.config.Log.WarnContext(ctx, "the session in the store could not be renewed; nothing is begun once it has ended", "error", err)
		case news:
			m.config.Log.InfoContext(ctx, "the session in the store is renewed again")
		}
	}
}

// hurry is how much faster than usual the store is asked where a heartbeat is missed, be it our own
// or another's: what a lost member held is taken over soon after its session has ended.
const hurry = 8

func (m *Member) pause() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent || m.failing {
		return m.config.Heartbeat / hurry
	}
	return m.config.Heartbeat
}

// beat renews the session, or begins another one where it has ended, and looks who else lives.
func (m *Member) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.config.Session/2)
	defer cancel()
	was := m.session.Load()
	asked := m.config.Now()
	lease, err := m.acquire(ctx)
	if err != nil {
		return err
	}
	fresh := was == nil || lease.Token != was.lease.Token
	if !fresh && !was.extend(m.until(asked)) {
		// It ended by our clock and not by the store's. What was held under it has been let go of,
		// and must not be writable still.
		if err := m.config.Store.Release(ctx, lease); err != nil {
			return err
		}
		asked, fresh = m.config.Now(), true
		if lease, err = m.acquire(ctx); err != nil {
			return err
		}
	}
	if fresh {
		if was != nil {
			was.close()
			m.lost.Add(1)
		}
		m.session.Store(newSession(ctx, lease, m.until(asked), m.config.Now))
		m.fresh = true
	}
	if err := m.look(ctx, m.fresh); err != nil || !m.fresh {
		return err
	}
	if err := m.record(ctx); err != nil { // others may have removed it, as the former session ended
		return err
	}
	m.fresh = false
	return nil
}

// until is when a session ends that was asked for then: a sixteenth earlier than in the store, so that what
// is under way has ended when others may begin.
func (m *Member) until(asked time.Time) time.Time {
	return asked.Add(m.config.Session - m.config.Session/16)
}

func (m *Member) acquire(ctx context.Context) (store.Lease, error) {
	return m.config.Store.Acquire(ctx, prefix+m.holder, m.holder, m.config.Session)
}

// look sees who lives, and tells of changes. fresh says that this member has a new session.
func (m *Member) look(ctx context.Context, fresh bool) error {
	leases, err := m.config.Store.Leases(ctx, prefix)
	if err != nil {
		return err
	}
	ids, seen, silent := []string{m.holder}, make(map[string]time.Time, len(leases)), false
	m.mu.Lock()
	for _, l := range leases {
		id := strings.TrimPrefix(l.Name, prefix)
		if id == m.holder {
			continue
		}
		ids, seen[id] = append(ids, id), l.Expires
		silent = silent || l.Expires.Equal(m.seen[id])
	}
	m.seen, m.silent = seen, silent
	m.mu.Unlock()
	was, is := m.living.Load(), newTable(ids)
	same := slices.Equal(was.ids, is.ids)
	if same && !fresh {
		return nil
	}
	m.living.Store(is)
	if !same {
		m.config.Log.InfoContext(ctx, "members have come or gone", "members", len(is.ids))
		if is.ids[0] == m.holder { // one is enough
			m.sweep(ctx, is.ids)
		}
	}
	m.mu.Lock()
	told := slices.Clone(m.onChange)
	close(m.changed)
	m.changed = make(chan struct{})
	m.mu.Unlock()
	for _, f := range told {
		f()
	}
	return nil
}
