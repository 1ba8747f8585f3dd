// Package rollout decides what a rollout does next. It is pure: it reads nothing, writes nothing
// and knows no clock but the time that it is given. What it decides is data; the runner in package
// automation carries it out with one commit, which holds the ledger that the decision was made for.
package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/window"
)

// Found is what became of an instance's latest attempt, as operations tell.
type Found string

// What can be found.
const (
	Nothing    Found = ""           // there is no attempt
	Waiting    Found = "waiting"    // committed, and no operation of it has begun
	UnderWay   Found = "underWay"   // its operation hasn't ended
	FailedTemp Found = "failedTemp" // its operation waits for a person
	Completed  Found = "completed"
	Failed     Found = "failed"
	Superseded Found = "superseded" // somebody did something else with the instance meanwhile
	Unknown    Found = "unknown"    // nobody can tell
	Unseen     Found = "unseen"     // its VIM was away until the operation ended, of which nothing had begun
)

// Occupies says whether the attempt takes a place of atOnce.
func (f Found) Occupies() bool { return f == Waiting || f == UnderWay || f == FailedTemp }

// Fact is what is known of one instance.
type Fact struct {
	Instance, Dir, VIM string
	// Selected says that the rollout concerns it now. What isn't may still have an attempt.
	Selected bool
	// Reached says that its file at head asks for the target.
	Reached bool
	// Tree is that of its directory at head, "" where it is gone. Began is when the operation began that
	// brought it where the ledger's proposal would, zero where none is known. Both are known of
	// what such a proposal has.
	Tree  string
	Began time.Time
	// Passed is why it is passed over, "" where it isn't: it is held, suspended, or follows its package.
	Passed string
	// Busy is why nothing can be begun with it now, "" where it can.
	Busy string
	// Away is why its VIM is away, "" where that is there or nobody has looked.
	Away string
	// Back says that it stands where it was before its attempt at the target, and Stays why it can't be
	// taken back there, "" where it can. Both are known of what has such an attempt.
	Back  bool
	Stays string
	// Found is what became of its latest attempt, since Ended where that has ended, with Reason
	// where it failed.
	Found  Found
	Ended  time.Time
	Reason string
	// Unbegun reports whether nothing of its latest attempt has begun: its commit waits for a window or a freeze, or its
	// operation waits in STARTING.
	Unbegun bool
	// Behind reports whether the instance isn't yet what its file asks for.
	Behind bool
}

// Phase is where a rollout stands.
type Phase string

// The phases.
const (
	Running     Phase = "running"
	Merging     Phase = "waiting for merge"
	Soaking     Phase = "soaking"
	Checking    Phase = "checking"
	Approving   Phase = "waiting for approval"
	Paused      Phase = "paused"
	Halted      Phase = "halted"
	RollingBack Phase = "rolling back"
	Aborting    Phase = "aborting"
	Aborted     Phase = "aborted"
	Done        Phase = "completed"
	RolledBack  Phase = desired.RolledBack
)

// Decision is what comes next.
type Decision struct {
	// Ledger is the one that is to stand from now on. Where Changed is false it is the one that
	// was given. It must be committed in the same commit as what Start leads to, or before.
	Ledger  *desired.Ledger
	Changed bool
	// Start are the instances to begin with, in one commit, and Back those to take back; Propose are
	// those to begin with by a pull request. Only one of them has any.
	Start, Back, Propose []string
	Phase                Phase
	// Waits says what the rollout waits for, for people.
	Waits string
	// Wake is when to ask again although nothing has changed; zero is never.
	Wake time.Time
	// Ask says that the queries of the gate are to be asked, and Decide once more with what they say.
	Ask bool
	// Gate is the digest that a person approves, while Phase is Approving.
	Gate string
	// Counts are of the instances that the rollout concerns, for the target that counts; Waves are
	// the same wave by wave.
	Counts Counts
	Waves  []Counts
	// Left is how long it will take at the present pace, without approvals; 0 is unknown.
	Left time.Duration
}

// Checked is what the queries of a gate say now.
type Checked struct {
	Met bool
	Why string // where they aren't met
}

// recheck is after how long queries are asked again that aren't met.
const recheck = 15 * time.Second

