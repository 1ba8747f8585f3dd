package members

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

// ErrEnded is the cause of contexts that ended with their session.
var ErrEnded = errors.New("the session in the store has ended: it could not be renewed in time")

// Session is one unbroken time in which this process is a member. All leases that are attached to
// it end with it, and none of them comes back with the next.
//
// It ends by this process's monotonic clock, counted from before the store was asked, and so
// never later than the store has it end. A process that was stopped finds it ended.
type Session struct {
	lease store.Lease
	now   func() time.Time

	mu    sync.Mutex
	until time.Time
	timer *time.Timer
	over  bool
	ended context.Context
	end   context.CancelCauseFunc
}

// newSession begins a session that is held until then. parent bounds no more than its values.
func newSession(parent context.Context, lease store.Lease, until time.Time, now func() time.Time) *Session {
	s := &Session{lease: lease, now: now, until: until}
	s.ended, s.end = context.WithCancelCause(context.WithoutCancel(parent))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(until.Sub(now()), s.due)
	return s
}

// Lease is the session's own lease, to which others are attached.
func (s *Session) Lease() store.Lease { return s.lease }

// Held says whether the session is still held. It asks the clock and nobody else; once false,
// it stays so.
func (s *Session) Held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	if s.now().Before(s.until) {
		return true
	}
	s.stop()
	return false
}

// Left is for how long the session is held yet if it isn't renewed, 0 once it has ended. It asks the
// clock, as [Session.Held] does.
func (s *Session) Left() time.Duration {
	if !s.Held() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until.Sub(s.now())
}

// due ends the session if it is time, and else comes back when it may be.
func (s *Session) due() {
	if !s.Held() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.timer.Reset(s.until.Sub(s.now()))
	}
}

// extend has the session held until then, unless it has ended.
func (s *Session) extend(until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || !s.now().Before(s.until) {
		s.stop()
		return false
	}
	s.until = until
	return true
}

// close ends the session.
func (s *Session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// stop ends the session; s.mu is held.
func (s *Session) stop() {
	s.over = true
	s.timer.Stop()
	s.end(ErrEnded)
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.ended.Done() }

// Within returns a context that ends with the session too, with [ErrEnded] as its cause then.
func (s *Session) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ended, func() { cancel(ErrEnded) })
	return ctx, func() { stop(); cancel(nil) }
}
