package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/hooks/coordinator"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/test/em"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/published"
)

// asker makes calls and keeps what they record.
type asker struct {
	coordinator.Call

	mu       sync.Mutex
	accepted []coordinator.UnderWay
	rejected []time.Duration
	said     []string
}

const action = "drain_sessions"

func newAsker(e *em.EM) *asker {
	a := &asker{Call: coordinator.Call{
		Root: e.URL, Peer: peer.Settings{Egress: egress.Anywhere()}, Timeout: 30 * time.Second, Pause: 10 * time.Millisecond, Now: time.Now,
		Request: coordinator.Request{Instance: "vnf-1", Operation: "op-1", Type: "SCALE", Action: action,
			Inputs: map[string]any{"vnfcInstanceIds": []string{"vdu1-a"}, "seconds": 30},
			Links:  coordinator.RequestLinks{Operation: coordinator.Link{Href: "http://jibe/op-1"}, Instance: coordinator.Link{Href: "http://jibe/vnf-1"}}},
	}}
	a.Accepted = func(now coordinator.UnderWay) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.accepted = append(a.accepted, now)
		return nil
	}
	a.Rejected = func(at, until time.Time) error { a.rejected = append(a.rejected, until.Sub(at)); return nil }
	a.Said = func(line string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.said = append(a.said, line)
	}
	return a
}

func (a *asker) story() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.said, "\n")
}

func TestWhatIsSentAndReceivedIsAsPublished(t *testing.T) { published.Held(t) }

func TestACoordinationComesToItsResultAtOnceOrLater(t *testing.T) {
	for name, c := range map[string]struct {
		em.Behaviour
		result   string
		accepted int
		asked    int
	}{
		"201":                         {em.Behaviour{Outputs: map[string]any{"sessions": 0}}, coordinator.Continue, 0, 1},
		"201 that aborts":             {em.Behaviour{Result: coordinator.Abort, Detail: "a backup runs"}, coordinator.Abort, 0, 1},
		"202":                         {em.Behaviour{Async: true, Polls: 3}, coordinator.Continue, 1, 1},
		"202 with Retry-After: 0":     {em.Behaviour{Async: true, Polls: 1, RetryAfter: "0"}, coordinator.Continue, 1, 1},
		"202 that aborts":             {em.Behaviour{Async: true, Polls: 1, Result: coordinator.Abort, Detail: "a backup runs"}, coordinator.Abort, 1, 1},
		"503, and accepted later":     {em.Behaviour{Refusals: []int{503, 503}, RetryAfter: "0"}, coordinator.Continue, 0, 3},
		"409, 429, 500 before the OK": {em.Behaviour{Refusals: []int{409, 429, 500, 503}}, coordinator.Continue, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := em.Start(t)
			e.Behave(action, c.Behaviour)
			a := newAsker(e)
			result, err := coordinator.Run(t.Context(), a.Call)
			if err != nil || result.Result != c.result || result.ID != "c-1" {
				t.Fatalf("%+v, %v", result, err)
			}
			if got := string(result.Outputs); c.Outputs != nil && got != `{"sessions":0}` {
				t.Errorf("outputs %s", got)
			}
			if c.result == coordinator.Abort && (result.Error == nil || result.Error.Detail != "a backup runs") {
				t.Errorf("its error: %+v", result.Error)
			}
			if len(a.accepted) != c.accepted || len(e.Asked()) != c.asked {
				t.Errorf("recorded %d times that it was accepted, want %d; asked %d times, want %d", len(a.accepted), c.accepted, len(e.Asked()), c.asked)
			}
			if want := c.Refusals != nil && c.RetryAfter != ""; want != (len(a.rejected) > 0) {
				t.Errorf("rejections recorded: %v", a.rejected)
			}
		})
	}
}

func TestTheNextProcessPollsOnAndAsksNoSecondTime(t *testing.T) {
	e := em.Start(t)
	e.Behave(action, em.Behaviour{Async: true})
	a := newAsker(e)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := coordinator.Run(ctx, a.Call); done <- err }()
	kit.Until(t, "it is polled", func() bool { return len(e.Coordinations()) == 1 && e.Coordinations()[0].Polled > 1 })
	end()
	if err := <-done; !errors.Is(err, context.Canceled) || e.Coordinations()[0].Cancelled {
		t.Fatalf("the process ended: %v, %+v", err, e.Coordinations()[0])
	}
	next := newAsker(e)
	next.UnderWay = &a.accepted[0]
	next.UnderWay.Started = time.Now().Add(-time.Hour) // its time is up, but it may have come to its end meanwhile
	e.Release(action)
	result, err := coordinator.Run(t.Context(), next.Call)
	if err != nil || result.Result != coordinator.Continue || len(e.Asked()) != 1 {
		t.Errorf("%+v, %v, asked %v", result, err, e.Asked())
	}
}

