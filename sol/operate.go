package sol

import (
	"context"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// operateVnfRequest is SOL003 clause 5.5.2.12.
type operateVnfRequest struct {
	ChangeStateTo       string         `json:"changeStateTo"`
	StopType            string         `json:"stopType,omitempty"`
	GracefulStopTimeout number         `json:"gracefulStopTimeout,omitzero"`
	AdditionalParams    map[string]any `json:"additionalParams,omitempty"`
}

// longestStop is the most seconds that a VNF can have to stop: a year.
const longestStop = 365 * 24 * 60 * 60

// check refuses attributes that the standard has absent beside others, as they would mean
// nothing, and one that must be there.
func (r *operateVnfRequest) check() error {
	stops, timed := r.ChangeStateTo == lcm.Stopped, r.GracefulStopTimeout.set
	switch {
	case r.ChangeStateTo != lcm.Started && !stops:
		return rest.Problem(http.StatusBadRequest, "attribute \"changeStateTo\" must be %s or %s, not %q", lcm.Started, lcm.Stopped, r.ChangeStateTo)
	case !stops && (r.StopType != "" || timed):
		return rest.Problem(http.StatusBadRequest, "\"stopType\" and \"gracefulStopTimeout\" belong to changeStateTo %s: leave them out", lcm.Stopped)
	case r.StopType != "" && r.StopType != lcm.Forceful && r.StopType != lcm.Graceful:
		return rest.Problem(http.StatusBadRequest, "attribute \"stopType\" must be %s or %s, not %q", lcm.Forceful, lcm.Graceful, r.StopType)
	case r.StopType == lcm.Graceful && !timed:
		return rest.Problem(http.StatusBadRequest, "attribute \"gracefulStopTimeout\" is missing: it is how many seconds a %s stop may take", lcm.Graceful)
	case r.StopType != lcm.Graceful && timed:
		return rest.Problem(http.StatusBadRequest, "\"gracefulStopTimeout\" belongs to stopType %s: leave it out, or ask for that", lcm.Graceful)
	case r.GracefulStopTimeout.n < 0 || r.GracefulStopTimeout.n > longestStop:
		return rest.Problem(http.StatusBadRequest, "gracefulStopTimeout is %d seconds; it must be within 0..%d", r.GracefulStopTimeout.n, longestStop)
	}
	return nil
}

// operate is POST vnf_instances/{id}/operate (SOL003 clause 5.4.10). How the VNF is stopped
// stands in the operation's parameters.
func (a *api) operate(w http.ResponseWriter, r *http.Request) error {
	var req operateVnfRequest
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	if err := req.check(); err != nil {
		return err
	}
	return a.begin(w, r, request{typ: lcm.Operate, params: params(req),
		next: func(_ context.Context, now *desired.Instance, _ sight) (*desired.Instance, error) {
			if err := running(now); err != nil {
				return nil, err
			}
			if lcm.OperationalState(now) == req.ChangeStateTo {
				return nil, rest.Problem(http.StatusConflict, "VNF instance %s is %s already", now.ID, req.ChangeStateTo)
			}
			next := *now
			next.State, next.Held = desired.Instantiated, ""
			if req.ChangeStateTo == lcm.Stopped {
				next.State = desired.Stopped
			}
			return &next, nil
		}})
}
