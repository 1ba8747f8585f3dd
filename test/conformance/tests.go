package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var function = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)

// Tests finds the tests of the project in root: the folders of packages ("sol/rest") by the
// names of tests.
func Tests(root string) (map[string][]string, error) {
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(d.Name(), "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			if folder := filepath.ToSlash(folder); !slices.Contains(found[m[1]], folder) {
				found[m[1]] = append(found[m[1]], folder)
			}
		}
		return nil
	})
	return found, err
}

// Outcome is what became of tests, by "package test" without the module's path.
type Outcome map[string]string

// The results of a test.
const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped"
	notRun  = "not run"
)

const module = "github.com/jibe-vnfm/jibe/"

// Read reads the output of go test -json, of one run or of several one after the other. Of a
// test that ran more than once the worst counts, and one that was only skipped in a part is
// what its other parts say.
func Read(r io.Reader) (Outcome, error) {
	out := Outcome{}
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 && line[0] == '{' { // a build that failed writes other lines too
			var e struct{ Action, Package, Test string }
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("line %d isn't of go test -json: %w", n, err)
			}
			out.add(strings.TrimPrefix(e.Package, module)+" "+e.Test, e.Action)
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// add counts an event.
func (o Outcome) add(test, action string) {
	switch {
	case action == "fail":
		o[test] = failed
	case action == "pass" && o[test] != failed:
		o[test] = passed
	case action == "skip" && o[test] == "":
		o[test] = skipped
	}
}

// of is the result of a test of a package.
func (o Outcome) of(pkg, test string) string {
	if r := o[pkg+" "+test]; r != "" {
		return r
	}
	return notRun
}
