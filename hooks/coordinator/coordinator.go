// Package coordinator asks an element manager, or a VNF, to coordinate with an operation: the
// client's side of the VNF LCM Coordination interface (SOL002 v3.7.1 clause 10).
//
// It carries one coordination action from the request to its result: it asks until the other
// side accepts, polls as that side wishes, and cancels where it is told to. What must outlive
// the process is handed to its caller before it goes on, so that the next process polls on and
// asks no second time. When somebody is asked, and what comes of the answer, is decided above.
package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/jibe-vnfm/jibe/internal/peer"
)

const (
	// version is that of the interface, and api where it is below the root of the APIs.
	version = "1.0.0"
	api     = "/lcmcoord/v1/coordinations"
	// defaultPause is how long to wait where the other side doesn't say, minPause where it wants
	// no wait at all.
	defaultPause = 5 * time.Second
	minPause     = 200 * time.Millisecond
	// cancelTimeout bounds the request to cancel a coordination that nobody waits for any more.
	cancelTimeout = 5 * time.Second
	// maxID is how many bytes the id of a coordination may have.
	maxID = 255
	// maxOutputs is how many bytes of outputParams are kept.
	maxOutputs = 64 << 10
)

// The values of Result.Result (LcmCoordResultType).
const (
	Continue  = "CONTINUE"
	Abort     = "ABORT"
	Cancelled = "CANCELLED"
)

// Errors on which callers decide.
var (
	// ErrDropped is the cause of a context whose coordination nobody waits for any more: it is
	// cancelled at the other side. A context that ends for another reason leaves it under way.
	ErrDropped = errors.New("the coordination isn't waited for any more")
	// ErrStopped is returned where the coordination was to be cancelled before it was accepted.
	ErrStopped = errors.New("the coordination was cancelled before it began")
)

// FailedError is returned for a coordination that didn't come to a result.
type FailedError struct {
	Reason string
	// Over says that there never will be a result; else the coordination is under way as far as
	// is known, and polling it again may be right.
	Over bool
}

func (e *FailedError) Error() string { return e.Reason }

// Link is Link of SOL013 clause 5.2.4.
type Link struct {
	Href string `json:"href"`
}

// Request is LcmCoordRequest (clause 10.5.2.2).
type Request struct {
	Instance  string         `json:"vnfInstanceId"`
	Operation string         `json:"vnfLcmOpOccId"`
	Type      string         `json:"lcmOperationType"`
	Action    string         `json:"coordinationActionName"`
	Inputs    map[string]any `json:"inputParams,omitempty"`
	Links     RequestLinks   `json:"_links"`
}

// RequestLinks are the links of a [Request].
type RequestLinks struct {
	Operation Link `json:"vnfLcmOpOcc"`
	Instance  Link `json:"vnfInstance"`
}

// Result is LcmCoord (clause 10.5.2.3).
type Result struct {
	ID        string `json:"id"`
	Result    string `json:"coordinationResult"`
	Instance  string `json:"vnfInstanceId"`
	Operation string `json:"vnfLcmOpOccId"`
	Action    string `json:"coordinationActionName"`
	// Outputs are a JSON object; empty where there are none.
	Outputs  json.RawMessage `json:"outputParams"`
	Warnings string          `json:"warnings"`
	Error    *Problem        `json:"error"`
}

// Problem is what is used of ProblemDetails (SOL013 clause 6.3).
type Problem struct {
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Status int    `json:"status"`
}

// UnderWay is a coordination that was accepted and has no result yet.
type UnderWay struct {
	ID, URI string
	Started time.Time
	// Delay is the end of the wait that was asked for last, zero where none was.
	Delay time.Time
}

// Call is one coordination.
type Call struct {
	// Root is where the APIs of the other side begin, without a slash at the end, and Peer how
	// they are called.
	Root    string
	Peer    peer.Settings
	Request Request
	// UnderWay is what a former process has left of it; nil where it is asked for now.
	UnderWay *UnderWay
	// Timeout bounds it from when it began.
	Timeout time.Duration
	// Stop is closed to have it cancelled gracefully: its result is waited for nevertheless.
	Stop <-chan struct{}
	// Accepted makes durable how far it is, Rejected that it was put off until a time. An error
	// ends the call.
	Accepted func(UnderWay) error
	Rejected func(at, until time.Time) error
	// Said is called with a line for people.
	Said func(line string)
	// Now is the clock.
	Now func() time.Time
	// Pause is how long to wait where the other side doesn't say; 0 is 5 s.
	Pause time.Duration
}

// run is a call under way.
type run struct {
	Call
	client   *peer.Client
	deadline time.Time
	// stopped says that the cancellation was asked for.
	stopped bool
	// eager says that the other side wants no wait, which is nothing to record.
	eager bool
	// trouble is what stood in the way last.
	trouble string
}

