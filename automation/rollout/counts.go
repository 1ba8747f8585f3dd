package rollout

import (
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// Counts are numbers of instances.
type Counts struct {
	Selected  int `json:"selected"`
	Completed int `json:"completed"` // by the rollout
	Already   int `json:"already"`   // at the target without it
	Failed    int `json:"failed"`
	UnderWay  int `json:"underWay"`
	Back      int `json:"takenBack,omitempty"` // completed or failed before
	Proposed  int `json:"proposed,omitempty"`  // in a pull request that isn't merged
	Pending   int `json:"pending"`
	Passed    int `json:"passed"` // passed over, or superseded
}

// counts are those of all, and those of each wave. Who joins is in the wave under way.
func (d *decider) counts() (all Counts, waves []Counts) {
	waves = make([]Counts, len(d.r.Waves()))
	for _, f := range d.facts {
		a := d.l.Of(f.Instance, d.target)
		if !f.Selected && a == nil {
			continue
		}
		wave := d.wave[f.Instance]
		switch {
		case a != nil:
			wave = a.Wave
		case d.pending(f):
			wave = max(wave, d.l.Wave)
		}
		back := d.l.BackOf(f.Instance, d.target)
		holds := d.l.Proposal.Has(f.Instance)
		all.add(f, a, back, holds)
		if wave < len(waves) { // else the file had more waves when it was begun with
			waves[wave].add(f, a, back, holds)
		}
	}
	return all, waves
}

// add counts an instance, with its attempt at the target and the one back from there. proposed says that
// a pull request has it.
func (c *Counts) add(f Fact, a, back *desired.Attempt, proposed bool) {
	c.Selected++
	switch {
	case a != nil && a.Outcome == "" || back != nil && back.Outcome == "":
		c.UnderWay++
	case back != nil && back.Outcome == desired.OutcomeCompleted:
		c.Back++
	case back != nil && back.Failed():
		c.Failed++
	case LeftTarget(f, a, back): // the ledger of a rollout that has ended is not written any more
		c.Passed++
	case a != nil && a.Outcome == desired.OutcomeCompleted:
		c.Completed++
	case a != nil && a.Failed():
		c.Failed++
	case a != nil:
		c.Passed++
	case proposed:
		c.Proposed++
	case f.Reached && !f.Behind:
		c.Already++
	case f.Passed != "":
		c.Passed++
	default:
		c.Pending++
	}
}

// left is the time that the rest takes at the pace of what was completed.
func (d *decider) left() time.Duration {
	if d.l.Ended != nil {
		return 0
	}
	var took time.Duration
	n, rest, selected := 0, 0, 0
	for _, f := range d.facts {
		a := d.l.Of(f.Instance, d.target)
		if f.Selected {
			selected++
		}
		switch {
		case a != nil && a.Outcome == desired.OutcomeCompleted:
			took += a.Ended.Sub(a.Began)
			n++
		case a != nil && a.Outcome == "", d.pending(f):
			rest++
		}
	}
	if n == 0 || rest == 0 {
		return 0
	}
	most := d.r.AtOnce.Of(selected)
	turns := time.Duration((rest + most - 1) / most)
	gates := time.Duration(max(0, len(d.r.Waves())-1-d.l.Wave))
	return turns*(took/time.Duration(n)) + gates*d.r.After.Watched()
}
