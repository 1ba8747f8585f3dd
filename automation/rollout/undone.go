package rollout

import "github.com/jibe-vnfm/jibe/desired"

// undone records the instances that were completed and don't ask for the target any more. It returns the last wave that
// was reverted as a whole, -1 where there is none: what a person takes back is not to go to all others.
func (d *decider) undone() int {
	wave := -1
	for _, f := range d.facts {
		a := d.l.Of(f.Instance, d.target)
		if a == nil || !LeftTarget(f, a, d.l.BackOf(f.Instance, d.target)) {
			continue
		}
		a.Outcome, a.Reason, d.changed = desired.OutcomeSuperseded, LeftReason, true
		if f.Found == Superseded && f.Reason != "" {
			a.Reason = f.Reason
		}
		if f.Back { // else it was scaled, or edited otherwise
			wave = max(wave, a.Wave)
		}
	}
	if wave >= 0 {
		if completed, _ := d.ended(wave); completed > 0 {
			return -1
		}
	}

	return wave
}

// LeftReason is why an instance is passed over that a later commit took from the target.
const LeftReason = "a later commit took it from the target"

// LeftTarget reports whether the instance was completed and its file at head doesn't ask for the target any more,
// through no attempt of the rollout.
func LeftTarget(f Fact, a, back *desired.Attempt) bool {
	return a != nil && a.Outcome == desired.OutcomeCompleted && back == nil && !f.Reached
}
