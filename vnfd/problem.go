package vnfd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says what a problem means for the package.
type Severity string

// The severities.
const (
	// Error makes the package unusable.
	Error Severity = "error"
	// Warning leaves it usable, though probably not as its author meant it.
	Warning Severity = "warning"
)

// Problem is one thing wrong in a package, for its author to repair.
type Problem struct {
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"` // from 1; 0 is the whole file
	Message  string   `json:"message"`
	Severity Severity `json:"severity"`
}

// String returns "file:line: message", with "warning: " before the message of a warning.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Severity == Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// SortProblems orders problems by file, line and message, and drops repeats.
func SortProblems(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(problems)
}

// InvalidError is returned for a package that can't be used. It holds every problem that
// was found, not only the first.
type InvalidError struct {
	Problems []Problem
}

// maxListed is how many problems the text of an error lists.
const maxListed = 20

func (e *InvalidError) Error() string {
	lines := make([]string, 0, min(len(e.Problems), maxListed+1))
	for i, p := range e.Problems {
		if i == maxListed {
			lines = append(lines, fmt.Sprintf("and %d more (jibe package validate lists them all)", len(e.Problems)-i))
			break
		}
		lines = append(lines, p.String())
	}
	return "the VNF package is invalid: " + strings.Join(lines, "; ")
}
