package sol

import (
	"errors"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// statusOf turns the errors of this interface into HTTP statuses, and no others.
func statusOf(err error) int {
	var file *desired.Problem
	var files *desired.InvalidError
	var outside *vnfd.RangeError
	var held *desired.HeldError
	switch {
	case errors.Is(err, ErrUnknownPackage), errors.Is(err, notify.ErrCallback):
		return http.StatusUnprocessableEntity
	case errors.As(err, &file), errors.As(err, &files), errors.As(err, &outside),
		errors.Is(err, vnfd.ErrUnknownAspect), errors.Is(err, vnfd.ErrUnknownLevel),
		errors.Is(err, notify.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, lcm.ErrState), errors.Is(err, oplog.ErrBusy{}),
		errors.As(err, &held):
		return http.StatusConflict
	case errors.Is(err, desired.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, desired.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return 0
}
