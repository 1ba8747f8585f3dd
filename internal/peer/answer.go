package peer

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/oauth2"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

// Answer is what a peer answered.
type Answer struct {
	Status int
	Header http.Header
	// Body is the content, or its beginning where it is longer than the client reads.
	Body []byte

	cut    bool
	limit  int64
	method string
	uri    *url.URL
}

// Decode reads the body into v. An error wraps [ErrAnswer]; it has nothing of the body.
func (a *Answer) Decode(v any) error {
	if a.cut {
		return a.unusable("it is longer than %d bytes", a.limit)
	}
	if t := a.Header.Get("Content-Type"); t != "" {
		if media, _, err := mime.ParseMediaType(t); err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
			return a.unusable("its Content-Type is %s and not application/json", printable(t, 80))
		}
	}
	if err := json.Unmarshal(a.Body, v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return a.unusable("attribute %s is a JSON %s", printable(wrong.Field, 80), wrong.Value)
		}
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return a.unusable("it is no JSON (at byte %d of %d)", syntax.Offset, len(a.Body))
		}
		return a.unusable("it isn't what the API's definition says")
	}
	return nil
}

// Location returns the URI that the Location header names. An error wraps [ErrAnswer]: there
// is none, or it leads to another host or port, where credentials must not go.
func (a *Answer) Location() (string, error) {
	text := a.Header.Get("Location")
	if text == "" {
		return "", a.unusable("it has no Location")
	}
	u, err := a.uri.Parse(text)
	switch {
	case err != nil:
		return "", a.unusable("its Location is no URI")
	case !sameOrigin(u, a.uri):
		return "", a.unusable("its Location leads to %s, which isn't at %s://%s", printable(u.Scheme+"://"+u.Host, 200), a.uri.Scheme, a.uri.Host)
	}
	u.Fragment = ""
	return u.String(), nil
}

// SameOrigin says whether the URI is absolute and at the scheme, host and port of another one, so
// that it may be sent the same credentials. Who keeps the result of [Answer.Location] asks it
// before the URI is called: meanwhile the peer may have moved.
func SameOrigin(uri, other string) bool {
	a, err := url.Parse(uri)
	if err != nil {
		return false
	}
	b, err := url.Parse(other)
	return err == nil && sameOrigin(a, b)
}

func sameOrigin(a, b *url.URL) bool {
	return a.User == nil && a.Host != "" && a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// RetryAfter returns the time to wait that the Retry-After header asks for (RFC 9110 clause
// 10.2.3, seconds or a date); ok is false where there is none that can be read. It is never
// negative. How long is too long is the caller's to say.
func (a *Answer) RetryAfter(now time.Time) (wait time.Duration, ok bool) {
	text := strings.TrimSpace(a.Header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return max(0, at.Sub(now)), true
}

// Refusal describes an answer that says no, for errors: the status and, where the body is a
// ProblemDetails (SOL013 clause 6.3), its title and detail.
func (a *Answer) Refusal() string {
	text := fmt.Sprintf("%s %s was answered with %d", a.method, Place(a.uri.String()), a.Status)
	if name := http.StatusText(a.Status); name != "" {
		text += " " + name
	}
	if a.Status >= 300 && a.Status < 400 {
		if to := a.Header.Get("Location"); to != "" {
			text += ": it leads to " + printable(Place(to), 200)
		}
		return text + ": redirects aren't followed; configure the address that it leads to"
	}
	title, detail := a.Problem()
	for _, s := range []string{title, detail} {
		if s != "" {
			text += ": " + s
		}
	}
	return text
}

// Problem returns title and detail of a body that is a ProblemDetails (SOL013 clause 6.3), each
// on one line and cut short; "" where there is none.
func (a *Answer) Problem() (title, detail string) {
	var problem struct{ Title, Detail string }
	if a.Decode(&problem) != nil {
		return "", ""
	}
	return printable(problem.Title, 200), printable(problem.Detail, 1000)
}

// Unusable is the error of an answer that isn't what the API's definition says: an
// [*UnusableError].
func (a *Answer) Unusable(reason string) error { return a.unusable("%s", reason) }

func (a *Answer) unusable(format string, args ...any) error {
	return &UnusableError{Request: a.method + " " + Place(a.uri.String()), Status: a.Status, Reason: fmt.Sprintf(format, args...)}
}

// UnusableError is an [ErrAnswer] in its parts.
type UnusableError struct {
	Request string // "GET https://em.example/lcmcoord/v1/coordinations"
	Status  int
	Reason  string
}

func (e *UnusableError) Error() string {
	return fmt.Sprintf("%v: %s was answered with %d: %s", ErrAnswer, e.Request, e.Status, e.Reason)
}

// Unwrap returns [ErrAnswer].
func (e *UnusableError) Unwrap() error { return ErrAnswer }

// printable returns at most n characters of what a peer wrote, on one line.
func printable(s string, n int) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return s
}

// AuthenticationError is returned where a request wasn't sent because its token couldn't be
// had, or because its credentials would have gone in clear.
type AuthenticationError struct{ Err error }

func (e *AuthenticationError) Error() string {
	if plain, ok := errors.AsType[*egress.PlainError](e.Err); ok {
		return plain.Error()
	}
	return "get a token: " + e.Err.Error()
}

// Unwrap returns what stood in the way.
func (e *AuthenticationError) Unwrap() error { return e.Err }

// NotSent tells from an error of [Client.Do] that the peer can't have seen the request: no
// connection was made, its certificate isn't trusted, or there was no token.
func NotSent(err error) bool {
	if _, ok := errors.AsType[*AuthenticationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	call, ok := errors.AsType[*net.OpError](err)
	return ok && call.Op == "dial"
}

// plain returns err without parts that may hold a secret: the query of a URI, the body of a
// token endpoint's answer.
func plain(err error) error {
	if no, ok := errors.AsType[*AuthenticationError](err); ok {
		if token, ok := errors.AsType[*oauth2.RetrieveError](no.Err); ok && token.Response != nil {
			return &AuthenticationError{tokenAnswer("the token endpoint answered " + printable(token.Response.Status, 80))}
		}
		if plain, ok := errors.AsType[*egress.PlainError](no.Err); ok {
			return &AuthenticationError{plain}
		}
		if call, ok := errors.AsType[*url.Error](no.Err); ok {
			return &AuthenticationError{fmt.Errorf("%s %s: %w", call.Op, Place(call.URL), call.Err)}
		}
		// What else the library says may quote the answer.
		return &AuthenticationError{tokenAnswer("the token endpoint's answer has no token")}
	}
	if call, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s %s: %w", call.Op, Place(call.URL), call.Err)
	}
	return err
}

// tokenAnswer is an error about what a token endpoint has answered.
type tokenAnswer string

func (e tokenAnswer) Error() string { return string(e) }

// Outward returns what of an error of [Client.Do] may be told to whoever had the peer called. An
// address that is refused, a port that is closed and a machine that is silent look alike in it:
// nobody learns what there is in the network.
func Outward(err error) string {
	if plain, ok := errors.AsType[*egress.PlainError](err); ok {
		return plain.Error()
	}
	if _, ok := errors.AsType[tokenAnswer](err); ok {
		return err.Error()
	}
	if _, ok := errors.AsType[*AuthenticationError](err); ok {
		return "get a token: " + egress.NoAnswer
	}
	return egress.NoAnswer
}

// Place returns a URI for logs and errors: without query and user.
func Place(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return "(unreadable URI)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
