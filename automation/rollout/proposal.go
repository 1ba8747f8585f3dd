package rollout

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/window"
)

// Pull is what is known of the pull request that stands in the ledger.
type Pull string

// What can be known.
const (
	PullUnknown Pull = ""       // nobody was asked, or it isn't known to be open yet
	PullOpen    Pull = "open"   // it can be merged
	PullMerged  Pull = "merged" // and the branch that runs has the merge
	PullComing  Pull = "coming" // the forge has merged it, and the branch doesn't have that here yet
	PullClosed  Pull = "closed" // and not merged
)

// Said is what others say that a decision depends on.
type Said struct {
	// Checked is what the queries of the gate say, nil where they weren't asked: see [Decision.Ask].
	Checked *Checked
	// Pull is what is known of the ledger's proposal, whose pull request has the number and link; 0 and "" where
	// that isn't known to be open yet. Away is why the forge can't be asked, "" where it can.
	Pull   Pull
	Number int64
	Link   string
	Away   string
}

// settles is how long after the first of a proposal's instances came to the branch the forge has time to say
// that it was merged.
const settles = time.Minute

// arrivals makes attempts of what was proposed and is on the branch now, whoever brought it there: it
// takes its place of atOnce from the moment that its operation may begin.
func (d *decider) arrivals() {
	p := d.l.Proposal
	if p == nil {
		return
	}
	for _, f := range d.facts {
		trees, in := p.Instances[f.Instance]
		edited := f.Tree != trees.Tree
		if !in || f.Tree == trees.Prior || edited && (!f.Reached || p.Target != d.target) {
			continue
		}
		began := f.Began
		if began.IsZero() {
			began = d.now
		}
		d.l.Attempts[f.Instance] = append(d.l.Attempts[f.Instance],
			desired.Attempt{Edited: edited, Target: p.Target, Wave: p.Wave, Prior: trees.Prior, Tree: f.Tree, Began: began})
		delete(p.Instances, f.Instance)
		if p.Part.IsZero() {
			p.Part = d.now
		}
		d.l.Unmerged, d.changed = d.now, true
	}
}

// proposed says what comes of the proposal while one stands: nothing else is begun then. One of which all
// is on the branch holds up only the next, until its pull request is known to be merged or closed.
func (d *decider) proposed() (out Decision, stands bool) {
	p := d.l.Proposal
	if p == nil {
		return out, false
	}
	if p.Number == 0 && d.said.Number != 0 {
		p.Number, p.Link, d.changed = d.said.Number, d.said.Link, true
	}
	all := len(p.Instances) == 0
	switch pull := d.said.Pull; {
	case pull == PullMerged, all && (pull == PullComing || pull == PullClosed):
		d.leftOut(p)
		d.l.Proposal, d.l.Unmerged, d.changed = nil, time.Time{}, true
		return out, false
	case pull == PullClosed:
		if p.Withdrawn == "" && d.r.State == desired.RolloutRunning && d.l.Halted == nil {
			d.halt(fmt.Sprintf("%s was closed, and not merged", p))
			d.l.Halted.Closed = true
		}
		if d.r.State != desired.RolloutRunning || d.l.Halted != nil || !d.r.Proposes() || p.Target != d.target {
			d.l.Unmerged = time.Time{} // somebody has looked at it, and what is proposed next is another question
		}
		d.l.Proposal, d.changed = nil, true
		return out, false
	}
	if p.Withdrawn == "" {
		if p.Withdrawn = d.unwanted(p); p.Withdrawn != "" {
			d.changed = true
		}
	}
	if all {
		return out, false
	}
	out.Phase = Merging
	switch {
	case d.r.State == desired.RolloutAborted:
		out.Phase = Aborting
	case d.l.Halted != nil:
		out.Phase = Halted
	case d.r.State == desired.RolloutPaused:
		out.Phase = Paused
	}
	out.Waits = d.pulled(p)
	return out, true
}

