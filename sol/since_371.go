package sol

import (
	"context"
	"fmt"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// version371 is the API version of SOL003 v3.7.1. What it added is shown to clients that ask
// for it, and to no others.
const version371 = "2.3.0"

// since371 says whether the request asks for what v3.7.1 added.
func since371(ctx context.Context) bool { return rest.Version(ctx) == version371 }

// The attributes that v3.7.1 added to VnfLcmOpOcc.
const (
	coordinations         = "lcmCoordinations"
	rejectedCoordinations = "rejectedLcmCoordinations"
	warnings              = "warnings"
)

// LcmCoordination is an entry of lcmCoordinations of VnfLcmOpOcc (SOL003 v3.7.1 clause
// 5.5.2.13).
type LcmCoordination struct {
	ID     string `json:"id"`
	Action string `json:"coordinationActionName"`
	Result string `json:"coordinationResult,omitempty"`
	Start  string `json:"startTime"`
	End    string `json:"endTime,omitempty"`
	Delay  string `json:"delay,omitempty"`
	// Endpoint is MGMT or VNF.
	Endpoint string `json:"endpointType"`
}

// RejectedLcmCoordination is an entry of rejectedLcmCoordinations there.
type RejectedLcmCoordination struct {
	Action   string `json:"coordinationActionName"`
	Rejected string `json:"rejectionTime"`
	Delay    string `json:"delay"`
	Endpoint string `json:"endpointType"`
}

// newer adds what v3.7.1 added.
func (v *VnfLcmOpOcc) newer(op *lcm.Operation) *VnfLcmOpOcc {
	for _, c := range op.Coordinations {
		l := LcmCoordination{ID: c.ID, Action: c.Action, Result: c.Result, Start: rest.Stamp(c.Started), Endpoint: c.Endpoint}
		if !c.Ended.IsZero() {
			l.End = rest.Stamp(c.Ended)
			if c.Result == "" {
				v.Warnings = append(v.Warnings, fmt.Sprintf("The coordination %s (%s) did not end in time.", c.Action, c.ID))
			}
		}
		if !c.Delay.IsZero() {
			l.Delay = rest.Stamp(c.Delay)
		}
		v.LcmCoordinations = append(v.LcmCoordinations, l)
	}
	for _, r := range op.RejectedCoordinations {
		v.RejectedCoordinations = append(v.RejectedCoordinations, RejectedLcmCoordination{Action: r.Action, Rejected: rest.Stamp(r.Rejected),
			Delay: rest.Stamp(r.Delay), Endpoint: r.Endpoint})
	}
	return v
}

// shownOperation returns the operation as the client of the request sees it.
func (a *api) shownOperation(ctx context.Context, op *lcm.Operation) *VnfLcmOpOcc {
	v := a.operationBody(op)
	if since371(ctx) {
		v.newer(op)
	}
	return v
}
