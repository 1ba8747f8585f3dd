package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

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
			fmt.Fprintf(w, "%s+   %s: %s\n", indent, d.Field, oneLine(d.Want))
		case d.Have == "":
			fmt.Fprintf(w, "%s+ %s: %s\n", indent, d.Field, oneLine(d.Want))
		case d.Want == "":
			fmt.Fprintf(w, "%s- %s: %s\n", indent, d.Field, oneLine(d.Have))
		default:
			fmt.Fprintf(w, "%s~ %s: %s -> %s\n", indent, d.Field, oneLine(d.Have), oneLine(d.Want))
		}
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

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
			said, objects = count(n, "object"), true
		}
		parts = append(parts, said+" "+verb(n, say[1], say[2]))
	}
	if n := number["unit"]; n > 0 {
		parts = append(parts, count(n, "unit")+" "+verb(n, "is", "are")+" replaced")
	}
	return strings.Join(parts, ", ")
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