// Decide says what comes next for the rollout r, whose ledger is l. now is the present time.
//
// It never starts an instance twice for one target, nor takes it back twice, never more than atOnce and
// perVIM allow together with what is under way or proposed, and nothing once the budget of failures is spent.
func Decide(r *desired.Rollout, l *desired.Ledger, facts []Fact, said Said, now time.Time) Decision {
	d := &decider{r: r, was: l, l: l.Clone(), target: r.To.Digest(), facts: slices.Clone(facts), said: said, now: now}
	if l.Ended != nil {
		d.l.Target = cmp.Or(d.l.Target, d.target)
		d.target = d.l.Target
	}
	d.sort()
	out := d.decide()
	if wake := d.wake(); out.Wake.IsZero() || !wake.IsZero() && wake.Before(out.Wake) {
		out.Wake = wake
	}
	out.Ledger = d.l
	if !d.changed {
		out.Ledger = l
	}
	out.Changed = d.changed
	out.Counts, out.Waves = d.counts()
	if out.Phase != RollingBack {
		out.Left = d.left()
	}
	return out
}

type decider struct {
	r       *desired.Rollout
	was, l  *desired.Ledger
	target  string // digest
	facts   []Fact
	wave    map[string]int
	said    Said
	now     time.Time
	changed bool
}

// sort puts the facts in the order in which instances are begun: by wave, then by rank.
func (d *decider) sort() {
	d.wave = make(map[string]int, len(d.facts))
	rank := make(map[string]uint64, len(d.facts))
	for i, f := range d.facts {
		n, ok := d.r.WaveOf(f.Instance, f.Dir)
		if !ok {
			d.facts[i].Selected = false
		}
		d.wave[f.Instance], rank[f.Instance] = n, d.r.Rank(f.Instance)
	}
	slices.SortFunc(d.facts, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(d.wave[a.Instance], d.wave[b.Instance]), cmp.Compare(rank[a.Instance], rank[b.Instance]), cmp.Compare(a.Instance, b.Instance))
	})
}

func (d *decider) decide() Decision {
	if d.l.Ended != nil {
		return Decision{Phase: Phase(d.l.Ended.As)}
	}
	same := d.l.Target == d.target
	d.aim()
	d.outcomes()
	if undone := d.undone(); undone >= 0 && same && d.l.Halted == nil && d.r.State == desired.RolloutRunning {
		d.halt(fmt.Sprintf("wave %d was taken back by other commits", undone+1))
	}
	d.arrivals()
	d.budget()
	if out, stands := d.proposed(); stands {
		return out
	}
	active, unbegun := d.active(), d.unbegun()
	switch {
	case d.r.State == desired.RolloutAborted && len(unbegun) > 0:
		return Decision{Phase: Aborting, Back: unbegun, Waits: withdraws(unbegun)}
	case d.r.State == desired.RolloutAborted && active == 0:
		return d.end(Aborted, Aborting)
	case d.r.State == desired.RolloutAborted:
		return Decision{Phase: Aborting, Waits: fmt.Sprintf("the end of %s", operations(active))}
	case d.l.Halted != nil:
		return d.halted()
	case d.r.State == desired.RolloutPaused:
		return Decision{Phase: Paused, Waits: "jibe rollout resume " + d.r.Name}
	}
	return d.proceed()
}

// aim begins anew where a person has changed the target.
func (d *decider) aim() {
	if d.l.Target == d.target {
		return
	}
	d.l.Target, d.l.Wave, d.l.Soak, d.l.Approved, d.l.Halted, d.l.Forgiven = d.target, 0, time.Time{}, nil, nil, 0
	d.changed = true
}

// outcomes writes down what became of attempts.
func (d *decider) outcomes() {
	for _, f := range d.facts {
		list := d.l.Attempts[f.Instance]
		if len(list) == 0 || list[len(list)-1].Outcome != "" {
			continue
		}
		a := &list[len(list)-1]
		switch f.Found {
		case Completed:
			a.Outcome = desired.OutcomeCompleted
		case Failed, FailedTemp:
			a.Outcome = desired.OutcomeFailed
		case Superseded:
			a.Outcome = desired.OutcomeSuperseded
		case Unknown:
			a.Outcome = desired.OutcomeUnknown
		case Unseen:
			a.Outcome, a.Retried = desired.OutcomeUnseen, true
			if d.l.Unseen(f.Instance, a.Target) > mostUnseen {
				a.Outcome, a.Retried = desired.OutcomeFailed, false
			}
		default:
			continue
		}
		a.Ended, a.Reason = f.Ended, f.Reason
		if a.Ended.IsZero() {
			a.Ended = d.now
		}
		d.changed = true
	}
}

