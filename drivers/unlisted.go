package drivers

import (
	"fmt"
	"time"
)

// UnlistedError is returned by Observe where the VIM answers, but can't list or watch one kind of object that the
// instance has or may have: the webhook that converts the kind is gone, the right to list it was denied. It is
// [ErrUnavailable] for what concerns the instance. It says nothing about the VIM's other instances, so no VIM counts
// as unreachable for it.
type UnlistedError struct {
	// VIM is the name that the driver has for its VIM.
	VIM string
	// Kind names the kind as the VIM does: "Gadget.example.com".
	Kind string
	// Since is when the kind was listed or watched last, or when that was tried first.
	Since time.Time
	// Err is what the VIM answered.
	Err error
}

func (e *UnlistedError) Error() string {
	return fmt.Sprintf("objects of kind %s can't be listed: %v", e.Kind, e.Err)
}

// Unwrap returns what the error is at once.
func (e *UnlistedError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }
