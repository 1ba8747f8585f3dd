package sol

import (
	"context"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// terminate is POST vnf_instances/{id}/terminate (clause 5.4.8). The kind of termination is
// kept in the operation's parameters, where the driver finds it.
func (a *api) terminate(w http.ResponseWriter, r *http.Request) error {
	var req terminateVnfRequest
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	if req.TerminationType != lcm.Forceful && req.TerminationType != lcm.Graceful {
		return rest.Problem(http.StatusBadRequest, "attribute \"terminationType\" must be %s or %s, not %q", lcm.Forceful, lcm.Graceful, req.TerminationType)
	}
	if req.GracefulTerminationTimeout.n < 0 {
		return rest.Problem(http.StatusBadRequest, "gracefulTerminationTimeout is %d seconds; it can't be negative", req.GracefulTerminationTimeout.n)
	}
	return a.begin(w, r, request{typ: lcm.Terminate, params: params(req),
		next: func(_ context.Context, now *desired.Instance, seen sight) (*desired.Instance, error) {
			if desired.HasRemains(now) {
				if err := suspended(now); err != nil {
					return nil, err
				}
			} else if err := running(now); err != nil {
				return nil, err
			}

			next := *now
			next.State, next.Held = desired.NotInstantiated, ""
			next.Condemned = nil
			if next.VIM == seen.pinnedVIM {
				next.VIM = "" // it was filled in when the VNF was instantiated
			}
			return &next, nil
		}})
}
