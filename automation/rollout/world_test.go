package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
)

// world is a fleet as a rollout meets it. What is decided is carried out at once, and the ledger
// passes through its file each time, as it does in git.
type world struct {
	r     *desired.Rollout
	l     *desired.Ledger
	facts map[string]*rollout.Fact // by directory, which is the id as well
	now   time.Time
	// unmet is what the queries of gates say, "" where they are met; asked counts how often they were asked.
	unmet string
	asked int
	// pull is the pull request that was opened last.
	pull pull
	away string // why the forge doesn't answer
	// begun counts how often an instance was begun, by target and directory.
	begun map[string]int
}

// pull is a pull request as the forge has it, which knows it by its branch.
type pull struct {
	branch       string
	number       int64
	open, merged bool
}

func newWorld() *world {
	return &world{facts: map[string]*rollout.Fact{}, begun: map[string]int{}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		l: &desired.Ledger{Rollout: "test", Attempts: map[string][]desired.Attempt{}}}
}

// set gives the rollout another file.
func (w *world) set(text string) error {
	r, err := desired.ParseRollout("rollouts/test.yaml", []byte("id: 5f0c1f8e-53e4-4f6e-9f0e-0d3f6a7b8c9d\n"+text))
	if err != nil {
		return err
	}
	if w.r != nil && w.r.To.Digest() != r.To.Digest() {
		for _, f := range w.facts {
			f.Reached, f.Back = false, false
		}
	}
	w.r = r
	return nil
}

func (w *world) add(dir, vim string) {
	w.facts[dir] = &rollout.Fact{Instance: dir, Dir: dir, VIM: vim, Selected: true, Tree: strings.Repeat("a", 40)}
}

func (w *world) dirs() []string {
	var dirs []string
	for dir := range w.facts {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}

// decide asks for the next decision without carrying it out.
func (w *world) decide() rollout.Decision {
	var facts []rollout.Fact
	for _, dir := range w.dirs() {
		facts = append(facts, *w.facts[dir])
	}
	said := w.said()
	d := rollout.Decide(w.r, w.l, facts, said, w.now)
	if d.Ask {
		w.asked++
		said.Checked = &rollout.Checked{Met: w.unmet == "", Why: w.unmet}
		d = rollout.Decide(w.r, w.l, facts, said, w.now)
	}
	return d
}

// said has the pull request of the proposal opened and closed, and is what is known of it.
func (w *world) said() (s rollout.Said) {
	p := w.l.Proposal
	if p == nil {
		return s
	}
	if w.away != "" {
		s.Away = w.away
		return s
	}
	if w.pull.branch != p.Branch {
		if w.pull.open {
			panic("two pull requests are open")
		}
		w.pull = pull{branch: p.Branch, number: w.pull.number + 1, open: true}
	}
	if p.Withdrawn != "" && p.Number != 0 {
		w.pull.open = false
	}
	s.Number = w.pull.number
	switch {
	case w.pull.open:
		s.Pull = rollout.PullOpen
	case w.pull.merged:
		s.Pull = rollout.PullMerged
	default:
		s.Pull = rollout.PullClosed
	}
	return s
}

// tree is what the rollout's target makes of a directory.
func (w *world) tree(target string) string { return fmt.Sprintf("%040s", target) }

// merge merges the pull request: of these instances, or of all.
func (w *world) merge(dirs ...string) {
	w.pull.open, w.pull.merged = false, true
	for dir, trees := range w.l.Proposal.Instances {
		if f := w.facts[dir]; f != nil && f.Tree == trees.Prior && (len(dirs) == 0 || slices.Contains(dirs, dir)) {
			f.Tree, f.Reached = trees.Tree, w.l.Proposal.Target == w.r.To.Digest()
		}
	}
}

// carryOut makes what was decided so.
func (w *world) carryOut(d rollout.Decision) error {
	l := d.Ledger
	started := map[string][2]string{}
	for _, dir := range d.Start {
		f := w.facts[dir]
		f.Reached, f.Found, f.Ended, f.Reason, f.Tree = true, rollout.UnderWay, time.Time{}, "", w.tree(d.Ledger.Target)
		started[dir] = [2]string{strings.Repeat("a", 40), strings.Repeat("b", 40)}
		w.begun[w.r.To.Digest()+" "+dir]++
	}
	if len(started) > 0 {
		l = rollout.Begin(l, false, started, nil, w.now)
	}
	returned := map[string][2]string{}
	for _, dir := range d.Back {
		f := w.facts[dir]
		f.Unbegun = false
		f.Reached, f.Found, f.Ended, f.Reason, f.Back, f.Tree = false, rollout.UnderWay, time.Time{}, "", true, strings.Repeat("a", 40)
		returned[dir] = [2]string{strings.Repeat("b", 40), strings.Repeat("a", 40)}
		w.begun[w.r.To.Digest()+" back "+dir]++
	}
	if len(returned) > 0 {
		l = rollout.Begin(l, true, returned, nil, w.now)
	}
	for dir, f := range w.facts { // what was merged
		if list := l.Attempts[dir]; len(list) > len(w.l.Attempts[dir]) && list[len(list)-1].Outcome == "" && f.Found != rollout.UnderWay {
			f.Found, f.Ended, f.Reason = rollout.UnderWay, time.Time{}, ""
			w.begun[list[len(list)-1].Target+" "+dir]++
		}
	}
	if len(d.Propose) > 0 {
		p := &desired.RolloutProposal{Branch: desired.RolloutBranch("test", l.Wave, l.Proposals+1), Commit: strings.Repeat("c", 40), Target: l.Target, Wave: l.Wave, At: w.now, Instances: map[string]desired.ProposedTrees{}}
		for _, dir := range d.Propose {
			p.Instances[dir] = desired.ProposedTrees{Prior: w.facts[dir].Tree, Tree: w.tree(l.Target)}
		}
		l = rollout.Propose(l, p, nil, w.now)
	}
	back, err := desired.ParseLedger("rollouts/.state/test.yaml", l.Encode())
	if err != nil {
		return fmt.Errorf("the ledger can't be read back: %w", err)
	}
	w.l = back
	return nil
}

// unseen has the instance's operation end with nothing done, as its VIM was away.
func (w *world) unseen(f *rollout.Fact) {
	f.Found, f.Ended, f.Reached, f.Back, f.Tree = rollout.Unseen, w.now, false, false, strings.Repeat("a", 40)
	tried := w.l.Attempts[f.Instance]
	w.begun[tried[len(tried)-1].Target+" "+f.Dir]--
}

// underWay are the instances whose operations haven't ended.
func (w *world) underWay(found ...rollout.Found) (dirs []string) {
	for _, dir := range w.dirs() {
		if slices.Contains(found, w.facts[dir].Found) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
