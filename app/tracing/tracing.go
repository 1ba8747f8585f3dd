// Package tracing follows operations from where they come to what they do at VIMs, for a collector of traces.
package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/internal/trace/otlp"
)

// Tracing follows operations, requests and commits. Its zero value follows nothing.
type Tracing struct {
	// Tracer and Exporter are nil where nothing is traced.
	Tracer   *trace.Tracer
	Exporter *otlp.Exporter
	arrivals *arrivals // likewise
}

// Options say whether and where operations are traced.
type Options struct {
	// Endpoint is the URL of a collector that takes OTLP over HTTP; "" traces nothing.
	Endpoint string
	// HeadersFile has the headers that go with each request, a line each, as "Name: value"; ""
	// is none.
	HeadersFile string
	// Ratio is the share of operations that are traced, above 0 and at most 1.
	Ratio float64
}

// Open makes it. guard bounds where the collector may be.
func Open(o Options, guard *egress.Guard, version string, log *slog.Logger) (*Tracing, error) {
	t := &Tracing{}
	if o.Endpoint == "" {
		if o.HeadersFile != "" {
			return nil, errors.New("--otlp-headers-file is of no use without --otlp-endpoint: give both or neither")
		}
		return t, nil
	}
	if !(o.Ratio > 0 && o.Ratio <= 1) {
		return nil, fmt.Errorf("--trace-ratio %v: want a number above 0 and at most 1, as 0.1", o.Ratio)
	}
	headers, err := readHeaders(o.HeadersFile)
	if err != nil {
		return nil, fmt.Errorf("headers for the collector of traces (--otlp-headers-file): %w", err)
	}
	transport, err := peer.NewTransport(guard.ForConfigured(), peer.TLS{}, 0)
	if err != nil {
		return nil, err
	}
	t.Exporter, err = otlp.New(otlp.Options{
		Endpoint: o.Endpoint, Headers: headers, Transport: confidentialHeaders{transport, guard, len(headers) > 0}, Log: log,
		Resource: []trace.Attribute{{Key: "service.name", Value: "jibe"}, {Key: "service.version", Value: version}, {Key: "service.instance.id", Value: processID()}},
	})
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	t.Tracer = trace.New(t.Exporter, o.Ratio)
	t.arrivals, err = newArrivals(t.Tracer)
	return t, err
}

// Run sends spans until ctx ends.
func (t *Tracing) Run(ctx context.Context) error {
	if t.Exporter == nil {
		return nil
	}
	return t.Exporter.Run(ctx)
}

// confidentialHeaders sends headers that may be credentials only where the guard lets credentials go.
type confidentialHeaders struct {
	next  http.RoundTripper
	guard *egress.Guard
	holds bool
}

// RoundTrip implements [http.RoundTripper].
func (c confidentialHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.holds {
		if err := c.guard.MayCarryCredentials(r.URL); err != nil {
			return nil, err
		}
	}
	return c.next.RoundTrip(r)
}

// mostHeaders bounds the file of headers, bytes.
const mostHeaders = 64 << 10

// readHeaders reads a file of headers. Its errors don't quote it: it may hold credentials.
func readHeaders(file string) (http.Header, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	switch {
	case err != nil:
		return nil, err
	case len(text) > mostHeaders:
		return nil, fmt.Errorf("%s is longer than %d bytes", file, mostHeaders)
	}
	headers := http.Header{}
	for n, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(string(line), ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !headerName(name) || value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%s:%d: want a header, as Authorization: Bearer TOKEN", file, n+1)
		}
		headers.Add(name, value)
	}
	return headers, nil
}

func headerName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
}

// tracedRepo records the commits that are made for operations.
type tracedRepo struct {
	desired.Repo
	tracer   *trace.Tracer
	arrivals *arrivals
}

// Repo is the repository with its commits recorded, the same one where nothing is traced.
func (t *Tracing) Repo(repo desired.Repo) desired.Repo {
	if !t.Tracer.On() {
		return repo
	}
	return tracedRepo{repo, t.Tracer, t.arrivals}
}

// Write implements [desired.Repo].
func (r tracedRepo) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	i := slices.IndexFunc(w.Trailers, func(t desired.Trailer) bool { return t.Key == desired.TrailerOperation })
	if i < 0 {
		rev, err := r.Repo.Write(ctx, w)
		r.arrivals.own(rev.Commit, "")
		return rev, err
	}
	operation := w.Trailers[i].Value
	began := time.Now()
	rev, err := r.Repo.Write(ctx, w)
	r.arrivals.own(rev.Commit, operation)
	s := trace.Span{Context: trace.Context{Trace: r.tracer.Operation(operation).Trace}, Name: "commit", Kind: trace.Internal, Start: began, End: time.Now(), Failed: err != nil,
		Attributes: []trace.Attribute{{Key: "jibe.commit", Value: rev.Commit}, {Key: "jibe.folder", Value: rev.Dir}}}
	switch at := trace.From(ctx); {
	case err == nil && beganOperation(ctx, operation):
		s.Parent = trace.SpanOf(operation, spanRequest)
	case at.Trace == s.Trace:
		s.Parent = at.Span
	default:
		s.Parent = trace.SpanOf(operation, trace.Root)
	}
	r.tracer.Record(s)
	return rev, err
}

// processID tells this process from those before it, and from those of other installations.
func processID() string { return uuid.NewString() }
