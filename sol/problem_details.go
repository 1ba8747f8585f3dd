package sol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/auth"
	"github.com/jibe-vnfm/jibe/sol/filter"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// problem returns an error with the status for the client.
func problem(status int, format string, args ...any) error {
	return &InvalidError{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// statusOf is the one place that turns an error into an HTTP status.
func statusOf(err error) int {
	var invalid *InvalidError
	var file *desired.Problem
	var files *desired.InvalidError
	var outside *vnfd.RangeError
	var held *desired.HeldError
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &invalid):
		return invalid.Status
	case errors.Is(err, auth.ErrUnauthenticated):
		return http.StatusUnauthorized
	case errors.As(err, &big):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrUnknownPackage), errors.Is(err, notify.ErrCallback):
		return http.StatusUnprocessableEntity
	case errors.As(err, &file), errors.As(err, &files), errors.As(err, &outside),
		errors.Is(err, vnfd.ErrUnknownAspect), errors.Is(err, vnfd.ErrUnknownLevel),
		errors.Is(err, notify.ErrInvalid), errors.Is(err, filter.ErrSyntax), errors.Is(err, filter.ErrStructure):
		return http.StatusBadRequest
	case errors.Is(err, lcm.ErrState), errors.Is(err, oplog.ErrBusy{}), errors.Is(err, store.ErrConflict),
		errors.As(err, &held):
		return http.StatusConflict
	case errors.Is(err, desired.ErrNotFound), errors.Is(err, store.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, desired.ErrUnavailable), errors.Is(err, store.ErrClosed),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// refuse answers with err as ProblemDetails and returns the status.
func refuse(w http.ResponseWriter, err error) int {
	status := statusOf(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="vnflcm"`)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	body, _ := json.Marshal(lcm.ProblemDetails{Title: http.StatusText(status), Status: status, Detail: err.Error()})
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	w.Write(body)
	return status
}

// reply answers with a JSON body.
func reply(w http.ResponseWriter, status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
	return nil
}
