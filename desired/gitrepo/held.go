package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Held is what [Repo.Accept] would accept, and its effect on VNFs.
type Held struct {
	// From is the commit in effect, and To that of the branch; they are the same where only instances are held.
	From string `json:"from"`
	To   string `json:"to"`
	// Why is the reason for which the branch is held, "" if it isn't.
	Why string `json:"why,omitempty"`
	read.Effect
	// Instances are the problems of single instances that are held. To accept one ends its VNF and begins another.
	Instances []*desired.Problem `json:"instances"`
	// Missing are the problems of instances whose directories are missing. To accept one ends its VNF.
	Missing []*desired.Problem `json:"missing"`
}

// effectOf describes the effect of following a commit, after a colon; it is "" if the commits can't be read, as what it
// explains matters more.
func (r *Repo) effectOf(ctx context.Context, from, to string) string {
	d, err := r.read.Difference(ctx, from, to)
	if err != nil {
		return ""
	}
	return ": of its VNFs " + d.Effect().String()
}

// isHeld reports whether only a person can decide about the branch.
func (r *Repo) isHeld() bool { return errors.Is(r.Health(), errHeld) }

// heldBranch returns the problem of a branch that is held, none if it isn't. r.mu is held.
func (r *Repo) heldBranch() []*desired.Problem {
	for _, kind := range []healthKind{healthRef, healthRemote} {
		if e := r.illness(kind); e != nil && errors.Is(e, errHeld) {
			return []*desired.Problem{{File: r.read.Ref(), Message: e.Error(), Remedy: "the state that was followed last stands until then"}}
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
	for _, s := range r.index.Bad.All() {
		switch {
		case s.Absent != nil:
			h.Missing = append(h.Missing, s.Problems...)
		case s.Lost:
			h.Instances = append(h.Instances, s.Problems...)
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
	d, err := r.read.Difference(ctx, h.From, h.To)
	if err != nil {
		return nil, fmt.Errorf("compare commit %s with %s, which is in effect: %w", h.To, h.From, err)
	}
	h.Effect = d.Effect()

	return h, nil
}

// candidate returns the commit of the branch, which this repository has then; "" if there is no such branch.
func (r *Repo) candidate(ctx context.Context) (string, error) {
	if r.opt.Remote == "" {
		return git.ReadRef(r.opt.Dir, r.read.Ref())
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

// judgeMove returns why only a person may have the branch follow from one commit to another that contains it, nil if it may
// follow. Nothing that a push option could say counts here: the change met no push hook of Jibe's.
func (r *Repo) judgeMove(ctx context.Context, from, to string) error {
	d, err := r.read.Difference(ctx, from, to)
	if err != nil {
		return err
	}
	r.mu.RLock()
	x := r.index
	r.mu.RUnlock()
	notObeyed := func(dir string) bool { // a second file of an id that another has, or that is held
		s := x.ByDir.Get(dir)
		if s == nil {
			return false
		}
		owner := x.ByID.Get(s.Rev.Instance)
		return owner == nil || owner.Rev.Dir != dir
	}
	ended := d.Ended()
	ended.Dirs, ended.Running = slices.DeleteFunc(ended.Dirs, notObeyed), slices.DeleteFunc(ended.Running, notObeyed)
	m := read.HeadMove{Changes: d.Dirs}
	m.Slots = make([]*read.Slot, len(m.Changes))
	newRoot, err := r.read.RootOf(ctx, to)
	if err != nil {
		return err
	}
	if err := r.read.EndAbsences(ctx, x, &m, newRoot); err != nil {
		return err
	}
	for _, c := range m.Changes[len(d.Dirs):] {
		ended.Dirs, ended.Running = append(ended.Dirs, c.Dir), append(ended.Running, c.Dir)
	}
	oldRoot, err := r.read.RootOf(ctx, from)
	if err != nil {
		return err
	}

	problems, err := r.check.JudgeEnds(ctx, oldRoot, ended, nil)
	if err != nil || len(problems) == 0 {
		return err
	}
	e := d.Effect()
	e.Ends = ended.Dirs
	return fmt.Errorf("%w: commit %s: %s: %s", errHeld, to, problems[0].Message, e)
}
