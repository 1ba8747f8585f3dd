package openstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/jibe-vnfm/jibe/drivers"
)

// statusError is the answer of a service that didn't do what was requested.
type statusError struct {
	service service
	status  int
	message string // the service's own
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("%s answers %d %s", e.service, e.status, http.StatusText(e.status))
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

// is says whether the error is the service's answer with this status.
func is(err error, status int) bool {
	var e *statusError
	return errors.As(err, &e) && e.status == status
}

// classify turns a client's error into one that callers decide on. Where the service may do
// the same later, the error wraps [drivers.ErrUnavailable]. Otherwise it is a [*statusError]:
// only the caller knows what it requested, and so whether that is refused for good.
func (c *cloud) classify(s service, err error) error {
	if err == nil {
		return nil
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return c.unavailable(string(s), err)
	}
	e := &statusError{service: s, status: code.Actual, message: short(c.redact.Replace(messageIn(code.Body)))}
	switch code.Actual {
	case http.StatusUnauthorized:
		return &drivers.AnsweredError{Err: fmt.Errorf("%w: it refuses the VIM's credentials, replace them: %w", drivers.ErrUnavailable, e)}
	case http.StatusForbidden:
		if quota(e.message) {
			return e
		}
		return &drivers.AnsweredError{Err: fmt.Errorf("%w: the VIM's credentials don't have this right: %w", drivers.ErrUnavailable, e)}
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusRequestEntityTooLarge,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnprocessableEntity:
		return e
	}
	return fmt.Errorf("%w: %w", drivers.ErrUnavailable, e)
}

// unavailable is the error as one of the VIM's, which may pass.
func (c *cloud) unavailable(who string, err error) error {
	if errors.Is(err, drivers.ErrUnavailable) {
		return err
	}
	if err := drivers.Untrusted(redactedError{err, c.redact}); errors.Is(err, drivers.ErrUnavailable) {
		return err
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) {
		return c.asUnavailable(c.classify(service(who), err))
	}
	return fmt.Errorf("%w: %s: %w", drivers.ErrUnavailable, who, redactedError{err, c.redact})
}

// asUnavailable is the error of a request whose answer doesn't bear on what the caller wants.
func (c *cloud) asUnavailable(err error) error {
	if err == nil || errors.Is(err, drivers.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", drivers.ErrUnavailable, err)
}

// redactedError is an error whose text holds no credential, whatever a library put there.
type redactedError struct {
	error
	redact *strings.Replacer
}

func (e redactedError) Error() string { return e.redact.Replace(e.error.Error()) }
func (e redactedError) Unwrap() error { return e.error }

// quota says whether a 403 means a quota that is used up, and not a right that is missing.
func quota(message string) bool {
	return strings.Contains(strings.ToLower(message), "quota") || strings.Contains(message, "maximum number of stacks")
}

// messageIn is the message in the body of an answer: each service wraps it in its own way.
func messageIn(body []byte) string {
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil {
		return strings.TrimSpace(string(body))
	}
	var inner struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	for _, raw := range answer {
		if json.Unmarshal(raw, &inner) == nil && inner.Message != "" {
			return inner.Message
		}
	}
	return strings.TrimSpace(string(body))
}

// longestMessage bounds what of a service's message is shown: Heat's may hold a whole
// template.
const longestMessage = 600

func short(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if runes := []rune(message); len(runes) > longestMessage {
		return string(runes[:longestMessage]) + "…"
	}
	return message
}
