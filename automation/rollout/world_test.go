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
	// begun counts how often an instance was begun, by target and directory.
	begun map[string]int
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
	w.facts[dir] = &rollout.Fact{Instance: dir, Dir: dir, VIM: vim, Selected: true}
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
	d := rollout.Decide(w.r, w.l, facts, nil, w.now)
	if d.Ask {
		w.asked++
		d = rollout.Decide(w.r, w.l, facts, &rollout.Checked{Met: w.unmet == "", Why: w.unmet}, w.now)
	}
	return d
}

// carryOut makes what was decided so.
func (w *world) carryOut(d rollout.Decision) error {
	l := d.Ledger
	started := map[string][2]string{}
	for _, dir := range d.Start {
		f := w.facts[dir]
		f.Reached, f.Found, f.Ended, f.Reason = true, rollout.UnderWay, time.Time{}, ""
		started[dir] = [2]string{strings.Repeat("a", 40), strings.Repeat("b", 40)}
		w.begun[w.r.To.Digest()+" "+dir]++
	}
	if len(started) > 0 {
		l = rollout.Begin(l, false, started, nil, w.now)
	}
	returned := map[string][2]string{}
	for _, dir := range d.Back {
		f := w.facts[dir]
		f.Reached, f.Found, f.Ended, f.Reason, f.Back = false, rollout.UnderWay, time.Time{}, "", true
		returned[dir] = [2]string{strings.Repeat("b", 40), strings.Repeat("a", 40)}
		w.begun[w.r.To.Digest()+" back "+dir]++
	}
	if len(returned) > 0 {
		l = rollout.Begin(l, true, returned, nil, w.now)
	}
	back, err := desired.ParseLedger("rollouts/.state/test.yaml", l.Encode())
	if err != nil {
		return fmt.Errorf("the ledger can't be read back: %w", err)
	}
	w.l = back
	return nil
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
