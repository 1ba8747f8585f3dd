package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Held is what [Repo.Accept] would accept, and its effect on VNFs.
type Held struct {
	// From is the commit in effect, and To that of the branch; they are the same where only instances are held.
	From string `json:"from"`
	To   string `json:"to"`
	// Why is the reason for which the branch is held, "" if it isn't.
	Why string `json:"why,omitempty"`
	Effect
	// Instances are the problems of single instances that are held. To accept one ends its VNF and begins another.
	Instances []*desired.Problem `json:"instances"`
	// Missing are the problems of instances whose directories are missing. To accept one ends its VNF.
	Missing []*desired.Problem `json:"missing"`
}

// Effect is what a move of the branch does to VNFs: the directories of the instances of which one ends, begins, or changes.
type Effect struct {
	Ends    []string `json:"ends"`
	Begins  []string `json:"begins"`
	Changes []string `json:"changes"`
}

// mostNamed bounds the directories that a text names.
const mostNamed = 5

func (e Effect) String() string {
	list := func(verb string, dirs []string) string {
		if len(dirs) == 1 {
			verb += "s"
		}
		s := fmt.Sprintf("%d %s", len(dirs), verb)
		if len(dirs) == 0 {
			return s
		}
		names := make([]string, 0, mostNamed)
		for _, dir := range dirs[:min(len(dirs), mostNamed)] {
			names = append(names, strings.TrimPrefix(dir, instancesDir+"/"))
		}
		if n := len(dirs) - len(names); n > 0 {
			names = append(names, fmt.Sprintf("%d more", n))
		}
		return s + " (" + strings.Join(names, ", ") + ")"
	}
	return list("end", e.Ends) + ", " + list("begin", e.Begins) + ", " + list("change", e.Changes)
}

// Any reports whether a VNF ends, begins or changes.
func (e Effect) Any() bool { return len(e.Ends)+len(e.Begins)+len(e.Changes) > 0 }

// effect returns what the difference does to VNFs.
func (d difference) effect() Effect {
	e := Effect{Ends: []string{}, Begins: []string{}, Changes: []string{}}
	runs := func(at desired.Revision) bool {
		s := d.slots[at]
		return s != nil && desired.IsInstantiated(s.state())
	}
	for _, c := range d.changes {
		switch was, is := runs(c.Before), runs(c.After); {
		case was && !is:
			e.Ends = append(e.Ends, c.Before.Dir)
		case is && !was:
			e.Begins = append(e.Begins, c.After.Dir)
		case is && c.Before.Tree != c.After.Tree:
			e.Changes = append(e.Changes, c.After.Dir)
		}
	}
	for _, dirs := range [][]string{e.Ends, e.Begins, e.Changes} {
		slices.Sort(dirs)
	}
	return e
}

// effectOf describes the effect of following a commit, after a colon; it is "" if the commits can't be read, as what it
// explains matters more.
func (r *Repo) effectOf(ctx context.Context, from, to string) string {
	d, err := r.diff(ctx, from, to)
	if err != nil {
		return ""
	}
	return ": of its VNFs " + d.effect().String()
}

// isHeld reports whether only a person can decide about the branch.
func (r *Repo) isHeld() bool { return errors.Is(r.Health(), errHeld) }

// heldBranch returns the problem of a branch that is held, none if it isn't. r.mu is held.
func (r *Repo) heldBranch() []*desired.Problem {
	for _, kind := range []healthKind{healthRef, healthRemote} {
		if e := r.illness(kind); e != nil && errors.Is(e, errHeld) {
			return []*desired.Problem{{File: r.ref(), Message: e.Error(), Remedy: "the state that was followed last stands until then"}}
		}
	}
	return nil
}

// Held returns what a person would accept now. It asks the remote, as Accept does.
func (r *Repo) Held(ctx context.Context) (*Held, error) {
	h := &Held{From: r.Head(), Instances: []*desired.Problem{}, Missing: []*desired.Problem{}}
	h.To = h.From
	r.mu.RLock()
	for _, e := range r.ills {
		if errors.Is(e, errHeld) {
			h.Why = e.Error()
		}
	}
	for _, s := range r.index.bad.all() {
		switch {
		case s.absent != nil:
			h.Missing = append(h.Missing, s.problems...)
		case s.lost:
			h.Instances = append(h.Instances, s.problems...)
		}
	}
	r.mu.RUnlock()

	if h.Why != "" {
		to, err := r.candidate(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w: read the branch that is held: %w", desired.ErrUnavailable, err)
		}
		if to != "" {
			h.To = to
		}
	}
	d, err := r.diff(ctx, h.From, h.To)
	if err != nil {
		return nil, fmt.Errorf("compare commit %s with %s, which is in effect: %w", h.To, h.From, err)
	}
	h.Effect = d.effect()

	return h, nil
}

// candidate returns the commit of the branch, which this repository has then; "" if there is no such branch.
func (r *Repo) candidate(ctx context.Context) (string, error) {
	if r.opt.Remote == "" {
		return git.ReadRef(r.opt.Dir, r.ref())
	}
	asked, err := r.ask(ctx)
	if err != nil {
		return "", err
	}
	defer asked()
	commit, _, err := r.transfer(ctx, false)
	return commit, err
}

// stillHeld refuses to accept another commit than a person was shown.
func stillHeld(shown, now string) error {
	if shown == "" || shown == now {
		return nil
	}
	return fmt.Errorf("nothing was accepted: the branch moved from %s, which was shown, to %s (run jibe accept again)", shown, now)
}
