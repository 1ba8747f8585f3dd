package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// declared finds what "go test" runs in the source of a test.
var declared = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w*)\(`)

// leftOver writes into two files what a quick run left to do: the tests that it skipped, even in part, as a
// pattern for go test's -run, and the packages that have such tests or didn't run at all.
func leftOver(packagesFile, patternFile, root string, packages []string, quick string) error {
	r, err := read(quick)
	if err != nil {
		return err
	}

	names := map[string][]string{}
	for t := range r.attempts {
		if r.left[t.String()] {
			names[t.pkg] = append(names[t.pkg], t.name)
		}
	}

	for _, path := range packages {
		if r.packages[path] != nil {
			continue
		}

		if names[path], err = declaredIn(filepath.Join(root, strings.TrimPrefix(path, strings.TrimSuffix(module, "/")))); err != nil {
			return err
		}
	}

	var paths, all []string
	for path, tests := range names {
		if len(tests) > 0 {
			paths, all = append(paths, path), append(all, tests...)
		}
	}

	slices.Sort(paths)
	slices.Sort(all)
	pattern := "^(" + strings.Join(slices.Compact(all), "|") + ")$"

	return errors.Join(
		os.WriteFile(packagesFile, []byte(strings.Join(paths, " ")+"\n"), 0o644),
		os.WriteFile(patternFile, []byte(pattern+"\n"), 0o644),
	)
}

// declaredIn returns the names of the tests of a folder.
func declaredIn(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}

	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}

		for _, found := range declared.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}

	return names, nil
}

// isLeft reports whether an event says that a test, or a part of it, was left out.
func (e event) isLeft() bool {
	return e.Action == "skip" || e.Action == "output" && strings.Contains(e.Output, kit.InFull)
}
