package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Line is one line of a table of the document.
type Line struct {
	Section string `json:"section"`
	Clause  string `json:"clause"`
	Title   string `json:"title"`
	// Status is yes, part or no.
	Status string `json:"status"`
	// Versions are the API versions that it is about; none where it is about all.
	Versions []string `json:"versions,omitempty"`
	// Operations are the methods and paths that the title names, as "GET /vnf_instances/{}".
	Operations []string `json:"operations,omitempty"`
	Tests      []Test   `json:"tests,omitempty"`
	Remarks    string   `json:"remarks,omitempty"`

	names []string // of Tests
}

// Test is one test that a line names.
type Test struct {
	Name    string `json:"name"`
	Package string `json:"package"`
	Result  string `json:"result,omitempty"`
}

// The values of Line.Status.
const (
	Yes  = "yes"
	Part = "part"
	No   = "no"
)

// Table reads the lines of all tables of the document that have a column "status". A line
// "API versions: 1.3.0, 2.0.0" in a section says which versions its tables are about.
func Table(text string) ([]Line, error) {
	var lines []Line
	section, versions := "", []string(nil)
	var columns []string
	var errs []error
	for i, row := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(row, "## "):
			section, versions, columns = strings.TrimPrefix(row, "## "), nil, nil
		case strings.HasPrefix(row, "API versions: "):
			versions = version.FindAllString(row, -1)
		case !strings.HasPrefix(row, "|"):
			columns = nil
		case columns == nil:
			columns = cells(row)
		case strings.HasPrefix(row, "|---"), !slices.Contains(columns, "status"):
		default:
			l, err := lineOf(columns, cells(row))
			if err != nil {
				errs = append(errs, fmt.Errorf("line %d: %w", i+1, err))
				continue
			}
			l.Section = section
			if l.Versions == nil {
				l.Versions = versions
			}
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 && errs == nil {
		return nil, errors.New("the document has no table with a column \"status\"")
	}
	return lines, errors.Join(errs...)
}

var (
	version   = regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+`)
	operation = regexp.MustCompile("`(GET|POST|PUT|PATCH|DELETE) (/[^` ]*)`")
	test      = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")
	parameter = regexp.MustCompile(`\{[^}]*\}`)
)

// cells are those of a row. A bar in a cell is written \|.
func cells(row string) []string {
	row = strings.ReplaceAll(strings.Trim(strings.TrimSpace(row), "|"), `\|`, "\x00")
	var out []string
	for cell := range strings.SplitSeq(row, "|") {
		out = append(out, strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")))
	}
	return out
}

// lineOf reads one row. The first column is the clause, the second the title.
func lineOf(columns, row []string) (Line, error) {
	if len(row) != len(columns) || len(row) < 4 {
		return Line{}, fmt.Errorf("the row has %d cells, and the table %d columns", len(row), len(columns))
	}
	l := Line{Clause: row[0], Title: row[1]}
	for i, name := range columns[2:] {
		cell := row[i+2]
		switch name {
		case "status":
			l.Status = cell
		case "versions":
			l.Versions = version.FindAllString(cell, -1)
		default:
			l.Remarks = cell
		}
	}
	if !slices.Contains([]string{Yes, Part, No}, l.Status) {
		return Line{}, fmt.Errorf("the status of %s is %q, and not yes, part or no", l.Clause, l.Status)
	}
	for _, m := range operation.FindAllStringSubmatch(l.Title, -1) {
		l.Operations = append(l.Operations, m[1]+" "+Path(m[2]))
	}
	for _, m := range test.FindAllStringSubmatch(l.Remarks, -1) {
		if !slices.Contains(l.names, m[1]) {
			l.names = append(l.names, m[1])
		}
	}
	return l, nil
}

// Path is a path without the names of its parameters.
func Path(p string) string { return parameter.ReplaceAllString(p, "{}") }
