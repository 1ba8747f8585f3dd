package rollout

import (
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// Begin is the ledger in which the attempts at what was started stand, or, with back, those to take
// it back. trees are the trees of the directories by instance, before and after the commit; refused
// says of others why they were refused, which is a failure.
func Begin(l *desired.Ledger, back bool, started map[string][2]string, refused map[string]string, now time.Time) *desired.Ledger {
	next := l.Clone()
	attempt := func(id string) desired.Attempt {
		a := desired.Attempt{Back: back, Target: l.Target, Wave: l.Wave, Began: now}
		if back {
			a.Wave = l.Of(id, l.Target).Wave
		}
		return a
	}
	for id, trees := range started {
		a := attempt(id)
		if list := next.Attempts[id]; back && len(list) > 0 && list[len(list)-1].Outcome == "" {
			last := &list[len(list)-1] // its outcome will not be looked for: the attempt back is the latest now
			last.Outcome, last.Ended, last.Reason = desired.OutcomeSuperseded, now, "it was taken back before it began"
		}
		a.Prior, a.Tree = trees[0], trees[1]
		next.Attempts[id] = append(next.Attempts[id], a)
	}
	for id, why := range refused {
		a := attempt(id)
		a.Outcome, a.Ended, a.Reason = desired.OutcomeFailed, now, why
		next.Attempts[id] = append(next.Attempts[id], a)
	}
	return next
}
