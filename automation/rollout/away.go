package rollout

import (
	"fmt"
	"time"
)

// lookAgain is after how long it is looked whether a VIM is back.
const lookAgain = 5 * time.Second

// mostUnseen bounds the attempts at an instance that are made anew as its VIM was away: a VIM which is always
// there for others, and never for this instance, is no outage.
const mostUnseen = 5

// awayFrom are instances that aren't begun with as their VIMs are away.
type awayFrom struct {
	n     int
	first Fact
}

func (a *awayFrom) add(f Fact) {
	if a.n++; a.n == 1 {
		a.first = f
	}
}

// tell says that the decision waits for them, too, and has it looked again: nobody tells that a VIM is back.
func (a *awayFrom) tell(out *Decision, now time.Time) {
	if a.n == 0 {
		return
	}
	waits := fmt.Sprintf("VIM %s to be back, for %s (%s)", a.first.VIM, instances(a.n), a.first.Away)
	if out.Waits != "" {
		waits = out.Waits + ", and " + waits
	}
	out.Waits = waits
	if at := now.Add(lookAgain); out.Wake.IsZero() || at.Before(out.Wake) {
		out.Wake = at
	}
}
