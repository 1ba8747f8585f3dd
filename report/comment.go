package report

import (
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/markdown"
)

// shownOutcomes is how many instances the table of a comment has.
const shownOutcomes = 50

// openComment is the comment of a pull request that is open.
func openComment(x *pull) string {
	return fmt.Sprintf("%s\n\nPlanned for %.12s.\n", strings.TrimRight(x.Plan, "\n"), x.Commit)
}

// mergedComment is the comment of a pull request that was merged: what became of it, and below what
// was planned.
func mergedComment(x *pull, s summary, link string, operation, rollout func(string) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Jibe: merged, %s\n\nMerged as %s.\n\n", markdown.Escape(s.text()), linked(fmt.Sprintf("%.12s", x.Merged), link))
	if len(s.rollouts) > 0 {
		b.WriteString("| rollout | stands | instances | failed |\n|---|---|---|---|\n")
		for _, o := range s.rollouts {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", linked(markdown.Escape(o.Rollout), rollout(o.Rollout)), markdown.Escape(o.Says), o.Numbers, markdown.Escape(o.Failed))
		}
		b.WriteByte('\n')
	}
	if len(s.all) > 0 {
		b.WriteString("| instance | operation | state |\n|---|---|---|\n")
		for i, o := range s.all {
			if i == shownOutcomes {
				fmt.Fprintf(&b, "| … %d more | | |\n", len(s.all)-i)
				break
			}
			what, state := "none", ""
			switch o.fate {
			case refused:
				state = "not obeyed: jibe get problems says why"
			case waits:
				what, state = "not begun yet", "waits"
			case unchanged:
				state = "nothing of what runs changes"
			default:
				what, state = string(o.Type), string(o.State)
				if o.Operation != "" {
					what = linked(markdown.Escape(what), operation(o.Operation))
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", markdown.Escape(o.Dir), what, markdown.Escape(state))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "---\n\nBefore it was merged, this was planned for %.12s:\n\n%s\n", x.Commit, strings.TrimRight(x.Plan, "\n"))
	return b.String()
}

// linked is the text as a link, where there is one.
func linked(text, link string) string {
	if link == "" {
		return text
	}
	return "[" + text + "](" + link + ")"
}
