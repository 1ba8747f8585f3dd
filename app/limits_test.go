package app

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
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
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil && len(answer) == 0 {
		t.Fatalf("the connection wasn't ended: %v", err)
	}
	return string(answer)
}

func TestClientsThatAreTooSlowLoseTheirConnection(t *testing.T) {
	short := limits{header: time.Second, body: time.Second, write: time.Minute, idle: time.Second, headers: 4 << 10, uri: 1 << 10}
	readErr := make(chan error, 1)
	address := listen(t, short, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		readErr <- err
		w.WriteHeader(http.StatusNoContent)
	})
	if got := talk(t, address, "GET / HTTP/1.1\r\nHost: x\r\nX-A: "); strings.Contains(got, "204") {
		t.Errorf("half a header was answered with %q", got)
	}
	talk(t, address, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
	if err := <-readErr; err == nil {
		t.Error("half a body was taken for a whole one")
	}
	// A connection at rest is ended too.
	if got := talk(t, address, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n12"); !strings.Contains(got, "204") {
		t.Errorf("%q", got)
	}
	if err := <-readErr; err != nil {
		t.Error(err)
	}
}

func TestAHandlerMayTakeLongerThanItsRequestAndLetUploadsTakeLonger(t *testing.T) {
	short := limits{header: time.Minute, body: time.Second, write: time.Minute, idle: time.Minute, headers: 4 << 10, uri: 1 << 10}
	address := listen(t, short, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/upload" {
			if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Errorf("after %d bytes: %v", n, err)
		}
		select {
		case <-r.Context().Done():
			t.Error("the request ended before its handler")
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
	for path, body := range map[string]io.Reader{"/upload": pipe, "/": strings.NewReader("x")} {
		res, err := http.Post("http://"+address+path, "application/zip", body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %v", path, res.StatusCode, err)
		}
		res.Body.Close()
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
	short := limits{header: time.Minute, body: time.Minute, write: time.Second, idle: time.Minute, headers: 4 << 10, uri: 1 << 10}
	broke := make(chan error, 10)
	part := bytes.Repeat([]byte("x"), 1<<20)
	address := listen(t, short, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			for range 4 {
				time.Sleep(short.write / 2)
				if _, err := w.Write(part); err != nil {
					t.Error(err)
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
	res, err := http.Get("http://" + address + "/long")
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if n != int64(4*len(part)) || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
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
	for name, c := range map[string]struct {
		upload, pause time.Duration
		whole         bool
	}{
		"it goes on":          {time.Minute, 200 * time.Millisecond, true},
		"it stops":            {time.Minute, time.Minute, false},
		"it goes on for ever": {500 * time.Millisecond, 200 * time.Millisecond, false},
	} {
		short := limits{header: time.Minute, body: 2 * time.Second, upload: c.upload, write: time.Minute, idle: time.Minute, headers: 4 << 10, uri: 1 << 10}
		if c.upload < short.body {
			short.body = c.upload
		}
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
		go func() {
			io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n")
			for range 12 {
				io.WriteString(conn, "x")
				select {
				case <-stop:
					return
				case <-time.After(c.pause):
				}
			}
		}()
		if err := <-done; (err == nil) != c.whole {
			t.Errorf("%s: %v", name, err)
		}
		close(stop)
	}
}
