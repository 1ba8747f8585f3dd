package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// event is what is read of a line of "go test -json" (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

// test identifies a top-level test of one file of events; its subtests count as parts of it.
type test struct {
	pkg, name string
	file      int
}

func (t test) String() string { return t.pkg + "." + t.name }

// attempt is one run of a test. Where the test failed, output has what the test and its subtests printed.
type attempt struct {
	result string // pass, fail or skip; "" where the run ended before the test did
	output strings.Builder
	partly bool // some of the test, or all, was left out
}

// runs holds all attempts of a run of tests.
type runs struct {
	attempts map[test][]*attempt
	packages map[string]*pkg
}

// pkg is what a run tells of a package of tests.
type pkg struct {
	elapsed time.Duration
	cached  bool
	failed  bool // by its last result
}

// read reads what "go test -json" or "gotestsum --jsonfile" wrote. Attempts of the same test are in the
// order in which they ran. A test that one run skips, and another one doesn't, isn't a skipped one.
func read(files ...string) (*runs, error) {
	r := &runs{attempts: map[test][]*attempt{}, packages: map[string]*pkg{}}

	for i, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}

		err = errors.Join(r.add(i, file), file.Close())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}

	r.forgetSkipped(len(files))

	return r, nil
}

// forgetSkipped removes tests that are skipped in one of several files and not in another one, and all
// but one of those that are skipped in several.
func (r *runs) forgetSkipped(files int) {
	for t, attempts := range r.attempts {
		if !skipped(attempts) {
			continue
		}

		for file := range files {
			other, there := r.attempts[test{t.pkg, t.name, file}]
			if there && file != t.file && (!skipped(other) || file < t.file) {
				delete(r.attempts, t)
				break
			}
		}
	}
}

func (r *runs) add(number int, file io.Reader) error {
	open := map[test]*attempt{}
	reader := bufio.NewReader(file)

	for at := 1; ; at++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}

		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}

		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("line %d: %w", at, err)
		}

		if e.Test == "" {
			r.addPackage(e)
		} else {
			r.addTest(open, number, e)
		}
	}
}

func (r *runs) addPackage(e event) {
	p := r.packages[e.Package]
	if p == nil {
		p = &pkg{}
		r.packages[e.Package] = p
	}

	switch e.Action {
	case "output":
		p.cached = p.cached || strings.HasSuffix(e.Output, "\t(cached)\n")
	case "pass", "skip", "fail":
		p.failed = e.Action == "fail"
		p.elapsed += time.Duration(e.Elapsed * float64(time.Second))
	}
}

func (r *runs) addTest(open map[test]*attempt, file int, e event) {
	name, _, sub := strings.Cut(e.Test, "/")
	t := test{e.Package, name, file}

	a := open[t]
	if a == nil {
		a = &attempt{}
		open[t] = a
		r.attempts[t] = append(r.attempts[t], a)
	}

	switch e.Action {
	case "output":
		a.output.WriteString(e.Output)
		a.partly = a.partly || strings.Contains(e.Output, kit.InFull)
	case "pass", "fail", "skip":
		a.partly = a.partly || e.Action == "skip"
		if !sub {
			a.result = e.Action
			delete(open, t)
		}
	}
}

// tests returns those whose attempts satisfy a condition, in order.
func (r *runs) tests(is func([]*attempt) bool) []test {
	var found []test
	for t, attempts := range r.attempts {
		if is(attempts) {
			found = append(found, t)
		}
	}

	slices.SortFunc(found, func(a, b test) int { return strings.Compare(a.String(), b.String()) })

	return found
}

// last returns the result of the last attempt.
func last(attempts []*attempt) string { return attempts[len(attempts)-1].result }

func passed(attempts []*attempt) bool  { return last(attempts) == "pass" && !flaky(attempts) }
func skipped(attempts []*attempt) bool { return last(attempts) == "skip" }
func failed(attempts []*attempt) bool  { return last(attempts) == "fail" || last(attempts) == "" }

// flaky reports whether a test passed after it had failed.
func flaky(attempts []*attempt) bool {
	return last(attempts) == "pass" && slices.ContainsFunc(attempts, func(a *attempt) bool { return a.result == "fail" })
}

// partly reports whether a test, or a part of it, was left out.
func partly(attempts []*attempt) bool {
	return slices.ContainsFunc(attempts, func(a *attempt) bool { return a.partly })
}

// sortedPackages returns the packages' paths, in order.
func (r *runs) sortedPackages() []string { return slices.Sorted(maps.Keys(r.packages)) }