// wake is when to look at the proposal again although nothing is told: a forge may tell late that something was merged,
// and a window closes.
func (d *decider) wake() (at time.Time) {
	p := d.l.Proposal
	if p == nil {
		return at
	}
	next := []time.Time{p.Part.Add(settles)}
	if w := window.At(d.r.Windows, d.now); !w.Until.IsZero() {
		next = append(next, w.Until.Add(-d.longest()).Add(time.Nanosecond), w.Until) // what takes just as long fits
	}
	for _, t := range next {
		if t.After(d.now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

// pulled is what a proposal waits for.
func (d *decider) pulled(p *desired.RolloutProposal) string {
	switch {
	case d.said.Away != "":
		return fmt.Sprintf("the forge, for %s: %s", p, d.said.Away)
	case d.said.Pull == PullComing:
		return fmt.Sprintf("the merge of %s to come from the forge", p)
	case p.Withdrawn != "":
		return fmt.Sprintf("%s to be closed: %s", p, p.Withdrawn)
	case !p.Part.IsZero():
		return fmt.Sprintf("the forge to say that %s was merged", p)
	case p.Number == 0:
		return fmt.Sprintf("%s to be opened", p)
	}
	return fmt.Sprintf("%s to be merged", p)
}

// leftOut passes over what was proposed and isn't in what was merged.
func (d *decider) leftOut(p *desired.RolloutProposal) {
	for _, id := range slices.Sorted(maps.Keys(p.Instances)) {
		d.l.Attempts[id] = append(d.l.Attempts[id], desired.Attempt{Target: p.Target, Wave: p.Wave, Prior: p.Instances[id].Prior, Began: d.now,
			Outcome: desired.OutcomeSuperseded, Ended: d.now, Reason: fmt.Sprintf("%s was merged without it", p)})
	}
}

// unwanted is why the proposal isn't to be merged any more, "" where it is.
func (d *decider) unwanted(p *desired.RolloutProposal) string {
	switch {
	case d.r.State == desired.RolloutAborted:
		return "the rollout was aborted"
	case d.r.State == desired.RolloutPaused:
		return "the rollout is paused"
	case d.l.Halted != nil:
		return "the rollout is halted"
	case !d.r.Proposes():
		return "the rollout commits by itself now"
	case p.Target != d.target:
		return "the rollout has another target now"
	case !p.Part.IsZero() && d.now.Before(p.Part.Add(settles)):
		return "" // the forge may be behind git
	case len(p.Instances) == 0:
		return "all of it is on the branch"
	case !p.Part.IsZero():
		return "some of it is on the branch already"
	case !window.Ask([]window.Calendar{{Windows: d.r.Windows}}, d.now, d.longest()).Open:
		return "its window closes" // who merges it later would begin outside of it
	}
	places, known := d.places(), 0
	for _, f := range d.facts {
		trees, in := p.Instances[f.Instance]
		if !in {
			continue
		}
		known++
		switch {
		case f.Tree == "":
			return f.Dir + " is gone"
		case f.Tree != trees.Prior:
			return "the branch has changed " + f.Dir + " since"
		case !f.Selected:
			return f.Dir + " isn't selected any more"
		case f.Passed != "":
			return f.Dir + ": " + f.Passed
		case !places.take(f):
			return "it has more instances than atOnce and perVIM allow now"
		}
	}
	if known < len(p.Instances) {
		return "an instance of it is gone"
	}
	return ""
}

// places are those of atOnce and perVIM, with what takes one.
type places struct {
	d           *decider
	most, taken int
	perVIM      map[string]int // what takes one
	atVIM       map[string]int // what is selected
}

// places are those that are left beside the attempts.
func (d *decider) places() *places {
	p := &places{d: d, perVIM: map[string]int{}, atVIM: map[string]int{}}
	selected := 0
	for _, f := range d.facts {
		if f.Found.Occupies() || d.unended(f) { // what has just been merged has no operation yet
			p.taken++
			p.perVIM[f.VIM]++
		}
		if f.Selected {
			selected++
			p.atVIM[f.VIM]++
		}
	}
	p.most = d.r.AtOnce.Of(selected)
	return p
}

// take takes a place for an instance, if there is one.
func (p *places) take(f Fact) bool {
	if p.taken >= p.most || !p.d.r.PerVIM.IsZero() && p.perVIM[f.VIM] >= p.d.r.PerVIM.Of(p.atVIM[f.VIM]) {
		return false
	}
	p.taken++
	p.perVIM[f.VIM]++
	return true
}

// Propose is the ledger in which a proposal stands, or none where p is nil, with the attempts that were refused before: see
// [Begin].
func Propose(l *desired.Ledger, p *desired.RolloutProposal, refused map[string]string, now time.Time) *desired.Ledger {
	next := Begin(l, false, nil, refused, now)
	if p != nil {
		next.Proposal, next.Proposals = p, next.Proposals+1
		if next.Unmerged.IsZero() {
			next.Unmerged = now
		}
	}
	return next
}
