package chart

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// requests are made to a Service all the time: one client reads, and another makes instances that are never
// instantiated. They are at different addresses, so that the Service may lead them to different replicas. Each sends
// again what HTTP lets anybody send again: what only reads, what wasn't sent, and what is to be sent later
// (503 with Retry-After).
type requests struct {
	ctx  context.Context // of the whole test
	stop context.CancelFunc
	all  sync.WaitGroup

	mu     sync.Mutex
	made   []string // ids of instances
	reads  int
	again  []string // why something was sent again
	failed []string
}

const (
	// requestPause is between two requests of a client, and againPause before one is sent again,
	// which is done for againWait.
	requestPause = 100 * time.Millisecond
	againPause   = 200 * time.Millisecond
	againWait    = 30 * time.Second
)

// newRequests is for requests that end with the test, or earlier. Nobody makes any yet.
func newRequests(s *site) *requests {
	r := &requests{}
	r.ctx, r.stop = context.WithCancel(s.Context())
	s.Cleanup(func() { r.stop(); r.all.Wait() })
	return r
}

// begin has both clients begin.
func (r *requests) begin(s *site) {
	s.Helper()
	service, err := s.Client.CoreV1().Services(s.namespace).Get(s.Context(), s.release, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	reader := *s.api
	reader.URL = "https://" + net.JoinHostPort(service.Spec.ClusterIP, "9890")
	client := trusting(s, s.ca)
	transport := client.Transport.(*http.Transport)
	transport.TLSClientConfig.ServerName = s.release + "." + s.namespace + ".svc"
	transport.DialContext = s.Master.Dial
	reader.HTTP = client

	api := *s.api
	r.all.Go(func() {
		r.each(func() error {
			if _, err := r.do(&reader, http.StatusOK, http.MethodGet, process.Instances, nil); err != nil {
				return err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reads++
			return nil
		})
	})
	r.all.Go(func() {
		r.each(func() error {
			a, err := r.do(&api, http.StatusCreated, http.MethodPost, process.Instances, map[string]any{"vnfdId": vnfds[0]})
			if err != nil {
				return err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.made = append(r.made, a.ID())
			return nil
		})
	})
}

// each does it until the requests end.
func (r *requests) each(do func() error) {
	ctx := r.ctx
	for ctx.Err() == nil {
		if err := do(); err != nil && ctx.Err() == nil {
			r.mu.Lock()
			r.failed = append(r.failed, err.Error())
			r.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(requestPause):
		}
	}
}

// do makes a request that must have the status.
func (r *requests) do(api *process.Server, status int, method, target string, body any) (*process.Answer, error) {
	for until := time.Now().Add(againWait); ; {
		sent := false
		traced := httptrace.WithClientTrace(r.ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent = true }})
		a, err := api.Do(traced, method, target, body)
		switch {
		case err == nil && a.Status == status:
			return a, nil
		case err == nil:
			err = fmt.Errorf("%s %s: %d: %s", method, target, a.Status, a.Body)
			if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
				return nil, err
			}
		case sent && method != http.MethodGet:
			return nil, err
		}
		if time.Now().After(until) {
			return nil, err
		}
		if r.ctx.Err() != nil {
			return nil, r.ctx.Err()
		}
		r.mu.Lock()
		r.again = append(r.again, err.Error())
		r.mu.Unlock()
		kit.Pause(r.ctx, againPause)
	}
}

// check fails where a request has failed, and tells what was done since the last time.
func (r *requests) check(s *site) {
	s.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Logf("%d instances were made and %d lists read so far; sent again: %d %q", len(r.made), r.reads, len(r.again), r.again)
	if len(r.failed) > 0 {
		s.Errorf("%d requests failed: %q", len(r.failed), r.failed)
	}
	if len(r.made) == 0 || r.reads == 0 {
		s.Error("nothing was asked for")
	}
	r.again, r.failed = nil, nil
}

// end ends the requests, and fails unless all that they have made is there.
func (r *requests) end(s *site) {
	s.Helper()
	r.stop()
	r.all.Wait()
	list, err := process.All[struct{ ID string }](s.Context(), s.api, process.Instances)
	if err != nil {
		s.Fatal(err)
	}
	there := map[string]bool{}
	for _, in := range list {
		there[in.ID] = true
	}
	if lost := slices.DeleteFunc(slices.Clone(r.made), func(id string) bool { return there[id] }); len(lost) > 0 {
		s.Errorf("%d of %d instances that were made are not there: %v", len(lost), len(r.made), lost)
	}
}
