package openstack

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// scripted is a service that gives one answer after another, and notes when it was asked.
type scripted struct {
	answers []http.Response
	asked   []time.Duration // since began
	bodies  []string
	began   time.Time
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(text)
	}
	answer := s.answers[min(len(s.asked), len(s.answers)-1)]
	s.asked, s.bodies = append(s.asked, time.Since(s.began)), append(s.bodies, body)
	answer.Body = http.NoBody
	return &answer, nil
}

func throttle(status int, after string) http.Response {
	h := http.Header{}
	if after != "" {
		h.Set("Retry-After", after)
	}
	return http.Response{StatusCode: status, Header: h}
}

func TestARequestIsSentAgainWhenTheServiceSaysSo(t *testing.T) {
	ok := http.Response{StatusCode: http.StatusOK}
	for name, c := range map[string]struct {
		answers []http.Response
		asked   []time.Duration
		status  int
	}{
		"at once":               {[]http.Response{ok}, []time.Duration{0}, 200},
		"after a second":        {[]http.Response{throttle(429, "1"), ok}, []time.Duration{0, time.Second}, 200},
		"without a time":        {[]http.Response{throttle(429, ""), ok}, []time.Duration{0, defaultWait}, 200},
		"503 with a time":       {[]http.Response{throttle(503, "3"), ok}, []time.Duration{0, 3 * time.Second}, 200},
		"503 without a time":    {[]http.Response{throttle(503, ""), ok}, []time.Duration{0}, 503},
		"another error":         {[]http.Response{throttle(500, "1"), ok}, []time.Duration{0}, 500},
		"too long to wait":      {[]http.Response{throttle(429, "3600"), ok}, []time.Duration{0}, 429},
		"again and again":       {[]http.Response{throttle(429, "1")}, []time.Duration{0, 1 * time.Second, 2 * time.Second, 3 * time.Second}, 429},
		"by a time of the wall": {[]http.Response{throttle(429, "Sat, 01 Jan 2000 00:00:04 GMT"), ok}, []time.Duration{0, 4 * time.Second}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // its clock begins at midnight of 2000-01-01, UTC
				service := &scripted{answers: c.answers, began: time.Now()}
				transport := newRetryTransport(t.Context(), service, 1)
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://nova.example/servers", strings.NewReader("body"))
				if err != nil {
					t.Fatal(err)
				}
				answer, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				if answer.StatusCode != c.status || !slices.Equal(service.asked, c.asked) {
					t.Errorf("the service was asked at %v and answers %d, want %v and %d", service.asked, answer.StatusCode, c.asked, c.status)
				}
				for _, body := range service.bodies {
					if body != "body" {
						t.Errorf("it was sent %q", body)
					}
				}
			})
		})
	}
}

func TestNobodyAsksAServiceBeforeTheTimeThatItNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &scripted{answers: []http.Response{throttle(429, "60"), {StatusCode: http.StatusOK}}, began: time.Now()}
		transport := newRetryTransport(t.Context(), service, 1)
		status := func(host string) int {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode
		}
		if first, second, other := status("nova"), status("nova"), status("heat"); first != 429 || second != 429 || other != 200 {
			t.Errorf("answers are %d, %d, and %d of another service", first, second, other)
		}
		kit.Pass(58 * time.Second)
		if late := status("nova"); late != 200 || len(service.asked) != 3 || service.asked[2] != time.Minute {
			t.Errorf("after the time it answers %d, asked at %v", late, service.asked)
		}
	})
}

func TestWhoWaitsForAServiceStopsWithTheContextAndWithTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		service := &scripted{answers: []http.Response{throttle(429, "4")}, began: time.Now()}
		transport := newRetryTransport(life, service, 1)
		ask := func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://nova/", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = transport.RoundTrip(r)
			return err
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ask(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a second to wait the error is %v", err)
		}
		time.AfterFunc(time.Second, end)
		if err := ask(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("of a driver that closes the error is %v", err)
		}
		if len(service.asked) != 1 {
			t.Errorf("the service was asked at %v", service.asked)
		}
	})
}

func TestNoChangeIsBegunOnceTheLeaseIsAsGoodAsOver(t *testing.T) {
	t.Parallel()

	left := 3 * time.Second
	ctx := drivers.Leased(t.Context(), func() time.Duration { return left })
	s := &scripted{answers: []http.Response{{StatusCode: http.StatusOK}}}
	line := newRetryTransport(t.Context(), s, 1)
	send := func(method string) error {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, "https://heat.example/v1/p/stacks", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := line.RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	if err := errors.Join(send(http.MethodPost), send(http.MethodGet)); err != nil {
		t.Fatal(err)
	}
	left = 0
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if err := send(method); !errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := send(http.MethodGet); err != nil || len(s.asked) != 3 {
		t.Errorf("a look: %v, and %d requests were sent, want 3", err, len(s.asked))
	}
}
