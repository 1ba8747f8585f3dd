package forge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

var (
	// ErrLimited is returned where the forge takes no more requests for now. [After] says for how
	// long.
	ErrLimited = errors.New("the forge limits requests")
	// ErrAway is returned where the forge has no answer: it can't be reached, or has failed. A
	// request that writes may have been carried out.
	ErrAway = errors.New("the forge is away")
	// ErrDenied is returned where the token isn't one that may do this: a person has to put that
	// right.
	ErrDenied = errors.New("the forge denies it to the token")
	// ErrNotFound is returned where the repository, commit or pull request isn't there, or where the
	// token may not know that it is.
	ErrNotFound = errors.New("it isn't there, or the token may not see it")
)

// Error is an answer that says no, or the lack of one.
type Error struct {
	// Status is the HTTP status, 0 where there was no answer.
	Status int
	// Message is what the forge said, on one line and cut short.
	Message string
	// Wait is how long the forge asks to be left alone; 0 where it says nothing of that.
	Wait time.Duration

	limited bool
	cause   error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("%v: %v", ErrAway, e.cause)
	}
	text := fmt.Sprintf("answered with %d %s", e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.limited {
		text += fmt.Sprintf(" (asked to wait for %s)", e.Wait.Round(time.Second))
	}
	return text
}

// Unwrap returns why there was no answer.
func (e *Error) Unwrap() error { return e.cause }

// Is implements what errors.Is asks for.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrLimited:
		return e.limited
	case ErrAway:
		return e.Status == 0 || e.Status >= 500 && !e.limited
	case ErrDenied:
		return (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) && !e.limited
	case ErrNotFound:
		return e.Status == http.StatusNotFound
	}
	return false
}

// After returns how long the forge asks to be left alone, 0 where it doesn't.
func After(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.Wait
	}
	return 0
}

const (
	// maxAnswer bounds an answer: a list of a hundred comments of the largest kind is 6 MiB.
	maxAnswer = 32 << 20
	// maxRefusal bounds what is read of an answer that says no.
	maxRefusal = 64 << 10
	// unsaidWait is how long to wait where a forge limits and doesn't say (GitHub documents a minute).
	unsaidWait = time.Minute
	// maxWait bounds what a forge may ask for: GitHub's limits last an hour.
	maxWait = 2 * time.Hour
)

// answers makes an [Error] of each answer that says no, before the three clients make each its
// own of it, and bounds the others.
type answers struct {
	next http.RoundTripper
	now  func() time.Time
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(r)
	if err != nil {
		return nil, &Error{cause: err}
	}
	if answer.StatusCode < 300 {
		answer.Body = &bounded{ReadCloser: answer.Body, left: maxAnswer}
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	e := &Error{Status: answer.StatusCode, Message: message(text)}
	if to := answer.Header.Get("Location"); answer.StatusCode < 400 && to != "" {
		e.Message = "it leads elsewhere, where the token isn't sent: give the URL by which the forge itself is reached"
	}
	e.Wait, e.limited = a.limits(answer)
	return nil, e
}

// limits reads of an answer whether it is one of too many requests, and how long that lasts. GitHub
// says so with 403, too.
func (a *answers) limits(r *http.Response) (time.Duration, bool) {
	after, asked := a.wait(r.Header)
	switch r.StatusCode {
	case http.StatusTooManyRequests:
	case http.StatusServiceUnavailable:
		if !asked {
			return 0, false
		}
	case http.StatusForbidden:
		if r.Header.Get("Retry-After") == "" && r.Header.Get("X-RateLimit-Remaining") != "0" {
			return 0, false
		}
	default:
		return 0, false
	}
	if !asked {
		after = unsaidWait
	}
	return min(max(after, time.Second), maxWait), true
}

// wait reads for how long: Retry-After (RFC 9110 clause 10.2.3), or the second of the epoch in which
// a limit begins anew, of GitHub and of GitLab.
func (a *answers) wait(h http.Header) (time.Duration, bool) {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return at.Sub(a.now()), true
	}
	text = strings.TrimSpace(cmp.Or(h.Get("X-RateLimit-Reset"), h.Get("RateLimit-Reset")))
	if n, err := strconv.ParseUint(text, 10, 40); err == nil {
		return time.Unix(int64(n), 0).Sub(a.now()), true
	}
	return 0, false
}

// message is what a forge says of a refusal: the field message (GitLab may put an object there), or
// error, of its JSON.
func message(text []byte) string {
	var said struct {
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
		Errors  json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(text, &said) != nil {
		return "" // a page of a proxy says nothing to an operator
	}
	raw := said.Message
	if len(raw) == 0 {
		raw = said.Error
	}
	var line string
	if json.Unmarshal(raw, &line) != nil {
		line = string(raw)
	}
	if errs := bytes.TrimSpace(said.Errors); len(errs) > 2 && errs[0] == '[' { // GitHub's say which field
		line += " " + string(errs)
	}
	line = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, line)
	return cut(strings.TrimSpace(line), 300, "…")
}

// bounded is a body that fails where it is too long: a part of an answer would be taken for all of it.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return n, err
}