// budget halts the rollout at the failure that is one too many, and at an outcome that nobody knows.
func (d *decider) budget() {
	if d.l.Halted != nil {
		return
	}
	unknown, last := 0, ""
	for _, f := range d.facts {
		if a := d.l.Of(f.Instance, d.target); a != nil && a.Failed() {
			last = cmp.Or(last, f.Dir)
			if a.Outcome == desired.OutcomeUnknown {
				unknown++
			}
		}
	}
	switch fresh := d.l.Failures() - d.l.Forgiven; {
	case fresh > 0 && unknown > 0:
		d.halt(fmt.Sprintf("of %s nobody knows what came: the records of operations don't tell", instances(unknown)))
		d.l.Halted.Unknown = true
	case fresh >= d.r.Failures.Budget:
		d.halt(fmt.Sprintf("%d failed, and the budget is %d: %s", fresh, d.r.Failures.Budget, last))
	}
}

func (d *decider) halt(reason string) {
	d.l.Halted = &desired.Halt{At: d.now, Reason: reason}
	d.changed = true
}

// end ends the rollout, unless its pull request isn't known to be merged or closed: then it stays in the
// phase before.
func (d *decider) end(as, before Phase) Decision {
	if p := d.l.Proposal; p != nil {
		return Decision{Phase: before, Waits: d.pulled(p)}
	}
	d.l.Ended = &desired.RolloutEnd{At: d.now, As: string(as)}
	d.changed = true
	return Decision{Phase: as}
}

// active counts the attempts of which no outcome is written down.
func (d *decider) active() (n int) {
	for _, f := range d.facts {
		if d.unended(f) {
			n++
		}
	}
	return n
}

// unended says whether the instance has an attempt of which no outcome is written down.
func (d *decider) unended(f Fact) bool {
	list := d.l.Attempts[f.Instance]
	return len(list) > 0 && list[len(list)-1].Outcome == ""
}

// pending says whether the rollout has still to begin with the instance.
func (d *decider) pending(f Fact) bool {
	return f.Selected && !f.Reached && f.Passed == "" && d.l.Of(f.Instance, d.target) == nil
}

// proceed begins what may begin, and passes gates.
func (d *decider) proceed() Decision {
	last := len(d.r.Waves()) - 1
	for {
		if d.l.Soak.IsZero() {
			if out, open := d.begin(); open {
				return out
			}
			if d.l.Wave >= last {
				return d.end(Done, Running)
			}
			completed, tried := d.ended(d.l.Wave)
			switch {
			case tried == 0 || d.r.After.IsZero():
				d.next() // an empty wave has no gate
				continue
			case completed == 0 && d.l.Failures() > d.l.Forgiven: // else a person had it go on
				d.halt(fmt.Sprintf("no instance of wave %d was completed", d.l.Wave+1))
				return d.halted()
			}
			d.l.Soak, d.changed = d.now, true
		}
		if until := d.l.Soak.Add(d.r.After.Watched()); d.now.Before(until) {
			return Decision{Phase: Soaking, Wake: until, Waits: fmt.Sprintf("wave %d to be watched until %s", d.l.Wave+1, until.UTC().Format(time.RFC3339))}
		}
		if out, met := d.check(); !met {
			return out
		}
		if gate := d.l.Gate(); d.r.After.Approve && (d.l.Approved == nil || d.l.Approved.Gate != gate) {
			return Decision{Phase: Approving, Gate: gate, Waits: fmt.Sprintf("approval of wave %d: jibe rollout approve %s", d.l.Wave+2, d.r.Name)}
		}
		d.next()
	}
}

