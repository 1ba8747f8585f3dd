package automation

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Wave is the wave under way, from 1, of Waves.
	Wave    int       `json:"wave,omitempty"`
	Waves   int       `json:"waves,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// SecondsLeft is how long it will take at the present pace, without approvals; 0 is unknown.
	SecondsLeft int64          `json:"secondsLeft,omitempty"`
	Gate        string         `json:"gate,omitempty"` // what an approval names
	Counts      rollout.Counts `json:"counts"`
	// Failed and Passed are instances with the reasons, at most mostNamed of each.
	Failed []RolloutInstance `json:"failed,omitempty"`
	Passed []RolloutInstance `json:"passed,omitempty"`
}

// RolloutInstance is an instance of a rollout of which something is to be said.
type RolloutInstance struct {
	Instance string `json:"instance"`
	Dir      string `json:"dir"`
	Reason   string `json:"reason,omitempty"`
}

// mostNamed bounds the instances that a status names.
const mostNamed = 100

// List is where all rollouts stand, by name. It decides as a pass does, and changes nothing; it may
// be asked at any process.
func (r *Rollouts) List(ctx context.Context) ([]RolloutStatus, error) {
	list, err := r.load(ctx)
	if err != nil {
		return nil, err
	}
	claims := map[string]string{}
	out := []RolloutStatus{}
	for _, x := range list {
		st := RolloutStatus{Name: nameOf(x.file)}
		if x.r == nil {
			st.Problem = x.problem.Error()
			out = append(out, st)
			continue
		}
		st.ID, st.VnfdID, st.Package, st.Waves = x.r.ID, x.r.To.VnfdID, x.r.To.Package, len(x.r.Waves())
		s, err := r.look(ctx, x, claims)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			st.Problem = err.Error()
			out = append(out, st)
			continue
		}
		out = append(out, s.status(st))
	}
	slices.SortFunc(out, func(a, b RolloutStatus) int { return natural.Compare(a.Name, b.Name) })
	return out, nil
}

func nameOf(file string) string { return file[len(desired.RolloutDir)+1 : len(file)-len(".yaml")] }

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
	if e := d.Ledger.Ended; e != nil {
		st.Ended = e.At
	}
	for _, f := range s.facts {
		a := d.Ledger.Of(f.Instance, d.Ledger.Target)
		switch {
		case a != nil && a.Failed() && len(st.Failed) < mostNamed:
			st.Failed = append(st.Failed, RolloutInstance{f.Instance, f.Dir, a.Reason})
		case a == nil && f.Passed != "" && len(st.Passed) < mostNamed:
			st.Passed = append(st.Passed, RolloutInstance{f.Instance, f.Dir, f.Passed})
		case a != nil && a.Outcome == desired.OutcomeSuperseded && len(st.Passed) < mostNamed:
			st.Passed = append(st.Passed, RolloutInstance{f.Instance, f.Dir, "somebody did something else with it"})
		}
	}
	return st
}

// What a person may ask of a rollout.
const (
	RolloutPause   = "pause"
	RolloutResume  = "resume"
	RolloutApprove = "approve"
	RolloutAbort   = "abort"
)

var (
	// ErrNoRollout is returned for a name that no file of a rollout has.
	ErrNoRollout = errors.New("there is no such rollout")
	// ErrRolloutState is returned for what a rollout can't be asked as it stands.
	ErrRolloutState = errors.New("the rollout can't be asked for that now")
)

// Ask does with a rollout what a person asks for, with a commit of theirs: by is that person, author
// the same as git writes people. gate is what an approval is given to, as the person saw it. commit
// is "" where nothing had to be changed.
func (r *Rollouts) Ask(ctx context.Context, name, action, gate, by, author string) (commit string, err error) {
	for range mostAsks {
		// The rollout's own commits come in between: what is asked is asked of what they leave.
		if commit, err = r.ask(ctx, name, action, gate, by, author); !errors.Is(err, errMoved) {
			return commit, err
		}
	}
	return "", fmt.Errorf("%w: it goes on too fast: ask again", ErrRolloutState)
}

// mostAsks is how often something is asked of a rollout that goes on meanwhile.
const mostAsks = 20

func (r *Rollouts) ask(ctx context.Context, name, action, gate, by, author string) (commit string, err error) {
	list, err := r.load(ctx)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(list, func(x *loaded) bool { return nameOf(x.file) == name })
	if at < 0 {
		return "", fmt.Errorf("%w: %s (see: jibe get rollouts)", ErrNoRollout, name)
	}
	x := list[at]
	switch {
	case x.r == nil:
		return "", fmt.Errorf("%w: its file can't be obeyed: %w", ErrRolloutState, x.problem)
	case x.l != nil && x.l.Ended != nil:
		return "", fmt.Errorf("%w: rollout %s has ended (%s): begin another with a file of its own", ErrRolloutState, name, x.l.Ended.As)
	}
	var l *desired.Ledger
	if x.l != nil {
		l = x.l.Clone()
	}
	text, subject, err := r.asked(ctx, x, l, action, gate, by)
	if err != nil {
		return "", err
	}
	files := []string{x.file}
	if l != nil {
		files = append(files, x.ledgerFile)
	}
	out, err := r.Repo.WriteMany(ctx, desired.WriteMany{
		Files: files, Subject: subject + " rollout " + name, By: author,
		Trailers: []desired.Trailer{{Key: desired.TrailerRollout, Value: name + " " + x.r.ID}, {Key: desired.TrailerRequestedBy, Value: by}},
		Change: func(now map[string][]byte, _ []desired.Revised) (map[string][]byte, error) {
			if string(now[x.file]) != string(x.text) || l != nil && string(now[x.ledgerFile]) != string(x.ledgerText) {
				return nil, errMoved
			}
			next := map[string][]byte{x.file: text}
			if l != nil {
				next[x.ledgerFile] = l.Encode()
			}
			return next, nil
		},
	})
	return out.Commit, err
}

// asked changes the ledger, which is nil before the start, and returns the file's new text.
func (r *Rollouts) asked(ctx context.Context, x *loaded, l *desired.Ledger, action, gate, by string) (text []byte, subject string, err error) {
	state := func(to string) ([]byte, error) {
		text, _, err := desired.EditRollout(x.file, x.text, desired.KeyValue{Path: []string{"state"}, Value: to})
		return text, err
	}
	if x.r.State == desired.RolloutAborted && action != RolloutAbort {
		return nil, "", fmt.Errorf("%w: it was aborted: begin another with a file of its own", ErrRolloutState)
	}
	switch action {
	case RolloutPause:
		text, err = state(desired.RolloutPaused)
		return text, "Pause", err
	case RolloutResume:
		if l != nil && l.Halted != nil {
			l.Halted, l.Forgiven = nil, l.Failures()
		}
		text, err = state(desired.RolloutRunning)
		return text, "Resume", err
	case RolloutAbort:
		text, err = state(desired.RolloutAborted)
		return text, "Abort", err
	case RolloutApprove:
		if l == nil {
			return nil, "", fmt.Errorf("%w: it hasn't begun", ErrRolloutState)
		}
		s, err := r.look(ctx, x, map[string]string{})
		if err != nil {
			return nil, "", err
		}
		if d := s.decision; d.Phase != rollout.Approving {
			return nil, "", fmt.Errorf("%w: it is %s and waits for no approval", ErrRolloutState, d.Phase)
		} else if gate != d.Gate {
			return nil, "", fmt.Errorf("%w: what was approved isn't how it stands now: look at it, and approve %s", ErrRolloutState, d.Gate)
		}
		l.Approved = &desired.Approval{Gate: gate, By: by, At: r.Now()}
		return x.text, "Approve the next wave of", nil
	}
	return nil, "", fmt.Errorf("%w: %q", ErrRolloutState, action)
}
