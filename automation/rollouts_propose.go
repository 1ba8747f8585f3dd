package automation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/forge/proposal"
	"github.com/jibe-vnfm/jibe/internal/markdown"
)

// RolloutPulls is what rollouts need of a forge, as package forge/proposal has it.
type RolloutPulls interface {
	// Keep has a pull request be there, and returns what is known of it by now. It is opened once.
	Keep(w proposal.Wanted) proposal.State
	// Withdraw closes the pull request of a branch, if one is open, and removes the branch. It is to be called again
	// until that is done; tell is called when it is worth it.
	Withdraw(branch, why string, tell func()) (done bool, err error)
	// Forget is for a pull request that another process looks after.
	Forget(branch string)
}

// mostListed is how many instances the text of a pull request names.
const mostListed = 200

// pulls are the pull requests that this process looks after. What the ledgers have of them is all that a
// restart needs.
type pulls struct {
	mu   sync.Mutex
	said map[string]rollout.Said // by branch, as it was said last: pages ask nobody
}

// said is what the forge and git say of the proposal in the ledger. The branch was pushed before the ledger
// names it, and the ledger names it before the pull request is opened, of which there is one for a branch: so
// a kill leaves none that isn't found again.
func (r *Rollouts) said(ctx context.Context, s *seen) (said rollout.Said, err error) {
	p := s.l.Proposal
	if p == nil {
		return said, nil
	}
	r.pulls.mu.Lock()
	defer r.pulls.mu.Unlock()
	if !s.asks {
		return r.pulls.said[p.Branch], nil
	}
	said, merged := r.keepPull(s, p)
	// What was merged is known by git alone. The commit that was pushed is there, or what the forge says that it became.
	// A replica may have neither: then nothing that it knows has it. A merge that came since the instances were looked
	// at isn't among what is known of them, and is for the next look.
	for _, commit := range []string{p.Commit, merged} {
		if commit == "" {
			continue
		}
		if on, err := r.Repo.Reaches(ctx, s.at, commit); err == nil && on {
			said.Pull, said.Away = rollout.PullMerged, ""
			break
		}
	}
	r.pulls.said[p.Branch] = said
	return said, ctx.Err()
}

// keepPull asks for the pull request of a proposal, and has it opened or closed. merged is the commit by which the forge
// says that it was merged.
func (r *Rollouts) keepPull(s *seen, p *desired.RolloutProposal) (said rollout.Said, merged string) {
	is := r.Pulls.Keep(proposal.Wanted{Branch: p.Branch, Number: p.Number, Link: p.Link, Title: titleOf(s.r, p.Wave, len(p.Instances)), Text: s.proposalText(), Changed: r.poke})
	said.Number, said.Link = is.Number, is.Link
	if is.Err != nil { // what was known before may not be so any more
		said.Away = clipped(is.Err.Error())
		if !is.Known() && p.Withdrawn != "" && refusal(is.Err) {
			said.Pull, said.Away = rollout.PullClosed, "" // none was ever opened
		}
		return said, is.Merged
	}
	if !is.Known() {
		return said, ""
	}
	switch {
	case is.Merged != "":
		said.Pull = rollout.PullComing
		return said, is.Merged
	case is.Closed():
		said.Pull = rollout.PullClosed
		return said, ""
	}
	said.Pull = rollout.PullOpen
	if p.Withdrawn == "" || p.Number == 0 {
		return said, ""
	}
	why := "Jibe closes this: " + markdown.Escape(p.Withdrawn) + ".\n\nRollout: `" + s.r.Name + "`"
	done, err := r.Pulls.Withdraw(p.Branch, why, r.poke)
	switch {
	case err != nil:
		said.Away = clipped(err.Error())
	case done: // it is asked what became of it: somebody may have merged it a moment before
		said.Pull = rollout.PullUnknown
		r.Pulls.Keep(proposal.Wanted{Branch: p.Branch, Number: p.Number, Link: p.Link, Changed: r.poke})
	}
	return said, ""
}

// refusal says whether an error is one by which the forge has refused what was asked, and not one of a forge that
// is away.
func refusal(err error) bool {
	return errors.As(err, new(*forge.Error)) && !errors.Is(err, forge.ErrAway) && !errors.Is(err, forge.ErrLimited) && !errors.Is(err, forge.ErrDenied)
}

// leave has the branches go that ledgers have no more: their proposals are merged, or closed. One that the forge still
// shows as open was merged a moment ago. Of a rollout whose file or ledger can't be read, nothing is known.
func (r *Rollouts) leave(list []*loaded) {
	r.pulls.mu.Lock()
	defer r.pulls.mu.Unlock()
	for branch, said := range r.pulls.said {
		of := func(x *loaded) bool {
			return x.r != nil && x.l != nil && strings.HasPrefix(branch, desired.RolloutBranches(x.r.ID)) && (x.l.Proposal == nil || x.l.Proposal.Branch != branch)
		}
		if !slices.ContainsFunc(list, of) {
			continue
		}
		if said.Number != 0 {
			if is := r.Pulls.Keep(proposal.Wanted{Branch: branch, Number: said.Number, Link: said.Link, Changed: r.poke}); !is.Known() || is.Open || is.Err != nil {
				continue
			}
		}
		if done, _ := r.Pulls.Withdraw(branch, "", r.poke); done { // the keeper logs why not
			delete(r.pulls.said, branch)
		}
	}
}

