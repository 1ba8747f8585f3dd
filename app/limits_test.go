package app

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listen serves h within limits that are short enough to be waited for.
func listen(t *testing.T, l limits, h http.HandlerFunc) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := l.server(h, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return listener.Addr().String()
}

// talk sends text and returns all that is answered until the server ends the connection.
func talk(t *testing.T, address, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	// A server that had no time left before it read anything resets the connection: that is its end, too.
	if _, err := io.WriteString(c, text); err != nil && !ended(err) {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil && len(answer) == 0 && !ended(err) {
		t.Fatalf("the connection wasn't ended: %v", err)
	}
	return string(answer)
}

// ended says that a connection was ended by its other end.
func ended(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// lastingLonger tries with a short time, so that it is soon over, and with longer ones where a busy machine takes
// more than it: what is wrong with one is wrong with each.
func lastingLonger(short time.Duration, try func(time.Duration) error) (err error) {
	for _, d := range []time.Duration{short, 5 * short, 20 * short} {
		if err = try(d); err == nil {
			return nil
		}
	}
	return err
}

func TestClientsThatAreTooSlowLoseTheirConnection(t *testing.T) {
	readErr := make(chan error, 1)
	// Only one time is short in each case: a busy machine may be as slow as a client in all others.
	with := func(short func(*limits)) (address string) {
		l := limits{header: time.Minute, body: time.Minute, write: time.Minute, idle: time.Minute, headers: 4 << 10, uri: 1 << 10}
		short(&l)
		return listen(t, l, func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			readErr <- err
			w.WriteHeader(http.StatusNoContent)
		})
	}
	if got := talk(t, with(func(l *limits) { l.header = time.Second }), "GET / HTTP/1.1\r\nHost: x\r\nX-A: "); strings.Contains(got, "204") {
		t.Errorf("half a header was answered with %q", got)
	}
	talk(t, with(func(l *limits) { l.body = time.Second }), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
	if err := <-readErr; err == nil {
		t.Error("half a body was taken for a whole one")
	}
	// A connection at rest is ended too.
	if got := talk(t, with(func(l *limits) { l.idle = time.Second }), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n12"); !strings.Contains(got, "204") {
		t.Errorf("%q", got)
	}
	if err := <-readErr; err != nil {
		t.Error(err)
	}
}

func TestAHandlerMayTakeLongerThanItsRequestAndLetUploadsTakeLonger(t *testing.T) {
	if err := lastingLonger(500*time.Millisecond, takesLonger(t)); err != nil {
		t.Error(err)
	}
}

// takesLonger has handlers take longer than the time for their request's body.
func takesLonger(t *testing.T) func(body time.Duration) error {
	return func(limit time.Duration) error {
		short := limits{header: time.Minute, body: limit, write: time.Minute, idle: time.Minute, headers: 4 << 10, uri: 1 << 10}
		wrong := make(chan error, 10)
		address := listen(t, short, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/upload" {
				if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(10 * time.Minute)); err != nil {
					wrong <- err
				}
			}
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil {
				wrong <- fmt.Errorf("%s: after %d bytes: %w", r.URL.Path, n, err)
			}
			select {
			case <-r.Context().Done():
				wrong <- fmt.Errorf("%s: the request ended before its handler", r.URL.Path)
			case <-time.After(2 * short.body):
			}
			fmt.Fprint(w, n)
		})
		// A body that takes longer than the limit, to a handler that allows it.
		pipe, w := io.Pipe()
		go func() {
			for range 4 {
				w.Write(bytes.Repeat([]byte("x"), 1<<16))
				time.Sleep(short.body / 2)
			}
			w.Close()
		}()
		defer pipe.Close()
		for path, body := range map[string]io.Reader{"/upload": pipe, "/": strings.NewReader("x")} {
			res, err := http.Post("http://"+address+path, "application/zip", body)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %d, %w", path, res.StatusCode, err)
			}
		}
		select {
		case err := <-wrong:
			return err
		default:
			return nil
		}
	}
}

func TestHeadersAndURIsAreBounded(t *testing.T) {
	address := listen(t, limits{header: time.Minute, body: time.Minute, write: time.Minute, idle: time.Minute, headers: 64 << 10, uri: 16 << 10},
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for request, want := range map[string]int{
		"GET /" + strings.Repeat("a", 15<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n":                204,
		"GET /" + strings.Repeat("a", 17<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n":                414,
		"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 100<<10) + "\r\n\r\n":      431,
		"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: a\r\n", 20<<10) + "\r\n":       431,
		"GET /" + strings.Repeat("a", 100<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n":               431,
		"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("a=b; ", 1<<10) + "\r\n\r\n": 204,
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(c, request)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		c.Close()
		if err != nil || res.StatusCode != want {
			t.Errorf("%.40q (%d bytes): %v, %v, want %d", request, len(request), res, err, want)
		}
	}
}

func TestAnAnswerTakesAsLongAsItsReaderAndNoLongerThanItReads(t *testing.T) {
	broke := make(chan error, 10)
	part := bytes.Repeat([]byte("x"), 1<<20)
	within := func(write time.Duration) (address string) {
		short := limits{header: time.Minute, body: time.Minute, write: write, idle: time.Minute, headers: 4 << 10, uri: 1 << 10}
		return listen(t, short, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				for range 4 {
					time.Sleep(write / 2)
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
	}
	if err := lastingLonger(500*time.Millisecond, func(write time.Duration) error {
		res, err := http.Get("http://" + within(write) + "/long")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if n, err := io.Copy(io.Discard, res.Body); n != int64(4*len(part)) || err != nil {
			return fmt.Errorf("%d bytes, %w", n, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	address := within(time.Second)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-broke:
	case <-time.After(time.Minute):
		t.Error("who reads nothing keeps the connection")
	}
}

func TestAnUploadTakesAsLongAsItGoesOnAndNoLongerThanAllMayTake(t *testing.T) {
	// part is the time for each part of the body; the pauses between them are shorter.
	upload := func(all, part, pause time.Duration, parts int) error {
		short := limits{header: time.Minute, body: part, upload: all, write: time.Minute, idle: time.Minute, headers: 4 << 10, uri: 1 << 10}
		done := make(chan error, 1)
		address := listen(t, short, func(w http.ResponseWriter, r *http.Request) {
			unbound(&recordedWriter{ResponseWriter: w}) // as it is reached by way of others
			_, err := io.Copy(io.Discard, r.Body)
			done <- err
		})
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", parts)
			for range parts {
				io.WriteString(conn, "x")
				select {
				case <-stop:
					return
				case <-time.After(pause):
				}
			}
		}()
		return <-done
	}
	if err := lastingLonger(500*time.Millisecond, func(part time.Duration) error { return upload(10*time.Minute, part, part/10, 12) }); err != nil {
		t.Errorf("it goes on: %v", err)
	}
	if err := upload(time.Minute, 500*time.Millisecond, time.Minute, 12); err == nil {
		t.Error("it stops, and was taken for a whole one")
	}
	if err := upload(500*time.Millisecond, 500*time.Millisecond, 200*time.Millisecond, 1000); err == nil {
		t.Error("it goes on for ever, and nobody ended it")
	}
}
