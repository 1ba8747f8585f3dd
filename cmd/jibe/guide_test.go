package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The table of flags is what operators read first: one that isn't there is one that nobody finds, and one that
// is there and was renamed keeps a server from starting.
func TestTheOperatorsGuideListsEveryFlagOfServeAndNoOther(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "operators.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(guide), "| flag | default | meaning |\n")
	table, _, ended := strings.Cut(table, "\n\n")
	if !ended {
		t.Fatal("operators.md has no table of flags")
	}
	listed := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.SplitN(line, " | ", 2)
		for _, m := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(cells[0], -1) {
			listed[m[1]] = true
		}
	}
	newServe().LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden && !listed[f.Name] {
			t.Errorf("operators.md doesn't list --%s", f.Name)
		}
		delete(listed, f.Name)
	})
	for name := range listed {
		t.Errorf("operators.md lists --%s, which jibe serve doesn't have", name)
	}
}
