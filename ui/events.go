package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/internal/changed"
)

// How many streams of events there may be, in all and of one caller.
const (
	mostStreams, streamsEach = 512, 24
	// tickEvery is how often changes are looked for while somebody listens, and heartEvery how
	// often a stream says that it lives and finds out whether its caller is still known.
	tickEvery, heartEvery = 250 * time.Millisecond, 15 * time.Second
	// mostNamed is how many ids an event names; more are all.
	mostNamed = 200
	// remembered is how many events are kept for who comes back.
	remembered = 256
)

// change is what one event tells: the script fetches anew what shows it.
type change struct {
	Instances  []string `json:"instances,omitempty"`
	Operations []string `json:"operations,omitempty"`
	// Git says that the branch has moved.
	Git bool `json:"git,omitempty"`
	// All says that anything may have changed.
	All bool `json:"all,omitempty"`
}

func (c *change) empty() bool { return len(c.Instances)+len(c.Operations) == 0 && !c.Git && !c.All }

// event is a change with its number. Of each operation it has the instance, too, which says who
// may be told.
type event struct {
	change
	number     uint64
	operations map[string]string
}

// events tells browsers what has changed. Nothing is done while nobody listens.
type events struct {
	fleet *fleet
	log   *slog.Logger
	take  changed.Take
	epoch string // of this process: numbers of another one mean nothing

	mu      sync.Mutex
	streams map[*stream]bool
	ring    []event
	last    uint64
	changed map[string]string // operations since the last look -> instance
	more    bool              // than changed has room for
	head    string
	closed  bool
	done    chan struct{}
}

// stream is one browser that listens.
type stream struct {
	who     auth.Identity
	session *session
	wake    chan struct{}
	end     chan struct{}
}

// stir has the stream look for events.
func (s *stream) stir() {
	select {
	case s.wake <- struct{}{}:
	default: // it hasn't looked yet since the last time
	}
}

func newEvents(f *fleet, log *slog.Logger) *events {
	return &events{fleet: f, log: log, take: f.watchers.Watch(), epoch: strconv.FormatInt(time.Now().UnixNano(), 36),
		streams: map[*stream]bool{}, changed: map[string]string{}, done: make(chan struct{})}
}

// operationChanged is called for each change of an operation's record.
func (e *events) operationChanged(operation, instance string) {
	e.fleet.moved.Note(instance)
	e.mu.Lock()
	defer e.mu.Unlock()
	// Also while nobody listens: somebody may be about to, with a page that was drawn before.
	if len(e.changed) < mostNamed*4 {
		e.changed[operation] = instance
	} else {
		e.more = true
	}
}

// run looks for changes until ctx ends.
func (e *events) run(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			e.close()
			return
		case <-tick.C:
		}
		e.mu.Lock()
		listened := len(e.streams) > 0
		e.mu.Unlock()
		if listened {
			e.look()
		}
	}
}

// look makes an event of what has changed since the last one.
func (e *events) look() {
	e.fleet.now()
	ids, all := e.take()
	head := e.fleet.repo.Head()
	e.mu.Lock()
	defer e.mu.Unlock()
	x := event{change: change{All: all || e.more}, operations: e.changed}
	e.changed, e.more = map[string]string{}, false
	if e.head != "" && head != e.head {
		x.Git = true
	}
	e.head = head
	if !all {
		x.Instances = ids
	}
	for op, instance := range x.operations {
		x.Operations = append(x.Operations, op)
		// One that has begun and ended since the last look leaves a cell as it was, but not the instance's page.
		if !slices.Contains(x.Instances, instance) {
			x.Instances = append(x.Instances, instance)
		}
	}
	if x.empty() {
		return
	}
	slices.Sort(x.Operations)
	e.last++
	x.number = e.last
	e.ring = append(e.ring, x)
	if len(e.ring) > remembered {
		e.ring = slices.Delete(e.ring, 0, len(e.ring)-remembered)
	}
	for s := range e.streams {
		s.stir()
	}
}

// since returns the events behind a number, and the newest number; known is false where some of
// them aren't kept any more.
func (e *events) since(number uint64) (list []event, last uint64, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if number > e.last || number < e.last && (len(e.ring) == 0 || number+1 < e.ring[0].number) {
		return nil, e.last, false
	}
	for _, x := range e.ring {
		if x.number > number {
			list = append(list, x)
		}
	}
	return list, e.last, true
}

// listen adds a stream; full says that there are too many.
func (e *events) listen(s *stream) (full bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	own := 0
	for other := range e.streams {
		if other.who.Is(s.who) {
			own++
		}
	}
	if e.closed || len(e.streams) >= mostStreams || own >= streamsEach {
		return true
	}
	e.streams[s] = true
	return false
}

