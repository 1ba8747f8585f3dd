package automation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/natural"
)

// RolloutStatus is where a rollout stands, for people.
type RolloutStatus struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
	// Problem is why the file isn't obeyed. Nothing else is known then.
	Problem string `json:"problem,omitempty"`
	// Phase is that of package rollout; WaitsFor says what the rollout waits for.
	Phase    rollout.Phase `json:"phase,omitempty"`
	WaitsFor string        `json:"waitsFor,omitempty"`
	VnfdID   string        `json:"vnfdId,omitempty"`
	Package  string        `json:"package,omitempty"`
	// Proposes says that its waves are pull requests.
	Proposes bool `json:"proposes,omitempty"`
	// Wave is the wave under way, from 1, of Waves.
	Wave    int       `json:"wave,omitempty"`
	Waves   int       `json:"waves,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// SecondsLeft is how long it will take at the present pace, without approvals; 0 is unknown.
	SecondsLeft int64          `json:"secondsLeft,omitempty"`
	Gate        string         `json:"gate,omitempty"` // what an approval names
	Counts      rollout.Counts `json:"counts"`
	// PerWave are the same numbers wave by wave; none before the start.
	PerWave []RolloutWave `json:"perWave,omitempty"`
	// Budget is the failure at which nothing more is begun, and Spent how many count against it.
	Budget int `json:"budget,omitempty"`
	Spent  int `json:"spent,omitempty"`
	// Proposal is the pull request that isn't merged yet, or not known to be.
	Proposal *RolloutPull `json:"proposal,omitempty"`
	// UnderWay, Failed, Passed and Stays are instances with the reasons, at most mostNamed of each.
	UnderWay []RolloutInstance `json:"underWay,omitempty"`
	Failed   []RolloutInstance `json:"failed,omitempty"`
	Passed   []RolloutInstance `json:"passed,omitempty"`
	// Stays are those that aren't taken back, though failures.then asks for it.
	Stays []RolloutInstance `json:"stays,omitempty"`
}

// RolloutWave is how a wave of a rollout stands.
type RolloutWave struct {
	// Of says which instances are in it, as the file does: "25 %", or directories.
	Of     string         `json:"of"`
	Counts rollout.Counts `json:"counts"`
}

// RolloutPull is a pull request by which a rollout begins with instances.
type RolloutPull struct {
	Branch string `json:"branch"`
	// Number and Link are the forge's, 0 and "" before it is known to be open.
	Number int64     `json:"number,omitempty"`
	Link   string    `json:"link,omitempty"`
	At     time.Time `json:"at"`
	// Unmerged is since when nothing was merged of what the rollout has proposed, this and what it took the
	// place of.
	Unmerged time.Time `json:"unmerged"`
	// Instances is how many of it aren't on the branch yet.
	Instances int `json:"instances"`
	// Withdrawn is why Jibe closes it, "" where it doesn't.
	Withdrawn string `json:"withdrawn,omitempty"`
}

// RolloutInstance is an instance of a rollout of which something is to be said.
type RolloutInstance struct {
	Instance string `json:"instance"`
	Dir      string `json:"dir"`
	Reason   string `json:"reason,omitempty"`
}

// mostNamed bounds the instances that a status names, and mostOfWave those of a wave.
const (
	mostNamed  = 100
	mostOfWave = 5
)

// List is where all rollouts stand, by name. It decides as a pass does, and changes nothing; it may
// be asked at any process.
func (r *Rollouts) List(ctx context.Context) (out []RolloutStatus, err error) {
	err = r.steady(ctx, func(list []*loaded) error {
		claims := map[string]string{}
		out = []RolloutStatus{}
		for _, x := range list {
			st, err := r.statusOf(ctx, x, claims)
			if err != nil {
				return err
			}
			out = append(out, st)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b RolloutStatus) int { return natural.Compare(a.Name, b.Name) })
	return out, nil
}

// One is where the rollout with the name stands, and the text of its file; else its error is
// [ErrNoRollout].
func (r *Rollouts) One(ctx context.Context, name string) (st RolloutStatus, text []byte, err error) {
	err = r.steady(ctx, func(list []*loaded) error {
		claims := map[string]string{}
		for _, x := range list {
			asked := nameOf(x.file) == name
			if !asked && (x.r == nil || !x.open()) {
				continue // it claims nothing
			}
			var err error
			if st, err = r.statusOf(ctx, x, claims); err != nil || asked {
				text = x.text
				return err
			}
		}
		return noRollout(name)
	})
	if err != nil {
		return RolloutStatus{}, nil, err
	}
	return st, text, nil
}

// mostReads bounds how often [Rollouts.steady] reads.
const mostReads = 5

// steady has read what is loaded, and has it read again where ledgers have moved on meanwhile: beside a ledger of
// before, an instance that was just taken back would be one that needn't be, and its rollout at its end. A pass
// needs none of this, as it commits nothing on top of another ledger.
func (r *Rollouts) steady(ctx context.Context, read func([]*loaded) error) error {
	for n := 1; ; n++ {
		list, err := r.load(ctx)
		if err != nil {
			return err
		}
		err = read(list)
		if n == mostReads || ctx.Err() != nil {
			return err
		}
		now, again := r.load(ctx)
		if again != nil {
			return again
		}
		if slices.EqualFunc(list, now, (*loaded).same) {
			return err
		}
	}
}

// same says whether both are the same files.
func (x *loaded) same(y *loaded) bool {
	return x.file == y.file && x.ledgerFile == y.ledgerFile && bytes.Equal(x.text, y.text) && bytes.Equal(x.ledgerText, y.ledgerText)
}

// statusOf is where one stands. The error is that of ctx; any other is the rollout's problem.
func (r *Rollouts) statusOf(ctx context.Context, x *loaded, claims map[string]string) (RolloutStatus, error) {
	st := RolloutStatus{Name: nameOf(x.file)}
	if x.r == nil {
		st.Problem = x.problem.Error()
		return st, nil
	}
	st.ID, st.VnfdID, st.Package, st.Waves, st.Budget = x.r.ID, x.r.To.VnfdID, x.r.To.Package, len(x.r.Waves()), x.r.Failures.Budget
	st.Proposes = x.r.Proposes()
	if x.r.To.Version != "" {
		st.VnfdID = "of version " + x.r.To.Version
	}
	s, err := r.look(ctx, x, claims)
	if err != nil {
		if ctx.Err() != nil {
			return st, err
		}
		st.Problem = err.Error()
		return st, nil
	}
	st = s.status(st)
	if err := r.Repo.RefusesPushes(); err != nil && s.decision.Phase == rollout.Running {
		st.WaitsFor = err.Error()
	}
	return st, nil
}

// rolloutProblems are the problems of the files at a commit.
type rolloutProblems struct {
	mu   sync.Mutex
	head string
	list []desired.Problem
}

// Problems returns why files of rollouts at head are not in effect. It reads the files alone, and once a commit: it is
// asked each second, and ledgers are long.
func (r *Rollouts) Problems(ctx context.Context) ([]desired.Problem, error) {
	r.problems.mu.Lock()
	defer r.problems.mu.Unlock()
	head := r.Repo.Head()
	if head == r.problems.head {
		return slices.Clone(r.problems.list), nil
	}

	list, err := r.load(ctx)
	if err != nil {
		return nil, err
	}

	var out []desired.Problem
	for _, x := range list {
		invalid, unreadable := errors.AsType[*desired.InvalidError](x.problem)
		one, named := errors.AsType[*desired.Problem](x.problem)
		switch {
		case x.problem == nil:
		case unreadable:
			for _, p := range invalid.Problems {
				out = append(out, *p)
			}
		case named:
			out = append(out, *one)
		default:
			out = append(out, desired.Problem{File: x.file, Message: x.problem.Error()})
		}
	}
	r.problems.head, r.problems.list = head, out

	return slices.Clone(out), nil
}

func nameOf(file string) string { return file[len(desired.RolloutDir)+1 : len(file)-len(".yaml")] }

// status completes a status with what was seen.
func (s *seen) status(st RolloutStatus) RolloutStatus {
	d := s.decision
	st.Phase, st.WaitsFor, st.Gate, st.Counts, st.SecondsLeft = d.Phase, d.Waits, d.Gate, d.Counts, int64(d.Left/time.Second)
	if d.Ledger == nil {
		for _, f := range s.facts {
			if f.Selected {
				st.Counts.Selected++
				st.Counts.Pending++
			}
		}
		return st
	}

	st.Wave, st.Started = d.Ledger.Wave+1, d.Ledger.Started
	st.Spent = d.Ledger.Failures() - d.Ledger.Forgiven
	for n, w := range s.r.Waves() {
		st.PerWave = append(st.PerWave, RolloutWave{membersOf(w), d.Waves[n]})
	}
	if e := d.Ledger.Ended; e != nil {
		st.Ended = e.At
	}
	if p := d.Ledger.Proposal; p != nil {
		st.Proposal = &RolloutPull{Branch: p.Branch, Number: p.Number, Link: p.Link, At: p.At, Unmerged: cmp.Or(d.Ledger.Unmerged, p.At), Instances: len(p.Instances), Withdrawn: p.Withdrawn}
	}
	for _, f := range s.facts {
		st.name(d, f)
	}
	return st
}

// membersOf says which instances are in a wave, as the file does.
func membersOf(w desired.RolloutWave) string {
	if len(w.Instances) == 0 {
		return strconv.Itoa(w.Percent) + " %"
	}
	of := strings.Join(w.Instances[:min(len(w.Instances), mostOfWave)], ", ")
	if more := len(w.Instances) - mostOfWave; more > 0 {
		of += fmt.Sprintf(" and %d more", more)
	}
	return of
}

// name adds an instance to the list that it belongs to, if to any.
func (st *RolloutStatus) name(d rollout.Decision, f rollout.Fact) {
	a, back := d.Ledger.Of(f.Instance, d.Ledger.Target), d.Ledger.BackOf(f.Instance, d.Ledger.Target)
	add := func(list *[]RolloutInstance, reason string) {
		if len(*list) < mostNamed {
			*list = append(*list, RolloutInstance{f.Instance, f.Dir, reason})
		}
	}

	if a != nil && f.Stays != "" && (d.Ledger.Halted != nil || f.Unbegun && d.Phase == rollout.Aborting) {
		add(&st.Stays, f.Stays)
	}
	if back != nil && st.nameTaken(back, add) {
		return
	}
	switch {
	case a == nil && f.Passed != "":
		add(&st.Passed, f.Passed)
	case a != nil && a.Outcome == "":
		add(&st.UnderWay, string(f.Found))
	case a != nil && a.Failed():
		add(&st.Failed, a.Reason)
	case a != nil && a.Outcome == desired.OutcomeSuperseded:
		add(&st.Passed, cmp.Or(a.Reason, "another change took its place"))
	case rollout.LeftTarget(f, a, back):
		add(&st.Passed, rollout.LeftReason)
	}
}

// nameTaken adds an instance by the attempt to take it back, and reports whether that says all.
func (st *RolloutStatus) nameTaken(back *desired.Attempt, add func(list *[]RolloutInstance, reason string)) bool {
	switch {
	case back.Failed():
		add(&st.Failed, "taking it back: "+back.Reason)
	case back.Outcome == "":
		add(&st.UnderWay, "is taken back")
	case back.Outcome == desired.OutcomeCompleted: // it is counted
	default:
		return false
	}
	return true
}
