package lcm

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// Facts are what git keeps of an operation beside the commit that begins it: a line of that commit's
// note, sealed by the installation's key. They are what its record is made of again when the store has
// lost it; what only the store knows (the journal, units, the story) isn't in them.
type Facts struct {
	ID        string           `json:"id"`
	Instance  string           `json:"instance"`
	Type      Type             `json:"type"`
	State     State            `json:"state"`
	Entered   time.Time        `json:"entered"`
	Started   time.Time        `json:"started"`
	Automatic bool             `json:"automatic,omitempty"`
	By        string           `json:"by,omitempty"`
	Attempt   int              `json:"attempt,omitempty"`
	Before    desired.Revision `json:"before"`
	After     desired.Revision `json:"after"`
	PinnedVIM string           `json:"pinnedVim,omitempty"`
	// NoRollback and Params are those of an operation that a push has begun; a request's stand in its
	// commit.
	NoRollback string          `json:"noRollback,omitempty"`
	Params     json.RawMessage `json:"params,omitempty"`
	Error      *ProblemDetails `json:"error,omitempty"`
	// Proposed says that it was only proposed: nothing of After was brought about.
	Proposed bool `json:"proposed,omitempty"`
	VNF      VNF  `json:"vnf,omitzero"`
}

// Attest returns the line that git is to keep of the operation's present state, for people, and the
// facts behind it, for Jibe. pushed says that no commit of Jibe's own has begun the operation; that of one that was
// proposed may not be what was merged. ok
// is false for a state that nobody needs to find again: it follows from the one before.
func (o *Operation) Attest(pushed bool) (line string, facts []byte, ok bool) {
	pushed = pushed || o.Proposal != nil && !o.Proposed()
	first := o.Attempt <= 1 && (o.State == Starting || o.Type == ModifyInfo && o.State == Processing)
	switch {
	case o.After.Commit == "":
		return "", nil, false
	case o.State.Ended():
	case o.Automatic: // it is retried by itself, and begun anew where it is lost
		return "", nil, false
	case o.State == FailedTemp, o.State == RollingBack, o.State == Processing && o.Attempt > 1:
	case first && pushed:
	default:
		return "", nil, false
	}
	f := Facts{ID: o.ID, Instance: o.Instance, Type: o.Type, State: o.State, Entered: o.StateEntered.UTC(), Started: o.Started.UTC(),
		Automatic: o.Automatic, By: o.RequestedBy, Attempt: o.Attempt, Before: o.Before, After: o.After, PinnedVIM: o.PinnedVIM,
		Error: o.Error, Proposed: o.Proposed(), VNF: o.VNF}
	if pushed && first {
		f.NoRollback, f.Params = o.NoRollback, o.Params
	}
	line = fmt.Sprintf("%s %s %s %s %s", o.StateEntered.UTC().Format(time.RFC3339), o.Instance, o.Type, o.State, o.ID)
	if o.Error != nil {
		line += ": " + o.Error.Detail
	}
	facts, err := json.Marshal(f)
	return line, facts, err == nil
}