func (e *events) leave(s *stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.streams, s)
}

// endSession ends the streams of a session that has ended.
func (e *events) endSession(x *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.streams {
		if s.session == x {
			delete(e.streams, s)
			close(s.end)
		}
	}
}

func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		close(e.done)
	}
}

// now names the newest event.
func (e *events) now() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id(e.last)
}

// id names a number of this process for Last-Event-ID.
func (e *events) id(number uint64) string { return e.epoch + "-" + strconv.FormatUint(number, 10) }

// number is what [events.id] has named, of this process.
func (e *events) number(id string) (uint64, bool) {
	epoch, text, ok := strings.Cut(id, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	return number, ok && err == nil && epoch == e.epoch
}

// serveEvents tells a browser what has changed, until it goes away, its session ends or the
// server does. Who comes back gets what they missed, or is told that anything may have changed; so does
// a page, of what has changed since it was drawn.
func (s *Service) serveEvents(w http.ResponseWriter, r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		// It could read nothing, but a browser with a client certificate would open streams for it until its person has no more.
		return &Failure{Status: http.StatusForbidden, Title: "The request came from another site", Detail: "Events are for the pages of this server.", Remedy: "Open the page itself."}
	}
	e, v := s.events, visitorOf(r.Context())
	one := &stream{who: v.who, session: v.session, wake: make(chan struct{}, 1), end: make(chan struct{})}
	if e.listen(one) {
		w.Header().Set("Retry-After", "30")
		return &Failure{Status: http.StatusServiceUnavailable, Title: "Too many pages are open", Detail: "No more pages can be kept live at once.", Remedy: "Close some; this one shows what was when it was loaded."}
	}
	defer e.leave(one)
	e.look() // what nobody was told of, as nobody listened
	at, known := e.number(cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("since")))
	if !known {
		_, at, _ = e.since(0) // a client of its own, which asks for what comes
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := &sender{w: w, c: http.NewResponseController(w)}
	out.send("retry: 3000\nid: %s\nevent: hello\ndata: {}\n\n", e.id(at))
	heart := time.NewTicker(heartEvery)
	defer heart.Stop()
	one.stir() // for what was missed
	for out.err == nil {
		select {
		case <-r.Context().Done():
			return nil
		case <-e.done:
			return nil
		case <-one.end:
			out.send("event: over\ndata: {}\n\n")
			return nil
		case <-heart.C:
			now, err := s.visitor(r)
			if err != nil {
				out.send("event: over\ndata: {}\n\n")
				return nil
			}
			r = r.WithContext(auth.With(r.Context(), now.who)) // who may see less by now
			out.send(": \n\n")
			continue
		case <-one.wake:
		}
		list, last, known := e.since(at)
		c := change{All: true}
		if known {
			var err error
			if c, err = s.visible(r, list); err != nil {
				return nil // what belongs to whom can't be told now: the browser comes back
			}
		}
		at = last
		if !c.empty() {
			data, err := json.Marshal(c)
			if err != nil {
				return nil
			}
			out.send("id: %s\nevent: changed\ndata: %s\n\n", e.id(at), data)
		}
	}
	return nil
}

// visible is what the events tell the caller of the request.
func (s *Service) visible(r *http.Request, list []event) (change, error) {
	var c change
	scope, err := s.scope(r)
	if err != nil {
		return c, err
	}
	sees := func(instance string) bool {
		at, known := s.fleet.place(instance)
		return known && scope.Sees(at)
	}
	for _, x := range list {
		c.Git = c.Git || x.Git
		c.All = c.All || x.All
		for _, id := range x.Instances {
			if len(c.Instances) <= mostNamed && !slices.Contains(c.Instances, id) && sees(id) {
				c.Instances = append(c.Instances, id)
			}
		}
		for _, op := range x.Operations {
			if len(c.Operations) <= mostNamed && !slices.Contains(c.Operations, op) && sees(x.operations[op]) {
				c.Operations = append(c.Operations, op)
			}
		}
	}
	if c.All || len(c.Instances) > mostNamed || len(c.Operations) > mostNamed {
		c = change{All: true}
	}
	return c, nil
}

// sender writes to a browser until that fails.
type sender struct {
	w   http.ResponseWriter
	c   *http.ResponseController
	err error
}

func (s *sender) send(format string, args ...any) {
	if s.err != nil {
		return
	}
	_, err := fmt.Fprintf(s.w, format, args...)
	s.err = errors.Join(err, s.c.Flush())
}
