package ssh

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// ErrLost is returned when the connection ended while something was under way. Whether that
// was done to its end isn't known.
var ErrLost = errors.New("connection lost")

// Conn is a connection to a host where somebody is logged in. Its methods may be called
// from any goroutine.
type Conn struct {
	host   Host
	client *ssh.Client
	wire   *wire
	jump   *Conn
	slots  chan struct{}

	ended chan struct{} // closed when the connection is
	mu    sync.Mutex
	why   error // it ended, set once, before or when it does
}

func newConn(h Host, o Options, client *ssh.Client, w *wire, jump *Conn) *Conn {
	c := &Conn{host: h, client: client, wire: w, jump: jump, slots: make(chan struct{}, o.Sessions), ended: make(chan struct{})}
	go func() {
		err := client.Wait()
		c.end(fmt.Errorf("%w: the host, or something on the way, ended it (%w)", ErrLost, err))
		close(c.ended)
	}()
	go c.listen(o.Silence)
	return c
}

// Close ends the connection, and all calls that wait for it. It may be called again.
func (c *Conn) Close() {
	c.end(errors.New("the connection was closed"))
	if c.jump != nil {
		// The jump host first: where its line is dead, a farewell to the other would wait for ever.
		c.jump.Close()
	}
	_ = c.client.Close()
	<-c.ended
}

func (c *Conn) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.why = why
	}
}

// lost returns why the connection ended, nil while it is there.
func (c *Conn) lost() error {
	select {
	case <-c.ended:
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("%s: %w", c.host, c.why)
	default:
		return nil
	}
}

// listen ends the connection when nothing has come for the time of silence although the
// host was asked. It counts looks, not time, so that a process that was stopped for a
// while doesn't take its own silence for the host's.
func (c *Conn) listen(silence time.Duration) {
	// A host that was heard right after a look is missed at the third of the following four.
	const looks = 4
	ticker := time.NewTicker(max(silence/looks, time.Millisecond))
	defer ticker.Stop()
	var asking atomic.Bool
	for missed := 0; ; {
		select {
		case <-c.ended:
			return
		case <-ticker.C:
		}
		if c.wire.heard.Swap(false) {
			missed = 0
			continue
		}
		if missed++; missed == looks-1 {
			c.end(fmt.Errorf("%w: nothing came from the host for %s", ErrLost, silence))
			_ = c.wire.Close()
			return
		}
		if asking.CompareAndSwap(false, true) {
			go func() {
				defer asking.Store(false)
				// Any answer says that the host is there. The loop above sees where none comes.
				_, _, _ = c.client.SendRequest("keepalive@openssh.com", true, nil)
			}()
		}
	}
}

// wire is a connection that notes when something came.
type wire struct {
	net.Conn
	heard atomic.Bool
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.heard.Store(true)
	}
	return n, err
}
