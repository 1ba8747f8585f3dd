package lcm

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// The values of OperateVnfRequest.changeStateTo and of vnfState (VnfOperationalStateType,
// SOL003 clause 5.5.4.2).
const (
	Started = "STARTED"
	Stopped = "STOPPED"
)

// OperationalState is the vnfState of an instantiated VNF.
func OperationalState(in *desired.Instance) string {
	if in.State == desired.Stopped {
		return Stopped
	}
	return Started
}

// operateParams returns the OperateVnfRequest of a commit (SOL003 clause 5.5.2.12). A file can't
// say how a VNF is stopped: each VNFC gets the time that it asks for itself.
func operateParams(after *desired.Instance) map[string]any {
	p := map[string]any{"changeStateTo": OperationalState(after)}
	if p["changeStateTo"] == Stopped {
		p["stopType"] = Graceful
	}
	return p
}

// StopTime reads out of an OperateVnfRequest how long the VNF has to stop. bounded is false
// where it has as long as it takes. A forceful stop is one that has no time.
func StopTime(params json.RawMessage) (time.Duration, bool) {
	var req struct {
		StopType string   `json:"stopType"`
		Seconds  *float64 `json:"gracefulStopTimeout"`
	}
	if json.Unmarshal(params, &req) != nil {
		return 0, false
	}
	switch {
	case cmp.Or(req.StopType, Forceful) == Forceful:
		return 0, true
	case req.Seconds == nil:
		return 0, false
	}
	return time.Duration(*req.Seconds * float64(time.Second)), true
}
