package listener

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Connections bound how many connections the API has at once.
type Connections struct {
	// All is the most in all, and Each the most of one address; 0 is the default. Addresses of
	// this machine and of trusted proxies, behind which there are many, have no bound of their own.
	All, Each int
}

const defaultConnections, defaultEach = 4096, 512

// bound wraps the listener. A connection that is too many of its address is closed; one that is
// too many in all waits until another ends, as the system's queue lets it.
func (c Connections) bound(l net.Listener, trusted func(netip.Addr) bool, log *slog.Logger) net.Listener {
	if c.All <= 0 {
		c.All = defaultConnections
	}
	if c.Each <= 0 {
		c.Each = defaultEach
	}
	return &boundListener{Listener: l, each: c.Each, slots: make(chan struct{}, c.All), done: make(chan struct{}), trusted: trusted,
		log: log, lines: rate.NewLimiter(rate.Every(10*time.Second), 1), by: map[netip.Addr]int{}}
}

type boundListener struct {
	net.Listener
	each    int
	slots   chan struct{}
	done    chan struct{}
	once    sync.Once
	trusted func(netip.Addr) bool
	log     *slog.Logger
	lines   *rate.Limiter

	mu sync.Mutex
	by map[netip.Addr]int
}

// Accept implements [net.Listener].
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.done:
			return nil, net.ErrClosed
		}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		from := addressOf(c)
		if l.take(from) {
			return &boundConn{Conn: c, end: sync.OnceFunc(func() { l.give(from) })}, nil
		}
		<-l.slots
		_ = c.Close() // who has too many needs no answer
		if l.lines.Allow() {
			l.log.Warn("connections are refused: an address has too many", "address", from.String(), "most", l.each)
		}
	}
}

// Close implements [net.Listener].
func (l *boundListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

func (l *boundListener) take(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[from] >= l.each && !from.IsLoopback() && !l.trusted(from) {
		return false
	}
	l.by[from]++
	return true
}

func (l *boundListener) give(from netip.Addr) {
	l.mu.Lock()
	if l.by[from]--; l.by[from] <= 0 {
		delete(l.by, from)
	}
	l.mu.Unlock()
	<-l.slots
}

// addressOf is whom a connection counts for: an address, or the network that one customer of
// IPv6 has.
func addressOf(c net.Conn) netip.Addr {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return Network(a.AddrPort().Addr())
}

// Network is the address itself or, of IPv6, its network of 64 bits: who has one address there has
// 2^64.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() && !a.IsLoopback() {
		p, _ := a.Prefix(64) // which every such address has
		return p.Addr()
	}
	return a
}

// boundConn is a connection that tells of its end.
type boundConn struct {
	net.Conn
	end func()
}

// Close implements [net.Conn].
func (c *boundConn) Close() error {
	defer c.end()
	return c.Conn.Close()
}
