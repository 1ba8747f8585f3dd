package automation

import (
	"context"

	"github.com/jibe-vnfm/jibe/desired"
)

// Rolled is an instance that a rollout selects.
type Rolled struct {
	Head desired.Revision
	// After is what the rollout makes of it, nil where it is passed over, for the reason given.
	After  *desired.Instance
	Passed string
}

// Rolled says what a rollout that isn't in the repository yet would make of the instances that it selects, were it
// to start now. An instance that is there already isn't named.
func (r *Rollouts) Rolled(ctx context.Context, file string, ro *desired.Rollout) ([]Rolled, error) {
	proposed := *ro
	s, err := r.look(ctx, &loaded{file: file, r: &proposed}, map[string]string{})
	if err != nil {
		return nil, err
	}
	to := proposed.To
	for _, pin := range s.pins {
		text, _ := pin.Value.(string)
		switch pin.Path[len(pin.Path)-1] {
		case "version":
			to.Version = ""
		case "vnfdId":
			to.VnfdID = text
		case "package":
			to.Package = text
		}
	}
	var out []Rolled
	for _, f := range s.facts {
		h := s.heads[f.Instance]
		if !f.Selected || f.Reached {
			continue
		}
		x := Rolled{Head: h.Revision, Passed: f.Passed}
		if f.Passed == "" {
			var in *desired.Instance
			if in, _, x.After, err = r.edited(ctx, to, h); err != nil {
				return nil, err
			}
			if to.Reached(in) {
				continue
			}
		}
		out = append(out, x)
	}
	return out, nil
}
