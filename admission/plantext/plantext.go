// Package plantext writes what a proposed change would do, as people read it: in a terminal, and in
// the comment of a pull request. It decides and asks nothing: all that it says is in a verdict.
package plantext

import (
	"fmt"
	"io"
	"strings"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// Text writes the plan for a terminal: what is refused, and each group with its steps.
func Text(w io.Writer, v admission.Verdict, groups []admission.Group) {
	for _, p := range v.Warnings {
		fmt.Fprintln(w, "warning: "+p.Error())
	}
	for _, p := range v.Problems {
		fmt.Fprintln(w, p.Error())
	}
	for _, g := range groups {
		fmt.Fprintf(w, "%s: %s\n", headline(g), whatHappens(g))
		if len(g.Dirs) > 1 {
			fmt.Fprintf(w, "  %s\n", someOf(g.Dirs, shownDirs))
		}
		if g.Error == "" && g.Operation != "" {
			printSteps(w, g.Shared)
		}
	}
	if len(v.Problems) == 0 {
		fmt.Fprintf(w, "%s would change\n", Count(changing(groups), "instance"))
	}
}

// changing is the number of instances that an operation would begin of.
func changing(groups []admission.Group) int {
	n := 0
	for _, g := range groups {
		if g.Error == "" && g.Operation != "" {
			n += len(g.Dirs)
		}
	}
	return n
}

// shownDirs is how many instances of a group are named.
const shownDirs = 4

// headline names a group's only instance, or says how many it has.
func headline(g admission.Group) string {
	if len(g.Dirs) == 1 {
		return g.Dirs[0]
	}
	return Count(len(g.Dirs), "instance")
}

func whatHappens(g admission.Group) string {
	same := ""
	if len(g.Dirs) > 1 {
		same = fmt.Sprintf(", the same %s", Count(len(g.Shared.Steps), "step"))
	}
	switch {
	case g.Error != "":
		return g.Error
	case g.Operation == "":
		return "no change of what runs"
	}
	return begun(g) + same
}

// begun is the operation, and what begins it where that isn't the change itself.
func begun(g admission.Group) string {
	if g.Shared.Rollout == "" {
		return string(g.Operation)
	}
	how := ", wave by wave"
	if g.Shared.Proposed {
		how += ", as pull requests"
	}
	return string(g.Operation) + " by rollout " + g.Shared.Rollout + how
}

// someOf names the first n, and says how many more there are.
func someOf(dirs []string, n int) string {
	if len(dirs) <= n+1 {
		return strings.Join(dirs, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(dirs[:n], ", "), len(dirs)-n)
}

// Count is "1 problem", "2 problems".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// indent begins the lines about a step.
const indent = "        "

// printSteps prints the steps of a preview, and below each what it would change: a
// line a field. "+" is new, "-" goes, "~" is another value.
func printSteps(w io.Writer, p reconciler.Preview) {
	if p.Waits != "" {
		fmt.Fprintf(w, "  waits: %s\n", p.Waits)
	}
	if p.WaitsFor != "" {
		fmt.Fprintf(w, "  waits for %s\n", p.WaitsFor)
	}
	for _, f := range p.Filled {
		fmt.Fprintf(w, "  %s (filled in)\n", f)
	}
	left := map[string][]drivers.Deviation{}
	for _, d := range p.Diff {
		left[d.Object] = append(left[d.Object], d)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(w, "  %2d. %s\n", s.Stage+1, s)
		list := left[s.Object]
		switch s.Action {
		case plan.Delete, plan.DeleteUnit:
			if len(list) > 0 && list[0].Field == "" {
				fmt.Fprintf(w, "%s- %s\n", indent, s.Object)
				left[s.Object] = list[1:]
			}
		case plan.Apply, plan.Scale, plan.Post:
			printFields(w, s, list, len(p.Diff) > 0)
			delete(left, s.Object)
		}
	}
	if said := summary(p.Steps); said != "" {
		fmt.Fprintf(w, "  %s\n", said)
	}
}

// printFields prints what an object would get. dryRun means that the VIM was asked, so that
// no line means no difference.
func printFields(w io.Writer, s plan.Step, list []drivers.Deviation, dryRun bool) {
	isNew := s.Action == plan.Apply && s.From < 0 || s.Action == plan.Post
	if isNew && dryRun {
		fmt.Fprintf(w, "%s+ %s\n", indent, s.Object)
	} else if len(list) == 0 && dryRun {
		fmt.Fprintf(w, "%s  no field differs\n", indent)
	}
	for _, d := range list {
		switch {
		case d.Field == "":
		case isNew:
			fmt.Fprintf(w, "%s+   %s: %s\n", indent, d.Field, OneLine(d.Want))
		case d.Have == "":
			fmt.Fprintf(w, "%s+ %s: %s\n", indent, d.Field, OneLine(d.Want))
		case d.Want == "":
			fmt.Fprintf(w, "%s- %s: %s\n", indent, d.Field, OneLine(d.Have))
		default:
			fmt.Fprintf(w, "%s~ %s: %s -> %s\n", indent, d.Field, OneLine(d.Have), OneLine(d.Want))
		}
	}
}

// OneLine is the text without line ends, and with one space where there were several.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// summary counts what becomes of objects: "3 objects change, 2 are new, 1 goes".
func summary(steps []plan.Step) string {
	became := map[string]string{}
	for _, s := range steps {
		switch {
		case s.Action == plan.Delete:
			became[s.Object] = "go"
		case s.Action == plan.DeleteUnit:
			became[s.Object] = "unit"
		case s.Action == plan.Apply && s.From < 0 && became[s.Object] == "go":
			became[s.Object] = "anew"
		case s.Action == plan.Apply && s.From < 0:
			became[s.Object] = "new"
		case s.Action == plan.Apply || s.Action == plan.Scale:
			became[s.Object] = "change"
		}
	}
	number := map[string]int{}
	for _, what := range became {
		number[what]++
	}
	var parts []string
	objects := false
	for _, say := range [][3]string{{"change", "changes", "change"}, {"new", "is new", "are new"}, {"anew", "is made anew", "are made anew"}, {"go", "goes", "go"}} {
		n := number[say[0]]
		if n == 0 {
			continue
		}
		said := fmt.Sprint(n)
		if !objects {
			said, objects = Count(n, "object"), true
		}
		parts = append(parts, said+" "+verb(n, say[1], say[2]))
	}
	if n := number["unit"]; n > 0 {
		parts = append(parts, Count(n, "unit")+" "+verb(n, "is", "are")+" replaced")
	}
	return strings.Join(parts, ", ")
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
