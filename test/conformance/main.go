// Command conformance prints docs/sol-conformance.md as JSON: each clause of the standards, what
// Jibe has of it, the tests that hold it, and, where the outcome of a run of tests is given,
// whether they passed. A release publishes it.
//
// It judges nothing: the table is written by people, and the tests of this package hold it to
// the tests that there are and to the definitions that ETSI has published.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Report is the whole document.
type Report struct {
	// Version is that of Jibe.
	Version string `json:"version,omitempty"`
	// Lines are in the order of the document.
	Lines []Line `json:"lines"`
	// Statuses count the lines by status.
	Statuses map[string]int `json:"statuses"`
	// Results count the tests that lines name by result; it is left out where no outcome was
	// given.
	Results map[string]int `json:"results,omitempty"`
}

func main() {
	root := flag.String("root", ".", "folder of the project")
	results := flag.String("results", "", "file with the output of go test -json; - is standard input")
	version := flag.String("version", "", "version of Jibe that the report is about")
	flag.Parse()
	if err := run(os.Stdout, *root, *results, *version); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// run writes the report of the project in root.
func run(w io.Writer, root, results, version string) error {
	text, err := os.ReadFile(filepath.Join(root, "docs", "sol-conformance.md"))
	if err != nil {
		return err
	}
	lines, err := Table(string(text))
	if err != nil {
		return err
	}
	found, err := Tests(root)
	if err != nil {
		return err
	}
	outcome, err := outcomeOf(results)
	if err != nil {
		return err
	}
	report := Report{Version: version, Statuses: map[string]int{}}
	if outcome != nil {
		report.Results = map[string]int{}
	}
	for _, l := range lines {
		report.Statuses[l.Status]++
		for _, name := range l.names {
			for _, pkg := range found[name] {
				t := Test{Name: name, Package: pkg}
				if outcome != nil {
					t.Result = outcome.of(pkg, name)
					report.Results[t.Result]++
				}
				l.Tests = append(l.Tests, t)
			}
		}
		report.Lines = append(report.Lines, l)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(report)
}

func outcomeOf(file string) (Outcome, error) {
	switch file {
	case "":
		return nil, nil
	case "-":
		return Read(os.Stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f)
}
