package listener

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jibe-vnfm/jibe/app/answer"
)

// limits are what a client may take of the server. Who is slower, or sends more, loses its
// connection or is refused: a few clients mustn't hold all connections for ever.
type limits struct {
	// header and body are the times in which the two must have arrived. A handler that takes
	// long uploads sets another read deadline for itself, by [http.ResponseController].
	header, body time.Duration
	// upload is how long a body may take in all whose handler lets it take longer; 0 is for ever.
	upload time.Duration
	// write is the time in which each part of an answer must have gone out: whoever reads it
	// gets as long as the whole takes.
	write time.Duration
	// idle is how long a connection may wait for its next request.
	idle time.Duration
	// headers and uri are sizes, bytes.
	headers, uri int
	// streams are the requests that one connection of HTTP/2 may have under way.
	streams int
}

func defaultLimits() limits {
	return limits{header: 10 * time.Second, body: time.Minute, upload: 4 * time.Hour, write: time.Minute, idle: 2 * time.Minute,
		headers: 64 << 10, uri: 16 << 10, streams: 100}
}

// server serves h within the limits.
func (l limits) server(h http.Handler, log *slog.Logger) *http.Server {
	// One connection has no more requests under way than a client needs, and who opens and drops
	// them in a row waits for what they began. What a peer doesn't read or answer ends it.
	http2 := &http.HTTP2Config{MaxConcurrentStreams: l.streams, MaxReadFrameSize: 64 << 10, MaxDecoderHeaderTableSize: 4 << 10,
		SendPingTimeout: l.idle, PingTimeout: l.header, WriteByteTimeout: l.write}
	return &http.Server{HTTP2: http2, Handler: hardened(l.bound(h)), ReadHeaderTimeout: l.header, IdleTimeout: l.idle, MaxHeaderBytes: l.headers, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
}

// bound holds bodies and answers to their times, and URIs to their length. The deadline of a body
// ends with it: a handler may take longer than its request. (http.Server's ReadTimeout would end
// both, and its WriteTimeout what takes long and goes well.)
func (l limits) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.RequestURI) > l.uri {
			answer.Problem(w, http.StatusRequestURITooLong, fmt.Sprintf("the URI has %d bytes, and may have %d", len(r.RequestURI), l.uri))
			return
		}
		// A server that can't set deadlines is none that listens for clients.
		c := http.NewResponseController(w)
		_ = c.SetWriteDeadline(time.Time{}) // that of the connection's former answer
		bound := &boundWriter{ResponseWriter: w, c: c, limit: l.write}
		if r.ContentLength != 0 {
			_ = c.SetReadDeadline(time.Now().Add(l.body))
			bound.body = &boundBody{ReadCloser: r.Body, c: c, limit: l.body}
			if l.upload > 0 {
				bound.body.end = time.Now().Add(l.upload)
			}
			r.Body = bound.body
		}
		next.ServeHTTP(bound, r)
	})
}

// Unbound has the limit of the body's time hold for each part of it, in place of the whole, for
// clients that are known and whose uploads are as large as they are.
func Unbound(w http.ResponseWriter) {
	for {
		if bound, ok := w.(*boundWriter); ok {
			if bound.body != nil {
				bound.body.inParts = true
			}
			return
		}
		below, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = below.Unwrap()
	}
}

// boundWriter gives each part of an answer its time.
type boundWriter struct {
	http.ResponseWriter
	c     *http.ResponseController
	limit time.Duration
	body  *boundBody // nil where the request has none
}

func (b *boundWriter) begin() { _ = b.c.SetWriteDeadline(time.Now().Add(b.limit)) }

func (b *boundWriter) WriteHeader(status int) {
	b.begin()
	b.ResponseWriter.WriteHeader(status)
}

func (b *boundWriter) Write(p []byte) (int, error) {
	b.begin()
	return b.ResponseWriter.Write(p)
}

// FlushError sends what was written so far.
func (b *boundWriter) FlushError() error {
	b.begin()
	return b.c.Flush()
}

// Flush is FlushError for those who know no errors.
func (b *boundWriter) Flush() { _ = b.FlushError() }

// Unwrap lets http.ResponseController reach the writer below.
func (b *boundWriter) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// boundBody is a body whose deadline ends with it.
type boundBody struct {
	io.ReadCloser
	c       *http.ResponseController
	limit   time.Duration
	inParts bool      // the limit is each part's
	end     time.Time // of all parts; the zero time is never
}

func (b *boundBody) Read(p []byte) (int, error) {
	now := time.Now()
	if !b.end.IsZero() && now.After(b.end) {
		return 0, os.ErrDeadlineExceeded
	}
	if b.inParts {
		_ = b.c.SetReadDeadline(now.Add(b.limit))
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.c.SetReadDeadline(time.Time{})
	}
	return n, err
}
