package answer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/store"
)

// Unreviewed answers that something couldn't be judged.
func Unreviewed(w http.ResponseWriter, err error) {
	if large := (*admission.TooLargeError)(nil); errors.As(err, &large) || errors.Is(err, admission.ErrMemoryInUse) {
		Unplanned(w, err)
		return
	}
	status := http.StatusInternalServerError
	if errors.Is(err, desired.ErrUnavailable) || errors.Is(err, audit.ErrUnavailable) || errors.Is(err, store.ErrUnavailable) {
		status = http.StatusServiceUnavailable
	}
	Problem(w, status, strings.TrimSpace(err.Error()))
}

// Unplanned answers for a proposal that can't be read, and a plan that can't be made now.
func Unplanned(w http.ResponseWriter, err error) {
	var whole *http.MaxBytesError
	var large *admission.TooLargeError
	switch {
	case errors.As(err, &whole):
		Problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the proposal is larger than %d bytes", whole.Limit))
	case errors.As(err, &large):
		Problem(w, http.StatusRequestEntityTooLarge, err.Error())
	case errors.Is(err, admission.ErrMemoryInUse):
		Problem(w, http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, admission.ErrTooManyPlans):
		w.Header().Set("Retry-After", "5")
		Problem(w, http.StatusTooManyRequests, err.Error())
	default:
		Problem(w, http.StatusBadRequest, err.Error())
	}
}
