package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// declared finds what "go test" runs in the source of a test.
var declared = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w*)\(`)

// leftOver returns what a quick run left to do of some packages, whose module is in the folder root: the packages
// of which it left something out, or that it didn't run at all, and a pattern of their tests for go test's -run.
func leftOver(quick *runs, root string, packages []string) (left []string, pattern string, err error) {
	names := map[string][]string{}
	for _, t := range quick.tests(partly) {
		names[t.pkg] = append(names[t.pkg], t.name)
	}

	for _, path := range packages {
		if quick.packages[path] != nil {
			continue
		}

		declared, err := declaredIn(filepath.Join(root, strings.TrimPrefix(path, module)))
		if err != nil {
			return nil, "", err
		}

		if len(declared) > 0 {
			names[path] = declared
		}
	}

	all := slices.Sorted(maps.Keys(names))
	tests := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(names))...)))

	return all, "^(" + strings.Join(slices.Compact(tests), "|") + ")$", nil
}

// writeLeft writes what leftOver returns of a run into two files.
func writeLeft(packagesFile, patternFile, quick string, packages []string) error {
	r, err := read(quick)
	if err != nil {
		return err
	}

	left, pattern, err := leftOver(r, ".", packages)
	if err != nil {
		return err
	}

	return errors.Join(
		os.WriteFile(packagesFile, []byte(strings.Join(left, " ")+"\n"), 0o644),
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