// Run carries the coordination to its result. The error is a [*FailedError], [ErrStopped], the
// context's, or one of recording.
func Run(ctx context.Context, c Call) (*Result, error) {
	c.Peer.Version, c.Pause = version, cmp.Or(c.Pause, defaultPause)
	client, err := peer.New(c.Peer)
	if err != nil {
		return nil, &FailedError{Reason: err.Error()}
	}
	defer client.Close()
	r := &run{Call: c, client: client, deadline: c.Now().Add(c.Timeout)}
	known := c.UnderWay
	if known == nil {
		var result *Result
		if result, known, err = r.ask(ctx); result != nil || err != nil {
			return result, err
		}
	} else {
		if !sameOrigin(known.URI, c.Root) {
			return nil, &FailedError{Reason: fmt.Sprintf("coordination %s was accepted at %s, and %s is asked now", known.ID, peer.Place(known.URI), peer.Place(c.Root)), Over: true}
		}
		r.deadline = known.Started.Add(c.Timeout)
	}
	return r.await(ctx, *known)
}

// sameOrigin says whether two URIs are of one host and port: credentials go to no other.
func sameOrigin(a, b string) bool {
	x, err := url.Parse(a)
	if err != nil {
		return false
	}
	y, err := url.Parse(b)
	return err == nil && x.Scheme == y.Scheme && strings.EqualFold(x.Host, y.Host)
}

// ask asks until the other side accepts. It returns the result where that comes at once.
func (r *run) ask(ctx context.Context) (*Result, *UnderWay, error) {
	for {
		answer, err := r.client.Do(ctx, http.MethodPost, r.Root+api, r.Request)
		wait := r.Pause
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err != nil:
			r.hinder(err.Error())
		case answer.Status == http.StatusCreated:
			result, err := r.result(answer)
			return result, nil, err
		case answer.Status == http.StatusAccepted:
			now, err := r.accept(answer)
			return nil, now, err
		case passes(answer.Status):
			r.hinder(answer.Refusal())
			var asked bool
			if wait, asked = answer.RetryAfter(r.Now()); !asked {
				wait = r.Pause
			} else if err := r.Rejected(r.Now(), r.Now().Add(wait)); err != nil {
				return nil, nil, err
			}
		default:
			return nil, nil, &FailedError{Reason: answer.Refusal(), Over: true}
		}
		if r.deadline.Sub(r.Now()) <= 0 {
			return nil, nil, &FailedError{Reason: fmt.Sprintf("not accepted within %s: %s", r.Timeout, r.trouble), Over: true}
		}
		if err := r.wait(ctx, max(minPause, min(wait, r.deadline.Sub(r.Now())))); err != nil {
			return nil, nil, err
		}
		if r.stopped {
			return nil, nil, ErrStopped
		}
	}
}

// passes says whether a request that was answered so may be right later.
func passes(status int) bool {
	switch status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return true
	}
	return status >= 500 && status != http.StatusNotImplemented
}

// accept notes the coordination that was accepted.
func (r *run) accept(answer *peer.Answer) (*UnderWay, error) {
	uri, err := answer.Location()
	if err != nil {
		return nil, &FailedError{Reason: err.Error(), Over: true}
	}
	u, err := url.Parse(uri)
	if err != nil || path.Base(u.Path) == "/" || path.Base(u.Path) == "." {
		return nil, &FailedError{Reason: "its Location names no coordination", Over: true}
	}
	now := UnderWay{ID: path.Base(u.Path), URI: uri, Started: r.Now().UTC()}
	if !recordable(now.ID) {
		return nil, &FailedError{Reason: fmt.Sprintf("its Location names a coordination that can't be recorded: %.40q", now.ID), Over: true}
	}
	r.delay(&now, answer)
	if err := r.Accepted(now); err != nil {
		return nil, err
	}
	r.Said("coordination " + now.ID + " is under way" + r.until(now))
	return &now, nil
}

// recordable reports whether an id from outside may stand in records, events and errors.
func recordable(id string) bool {
	return len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
}

// delay notes the wait that the answer asks for, and returns whether that is another one.
func (r *run) delay(now *UnderWay, answer *peer.Answer) bool {
	was := now.Delay
	now.Delay = time.Time{}
	wait, ok := answer.RetryAfter(r.Now())
	if r.eager = ok && wait <= 0; ok && !r.eager {
		now.Delay = r.Now().Add(wait).UTC()
	}
	return !now.Delay.Equal(was)
}

func (r *run) until(now UnderWay) string {
	if now.Delay.IsZero() {
		return ""
	}
	return ", and is asked about again at " + now.Delay.Format(time.RFC3339)
}

