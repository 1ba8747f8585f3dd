package reconciler

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// undertaking is what an operation asks for beside what git says. An operation that begins
// and the preview of one assemble it by the same function, so that they can't differ.
type undertaking struct {
	operation lcm.Type
	rollback  bool
	// params are those of the request; nil where a commit asks for the operation.
	params json.RawMessage
	// after is the intent that the operation leads to, also while it is rolled back: what
	// goes wrong is taken back by the same scripts. nil where nothing shall run.
	after *desired.Instance
}

// assemble adds to the rendering of an instance what the operation asks for: tombstones,
// user data, the coordination of a change of package, the grace of a termination or a stop. It
// returns how long connections get, after traffic was switched or before a graceful
// termination or stop. It refuses what can't be honoured with a [*drivers.RefusedError].
func (u undertaking) assemble(want *drivers.Rendering, settings func() (*desired.Settings, error)) (drain time.Duration, err error) {
	if want.Source.Package != nil {
		want.Condemned = want.Source.Instance.Condemned
		if want.UserData, err = u.computes(want.Source, settings); err != nil {
			return 0, err
		}
	}
	switch u.operation {
	case lcm.ChangePackage:
		drain, err = u.after.Update.DrainTime(), coordinate(&want.Desired, u.after.Update)
	case lcm.Terminate:
		want.Source.Instance = graceful(want.Source.Instance, u.params)
		want.Grace, drain = grace(u.params)
	case lcm.Operate:
		if want.Source.Instance.State == desired.Stopped && !u.rollback {
			drain = stopping(&want.Desired, u.params)
		}
	}
	return drain, err
}

// leastGrace is what a forceful stop leaves units, in seconds: a VIM that leaves them none
// wouldn't say when they have ended.
const leastGrace = 1

// stopping tells the planner how long the VNF has to stop, and returns how long units have
// before they are turned off, where their owner gives them no time by itself.
func stopping(want *plan.Desired, params json.RawMessage) time.Duration {
	left, bounded := lcm.StopTime(params)
	if !bounded {
		return 0
	}
	seconds := max(leastGrace, int(left/time.Second))
	want.Within, want.Grace = &seconds, left > 0
	return left
}

// computes says whether a user data class computes parameters first: where the operation
// brings a package, or a flavour of it, to an OpenStack.
func (u undertaking) computes(src drivers.Source, settings func() (*desired.Settings, error)) (bool, error) {
	class, _ := hooks.UserData(src.Instance)
	if brings := u.operation == lcm.Instantiate || u.operation == lcm.ChangePackage || u.operation == lcm.ChangeFlavour; u.rollback || class == "" || !brings {
		return false, nil
	}
	known, err := settings()
	if err != nil {
		return false, err
	}
	return onOpenStack(known, src.Instance), nil
}

// coordinate tells the planner how a change of package is coordinated with the VNF.
func coordinate(want *plan.Desired, update desired.UpdatePolicy) error {
	known, err := hooks.ContactsOf(update.Coordinate.Params)
	if err != nil {
		return asRefused(err)
	}
	want.CoordinateNew = update.Coordinate.New != ""
	want.CoordinateOld = update.Coordinate.Old != ""
	want.CoordinateVDUs = known.VDUs
	want.Drain = update.DrainTime() > 0
	return nil
}

// graceTimeout is the attribute of a termination request that says how many seconds the
// VNF is left (SOL003 clause 5.5.2.11).
const graceTimeout = "gracefulTerminationTimeout"

// graceDefault is the time of a graceful termination that names none, as clients know it.
const graceDefault = 10 * time.Second

// graceful is the instance with the time that a termination request leaves it, where the
// driver looks for it.
func graceful(inst *desired.Instance, params json.RawMessage) *desired.Instance {
	var req map[string]any
	if json.Unmarshal(params, &req) != nil || req[graceTimeout] == nil {
		return inst
	}
	changed := *inst
	changed.Params = maps.Clone(inst.Params)
	if changed.Params == nil {
		changed.Params = map[string]any{}
	}
	changed.Params[graceTimeout] = req[graceTimeout]
	return &changed
}

// grace says whether a termination is graceful, and how long units have then where
// their owner gives them no time by itself.
func grace(params json.RawMessage) (bool, time.Duration) {
	var req struct {
		Type    string   `json:"terminationType"`
		Seconds *float64 `json:"gracefulTerminationTimeout"`
	}
	if json.Unmarshal(params, &req) != nil || req.Type != lcm.Graceful {
		return false, 0
	}
	if req.Seconds == nil {
		return true, graceDefault
	}
	return *req.Seconds > 0, time.Duration(*req.Seconds * float64(time.Second))
}
