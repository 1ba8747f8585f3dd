package reconciler

import (
	"errors"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

// unusedError is returned for a VIM whose file forbids that it is used as it is. Instances that
// run there find it away; instances that would begin there are refused.
type unusedError struct{ no *drivers.RefusedError }

func (e *unusedError) Error() string   { return e.no.Reason }
func (e *unusedError) Unwrap() []error { return []error{drivers.ErrUnavailable, e.no} }

// refused says whether the instance would run at a VIM that is never used. No driver is
// made: the settings may be a proposal's.
func (v *connections) refused(settings *desired.Settings, inst *desired.Instance) error {
	if !desired.IsInstantiated(inst.State) {
		return nil
	}
	list, err := places(settings, inst)
	if err != nil {
		return err
	}
	for _, at := range list {
		under := settings
		if at.Connection != nil {
			under = nil
		}
		v.mu.Lock()
		_, fresh := v.fresh(placeKey(at), under)
		v.mu.Unlock()
		if fresh {
			continue
		}
		_, err := v.resolve(at)
		var no *drivers.RefusedError
		if errors.As(err, &no) {
			return no
		}
	}
	return nil
}
