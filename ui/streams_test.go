package ui

import (
	"testing"
	"time"
)

func TestAStreamEndsAtOnceWithItsSessionHoweverThatEnds(t *testing.T) {
	t.Parallel()

	for name, ends := range map[string]func(c *clock, s *sessions, id string, x *session){
		"a logout, or another login in its place": func(_ *clock, s *sessions, _ string, x *session) { s.end(x) },
		"it gives way to others": func(c *clock, s *sessions, _ string, _ *session) {
			for range sessionsEach {
				c.at = c.at.Add(time.Second)
				s.open(person("a"), Credential{})
			}
		},
		"it is found to be old":     func(c *clock, s *sessions, id string, _ *session) { c.at = c.at.Add(2 * time.Hour); s.get(id, false) },
		"it is swept as it is idle": func(c *clock, s *sessions, _ string, _ *session) { c.at = c.at.Add(2 * time.Hour); s.sweep(c.at) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			s, e := newSessions(time.Hour, time.Hour, c.now), &events{streams: map[*stream]bool{}}
			s.ended = e.endSession
			id, x := s.open(person("a"), Credential{})
			_, other := s.open(person("b"), Credential{})
			one, stays := &stream{who: x.who, session: x, end: make(chan struct{})}, &stream{who: other.who, end: make(chan struct{})}
			if e.listen(one) || e.listen(stays) {
				t.Fatal("there are too many streams")
			}

			ends(c, s, id, x)

			select {
			case <-one.end:
			default:
				t.Error("its stream goes on")
			}
			if e.streams[one] || !e.streams[stays] {
				t.Errorf("streams that are left: %v", e.streams)
			}
		})
	}
}

func TestOneCallerHasABoundOfStreams(t *testing.T) {
	t.Parallel()

	e := &events{streams: map[*stream]bool{}}
	for n := range streamsEach + 3 {
		if full := e.listen(&stream{who: person("a")}); full != (n >= streamsEach) {
			t.Fatalf("stream %d: full = %v", n, full)
		}
	}
	if e.listen(&stream{who: person("b")}) {
		t.Error("another caller has none")
	}
	for n := range 2 * mostStreams {
		e.listen(&stream{who: person(string(rune('A' + n)))})
	}
	if len(e.streams) != mostStreams {
		t.Errorf("%d streams", len(e.streams))
	}
}
