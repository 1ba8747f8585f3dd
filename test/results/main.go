// Command results tells what came of a run of tests from what "go test -json" wrote.
//
//	results summary [-flaky FILE] [-also TEXT] JSON...
//	    prints the tests that passed only when they ran again (FLAKY) with the output of their first
//	    failure, and how many passed, failed and were skipped. FILE gets the flaky ones, too. More than
//	    five flaky tests, or a failed one, make the exit status 1.
//	results left -packages FILE -pattern FILE QUICK PACKAGE...
//	    writes what the run QUICK, with -short, left to do of some packages: the packages that it didn't run,
//	    or of which it left something out, and a pattern of their tests for go test's -run.
//	results times -page FILE NAME=JSON[,JSON]...
//	    writes a table of the time that each package took, one column for each NAME, between the two
//	    markers of FILE.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFlaky is how many tests may pass at a second attempt. More are no chance any more.
const maxFlaky = 5

// shownLines is how much is printed of the output of a flaky test: its end tells why it failed.
const shownLines = 60

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "results: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	const usage = "want: results summary [-flaky FILE] [-also TEXT] JSON..., results left -packages FILE -pattern FILE QUICK PACKAGE..., or results times -page FILE NAME=JSON[,JSON]..."
	if len(args) == 0 {
		return fmt.Errorf("%s", usage)
	}

	flags := flag.NewFlagSet("results "+args[0], flag.ContinueOnError)
	flags.SetOutput(out)
	flakyFile := flags.String("flaky", "", "a `file` that gets the flaky tests")
	also := flags.String("also", "", "what is said after the numbers")
	packages := flags.String("packages", "", "the `file` that gets the packages")
	pattern := flags.String("pattern", "", "the `file` that gets the pattern of their tests")
	page := flags.String("page", "", "the `file` whose table is written")

	if err := flags.Parse(args[1:]); err != nil {
		return err
	}

	switch {
	case args[0] == "summary" && flags.NArg() > 0:
		return summary(out, *flakyFile, *also, flags.Args())
	case args[0] == "left" && *packages != "" && *pattern != "" && flags.NArg() > 1:
		return writeLeft(*packages, *pattern, flags.Arg(0), flags.Args()[1:])
	case args[0] == "times" && *page != "" && flags.NArg() > 0:
		return times(*page, flags.Args())
	}

	return fmt.Errorf("%s", usage)
}

// summary prints what came of a run, and returns an error where that isn't good.
func summary(out io.Writer, flakyFile, also string, files []string) error {
	r, err := read(files...)
	if err != nil {
		return err
	}

	again := r.tests(flaky)
	text := flakyText(r, again)
	fmt.Fprint(out, text)

	if flakyFile != "" {
		if err := os.WriteFile(flakyFile, []byte(text), 0o644); err != nil {
			return err
		}
	}

	bad := r.tests(failed)
	for _, t := range bad {
		fmt.Fprintf(out, "FAILED %s\n", t)
	}

	broken := 0
	for _, path := range r.sortedPackages() {
		if r.packages[path].failed && !failedIn(bad, path) && !failedIn(again, path) {
			fmt.Fprintf(out, "FAILED %s: the package as a whole\n", path)
			broken++
		}
	}

	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", len(r.tests(passed))+len(again), len(bad)+broken, len(r.tests(skipped)))
	if also != "" {
		fmt.Fprintln(out, also)
	}

	switch {
	case len(bad)+broken > 0:
		return fmt.Errorf("%d failed", len(bad)+broken)
	case len(again) > maxFlaky:
		return fmt.Errorf("%d tests passed only when they ran again: more than %d are no chance", len(again), maxFlaky)
	}

	return nil
}

// failedIn reports whether any of the tests is in a package.
func failedIn(tests []test, path string) bool {
	for _, t := range tests {
		if t.pkg == path {
			return true
		}
	}

	return false
}

// flakyText is the block of flaky tests, "" where there is none.
func flakyText(r *runs, tests []test) string {
	var b strings.Builder
	for _, t := range tests {
		attempts := r.attempts[t]
		fmt.Fprintf(&b, "FLAKY %s: attempt %d of %d passed; the first one said:\n", t, len(attempts), len(attempts))

		lines := strings.Split(strings.TrimRight(attempts[0].output.String(), "\n"), "\n")
		if more := len(lines) - shownLines; more > 0 {
			fmt.Fprintf(&b, "    [%d lines before]\n", more)
			lines = lines[more:]
		}

		for _, line := range lines {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}

	return b.String()
}
