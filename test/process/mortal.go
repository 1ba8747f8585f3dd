package process

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// Mortal holds the present process of a test that kills it again and again, and lets
// those who work with it wait for the next one. Its zero value has none. It may be used
// from any goroutine.
type Mortal struct {
	mu     sync.Mutex
	server *Server
	up     chan struct{} // closed while there is one
}

// Serve lets the others at a process that serves.
func (m *Mortal) Serve(s *Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server = s
	close(m.gate())
}

// Take keeps the others off the process, which is about to be killed, and returns it.
func (m *Mortal) Take() *Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.server
	if s != nil {
		m.server, m.up = nil, nil
	}
	return s
}

// Present is the process, nil while there is none.
func (m *Mortal) Present() *Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.server
}

// Await returns the process, waiting for one if need be, or nil where stop is closed or
// ctx ends first.
func (m *Mortal) Await(ctx context.Context, stop <-chan struct{}) *Server {
	for {
		m.mu.Lock()
		s, up := m.server, m.gate()
		m.mu.Unlock()
		if s != nil {
			return s
		}
		select {
		case <-up:
		case <-stop:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Mortal) gate() chan struct{} {
	if m.up == nil {
		m.up = make(chan struct{})
	}
	return m.up
}

// Number is the value of an environment variable; "" is the default.
func Number(t testing.TB, name string, or int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return or
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q: want a number", name, text)
	}
	return n
}

// Duration is the value of an environment variable; "" is the default.
func Duration(t testing.TB, name string, or time.Duration) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(os.Getenv(name), or.String()))
	if err != nil {
		t.Fatalf("%s: want a duration, as 10m: %v", name, err)
	}
	return d
}

// ShortTempDir is t.TempDir with a name that leaves room for the path of a socket, and
// that stays for people to look at where the test fails.
func ShortTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "jibe-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the folder stays for you to look at: %s", dir)
			return
		}
		// A git whose server was killed may be at its last write.
		if err := kit.Poll(context.WithoutCancel(t.Context()), time.Minute, func() error { return os.RemoveAll(dir) }); err != nil {
			t.Error(err)
		}
	})
	return dir
}
