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

// statusError is the answer of a service that didn't do what it was asked for.
type statusError struct {
	service service
	status  int
	message string // the service's own
}

func (e *statusError) Error() string {
	said := fmt.Sprintf("%s answers %d %s", e.service, e.status, http.StatusText(e.status))
	if e.message != "" {
		said += ": " + e.message
	}
	return said
}

// is says whether the error is the service's answer with this status.
func is(err error, status int) bool {
	var e *statusError
	return errors.As(err, &e) && e.status == status
}

// classify makes of a client's error one that callers decide on. What the service may
// do later wraps [drivers.ErrUnavailable]; of what it will not do it stays a
// [*statusError], as only the caller knows what was asked for.
func (c *cloud) classify(s service, err error) error {
	if err == nil {
		return nil
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return c.unavailable(string(s), err)
	}
	e := &statusError{service: s, status: code.Actual, message: short(c.hide.Replace(said(code.Body)))}
	switch code.Actual {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: it refuses the VIM's credentials, replace them: %w", drivers.ErrUnavailable, e)
	case http.StatusForbidden:
		if quota(e.message) {
			return e
		}
		return fmt.Errorf("%w: the VIM's credentials don't have this right: %w", drivers.ErrUnavailable, e)
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusRequestEntityTooLarge,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnprocessableEntity:
		return e
	}
	return fmt.Errorf("%w: %w", drivers.ErrUnavailable, e)
}

// unavailable marks an error as the VIM's, which may pass.
func (c *cloud) unavailable(who string, err error) error {
	if errors.Is(err, drivers.ErrUnavailable) {
		return err
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) {
		return c.asUnavailable(c.classify(service(who), err))
	}
	return fmt.Errorf("%w: %s: %w", drivers.ErrUnavailable, who, hidden{err, c.hide})
}

// asUnavailable is for answers that say nothing about what was asked for.
func (c *cloud) asUnavailable(err error) error {
	if err == nil || errors.Is(err, drivers.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", drivers.ErrUnavailable, err)
}

// hidden is an error whose text holds no credential, whatever a library put there.
type hidden struct {
	error
	hide *strings.Replacer
}

func (h hidden) Error() string { return h.hide.Replace(h.error.Error()) }
func (h hidden) Unwrap() error { return h.error }

// quota tells a quota that is used up from a right that is missing: both are 403.
func quota(message string) bool {
	return strings.Contains(strings.ToLower(message), "quota") || strings.Contains(message, "maximum number of stacks")
}

// said is the message in the body of an answer: each service wraps it otherwise.
func said(body []byte) string {
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
