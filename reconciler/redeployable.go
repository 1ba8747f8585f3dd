package reconciler

import (
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
)

// redeployable refuses an operation that deploys something else (another package, another
// flavour) where the change asks for more than one of them at once, and where it ends with a
// VNF that is stopped although units that run must take part in it.
func redeployable(t lcm.Type, before, after *desired.Instance) error {
	scripts := after.Update.Coordinate
	switch {
	case t == lcm.ChangePackage && before.Flavour != after.Flavour:
		return &drivers.RefusedError{Field: "flavour", Reason: "package and flavour can't be changed at once: change one, and the other when that is done"}
	case t == lcm.ChangeFlavour && before.Generation != after.Generation:
		return &drivers.RefusedError{Field: "generation", Reason: "a change of flavour makes no new generation: leave it as it was"}
	case t == lcm.ChangePackage && after.State == desired.Stopped && (scripts.New != "" || scripts.Old != ""):
		return &drivers.RefusedError{Field: "state", Conflict: true,
			Reason: "the coordination scripts (update.coordinate) speak to units that run, and the VNF would be stopped: start it first (state: instantiated), or leave the scripts out"}
	}
	return nil
}
