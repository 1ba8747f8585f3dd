package listener

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// counted is a handler that counts how many of it are at work, and works until it is released, whatever its client does.
type counted struct {
	begun, now, most atomic.Int64
	release          chan struct{}
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/other" {
		return
	}
	c.begun.Add(1)
	now := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	<-c.release
	w.WriteHeader(http.StatusNoContent)
}

// http2Server serves the handler as a server of Jibe's is set up.
func http2Server(t *testing.T) (address string, c *counted) {
	t.Helper()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	kit.Issue(t, certFile, keyFile, 1)
	cert, err := newCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c = &counted{release: make(chan struct{})}
	address = serveTLS(t, cert, c.ServeHTTP)
	t.Cleanup(sync.OnceFunc(func() { close(c.release) }))
	return address, c
}

// rawPeer is a client of HTTP/2 that sends what it likes.
type rawPeer struct {
	conn   *tls.Conn
	frames *http2.Framer
	block  bytes.Buffer
	encode *hpack.Encoder

	over chan struct{} // closed when the server has ended the connection
	mu   sync.Mutex
	said []string // statuses, resets and the end, as the server says them
}

// meet opens a connection. With deaf, nothing of what the server says is read.
func meet(t *testing.T, address string, deaf bool) *rawPeer {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(kit.Patience)); err != nil {
		t.Fatal(err)
	}
	p := &rawPeer{conn: conn, frames: http2.NewFramer(conn, conn), over: make(chan struct{})}
	p.encode = hpack.NewEncoder(&p.block)
	p.frames.AllowIllegalWrites = true
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := p.frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if !deaf {
		go p.listen()
	}
	return p
}

func (p *rawPeer) listen() {
	defer close(p.over)
	decode := hpack.NewDecoder(4096, nil)
	for {
		f, err := p.frames.ReadFrame()
		if err != nil {
			return
		}
		line := ""
		switch f := f.(type) {
		case *http2.HeadersFrame:
			fields, _ := decode.DecodeFull(f.HeaderBlockFragment())
			for _, x := range fields {
				if x.Name == ":status" {
					line = fmt.Sprintf("%d: %s", f.StreamID, x.Value)
				}
			}
		case *http2.RSTStreamFrame:
			line = fmt.Sprintf("%d: %s", f.StreamID, f.ErrCode)
		case *http2.GoAwayFrame:
			line = "end: " + f.ErrCode.String()
		}
		if line != "" {
			p.mu.Lock()
			p.said = append(p.said, line)
			p.mu.Unlock()
		}
	}
}

// hears reports whether the server has said it.
func (p *rawPeer) hears(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(strings.Join(p.said, "\n"), text)
}

// request is the block of the headers of a request, with more of them.
func (p *rawPeer) request(method, path string, more ...hpack.HeaderField) []byte {
	p.block.Reset()
	for _, x := range append([]hpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "jibe.example"}, {Name: ":path", Value: path}}, more...) {
		_ = p.encode.WriteField(x) // to memory
	}
	return p.block.Bytes()
}

// open sends the headers of a request.
func (p *rawPeer) open(stream uint32, method string, ends bool) error {
	return p.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.request(method, "/work"), EndStream: ends, EndHeaders: true})
}

// othersAreServed makes a request by a connection of its own.
func othersAreServed(t *testing.T, address string) {
	t.Helper()
	other := meet(t, address, false)
	if err := other.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: other.request("GET", "/other"), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "another caller is answered", func() bool { return other.hears("1: 200") })
}

func TestAConnectionThatResetsItsRequestsHasNoMoreAtWork(t *testing.T) {
	t.Parallel()

	address, c := http2Server(t)
	p := meet(t, address, false)
	var err error
	sent := 0
	for stream := uint32(1); err == nil && sent < 20_000; stream += 2 {
		if err = p.open(stream, "GET", true); err == nil {
			err = p.frames.WriteRSTStream(stream, http2.ErrCodeCancel)
		}
		sent++
	}
	kit.Until(t, "the connection is ended", func() bool {
		select {
		case <-p.over:
			return true
		default:
			return p.hears("end: ENHANCE_YOUR_CALM")
		}
	})
	if most := c.most.Load(); most > int64(defaultLimits().streams) {
		t.Errorf("%d requests were at work at once, after %d that were reset", most, sent)
	}
	othersAreServed(t, address)
}

