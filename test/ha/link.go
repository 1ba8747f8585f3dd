package ha

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// The states of a link.
type linkState int

const (
	passing linkState = iota
	cutOff            // connections are ended, and none is made
	silent            // nothing goes through, and nobody is told
	slow              // whatever goes through comes linkDelay later
)

const linkDelay = 300 * time.Millisecond

// network is how one replica reaches Redis and its sentinels: by a TCP proxy for each, all of
// which are cut or slowed at once. Where the sentinels say the ports of Redis and of each other,
// the replica is told those of its own proxies. Both have five digits.
type network struct {
	links []*link
	ports map[string]string // what a replica is told for a port

	mu      sync.Mutex
	state   linkState
	changed chan struct{} // closed with the next change
	conns   map[net.Conn]bool
}

// link is one proxy.
type link struct {
	listener net.Listener
	target   string
	sentinel bool
}

// newNetwork makes proxies for Redis servers and sentinels.
func newNetwork(servers, sentinels []string) (*network, error) {
	n := &network{ports: map[string]string{}, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	for i, target := range append(append([]string{}, servers...), sentinels...) {
		var l net.Listener
		var real, own string
		for { // a port of five digits, as the texts that have it keep their length
			var err error
			if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				n.close()
				return nil, err
			}
			_, real, _ = net.SplitHostPort(target)
			_, own, _ = net.SplitHostPort(l.Addr().String())
			if len(real) == len(own) {
				break
			}
			_ = l.Close()
		}
		n.ports[real] = own
		n.links = append(n.links, &link{listener: l, target: target, sentinel: i >= len(servers)})
	}
	for _, l := range n.links {
		go n.accept(l)
	}
	return n, nil
}

// sentinels are the addresses at which the replica finds them.
func (n *network) sentinels() (list []string) {
	for _, l := range n.links {
		if l.sentinel {
			list = append(list, l.listener.Addr().String())
		}
	}
	return list
}

// set changes the state.
func (n *network) set(state linkState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = state
	close(n.changed)
	n.changed = make(chan struct{})
	if state == cutOff {
		for c := range n.conns {
			_ = c.Close()
		}
	}
}

func (n *network) close() {
	for _, l := range n.links {
		_ = l.listener.Close()
	}
	n.set(cutOff)
}

func (n *network) now() (linkState, chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state, n.changed
}

func (n *network) accept(l *link) {
	for {
		c, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if state, _ := n.now(); state == cutOff {
			_ = c.Close()
			continue
		}
		go n.serve(l, c)
	}
}

func (n *network) serve(l *link, c net.Conn) {
	defer c.Close()
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer server.Close()
	n.mu.Lock()
	if n.state == cutOff {
		n.mu.Unlock()
		return
	}
	n.conns[c], n.conns[server] = true, true
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.conns, c)
		delete(n.conns, server)
	}()
	done := make(chan struct{}, 2)
	go func() { n.pipe(server, c, false); done <- struct{}{} }()
	go func() { n.pipe(c, server, l.sentinel); done <- struct{}{} }()
	<-done // one direction has ended: the other is ended with it
}

// pipe copies until one side ends. Texts of sentinels are lines, of which one never says half of
// a port.
func (n *network) pipe(to io.Writer, from io.Reader, sentinel bool) {
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		var some []byte
		var err error
		if sentinel {
			var line string
			line, err = in.ReadString('\n')
			some = []byte(n.told(line))
		} else {
			if _, err = in.Peek(1); err == nil {
				some = make([]byte, in.Buffered())
				_, err = io.ReadFull(in, some)
			}
		}
		if len(some) > 0 {
			n.wait()
			if _, err := to.Write(some); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait lets the time pass that the state wants.
func (n *network) wait() {
	state, changed := n.now()
	if state == slow {
		time.Sleep(linkDelay)
	}
	for state == silent {
		<-changed
		state, changed = n.now()
	}
}

// told is a line of a sentinel's as the replica gets it.
func (n *network) told(line string) string {
	fields := strings.Split(strings.TrimRight(line, "\r\n"), " ")
	for i, f := range fields {
		if own, ok := n.ports[f]; ok {
			fields[i] = own
		}
	}
	return strings.Join(fields, " ") + line[len(strings.TrimRight(line, "\r\n")):]
}
