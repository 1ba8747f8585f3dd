package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// script is a hook of a package that does what the test tells it, call by call:
// the test sees the world as it is while the hook runs. It tells of its calls by HTTP, as a
// confined hook shares no file with a test.
type script struct {
	b      *bench
	mu     sync.Mutex
	inputs []object
	next   []chan string // what each call is to do, once the test has said so
	lost   []int         // calls that ended without an answer
}

// scripted makes a script and its text, which a package has as a file.
func (b *bench) scripted() (*script, string) {
	b.Helper()
	s := &script{b: b}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var input object
		if err == nil {
			err = json.Unmarshal(text, &input)
		}
		if err != nil { // of one that is killed while it tells
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n, next := s.add(input)
		select {
		case lines := <-next:
			_, _ = io.WriteString(w, lines)
		case <-r.Context().Done(): // the hook was killed
			s.lose(n)
		}
	}))
	b.Cleanup(func() {
		server.CloseClientConnections() // a hook may wait for its answer still
		server.Close()
	})
	return s, fmt.Sprintf(`#!/bin/sh
# Reports its call, and does what the test says then.
lines=$(curl --silent --show-error --fail --noproxy '*' --data-binary @- %s/) || exit 9
eval "$lines"
`, server.URL)
}

// add notes a call, and returns its number and where what it is to do is said.
func (s *script) add(input object) (n int, lines <-chan string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(chan string, 1)
	s.inputs, s.next = append(s.inputs, input), append(s.next, next)
	return len(s.inputs), next
}

func (s *script) lose(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, n)
}

// gone says whether the call n ended before it was answered.
func (s *script) gone(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.lost, n)
}

// called waits for the call n (from 1) and returns the input of the hook.
func (s *script) called(n int) object {
	s.b.Helper()
	var input object
	kit.Eventually(s.b, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.inputs) < n {
			return fmt.Errorf("the script was called %d times, not %d", len(s.inputs), n)
		}
		input = s.inputs[n-1]
		return nil
	})
	return input
}

// calls is how often the hook was called.
func (s *script) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inputs)
}

// answer has the call n go on with lines of sh.
func (s *script) answer(n int, lines string) {
	s.b.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > len(s.next) {
		s.b.Fatalf("call %d is answered, and the script was called %d times", n, len(s.next))
	}
	s.next[n-1] <- lines
}

// each is call and answer.
func (s *script) each(n int, lines string) object {
	s.b.Helper()
	input := s.called(n)
	s.answer(n, lines)
	return input
}

// unitsOf are the units of one side ("old", "new") of the VDU in a hook's input, by name.
func unitsOf(input object, vdu, side string) map[string]object {
	units := map[string]object{}
	for _, v := range input.list("vdus") {
		if v.text("id") == vdu {
			for _, u := range v.list(side) {
				units[u.text("name")] = u
			}
		}
	}
	return units
}
