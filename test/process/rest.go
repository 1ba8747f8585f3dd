package process

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// The collections of the VNF LCM interface (SOL003 v3.3.1 clause 5.4).
const (
	Instances     = "/vnflcm/v2/vnf_instances"
	Operations    = "/vnflcm/v2/vnf_lcm_op_occs"
	Subscriptions = "/vnflcm/v2/subscriptions"
)

// Answer is what came back for a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// ID is the last segment of the Location header: the resource that a request made.
func (a *Answer) ID() string { return path.Base(a.Header.Get("Location")) }

// Do makes one request; target is a path of the API, or a URL. header are names and
// values. An error means that no whole answer came: whether the request had an effect
// is not known. An answer of any status is no error.
func (s *Server) Do(ctx context.Context, method, target string, body any, header ...string) (*Answer, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	if !strings.HasPrefix(target, "http") {
		target = s.URL + target
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	req.Header.Set("Version", "2.0.0")
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := cmp.Or(s.HTTP, http.DefaultClient).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: text}, nil
}

// Want is Do for a request that must be answered with a status; the body is decoded
// into out unless that is nil.
func (s *Server) Want(t testing.TB, status int, method, target string, body, out any, header ...string) *Answer {
	t.Helper()
	a, err := s.Do(t.Context(), method, target, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != status {
		t.Fatalf("%s %s: %d, want %d: %s", method, target, a.Status, status, a.Body)
	}
	if out != nil {
		if err := json.Unmarshal(a.Body, out); err != nil {
			t.Fatalf("%s %s: %v in %s", method, target, err, a.Body)
		}
	}
	return a
}

// Get is the decoded answer of a GET that is answered with 200.
func (s *Server) Get(ctx context.Context, target string, out any) error {
	a, err := s.Do(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return fmt.Errorf("GET %s: %d: %s", target, a.Status, a.Body)
	}
	if err := json.Unmarshal(a.Body, out); err != nil {
		return fmt.Errorf("GET %s: %w in %s", target, err, a.Body)
	}
	return nil
}

// All is Get for a collection: it follows its pages (SOL013 clause 5.4.2) to the end.
func All[T any](ctx context.Context, s *Server, target string) ([]T, error) {
	var all []T
	for target != "" {
		a, err := s.Do(ctx, http.MethodGet, target, nil)
		if err != nil {
			return nil, err
		}
		if a.Status != http.StatusOK {
			return nil, fmt.Errorf("GET %s: %d: %s", target, a.Status, a.Body)
		}
		var page []T
		if err := json.Unmarshal(a.Body, &page); err != nil {
			return nil, fmt.Errorf("GET %s: %w in %s", target, err, a.Body)
		}
		all = append(all, page...)
		target = ""
		if link, rest, ok := strings.Cut(a.Header.Get("Link"), ">"); ok && strings.Contains(rest, `rel="next"`) {
			target = strings.TrimPrefix(link, "<")
		}
	}
	return all, nil
}

// Operation is what tests read of a VnfLcmOpOcc (SOL003 v3.3.1 clause 5.5.2.13).
type Operation struct {
	ID        string `json:"id"`
	Instance  string `json:"vnfInstanceId"`
	Type      string `json:"operation"`
	State     string `json:"operationState"`
	Automatic bool   `json:"isAutomaticInvocation"`
	Started   string `json:"startTime"`
	Entered   string `json:"stateEnteredTime"`
	Error     struct {
		Status int    `json:"status"`
		Detail string `json:"detail"`
	} `json:"error"`
}

// Ask has the API begin an operation of an instance, and returns its id. While the instance is busy (409), as
// with a commit that an operation's end is still owed or with a repair, it is asked again, as clients do.
func (s *Server) Ask(t testing.TB, instance, task string, body any) (operation string) {
	t.Helper()
	kit.Eventually(t, func() error {
		a, err := s.Do(t.Context(), http.MethodPost, Instances+"/"+instance+"/"+task, body)
		if err != nil {
			return kit.Final(err)
		}
		operation = a.ID()
		switch err := fmt.Errorf("%s of instance %s: %d: %s", task, instance, a.Status, a.Body); a.Status {
		case http.StatusAccepted:
			return nil
		case http.StatusConflict:
			return err
		default:
			return kit.Final(err)
		}
	})
	return operation
}

// Await waits until an operation, named by its id or URL, is in a state. A state that
// it can't leave for the wanted one without a request ends the test.
func (s *Server) Await(t testing.TB, operation, state string) Operation {
	t.Helper()
	return s.AwaitWithin(t, kit.Patience, operation, state)
}

// AwaitWithin is [Server.Await] for an operation that takes longer by its nature.
func (s *Server) AwaitWithin(t testing.TB, patience time.Duration, operation, state string) (op Operation) {
	t.Helper()
	if !strings.Contains(operation, "/") {
		operation = Operations + "/" + operation
	}
	kit.EventuallyWithin(t, patience, func() error {
		if err := s.Get(t.Context(), operation, &op); err != nil {
			return err
		}
		if op.State == state {
			return nil
		}
		err := fmt.Errorf("%s %s is %s, want %s (%s)", op.Type, op.ID, op.State, state, op.Error.Detail)
		if lcm.State(op.State).Ended() || op.State == string(lcm.FailedTemp) {
			return kit.Final(err)
		}
		return err
	})
	return op
}
