package plantext

import (
	"bytes"
	"fmt"
	"io"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/internal/markdown"
)

// maxComment is how long a comment may be: the least of what the common forges take is 65,536
// characters.
const maxComment = 60_000

// Markdown writes the plan as a pull request's comment: what is refused first, a table of
// what happens to how many, and the steps of each group to unfold. Groups that a comment has no
// room for are counted.
func Markdown(w io.Writer, v admission.Verdict, groups []admission.Group) error {
	var b bytes.Buffer
	switch n := changing(groups); {
	case len(v.Problems) > 0:
		fmt.Fprintf(&b, "### Jibe: %s, this would be refused\n\n", Count(len(v.Problems), "problem"))
	case n == 0:
		b.WriteString("### Jibe: nothing that runs would change\n\n")
	default:
		fmt.Fprintf(&b, "### Jibe: %s would change\n\n", Count(n, "instance"))
	}
	for i, p := range v.Problems {
		if i == shownProblems {
			fmt.Fprintf(&b, "* … and %d more\n", len(v.Problems)-i)
			break
		}
		fmt.Fprintf(&b, "* %s\n", markdown.Escape(p.Error()))
	}
	for i, p := range v.Warnings {
		if i == shownProblems {
			fmt.Fprintf(&b, "* … and %d more warnings\n", len(v.Warnings)-i)
			break
		}
		fmt.Fprintf(&b, "* warning: %s\n", markdown.Escape(p.Error()))
	}
	if len(v.Problems)+len(v.Warnings) > 0 {
		b.WriteByte('\n')
	}
	if v.Effect != "" {
		fmt.Fprintf(&b, "Effect on VNFs: %s\n\n", markdown.Escape(v.Effect))
	}
	if len(groups) > 0 {
		b.WriteString("| instances | operation | of each |\n|---|---|---|\n")
		for i, g := range groups {
			if i == shownGroups {
				fmt.Fprintf(&b, "| … | %s more | |\n", Count(len(groups)-i, "kind"))
				break
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", markdown.Escape(headline(g)), operationOf(g), markdown.Escape(g.Effect.String()))
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
		text := fmt.Sprintf("<details><summary>%s: %s</summary>\n\n%s\n\n%s\n</details>\n\n", markdown.Escape(headline(g)), operationOf(g),
			markdown.Escape(someOf(g.Dirs, shownInstances)), markdown.Fenced(steps.String()))
		if b.Len()+len(text) > maxComment {
			fmt.Fprintf(&b, "The steps of %s more have no room here: `jibe plan` prints them.\n", Count(len(groups)-i, "kind"))
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
	return begun(g)
}
