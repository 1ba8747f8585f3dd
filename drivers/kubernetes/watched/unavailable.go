package watched

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/jibe-vnfm/jibe/drivers"
)

// Unavailable marks an error as the VIM's, which may pass.
func Unavailable(err error) error {
	err = drivers.Untrusted(err)
	if errors.Is(err, drivers.ErrUnavailable) {
		return err
	}
	if apierrors.IsUnauthorized(err) {
		// The client library says this in words in which nobody looks for a wrong token.
		return &drivers.AnsweredError{Err: fmt.Errorf("%w: it refuses the VIM's credentials (401 Unauthorized), replace them: %w", drivers.ErrUnavailable, err)}
	}
	if isForbidden(err) {
		return &drivers.AnsweredError{Err: fmt.Errorf("%w: %w", drivers.ErrUnavailable, err)}
	}
	return fmt.Errorf("%w: %w", drivers.ErrUnavailable, err)
}

func isForbidden(err error) bool { return apierrors.IsForbidden(err) }

// ErrClosed is what a request gets that comes after the driver's end.
var ErrClosed = fmt.Errorf("%w: the driver is closed, as its VIM was removed or is reached in another way now", drivers.ErrUnavailable)
