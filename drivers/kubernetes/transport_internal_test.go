package kubernetes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

// line notes what is sent, and answers with a status.
type line struct {
	status int
	sent   []*http.Request
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.sent = append(l.sent, r)
	return &http.Response{StatusCode: l.status, Body: http.NoBody, Request: r}, nil
}

func TestNoChangeIsBegunThatMayLastLongerThanTheLease(t *testing.T) {
	left := 2500 * time.Millisecond
	leased := drivers.Leased(t.Context(), func() time.Duration { return left })
	l := &line{status: http.StatusOK}
	through := &transport{next: l}
	send := func(ctx context.Context, method, query string) error {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, "https://api.example/apis/apps/v1/namespaces/a/deployments/b?"+query, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := through.RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	for _, c := range []struct {
		method, query, timeout string
		under                  context.Context
	}{
		{"PATCH", "fieldManager=jibe&force=true", "2.5s", leased},
		{"POST", "", "2.5s", leased},
		{"DELETE", "timeout=1m", "2.5s", leased},
		{"GET", "", "", leased},
		{"PATCH", "dryRun=All", "", leased},
		{"PATCH", "", "", t.Context()},
	} {
		if err := send(c.under, c.method, c.query); err != nil {
			t.Fatalf("%s ?%s: %v", c.method, c.query, err)
		}
		q := l.sent[len(l.sent)-1].URL.Query()
		if q.Get("timeout") != c.timeout || strings.Contains(c.query, "force") && !q.Has("force") {
			t.Errorf("%s ?%s was sent with %v, want the timeout %q", c.method, c.query, q, c.timeout)
		}
	}

	left = 0
	sent := len(l.sent)
	if err := send(leased, "PATCH", ""); !errors.Is(err, drivers.ErrUnavailable) || len(l.sent) > sent {
		t.Errorf("a change without a lease: %v, and %d requests were sent", err, len(l.sent)-sent)
	}
	if err := send(leased, "GET", ""); err != nil {
		t.Errorf("a look without a lease: %v", err)
	}

	// An API server that needs longer is given its time, as nothing could be written there else.
	left, l.status = 2*time.Second, http.StatusGatewayTimeout
	for _, want := range []string{"2s", ""} {
		if err := send(leased, "PATCH", ""); err != nil {
			t.Fatal(err)
		}
		if got := l.sent[len(l.sent)-1].URL.Query().Get("timeout"); got != want {
			t.Errorf("a slow API server was asked with the timeout %q, want %q", got, want)
		}
	}
	left = 0
	if err := send(leased, "PATCH", ""); !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("a change without a lease at a slow API server: %v", err)
	}
}

// endless answers with one JSON value that has no end.
type endless struct{}

func (endless) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(endlessText{}), Request: r}, nil
}

type endlessText struct{}

func (endlessText) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '['
	}
	return len(p), nil
}

// An instance's own connection may lead to a server of the caller who gave it.
func TestAnAPIServerThatAnswersWithoutEndIsLeft(t *testing.T) {
	t.Parallel()
	through, err := newTransport(&rest.Config{Host: "https://api.example"}, func(http.RoundTripper) http.RoundTripper { return endless{} })
	if err != nil {
		t.Fatal(err)
	}
	for query, most := range map[string]int64{"": 256 << 20, "watch=true": 16 << 20, "watch=1&sendInitialEvents=true": 16 << 20} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example/api/v1/pods?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := through.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}

		n, err := io.Copy(io.Discard, answer.Body)

		_ = answer.Body.Close()
		if !errors.Is(err, egress.ErrTooLong) || n > most {
			t.Errorf("%q: %v after %d bytes", query, err, n)
		}
	}
}
