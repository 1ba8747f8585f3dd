package read

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

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
			names = append(names, strings.TrimPrefix(dir, InstancesDir+"/"))
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

// Effect returns what the difference does to VNFs.
func (d Difference) Effect() Effect {
	e := Effect{Ends: []string{}, Begins: []string{}, Changes: []string{}}
	runs := func(at desired.Revision) bool {
		s := d.Slots[at]
		return s != nil && desired.IsInstantiated(s.state())
	}
	for _, c := range d.Changes {
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

// Ends are the directories of the instances that a change ends or removes, and those of them that run.
type Ends struct{ Dirs, Running []string }

// Ended returns what the difference ends or removes. What is held instead isn't among it.
func (d Difference) Ended() Ends {
	held := map[string]bool{}
	for _, l := range d.Losses {
		held[l.Was.Instance] = l.Running || l.Moved()
	}
	var out Ends
	for _, c := range d.Changes {
		was, now := d.Slots[c.Before], d.Slots[c.After]
		if was != nil && !held[c.Before.Instance] && (now == nil || desired.IsInstantiated(was.state()) && !desired.IsInstantiated(now.state())) {
			out.Dirs = append(out.Dirs, c.Before.Dir)
			if desired.IsInstantiated(was.state()) {
				out.Running = append(out.Running, c.Before.Dir)
			}
		}
	}
	slices.Sort(out.Dirs)
	return out
}
