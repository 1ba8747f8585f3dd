package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Held is what [Repo.Accept] would take, and what that would do to VNFs.
type Held struct {
	// From is the commit in effect, and To that of the branch; they are the same where only instances are held.
	From string `json:"from"`
	To   string `json:"to"`
	// Why says why the branch is held, "" where it isn't.
	Why string `json:"why,omitempty"`
	Effect
	// Instances are the problems of instances that are held by themselves: of each the VNF ends, and another begins.
	Instances []*desired.Problem `json:"instances"`
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
	said := func(dirs []string, one, many string) string {
		verb := many
		if len(dirs) == 1 {
			verb = one
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
	return "of its VNFs " + said(e.Ends, "ends", "end") + ", " + said(e.Begins, "begins", "begin") + ", " + said(e.Changes, "changes", "change")
}

// effect is what the difference does to VNFs.
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
	return e
}

// effectOf says in words what it would do to follow a commit, after a colon; nothing where that can't be read.
func (r *Repo) effectOf(ctx context.Context, from, to string) string {
	d, err := r.diff(ctx, from, to)
	if err != nil {
		return ""
	}
	return ": " + d.effect().String()
}

// heldBranch is the problem of a branch that is held, none where it isn't. r.mu is held.
func (r *Repo) heldBranch() []*desired.Problem {
	for _, kind := range []healthKind{healthRef, healthRemote} {
		if e := r.illness(kind); e != nil && errors.Is(e, errHeld) {
			return []*desired.Problem{{File: r.ref(), Message: e.Error(), Remedy: "the state that was followed last stands until then"}}
		}
	}
	return nil
}

// Held returns what a person would accept now.
func (r *Repo) Held(ctx context.Context) (*Held, error) {
	h := &Held{From: r.Head(), Instances: []*desired.Problem{}}
	h.To = h.From
	r.mu.RLock()
	for _, e := range r.ills {
		if errors.Is(e, errHeld) {
			h.Why = e.Error()
		}
	}
	for _, s := range r.index.bad.all() {
		if s.lost {
			h.Instances = append(h.Instances, s.problems...)
		}
	}
	r.mu.RUnlock()

	if h.Why != "" {
		ref := r.ref()
		if r.opt.Remote != "" {
			ref = fetchedRef
		}
		to, err := git.ReadRef(r.opt.Dir, ref)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
		}
		if to != "" {
			h.To = to
		}
	}
	d, err := r.diff(ctx, h.From, h.To)
	if err != nil {
		return nil, fmt.Errorf("what commit %s would do: %w", h.To, err)
	}
	h.Effect = d.effect()

	return h, nil
}

// stillHeld refuses to accept another commit than a person was shown.
func stillHeld(shown, now string) error {
	if shown == "" || shown == now {
		return nil
	}
	return fmt.Errorf("the branch is at %s now, and not at %s, which was shown: look again", now, shown)
}
