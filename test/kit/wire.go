package kit

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Wire passes connections on, and can be cut or lead elsewhere.
type Wire struct {
	// Address is where it listens.
	Address string

	mu    sync.Mutex
	to    string
	cut   bool
	conns []net.Conn
}

// NewWire starts a wire to an address for the time of a test.
func NewWire(t testing.TB, to string) *Wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{Address: l.Addr().String(), to: to}

	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go w.join(c)
		}
	}()
	t.Cleanup(func() { l.Close(); w.Cut() })
	return w
}

// join passes a connection on, until one of both sides ends it.
func (w *Wire) join(near net.Conn) {
	defer near.Close()
	w.mu.Lock()
	cut, to := w.cut, w.to
	w.mu.Unlock()
	if cut {
		return
	}
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()

	w.mu.Lock()
	moved := w.cut || w.to != to // while it was made
	if !moved {
		w.conns = append(w.conns, near, far)
	}
	w.mu.Unlock()
	if moved {
		return
	}

	go func() { _, _ = io.Copy(far, near); far.Close() }()
	_, _ = io.Copy(near, far)
}

// Cut ends all connections, and lets none be made.
func (w *Wire) Cut() {
	w.mu.Lock()
	w.cut = true
	w.mu.Unlock()
	w.Drop()
}

// Restore lets connections be made again.
func (w *Wire) Restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}

// Drop ends all connections and returns how many there were. New ones can be made.
func (w *Wire) Drop() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.conns) / 2
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
	return n
}

// Lead has it lead to another address from now on.
func (w *Wire) Lead(to string) {
	w.mu.Lock()
	w.to = to
	w.mu.Unlock()
	w.Drop()
}
