package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/sol/filter"
	"github.com/jibe-vnfm/jibe/store"
)

// InvalidError refuses a request with the HTTP status that it carries.
type InvalidError struct {
	Status int
	Detail string
}

func (e *InvalidError) Error() string { return e.Detail }

// Problem returns an [*InvalidError]: an error with the status for the client.
func Problem(status int, format string, args ...any) error {
	return &InvalidError{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// status is the one place that turns an error into an HTTP status.
func (a *API) status(err error) int {
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		return invalid.Status
	}
	if a.about.Status != nil {
		if s := a.about.Status(err); s != 0 {
			return s
		}
	}
	var big *http.MaxBytesError
	var denied *access.DeniedError
	switch {
	case errors.As(err, &denied):
		return http.StatusForbidden
	case errors.Is(err, access.ErrHidden):
		return http.StatusNotFound
	case errors.Is(err, auth.ErrUnauthenticated):
		return http.StatusUnauthorized
	case errors.Is(err, auth.ErrUnavailable):
		return http.StatusServiceUnavailable
	case errors.As(err, &big):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, filter.ErrSyntax), errors.Is(err, filter.ErrStructure):
		return http.StatusBadRequest
	case errors.Is(err, store.ErrConflict):
		return http.StatusConflict
	case errors.Is(err, store.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, store.ErrUnavailable): // also where the store's own connection came to its deadline
		return http.StatusServiceUnavailable
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	case errors.Is(err, store.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// refuse answers with err as ProblemDetails and returns the status.
func (a *API) refuse(w http.ResponseWriter, err error) int {
	return refuse(w, a.about.Name, err, a.status(err))
}

func refuse(w http.ResponseWriter, realm string, err error, status int) int {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q", realm))
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	body, _ := json.Marshal(lcm.ProblemDetails{Title: http.StatusText(status), Status: status, Detail: err.Error()})
	w.Header().Set("Content-Type", problemJSON)
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone needs no answer
	return status
}

// Reply answers the request with a JSON body.
func Reply(w http.ResponseWriter, r *http.Request, status int, body any) error {
	if form := formOf(r.Context()); form != nil {
		m, err := Generic(body)
		if err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
		form.Answer(m)
		body = m
	}
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	w.Header().Set("Content-Type", plainJSON)
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that has gone needs no answer
	return nil
}
