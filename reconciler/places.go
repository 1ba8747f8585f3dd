package reconciler

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
)

// places are the VIMs at which the instance runs, its main one first.
func places(settings *desired.Settings, inst *desired.Instance) ([]desired.Place, error) {
	list, err := settings.Places(inst)
	if err != nil && desired.HasRemains(inst) && inst.WithGrant().VIM == "" && len(inst.WithGrant().VIMConnections) == 0 && settings.DefaultVIM() == "" {
		return nil, &drivers.RefusedError{Field: "vim", Reason: fmt.Sprintf(
			"what operation %s left when it was set to FAILED can't be found, and so not be ended: the file names no VIM, as earlier versions of Jibe left it, and no file under vims/ says default: true; "+
				"add vim: NAME, the VIM at which it was made (known are %v), to the file, and terminate the VNF or remove its directory in a later commit", inst.Held, slices.Sorted(maps.Keys(settings.VIMs)))}
	}
	return list, misplaced(err)
}

// mainPlace is the VIM that runs all VDUs which are placed nowhere else.
func mainPlace(settings *desired.Settings, inst *desired.Instance) (desired.Place, error) {
	at, err := settings.MainPlace(inst)
	return at, misplaced(err)
}

// misplaced makes a [*desired.PlaceError] the refusal that it is to whoever asked for the place.
func misplaced(err error) error {
	var wrong *desired.PlaceError
	if errors.As(err, &wrong) {
		return &drivers.RefusedError{Field: wrong.Field, Reason: wrong.Reason}
	}
	return err
}

// vimType is the type of the VIM.
func vimType(at desired.Place) (string, error) {
	t, err := at.Type()
	return t, misplaced(err)
}

// vimForHooks is the VIM as hooks of packages get to know it.
func vimForHooks(at desired.Place) hooks.VIM {
	t, _ := at.Type() // "" where it is unknown
	return hooks.VIM{Name: at.Name, Type: t, Endpoint: at.Endpoint()}
}

// pinVIM fills in the VIM of an instance that names none: the one at which before runs,
// else the default. A connection of the instance's own is in its file already.
func pinVIM(settings *desired.Settings, before, next *desired.Instance) {
	if next.VIM != "" {
		return
	}
	if before != nil && desired.IsInstantiated(before.State) && before.VIM != "" {
		if len(next.VIMConnections) == 0 {
			next.VIM = before.VIM
		}
		return
	}
	if at, err := mainPlace(settings, next); err == nil && at.Connection == nil {
		next.VIM = at.Name
	} // which Check refuses, and names
}

// staysPlaced refuses to take what runs to another VIM: nothing would move it there, and
// what is left behind would belong to nobody. Both are as [Checker.Complete]
// leaves them.
func staysPlaced(settings *desired.Settings, before, after *desired.Instance) error {
	was, err1 := mainPlace(settings, before)
	is, err2 := mainPlace(settings, after)
	if err := errors.Join(err1, err2); err != nil && (before.VIM != after.VIM || len(before.VIMConnections) > 0 || len(after.VIMConnections) > 0) {
		return err // where one of them isn't known, nobody knows that the two are one VIM
	} else if err == nil && !was.Same(is) {
		return &drivers.RefusedError{Field: is.Field(), Reason: fmt.Sprintf(
			"the VNF runs at %s, and can't be taken to %s: nothing would lead from one to the other; terminate it first (state: notInstantiated), and instantiate it there when that is done", was, is)}
	}
	for _, moved := range []map[string]string{before.Placement, after.Placement} {
		for _, vdu := range slices.Sorted(maps.Keys(moved)) {
			if before.Placement[vdu] != after.Placement[vdu] {
				return &drivers.RefusedError{Field: "placement", Reason: fmt.Sprintf(
					"VDU %s runs, and can't be taken to another VIM; set state: notInstantiated first", vdu)}
			}
		}
	}
	return nil
}

// remainsPlaced refuses to lose sight of what an instantiation left that was set to FAILED: it is found where it was
// made, by what the file says.
func remainsPlaced(settings *desired.Settings, before, after *desired.Instance) error {
	if !desired.HasRemains(before) || !desired.MayHaveObjects(after) {
		return nil
	}
	was, err := mainPlace(settings, before)
	if err != nil {
		return nil // which says itself why its VIM isn't known
	}
	is, err := mainPlace(settings, after)
	if err == nil && was.Same(is) && maps.Equal(before.Placement, after.Placement) {
		return nil
	}
	field, to := "placement", "other VIMs"
	if err == nil && !was.Same(is) {
		field, to = is.Field(), is.String()
	}

	return &drivers.RefusedError{Field: field, Reason: fmt.Sprintf(
		"what operation %s left when it was set to FAILED is at %s, and would be lost if the instance went to %s: terminate the instance first, and instantiate it there when that is done", before.Held, was, to)}
}
