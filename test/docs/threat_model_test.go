package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryPromiseOfTheThreatModelHasItsTest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, _ := testsOf(t)
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+|Fuzz[A-Za-z0-9_]+)`")
	promises, inTable := 0, false
	for i, line := range strings.Split(string(page), "\n") {
		if !strings.HasPrefix(line, "|") {
			inTable = false
		}
		if strings.HasPrefix(line, "| promise |") {
			inTable = true
			continue
		}
		for _, name := range named.FindAllStringSubmatch(line, -1) {
			if !tests[name[1]] {
				t.Errorf("line %d names %s, which isn't a test", i+1, name[1])
			}
		}
		if !inTable || !strings.HasPrefix(line, "| ") {
			continue
		}
		promises++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 {
			t.Errorf("line %d has %d cells, want the promise, what enforces it, and its tests", i+1, len(cells))
			continue
		}
		if !named.MatchString(cells[2]) {
			t.Errorf("line %d names no test: %s", i+1, line)
		}
	}
	if promises < 40 {
		t.Errorf("%d promises were read: the page has another form", promises)
	}
}
