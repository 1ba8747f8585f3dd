package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// namedTest is a test as pages name it.
var namedTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9_]*)`")

func TestEveryTestThatAPageNamesIsThere(t *testing.T) {
	tests, _ := testsOf(t)
	n := 0
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, name := range namedTest.FindAllStringSubmatch(line, -1) {
				if n++; !tests[name[1]] {
					t.Errorf("%s:%d names %s, which isn't a test", path, i+1, name[1])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 300 {
		t.Errorf("only %d names were read", n)
	}
}

// A promise that only "make chaos" proves is one that a change can break unseen.
func TestWhatAPagePromisesIsProvenAtEachChange(t *testing.T) {
	_, atEachChange := testsOf(t)
	for _, page := range []string{"five-documents.md", "sol-conformance.md", "threat-model.md", "guide/slips.md", "guide/page.md", "guide/page-changes.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for i, line := range strings.Split(string(text), "\n") {
			names := namedTest.FindAllStringSubmatch(line, -1)
			if !strings.HasPrefix(line, "|") || len(names) == 0 {
				continue
			}
			rows++
			if !slices.ContainsFunc(names, func(name []string) bool { return atEachChange[name[1]] }) {
				t.Errorf("%s:%d: make chaos alone proves it: name a test that runs at each change, or let one of these do so", page, i+1)
			}
		}
		if rows < 5 {
			t.Errorf("%s: only %d rows were read: the page has another form", page, rows)
		}
	}
}

func TestEachThingThatAReplicaMightStillDoHasItsFenceItsDecisionAndItsTest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "guide", "replicas.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| to | what stops it | why so | tests |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[1:]
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 4 || !strings.Contains(cells[2], "../adr/") || !namedTest.MatchString(cells[3]) {
			t.Errorf("want what it does, what stops it, a decision and a test: %s", row)
		}
	}
	if len(rows) < 7 {
		t.Errorf("only %d rows were read: the page has another form", len(rows))
	}
}