// await polls the coordination until it has a result.
func (r *run) await(ctx context.Context, now UnderWay) (*Result, error) {
	for {
		wait := r.Pause
		switch {
		case !now.Delay.IsZero():
			wait = now.Delay.Sub(r.Now())
		case r.eager:
			wait = 0
		case r.UnderWay != nil:
			wait, r.UnderWay = 0, nil // who has just started looks at once
		}
		if err := r.wait(ctx, max(minPause, min(wait, r.deadline.Sub(r.Now())))); err != nil {
			r.abandon(ctx, now)
			return nil, err
		}
		if r.stopped && r.Stop != nil {
			r.Stop = nil
			r.cancel(ctx, now)
		}
		answer, err := r.client.Do(ctx, http.MethodGet, now.URI, nil)
		switch {
		case ctx.Err() != nil:
			r.abandon(ctx, now)
			return nil, ctx.Err()
		case err != nil:
			now.Delay, r.eager = time.Time{}, false
			r.hinder(err.Error())
		case answer.Status == http.StatusOK:
			return r.result(answer)
		case answer.Status == http.StatusAccepted:
			r.trouble = "it is still under way"
			if r.delay(&now, answer) {
				if err := r.Accepted(now); err != nil {
					return nil, err
				}
			}
		case passes(answer.Status):
			r.hinder(answer.Refusal())
			r.delay(&now, answer)
		case answer.Status == http.StatusNotFound, answer.Status == http.StatusGone:
			return nil, &FailedError{Reason: "coordination " + now.ID + " is lost: " + answer.Refusal(), Over: true}
		default:
			return nil, &FailedError{Reason: "coordination " + now.ID + ": " + answer.Refusal()}
		}
		if r.deadline.Sub(r.Now()) <= 0 {
			r.cancel(ctx, now)
			return nil, &FailedError{Reason: fmt.Sprintf("coordination %s has no result within %s: %s", now.ID, r.Timeout, r.trouble), Over: true}
		}
	}
}

// abandon cancels a coordination that nobody waits for any more. One that ends with the process
// is left under way: the next process polls on.
func (r *run) abandon(ctx context.Context, now UnderWay) {
	if errors.Is(context.Cause(ctx), ErrDropped) {
		r.cancel(context.WithoutCancel(ctx), now)
	}
}

// cancel asks for the end of the coordination (clause 10.4.4.3.1). That it has ended already, or
// can't be reached, shows when it is polled.
func (r *run) cancel(ctx context.Context, now UnderWay) {
	ctx, done := context.WithTimeout(ctx, cancelTimeout)
	defer done()
	answer, err := r.client.Do(ctx, http.MethodPost, strings.TrimRight(now.URI, "/")+"/cancel", nil)
	switch {
	case err != nil:
		r.Said("coordination " + now.ID + " was not cancelled: " + err.Error())
	case answer.Status == http.StatusAccepted || answer.Status == http.StatusNoContent:
		r.Said("coordination " + now.ID + " is being cancelled")
	default:
		r.Said("coordination " + now.ID + " was not cancelled: " + answer.Refusal())
	}
}

// result reads what came of the coordination.
func (r *run) result(answer *peer.Answer) (*Result, error) {
	var out Result
	if err := answer.Decode(&out); err != nil {
		return nil, &FailedError{Reason: err.Error(), Over: true}
	}
	wrong := ""
	switch {
	case out.ID == "":
		wrong = "it has no id"
	case !recordable(out.ID):
		wrong = fmt.Sprintf("its id can't be recorded: %.40q", out.ID)
	case out.Result != Continue && out.Result != Abort && out.Result != Cancelled:
		wrong = fmt.Sprintf("its coordinationResult %.40q is none of %s, %s and %s", out.Result, Continue, Abort, Cancelled)
	case out.Operation != r.Request.Operation || out.Instance != r.Request.Instance || out.Action != r.Request.Action:
		wrong = "it is about another coordination than was asked for"
	case len(out.Outputs) > maxOutputs:
		wrong = fmt.Sprintf("its outputParams have more than %d bytes", maxOutputs)
	case json.Unmarshal([]byte(cmp.Or(string(out.Outputs), "null")), &map[string]any{}) != nil:
		wrong = "its outputParams are no JSON object"
	}
	if wrong != "" {
		return nil, &FailedError{Reason: answer.Unusable(wrong).Error(), Over: true}
	}
	if string(out.Outputs) == "null" {
		out.Outputs = nil
	}
	return &out, nil
}

// hinder notes what stands in the way; the story gets it where it is something else than before.
func (r *run) hinder(what string) {
	if what != r.trouble {
		r.trouble = what
		r.Said(what + ": asked again")
	}
}

// wait waits, until it is stopped or the context ends at the latest.
func (r *run) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	stop := r.Stop
	if r.stopped {
		stop = nil
	}
	select {
	case <-timer.C:
	case <-stop:
		r.stopped = true
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
