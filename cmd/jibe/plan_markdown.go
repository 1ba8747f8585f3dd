package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/jibe-vnfm/jibe/admission"
)

// maxComment is how long a comment may be: the least of what the common forges take is 65,536
// characters.
const maxComment = 60_000

// markdownPlan writes the plan as a pull request's comment: what is refused first, a table of
// what happens to how many, and the steps of each group to unfold. Groups that a comment has no
// room for are counted.
func markdownPlan(w io.Writer, v admission.Verdict, groups []admission.Group) error {
	var b bytes.Buffer
	switch n := changing(groups); {
	case len(v.Problems) > 0:
		fmt.Fprintf(&b, "### Jibe: %s, this would be refused\n\n", count(len(v.Problems), "problem"))
	case n == 0:
		b.WriteString("### Jibe: nothing that runs would change\n\n")
	default:
		fmt.Fprintf(&b, "### Jibe: %s would change\n\n", count(n, "instance"))
	}
	for i, p := range v.Problems {
		if i == shownProblems {
			fmt.Fprintf(&b, "* … and %d more\n", len(v.Problems)-i)
			break
		}
		fmt.Fprintf(&b, "* %s\n", inMarkdown(p.Error()))
	}
	for i, p := range v.Warnings {
		if i == shownProblems {
			fmt.Fprintf(&b, "* … and %d more warnings\n", len(v.Warnings)-i)
			break
		}
		fmt.Fprintf(&b, "* warning: %s\n", inMarkdown(p.Error()))
	}
	if len(v.Problems)+len(v.Warnings) > 0 {
		b.WriteByte('\n')
	}
	if len(groups) > 0 {
		b.WriteString("| instances | operation | of each |\n|---|---|---|\n")
		for i, g := range groups {
			if i == shownGroups {
				fmt.Fprintf(&b, "| … | %s more | |\n", count(len(groups)-i, "kind"))
				break
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", inMarkdown(headline(g)), operationOf(g), inMarkdown(g.Effect.String()))
		}
		b.WriteByte('\n')
	}
	for i, g := range groups {
		var steps bytes.Buffer
		switch {
		case g.Error != "":
			fmt.Fprintf(&steps, "%s\n", g.Error)
		case g.Operation != "":
			printSteps(&steps, g.Shared)
		default:
			continue
		}
		text := fmt.Sprintf("<details><summary>%s: %s</summary>\n\n%s\n\n%s\n</details>\n\n", inMarkdown(headline(g)), operationOf(g),
			inMarkdown(someOf(g.Dirs, shownInstances)), fenced(steps.String()))
		if b.Len()+len(text) > maxComment {
			fmt.Fprintf(&b, "The steps of %s more have no room here: `jibe plan` prints them.\n", count(len(groups)-i, "kind"))
			break
		}
		b.WriteString(text)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// shownProblems, shownGroups and shownInstances bound what a comment lists.
const shownProblems, shownGroups, shownInstances = 50, 50, 20

func operationOf(g admission.Group) string {
	switch {
	case g.Error != "":
		return "**can't be planned**"
	case g.Operation == "":
		return "none"
	}
	return string(g.Operation)
}

// inMarkdown is the text as a forge shows it letter by letter: what others wrote is in it.
func inMarkdown(text string) string {
	var b strings.Builder
	for _, r := range oneLine(text) {
		switch {
		case strings.ContainsRune("\\`*_{}[]()#+-.!|~@", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// fenced is the text as a block of code, whatever backticks are in it.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimRight(text, "\n") + "\n" + fence
}
