package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryRequirementOfTheFiveDocumentsHasItsTestOrItsReason(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "five-documents.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, _ := testsOf(t)
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	documents, rows := 0, 0
	for i, line := range strings.Split(string(page), "\n") {
		if strings.HasPrefix(line, "## ") {
			documents++
		}
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| requirement |") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 {
			t.Errorf("line %d has %d cells, want the requirement, its status, and the test or the reason", i+1, len(cells))
			continue
		}
		found := named.FindAllStringSubmatch(cells[2], -1)
		for _, name := range found {
			if !tests[name[1]] {
				t.Errorf("line %d names %s, which isn't a test", i+1, name[1])
			}
		}
		words := len(strings.Fields(named.ReplaceAllString(cells[2], "")))
		switch cells[1] {
		case "yes":
			if len(found) == 0 {
				t.Errorf("line %d names no test: %s", i+1, line)
			}
		case "differently", "no":
			if words < 6 {
				t.Errorf("line %d gives no reason: %s", i+1, line)
			}
		default:
			t.Errorf("line %d: status %q is none of yes, differently and no", i+1, cells[1])
		}
	}
	if documents != 5 || rows < 120 {
		t.Errorf("%d documents with %d rows were read: the page has another form", documents, rows)
	}
}