func TestRequestsThatAreHeldAreNoMoreThanAConnectionMayHave(t *testing.T) {
	t.Parallel()

	address, c := http2Server(t)
	p := meet(t, address, false)
	most := defaultLimits().streams
	for n := range most + 20 { // whose bodies never come
		if err := p.open(uint32(2*n+1), "POST", false); err != nil {
			t.Fatal(err)
		}
	}
	kit.Until(t, "one too many is refused", func() bool { return p.hears(fmt.Sprintf("%d: REFUSED_STREAM", 2*most+1)) || p.hears("end: ") })
	kit.Until(t, "those that may be are at work", func() bool { return c.begun.Load() == int64(most) || p.hears("end: ") })
	if got := c.most.Load(); got > int64(most) {
		t.Errorf("%d at work at once", got)
	}
	othersAreServed(t, address)
}

func TestHeadersWithoutAnEndAreNoRequest(t *testing.T) {
	t.Parallel()

	const emptyFrames = "empty CONTINUATION frames"
	for name, attack := range map[string]func(p *rawPeer) error{
		"CONTINUATION frames": func(p *rawPeer) error {
			err := p.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.request("GET", "/work"), EndStream: true})
			for n := 0; err == nil && n < 100_000; n++ {
				p.block.Reset()
				_ = p.encode.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d", n), Value: strings.Repeat("y", 1000), Sensitive: true})
				err = p.frames.WriteContinuation(1, false, p.block.Bytes())
			}
			return err
		},
		emptyFrames: func(p *rawPeer) error { // they take no memory, and are read as long as they come
			err := p.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.request("GET", "/work"), EndStream: true})
			for n := 0; err == nil && n < 50_000; n++ {
				err = p.frames.WriteContinuation(1, false, nil)
			}
			return err
		},
		"one field, named again and again": func(p *rawPeer) error {
			field := hpack.HeaderField{Name: "x-bomb", Value: strings.Repeat("z", 3900)}
			block := append([]byte(nil), p.request("GET", "/work", field)...)
			p.block.Reset()
			_ = p.encode.WriteField(field)
			again := append([]byte(nil), p.block.Bytes()...) // its number in the table
			if len(again) > 4 {
				return fmt.Errorf("the field isn't in the table: %d bytes", len(again))
			}
			err := p.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndStream: true})
			for n := 0; err == nil && n < 100; n++ {
				err = p.frames.WriteContinuation(1, n == 99, bytes.Repeat(again, 10_000/len(again)))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, c := http2Server(t)
			p := meet(t, address, false)
			err := attack(p)
			kit.Until(t, "it is refused", func() bool {
				if name == emptyFrames {
					return true
				}
				select {
				case <-p.over:
					return true
				default:
					return p.hears("1: 431") || p.hears("end: ") || p.hears("1: ENHANCE") || p.hears("1: PROTOCOL")
				}
			})
			if n := c.begun.Load(); n > 0 {
				t.Errorf("%d requests were at work (sending: %v)", n, err)
			}
			othersAreServed(t, address)
		})
	}
}

func TestAPeerThatDoesNotReadIsAnsweredNoFlood(t *testing.T) {
	t.Parallel()

	for name, attack := range map[string]struct {
		send func(p *rawPeer) error
		ends bool // the connection; many settings have one answer
	}{
		"PING":     {func(p *rawPeer) error { return p.frames.WritePing(false, [8]byte{}) }, true},
		"SETTINGS": {func(p *rawPeer) error { return p.frames.WriteSettings() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := http2Server(t)
			p := meet(t, address, true)
			var err error
			sent := 0
			for ; err == nil && sent < 50_000; sent++ {
				err = attack.send(p)
			}
			for ; err == nil && attack.ends && sent < 5_000_000; sent++ {
				err = attack.send(p)
			}
			if err == nil && attack.ends {
				t.Errorf("%d frames were taken, of which no answer was read", sent)
			}
			othersAreServed(t, address)
		})
	}
}
