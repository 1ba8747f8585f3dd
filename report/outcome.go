package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/lcm"
)

// Context is the name under which the forge shows what becomes of a commit. A branch's protection
// may require it.
const Context = "jibe"

// Target is what a commit changes: an instance, or the definition of a rollout.
type Target struct {
	Instance string `json:"instance,omitempty"`
	// Rollout is the name of a rollout, "" for an instance.
	Rollout string `json:"rollout,omitempty"`
	// Dir is the directory of the instance, or the file of the rollout.
	Dir string `json:"dir"`
}

// key tells it from others.
func (t Target) key() string {
	if t.Rollout != "" {
		return "rollout " + t.Rollout
	}
	return t.Instance
}

// fate is what has become of a commit at one instance so far. The order is that in which it is told.
type fate int

const (
	failed    fate = iota // its operation has failed, was rolled back, or waits for a person
	refused               // the file isn't obeyed
	runs                  // its operation is under way
	waits                 // its operation hasn't begun
	completed             // its operation is COMPLETED
	unchanged             // nothing of what runs differs
)

// outcome is what has become of a commit at one instance so far, and the operation that brought it
// about; or what has become of a rollout.
type outcome struct {
	Target
	fate
	Operation string
	Type      lcm.Type
	State     lcm.State
	rolled
}

// final says whether it can't change any more.
func (o outcome) final() bool {
	return o.ended || o.fate == unchanged || o.State.Ended() && (o.fate == completed || o.fate == failed)
}

// fateOf is what the state of an operation means for its commit.
func fateOf(s lcm.State) fate {
	switch s {
	case lcm.Completed:
		return completed
	case lcm.FailedTemp, lcm.Failed, lcm.RolledBack:
		return failed
	}
	return runs
}

// summary is what has become of a commit, or of a pull request, in all.
type summary struct {
	all []outcome // at instances
	n   [unchanged + 1]int
	// rollouts are what has become of those.
	rollouts []outcome
	// broken is how many files can't be read.
	broken int
}

// summarize orders the outcomes: what failed goes first.
func summarize(all []outcome, broken int) summary {
	s := summary{broken: broken}
	for _, o := range slices.SortedFunc(slices.Values(all), func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.fate, b.fate), cmp.Compare(a.Dir, b.Dir), cmp.Compare(a.Instance, b.Instance))
	}) {
		if o.Rollout != "" {
			s.rollouts = append(s.rollouts, o)
			continue
		}
		s.all = append(s.all, o)
		s.n[o.fate]++
	}
	return s
}

// settled says whether it can't change any more.
func (s summary) settled() bool {
	open := func(o outcome) bool { return !o.final() }
	return !slices.ContainsFunc(s.all, open) && !slices.ContainsFunc(s.rollouts, open)
}

// open is how many operations wait or are under way.
func (s summary) open() int { return s.n[runs] + s.n[waits] }

// state is what is shown before anything is read: one failure makes all of it one.
func (s summary) state() forge.State {
	n := s.n
	for _, o := range s.rollouts {
		n[o.fate]++
	}
	switch {
	case n[failed]+n[refused]+s.broken > 0:
		return forge.Failure
	case n[runs]+n[waits] > 0:
		return forge.Pending
	}
	return forge.Success
}

// text says it on one line. It has numbers and names of git alone: what a VIM says of a failure is
// not for whoever may read the forge.
func (s summary) text() string {
	operations := s.n[failed] + s.open() + s.n[completed]
	parts := s.rolloutParts()
	first := len(parts)
	if n := s.n[failed]; n > 0 {
		text := fmt.Sprintf("%d of %s failed", n, count(operations, "operation"))
		if n == 1 {
			text += fmt.Sprintf(": %s of %s (%s)", s.all[0].Type, s.all[0].Dir, s.all[0].State)
		}
		parts = append(parts, text)
	}
	if n := s.n[refused]; n > 0 {
		text := count(n, "instance") + " not obeyed"
		if n == 1 {
			text += ": " + s.all[slices.IndexFunc(s.all, func(o outcome) bool { return o.fate == refused })].Dir
		}
		parts = append(parts, text)
	}
	if s.broken > 0 {
		parts = append(parts, count(s.broken, "problem")+" in files, which are not obeyed")
	}
	// No number of what is done: each would be another status, and forges limit how many.
	switch n := s.open(); {
	case n > 0 && len(parts) > first:
		parts = append(parts, "others wait or run")
	case n > 0 && n < operations:
		parts = append(parts, fmt.Sprintf("some of %d operations wait or run", operations))
	case n > 0:
		parts = append(parts, count(n, "operation")+" "+verb(n, "waits or runs", "wait or run"))
	case len(parts) == first && s.n[completed] > 0:
		parts = append(parts, count(s.n[completed], "operation")+" completed")
	case len(parts) == 0:
		parts = append(parts, "it begins no operation by itself")
	}
	return strings.Join(parts, "; ")
}

// status is what the forge is to show on the commit.
func (s summary) status(link string) forge.Status {
	return forge.Status{Context: Context, State: s.state(), Description: s.text(), Link: link}
}

// only is the operation where there is but one, "" otherwise.
func (s summary) only() string {
	id := ""
	for _, o := range s.all {
		if o.Operation == "" {
			continue
		}
		if id != "" {
			return ""
		}
		id = o.Operation
	}
	return id
}

func count(n int, noun string) string { return fmt.Sprintf("%d %s", n, verb(n, noun, noun+"s")) }

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