// handOver has another process look after the pull requests.
func (r *Rollouts) handOver() {
	r.pulls.mu.Lock()
	defer r.pulls.mu.Unlock()
	for branch := range r.pulls.said {
		r.Pulls.Forget(branch)
	}
	clear(r.pulls.said)
}

// propose pushes the branch, and writes the proposal into the ledger.
func (r *Rollouts) propose(ctx context.Context, s *seen) error {
	d := s.decision
	changes, refused, err := r.changes(ctx, s, d.Propose, r.changeOf)
	if err != nil {
		return err
	}
	now := r.Now()
	p := &desired.RolloutProposal{Branch: desired.RolloutBranch(s.r.ID, d.Ledger.Wave, d.Ledger.Proposals+1), Target: d.Ledger.Target, Wave: d.Ledger.Wave, At: now, Instances: map[string]desired.ProposedTrees{}}
	if len(changes) > 0 {
		out, err := r.Repo.ProposeMany(ctx, p.Branch, desired.WriteMany{
			Instances: changes, Subject: titleOf(s.r, p.Wave, len(changes)), Trailers: trailersOf(s.loaded, p.Wave),
		})
		if err != nil {
			return err
		}
		r.dropped(ctx, s, out)
		p.Commit = out.Commit
		for _, c := range out.Done {
			if c.Before.Tree != c.After.Tree {
				p.Instances[c.After.Instance] = desired.ProposedTrees{Prior: c.Before.Tree, Tree: c.After.Tree}
			}
		}
	}
	if len(p.Instances) == 0 {
		p = nil
	}
	if p == nil && len(refused) == 0 && !d.Changed {
		return nil // all of it has moved meanwhile
	}
	subject := subject(s.r, d, 0)
	if p != nil {
		subject = fmt.Sprintf("Propose wave %d of rollout %s: %s", p.Wave+1, s.r.Name, plural(len(p.Instances)))
	}
	l := rollout.Propose(d.Ledger, p, refused, now)
	out, err := r.commit(ctx, s.loaded, subject, l.Wave, nil, nil, func([]desired.Revised) ([]byte, *desired.Ledger, error) { return s.text, l, nil })
	if err == nil {
		r.Log.InfoContext(ctx, "rollout goes on", "rollout", s.r.Name, "phase", string(d.Phase), "wave", l.Wave+1, "proposed", len(changes), "revision", out.Commit)
	}
	return err
}

func titleOf(r *desired.Rollout, wave, n int) string {
	return fmt.Sprintf("Roll %s out, wave %d of %d: %s", r.Name, wave+1, len(r.Waves()), plural(n))
}

// proposalText is what the pull request says.
func (s *seen) proposalText() string {
	var b strings.Builder
	p := s.l.Proposal
	fmt.Fprintf(&b, "Rollout `%s` brings these instances to VNFD `%s`", s.r.Name, s.r.To.VnfdID)
	if s.r.To.VnfdID == "" {
		b.Reset()
		fmt.Fprintf(&b, "Rollout `%s` changes these instances", s.r.Name)
	}
	fmt.Fprintf(&b, ". What is merged begins its operations, as any push does, and the rollout goes on with what comes of them.\n\n"+
		"* Take an instance out on this branch, and the rollout passes it over.\n* Close this without merging, and the rollout halts until a person resumes it.\n\n")
	n := 0
	for _, f := range s.facts {
		if _, in := p.Instances[f.Instance]; !in {
			continue
		}
		if n++; n <= mostListed {
			fmt.Fprintf(&b, "* `%s`\n", f.Dir)
		}
	}
	if n > mostListed {
		fmt.Fprintf(&b, "* and %d more\n", n-mostListed)
	}
	return b.String()
}

// arrived completes what is known of an instance of the proposal: whether the branch has it as it was
// proposed, and since when its operation runs.
func (r *Rollouts) arrived(ctx context.Context, f *rollout.Fact, p *desired.RolloutProposal, h desired.Head) error {
	trees, in := p.Instances[f.Instance]
	if f.Tree = h.Tree; !in || f.Tree == trees.Prior {
		return nil
	}
	if f.Reached && f.Tree != trees.Tree {
		same, err := r.sameButGranted(ctx, h, trees.Tree)
		if err != nil {
			return err
		}
		if same {
			f.Tree = trees.Tree
		}
	}
	op, err := r.operationOf(ctx, f.Instance, []desired.Attempt{{Prior: trees.Prior, Tree: f.Tree, Began: p.At}})
	if op != nil && op.Started.Before(r.Now()) {
		f.Began = op.Started
	}
	return err
}

// sameButGranted says whether the instance is at head as it was proposed, but for what an NFVO has granted
// since.
func (r *Rollouts) sameButGranted(ctx context.Context, h desired.Head, proposed string) (bool, error) {
	now, err := r.Repo.Files(ctx, h.Revision)
	if err != nil {
		return false, err
	}
	then, err := r.Repo.Files(ctx, desired.Revision{Instance: h.Instance, Dir: h.Dir, Tree: proposed})
	switch {
	case errors.Is(err, desired.ErrNotFound):
		return false, nil // another replica has proposed it, and nobody has merged that
	case err != nil:
		return false, err
	}
	for name := range now {
		if _, there := then[name]; !there && name != desired.GrantedFile {
			return false, nil
		}
	}
	for name, text := range then {
		if name != desired.GrantedFile && !bytes.Equal(text, now[name]) {
			return false, nil
		}
	}
	return true, nil
}