func TestACoordinationIsCancelledAsItsOperationIs(t *testing.T) {
	t.Run("gracefully: its result is waited for", func(t *testing.T) {
		e := em.Start(t)
		e.Behave(action, em.Behaviour{Async: true})
		a := newAsker(e)
		stop := make(chan struct{})
		a.Stop = stop
		go func() {
			kit.Until(t, "it is polled", func() bool { return len(e.Coordinations()) == 1 && e.Coordinations()[0].Polled > 0 })
			close(stop)
		}()
		result, err := coordinator.Run(t.Context(), a.Call)
		if err != nil || result.Result != coordinator.Cancelled || !e.Coordinations()[0].Cancelled {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("gracefully, before it was accepted: it isn't asked for again", func(t *testing.T) {
		e := em.Start(t)
		e.Behave(action, em.Behaviour{Refusals: slices.Repeat([]int{503}, 1000)})
		a := newAsker(e)
		stop := make(chan struct{})
		a.Stop = stop
		go func() {
			kit.Until(t, "it is asked for", func() bool { return len(e.Asked()) > 0 })
			close(stop)
		}()
		if _, err := coordinator.Run(t.Context(), a.Call); !errors.Is(err, coordinator.ErrStopped) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("forcefully: nobody waits", func(t *testing.T) {
		e := em.Start(t)
		e.Behave(action, em.Behaviour{Async: true, RetryAfter: "600"})
		a := newAsker(e)
		ctx, drop := context.WithCancelCause(t.Context())
		go func() {
			kit.Until(t, "it is accepted", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.accepted) == 1 })
			drop(coordinator.ErrDropped)
		}()
		if _, err := coordinator.Run(ctx, a.Call); !errors.Is(err, context.Canceled) || !e.Coordinations()[0].Cancelled {
			t.Errorf("error %v, cancelled %v", err, e.Coordinations()[0].Cancelled)
		}
	})
	t.Run("as its time is up", func(t *testing.T) {
		e := em.Start(t)
		e.Behave(action, em.Behaviour{Async: true})
		a := newAsker(e)
		a.Timeout = 2 * time.Second
		_, err := coordinator.Run(t.Context(), a.Call)
		failed, ok := errors.AsType[*coordinator.FailedError](err)
		if !ok || !failed.Over || !strings.Contains(err.Error(), "coordination c-1 has no result within 2s: it is still under way") || !e.Coordinations()[0].Cancelled {
			t.Errorf("error %v, cancelled %v", err, e.Coordinations()[0].Cancelled)
		}
	})
}

func TestAnElementManagerThatMisbehavesFailsTheCoordinationWithTheReason(t *testing.T) {
	elsewhere := em.Start(t)
	answer := func(status int, location, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if location != "" {
				w.Header().Set("Location", location)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	const whole = `{"id":"c-1","coordinationResult":"CONTINUE","vnfInstanceId":"vnf-1","vnfLcmOpOccId":"op-1","coordinationActionName":"drain_sessions"%s}`
	for name, c := range map[string]struct {
		post, get func(http.ResponseWriter, *http.Request)
		want      string
		over      bool
	}{
		"202 without Location":             {post: answer(202, "", ""), want: "it has no Location", over: true},
		"202 with Location at another one": {post: answer(202, elsewhere.URL+em.API+"/c-1", ""), want: "which isn't at", over: true},
		"202 with Location of a long name": {post: answer(202, em.API+"/"+strings.Repeat("x", 300), ""), want: "can't be recorded", over: true},
		"202 with a name for a terminal":   {post: answer(202, em.API+"/c-1%1b%5B2J", ""), want: "can't be recorded", over: true},
		"202 with a name of two lines":     {post: answer(202, em.API+"/c-1%0Aaborted", ""), want: "can't be recorded", over: true},
		"201 with a long id":               {post: answer(201, "", strings.Replace(fmt.Sprintf(whole, ""), "c-1", strings.Repeat("x", 300), 1)), want: "can't be recorded", over: true},
		"202 with Location of nothing":     {post: answer(202, "/", ""), want: "names no coordination", over: true},
		"201 that is no JSON":              {post: answer(201, "", "<html>"), want: "it is no JSON", over: true},
		"201 without a result":             {post: answer(201, "", `{"id":"c-1"}`), want: "is none of CONTINUE, ABORT and CANCELLED", over: true},
		"201 about another operation":      {post: answer(201, "", strings.Replace(fmt.Sprintf(whole, ""), "op-1", "op-2", 1)), want: "about another coordination", over: true},
		"201 with outputs that are a list": {post: answer(201, "", fmt.Sprintf(whole, `,"outputParams":[1]`)), want: "outputParams are no JSON object", over: true},
		"201 with too many outputs":        {post: answer(201, "", fmt.Sprintf(whole, `,"outputParams":{"a":"`+strings.Repeat("x", 70<<10)+`"}`)), want: "more than 65536 bytes", over: true},
		"201 of gigabytes":                 {post: endless, want: "it is longer than 1048576 bytes", over: true},
		"a redirect":                       {post: answer(307, elsewhere.URL+em.API, ""), want: "redirects aren't followed", over: true},
		"403":                              {post: answer(403, "", `{"title":"No","detail":"not this VNF"}`), want: "403 Forbidden: No: not this VNF", over: true},
		"a poll that is refused":           {get: answer(401, "", ""), want: "401 Unauthorized"},
		"a poll that is redirected":        {get: answer(302, elsewhere.URL, ""), want: "redirects aren't followed"},
		"a coordination that is forgotten": {get: answer(404, "", ""), want: "coordination c-1 is lost", over: true},
		"a result that is half there":      {get: answer(200, "", `{"id":"c-1"`), want: "it is no JSON", over: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := em.Start(t)
			e.Behave(action, em.Behaviour{Async: true, Handle: c.post})
			a := newAsker(e)
			if c.get != nil {
				a.Accepted = func(coordinator.UnderWay) error {
					e.Behave(action, em.Behaviour{Handle: c.get})
					return nil
				}
			}
			_, err := coordinator.Run(t.Context(), a.Call)
			failed, ok := errors.AsType[*coordinator.FailedError](err)
			if !ok || failed.Over != c.over || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v (%+v), want %q", err, failed, c.want)
			}
		})
	}
	if len(elsewhere.Asked()) > 0 {
		t.Errorf("another server was asked: %v", elsewhere.Asked())
	}
}

// Each wait that is asked for is recorded, durably: one of no time must not be, at each poll.
func TestAnElementManagerThatIsAlwaysReadyMakesNoRecords(t *testing.T) {
	t.Parallel()
	e := em.Start(t)
	e.Behave(action, em.Behaviour{Async: true})
	a := newAsker(e)
	polls := 0
	record := a.Accepted
	a.Accepted = func(now coordinator.UnderWay) error {
		e.Behave(action, em.Behaviour{Handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "0")
			w.Header().Set("Content-Type", "application/json")
			if polls++; polls < 4 {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			fmt.Fprint(w, `{"id":"c-1","coordinationResult":"CONTINUE","vnfInstanceId":"vnf-1","vnfLcmOpOccId":"op-1","coordinationActionName":"drain_sessions"}`)
		}})
		return record(now)
	}

	_, err := coordinator.Run(t.Context(), a.Call)

	if err != nil || polls != 4 || len(a.accepted) != 1 {
		t.Errorf("%d polls made %d records: %v", polls, len(a.accepted), err)
	}
}

func endless(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusCreated)
	for line := []byte(strings.Repeat("x", 64<<10)); ; {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

func TestAnElementManagerThatIsLostMidWayIsPolledOnWhenItIsBack(t *testing.T) {
	e := em.Start(t)
	e.Behave(action, em.Behaviour{Async: true})
	a := newAsker(e)
	lost := make(chan struct{})
	a.Accepted = func(coordinator.UnderWay) error {
		e.Behave(action, em.Behaviour{Handle: func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
			select {
			case lost <- struct{}{}:
			default:
			}
		}})
		go func() {
			<-lost
			<-lost
			e.Behave(action, em.Behaviour{})
			e.Release(action)
		}()
		return nil
	}
	result, err := coordinator.Run(t.Context(), a.Call)
	if err != nil || result.Result != coordinator.Continue || len(e.Asked()) != 1 {
		t.Fatalf("%+v, %v, asked %v", result, err, e.Asked())
	}
	if story := a.story(); !strings.Contains(story, "coordination c-1 is under way") || !strings.Contains(story, "asked again") {
		t.Errorf("story: %s", story)
	}
}

func TestAnElementManagerIsToldWhoAsks(t *testing.T) {
	e := em.Start(t)
	e.Demand("Basic amliZTpzM2NyZXQ=")
	a := newAsker(e)
	a.Peer.Authentication = &peer.Authentication{Basic: &peer.Basic{UserName: "jibe", Password: "s3cret"}}
	if result, err := coordinator.Run(t.Context(), a.Call); err != nil || result.Result != coordinator.Continue {
		t.Errorf("%+v, %v", result, err)
	}
	a.Peer.Authentication.Basic.Password = "wrong"
	if _, err := coordinator.Run(t.Context(), a.Call); err == nil || !strings.Contains(err.Error(), "401 Unauthorized: The EM refuses: who are you?") {
		t.Errorf("error %v", err)
	}
}
