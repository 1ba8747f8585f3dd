package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// wire is one kept-alive connection to the server. The clients of a load share the machine
// with what they measure, and so make no more of a request than its bytes, and read no more
// of an answer than its head.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	head []byte // of each request, but for its first line
	out  bytes.Buffer
}

// answer is what a wire keeps of an answer.
type answer struct {
	status   int
	location string
	size     int64  // of the body, bytes
	body     []byte // where it was asked for, and of what is no success
}

func (j *jibe) dial() (*wire, error) {
	u, err := url.Parse(j.URL)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(nil, " HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nVersion: 2.0.0\r\nAccept: application/json\r\n", u.Host, j.Token)
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), head: head}, nil
}

func (w *wire) close() { w.conn.Close() }

// do makes one request and reads its answer. whole keeps the body.
func (w *wire) do(method, target, content, body string, whole bool) (a answer, err error) {
	w.out.Reset()
	w.out.WriteString(method + " " + target)
	w.out.Write(w.head)
	if body != "" {
		fmt.Fprintf(&w.out, "Content-Type: %s\r\nContent-Length: %d\r\n", content, len(body))
	} else if method == http.MethodPost {
		w.out.WriteString("Content-Length: 0\r\n")
	}
	w.out.WriteString("\r\n" + body)
	if _, err := w.conn.Write(w.out.Bytes()); err != nil {
		return a, err
	}
	r, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return a, fmt.Errorf("%s %s: %w", method, target, err)
	}
	defer r.Body.Close()
	a = answer{status: r.StatusCode, location: r.Header.Get("Location")}
	if whole || a.status >= http.StatusBadRequest {
		a.body, err = io.ReadAll(r.Body)
		a.size = int64(len(a.body))
	} else {
		a.size, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", method, target, err)
	}
	return a, err
}

// want is do for a request that must be answered with a status.
func (w *wire) want(status int, method, target, content, body string) (answer, error) {
	a, err := w.do(method, target, content, body, false)
	if err == nil && a.status != status {
		err = fmt.Errorf("%s %s: %d: %s", method, target, a.status, a.body)
	}
	return a, err
}

// get is the decoded answer of a GET.
func (w *wire) get(target string, out any) (answer, error) {
	a, err := w.do(http.MethodGet, target, "", "", true)
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("GET %s: %d: %s", target, a.status, a.body)
	}
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(a.body, out); err != nil {
		return a, fmt.Errorf("GET %s: %w in %s", target, err, a.body)
	}
	return a, nil
}

// clients does something n times, on so many connections at once. Each ends at its first
// error, and the first of these is returned.
func (j *jibe) clients(ctx context.Context, many, n int, do func(w *wire, i int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	failed := make([]error, many)
	for c := range many {
		w, err := j.dial()
		if err != nil {
			return err // the others end by themselves
		}
		wg.Go(func() {
			defer w.close()
			for i := int(next.Add(1)) - 1; i < n && failed[c] == nil; i = int(next.Add(1)) - 1 {
				if failed[c] = ctx.Err(); failed[c] == nil {
					failed[c] = do(w, i)
				}
			}
		})
	}
	wg.Wait()
	return cmp.Or(failed...)
}

// outcome is what is read of an operation.
type outcome struct {
	ID      string    `json:"id"`
	State   string    `json:"operationState"`
	Entered time.Time `json:"stateEnteredTime"`
	Started time.Time `json:"startTime"`
	Error   struct {
		Detail string `json:"detail"`
	} `json:"error"`
}

// completed waits until an operation is COMPLETED; pause is that between two questions.
func (w *wire) completed(ctx context.Context, location string, pause, limit time.Duration) (o outcome, err error) {
	u, err := url.Parse(location)
	if err != nil {
		return o, err
	}
	for deadline := time.Now().Add(limit); ; {
		if _, err := w.get(u.Path, &o); err != nil {
			return o, err
		}
		switch o.State {
		case "COMPLETED":
			return o, nil
		case "STARTING", "PROCESSING":
		default:
			return o, fmt.Errorf("operation %s is %s: %s", o.ID, o.State, o.Error.Detail)
		}
		if time.Now().After(deadline) {
			return o, fmt.Errorf("operation %s is still %s after %s", o.ID, o.State, limit)
		}
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case <-time.After(pause):
		}
	}
}
