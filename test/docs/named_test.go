package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTest is a test as pages name it.
var namedTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9_]*)`")

func TestEveryTestThatAPageNamesIsThere(t *testing.T) {
	tests, n := testsOf(t), 0
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
