package listener

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// piped is a listener in memory, so that time is that of a bubble.
type piped struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newPiped() *piped {
	p := &piped{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// Accept implements [net.Listener].
func (p *piped) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *piped) Close() error { p.close(); return nil }

// Addr implements [net.Listener].
func (*piped) Addr() net.Addr { return &net.UnixAddr{} }

func (p *piped) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// listen serves h within limits in a bubble.
func listen(t *testing.T, l limits, h http.HandlerFunc) *piped {
	t.Helper()
	p := newPiped()
	server := l.server(h, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- server.Serve(p) }()
	t.Cleanup(func() {
		server.Close()
		<-done
		kit.Pass(time.Second) // the server ends a connection that it has refused a while later
	})
	return p
}

// client makes requests to the listener.
func (p *piped) client(t *testing.T) *http.Client {
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil }}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// roomy are limits that no test reaches, with others in place of some.
func roomy(short limits) limits {
	for _, d := range []*time.Duration{&short.header, &short.body, &short.write, &short.idle} {
		if *d == 0 {
			*d = time.Hour
		}
	}
	short.headers, short.uri = 4<<10, 1<<10
	return short
}

// talk sends text and returns all that is answered until the server ends the connection, and when that was.
func talk(t *testing.T, p *piped, text string) (answer string, took time.Duration) {
	t.Helper()
	began := time.Now()
	c := p.dial()
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	read, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("the connection wasn't ended: %v", err)
	}
	return string(read), time.Since(began)
}

func TestClientsThatAreTooSlowLoseTheirConnection(t *testing.T) {
	kit.Long(t)
	synctest.Test(t, func(t *testing.T) {
		readErr := make(chan error, 1)
		with := func(short limits) *piped {
			return listen(t, roomy(short), func(w http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				readErr <- err
				w.WriteHeader(http.StatusNoContent)
			})
		}
		if got, took := talk(t, with(limits{header: time.Second}), "GET / HTTP/1.1\r\nHost: x\r\nX-A: "); strings.Contains(got, "204") || took != time.Second {
			t.Errorf("half a header was answered with %q, after %s", got, took)
		}
		if _, took := talk(t, with(limits{body: time.Second}), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345"); took < time.Second || took > 2*time.Second {
			t.Errorf("half a body was waited for for %s", took)
		}
		if err := <-readErr; err == nil {
			t.Error("half a body was taken for a whole one")
		}
		// A connection at rest is ended too.
		if got, took := talk(t, with(limits{idle: time.Second}), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n12"); !strings.Contains(got, "204") || took != time.Second {
			t.Errorf("%q, after %s", got, took)
		}
		if err := <-readErr; err != nil {
			t.Error(err)
		}
	})
}

func TestAHandlerMayTakeLongerThanItsRequestAndLetUploadsTakeLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Second
		p := listen(t, roomy(limits{body: limit}), func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/upload" {
				if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(10 * time.Minute)); err != nil {
					t.Error(err)
				}
			}
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil {
				t.Errorf("%s: after %d bytes: %v", r.URL.Path, n, err)
			}
			select {
			case <-r.Context().Done():
				t.Errorf("%s: the request ended before its handler", r.URL.Path)
			case <-time.After(2 * limit):
			}
			fmt.Fprint(w, n)
		})
		// A body that takes longer than the limit, to a handler that allows it.
		pipe, w := io.Pipe()
		go func() {
			for range 4 {
				w.Write(bytes.Repeat([]byte("x"), 1<<16))
				time.Sleep(limit / 2) // of the bubble
			}
			w.Close()
		}()
		defer pipe.Close()
		for path, body := range map[string]io.Reader{"/upload": pipe, "/": strings.NewReader("x")} {
			res, err := p.client(t).Post("http://jibe"+path, "application/zip", body)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%s: %d, %v", path, res.StatusCode, err)
			}
			res.Body.Close()
		}
	})
}

func TestHeadersAndURIsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := roomy(limits{})
		l.headers, l.uri = 64<<10, 16<<10
		p := listen(t, l, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		for request, want := range map[string]int{
			"GET /" + strings.Repeat("a", 15<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n":                204,
			"GET /" + strings.Repeat("a", 17<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n":                414,
			"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 100<<10) + "\r\n\r\n":      431,
			"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: a\r\n", 20<<10) + "\r\n":       431,
			"GET /" + strings.Repeat("a", 100<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n":               431,
			"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("a=b; ", 1<<10) + "\r\n\r\n": 204,
		} {
			c := p.dial()
			go io.WriteString(c, request)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			c.Close()
			if err != nil || res.StatusCode != want {
				t.Errorf("%.40q (%d bytes): %v, %v, want %d", request, len(request), res, err, want)
			}
		}
	})
}

func TestAnAnswerTakesAsLongAsItsReaderAndNoLongerThanItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const write = time.Second
		broke := make(chan error, 1)
		part := bytes.Repeat([]byte("x"), 1<<20)
		p := listen(t, roomy(limits{write: write}), func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				for range 4 {
					time.Sleep(write / 2) // of the bubble
					if _, err := w.Write(part); err != nil {
						return // the reader gets too little
					}
				}
				return
			}
			for {
				if _, err := w.Write(part); err != nil {
					broke <- err
					return
				}
			}
		})
		res, err := p.client(t).Get("http://jibe/long")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if n, err := io.Copy(io.Discard, res.Body); n != int64(4*len(part)) || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}

		c := p.dial()
		defer c.Close()
		began := time.Now()
		if _, err := io.WriteString(c, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err, took := <-broke, time.Since(began); took != write {
			t.Errorf("who reads nothing keeps the connection for %s: %v", took, err)
		}
	})
}

func TestAnUploadTakesAsLongAsItGoesOnAndNoLongerThanAllMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// part is the time for each part of the body; the pauses between them are shorter.
		upload := func(all, part, pause time.Duration, parts int) (took time.Duration, err error) {
			done := make(chan error, 1)
			p := listen(t, roomy(limits{body: part, upload: all}), func(w http.ResponseWriter, r *http.Request) {
				Unbound(wrapped{w}) // as it is reached by way of others
				_, err := io.Copy(io.Discard, r.Body)
				done <- err
			})
			conn := p.dial()
			defer conn.Close()
			began, stop := time.Now(), make(chan struct{})
			defer close(stop)
			go io.Copy(io.Discard, conn)
			go func() {
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", parts)
				for range parts {
					if _, err := io.WriteString(conn, "x"); err != nil {
						return
					}
					select {
					case <-stop:
						return
					case <-time.After(pause):
					}
				}
			}()
			err = <-done
			return time.Since(began), err
		}
		if took, err := upload(10*time.Minute, time.Second, time.Second/10, 12); err != nil || took < time.Second {
			t.Errorf("it goes on: %v, after %s", err, took)
		}
		if took, err := upload(time.Minute, time.Second, time.Minute, 12); err == nil || took > 2*time.Second {
			t.Errorf("it stops, and was taken for a whole one, or waited for for %s: %v", took, err)
		}
		if took, err := upload(time.Second, time.Second, time.Second/5, 1000); err == nil || took > 3*time.Second {
			t.Errorf("it goes on for ever, and was ended after %s: %v", took, err)
		}
	})
}

// wrapped is an answer that another one wraps.
type wrapped struct{ http.ResponseWriter }

// Unwrap is for [Unbound].
func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }
