package lcm

import (
	"slices"
	"time"
)

// The results of an LCM coordination action (SOL002 v3.7.1, LcmCoordResultType).
const (
	CoordinationContinue  = "CONTINUE"
	CoordinationAbort     = "ABORT"
	CoordinationCancelled = "CANCELLED"
)

// The values of Coordination.Endpoint.
const (
	EndpointManagement = "MGMT"
	EndpointVNF        = "VNF"
)

// Coordination is an LCM coordination action that the operation has asked for and that was
// accepted: an entry of lcmCoordinations of VnfLcmOpOcc (SOL003 v3.7.1 clause 5.5.2.13).
type Coordination struct {
	// Hook is the name of the hook in the journal, Attempt the one that asked.
	Hook    string `json:"hook"`
	Attempt int    `json:"attempt"`
	// ID is the coordination's at whoever coordinates, Action the coordinationActionName.
	ID     string `json:"id"`
	Action string `json:"action"`
	// Result is one of those above, "" as long as there is none, and where there never will be
	// one as the time was up.
	Result   string    `json:"result,omitempty"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended,omitzero"`
	Delay    time.Time `json:"delay,omitzero"` // the end of the wait that was asked for last
	Endpoint string    `json:"endpoint"`
	// URI is where its result is read, and Asked the name of whoever coordinates.
	URI   string `json:"uri"`
	Asked string `json:"asked,omitempty"`
	// Outputs are outputParams, encrypted, for hooks that follow.
	Outputs string `json:"outputs,omitempty"`
}

// RejectedCoordination is one that can be asked for later: an entry of
// rejectedLcmCoordinations.
type RejectedCoordination struct {
	Action   string    `json:"action"`
	Rejected time.Time `json:"rejected"`
	Delay    time.Time `json:"delay"` // the end of the wait that was asked for
	Endpoint string    `json:"endpoint"`
}

// maxRejected is how many rejections are kept: an element manager that stays busy must not
// fill the record.
const maxRejected = 20

// UnderWay returns the coordination that the hook waits for, nil where it waits for none.
func (o *Operation) UnderWay(hook string) *Coordination {
	for i := range slices.Backward(o.Coordinations) {
		if c := &o.Coordinations[i]; c.Hook == hook && c.Ended.IsZero() {
			return c
		}
	}
	return nil
}

// Coordinate records how far a coordination is: the one under way for its hook, else a new one.
func (o *Operation) Coordinate(c Coordination) {
	o.Coordinations = slices.Clone(o.Coordinations)
	if now := o.UnderWay(c.Hook); now != nil {
		*now = c
		return
	}
	o.Coordinations = append(o.Coordinations, c)
}

// RejectCoordination records that a coordination was put off.
func (o *Operation) RejectCoordination(r RejectedCoordination) {
	o.RejectedCoordinations = append(slices.Clone(o.RejectedCoordinations), r)
	if over := len(o.RejectedCoordinations) - maxRejected; over > 0 {
		o.RejectedCoordinations = o.RejectedCoordinations[over:]
	}
}

// maxWarnings is how many warnings an operation keeps.
const maxWarnings = 20

// Warn adds a warning for those who look at the operation (VnfLcmOpOcc.warnings).
func (o *Operation) Warn(text string) {
	if len(o.Warnings) < maxWarnings && !slices.Contains(o.Warnings, text) {
		o.Warnings = append(slices.Clone(o.Warnings), text)
	}
}