// check says whether the queries of the gate are met.
func (d *decider) check() (out Decision, met bool) {
	switch {
	case len(d.r.After.Prometheus) == 0:
		return out, true
	case d.said.Checked == nil:
		return Decision{Phase: Checking, Ask: true, Waits: "an answer of Prometheus"}, false
	case d.said.Checked.Met:
		return out, true
	}
	return Decision{Phase: Checking, Wake: d.now.Add(recheck), Waits: fmt.Sprintf("its queries after wave %d: %s", d.l.Wave+1, d.said.Checked.Why)}, false
}

func (d *decider) next() {
	d.said.Checked = nil // it was about the wave before
	d.l.Wave++
	d.l.Soak, d.l.Approved, d.changed = time.Time{}, nil, true
}

// begin picks who starts now. open is false where the wave under way has ended.
func (d *decider) begin() (out Decision, open bool) {
	busy, pending := 0, 0
	places, gone := d.places(), awayFrom{}
	out.Phase = Running
	waits := ""
	for _, f := range d.facts {
		if d.wave[f.Instance] > d.l.Wave {
			break
		}
		if !d.pending(f) {
			continue
		}
		pending++
		switch {
		case f.Busy != "":
			busy++
			waits = cmp.Or(waits, f.Dir+": "+f.Busy)
		case f.Away != "":
			gone.add(f)
		case places.take(f):
			out.Start = append(out.Start, f.Instance)
		}
	}
	if len(out.Start) > 0 {
		d.await(&out)
	}
	active := d.active()
	if d.r.Proposes() { // the next one when the one before has come to its end: a person is asked once for many
		if active == 0 && d.l.Proposal == nil {
			out.Propose = out.Start
		}
		out.Start = nil
	}
	switch {
	case len(places.atVIM) == 0 && len(d.l.Attempts) == 0:
		out.Waits = "instances that meet select: there are none"
		return out, true
	case pending == 0 && active == 0:
		return out, false
	}
	switch {
	case len(out.Propose) > 0:
		out.Phase, out.Waits = Merging, fmt.Sprintf("%s to be proposed", instances(len(out.Propose)))
	case active > 0 || len(out.Start) > 0:
		out.Waits = fmt.Sprintf("the end of %s", operations(active+len(out.Start)))
	case out.Waits != "": // for its window
	case d.l.Proposal != nil:
		out.Waits = d.pulled(d.l.Proposal)
	case busy > 0:
		out.Waits = fmt.Sprintf("%s of which something else is under way (%s)", instances(busy), waits)
	case gone.n > 0:
	default:
		out.Waits = fmt.Sprintf("a place: %d of %d are taken by what has failed and waits for a person", places.taken, places.most)
	}
	gone.tell(&out, d.now)
	return out, true
}

// await leaves what would start until one of the rollout's windows is open for as long as an
// instance takes. What has begun is never cut short.
func (d *decider) await(out *Decision) {
	takes := d.longest()
	w := window.Ask([]window.Calendar{{Windows: d.r.Windows}}, d.now, takes)
	if w.Open {
		return
	}
	out.Start, out.Back, out.Wake, out.Waits = nil, nil, w.Until, "its window, which opens at no time in sight"
	if !w.Until.IsZero() {
		out.Waits = "its window, which opens at " + w.Until.UTC().Format(time.RFC3339)
	}
	if w.Short {
		out.Waits += fmt.Sprintf(" (an instance took up to %s, which is more than is left)", takes.Round(time.Second))
	}
}

// longest is how long the slowest instance took that was completed; 0 where none was, as a guess would
// hold back what fits.
func (d *decider) longest() (most time.Duration) {
	for _, f := range d.facts {
		if a := d.l.Of(f.Instance, d.target); a != nil && a.Outcome == desired.OutcomeCompleted {
			most = max(most, a.Ended.Sub(a.Began))
		}
	}
	return most
}

// ended counts the attempts of a wave that have been completed, and those that count for its gate.
func (d *decider) ended(wave int) (completed, tried int) {
	for _, f := range d.facts {
		a := d.l.Of(f.Instance, d.target)
		if a == nil || a.Wave != wave || a.Outcome == desired.OutcomeSuperseded {
			continue
		}
		tried++
		if a.Outcome == desired.OutcomeCompleted {
			completed++
		}
	}
	return completed, tried
}

func operations(n int) string { return plural(n, "operation") }
func instances(n int) string  { return plural(n, "instance") }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
