package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// root is the project's folder.
const root = "../.."

func TestEveryRowOfThePageOfSlipsIsATest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "guide", "slips.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, _ := testsOf(t)
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	rows := 0
	for i, line := range strings.Split(string(page), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| What happens if I") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 {
			t.Errorf("line %d has %d cells, want what is done, what happens, and the test", i+1, len(cells))
			continue
		}
		found := named.FindAllStringSubmatch(cells[2], -1)
		if len(found) == 0 {
			t.Errorf("line %d names no test: %s", i+1, line)
		}
		for _, name := range found {
			if !tests[name[1]] {
				t.Errorf("line %d names %s, which isn't a test", i+1, name[1])
			}
		}
	}
	if rows < 40 {
		t.Errorf("only %d rows were read: the page has another form", rows)
	}
}

// testsOf are the names of all tests. Of each it says whether it runs at each change, or
// "make chaos" alone runs it.
func testsOf(t *testing.T) (all, atEachChange map[string]bool) {
	t.Helper()

	found, err := allTests()
	if err != nil {
		t.Fatal(err)
	}

	return found.all, found.atEachChange
}

type declaredTests struct{ all, atEachChange map[string]bool }

// allTests reads each file of tests once, as several pages name tests.
var allTests = sync.OnceValues(func() (declaredTests, error) {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(.*\n(\ttestenv\.Chaos\()?`)
	found := declaredTests{map[string]bool{}, map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2:
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			found.all[m[1]] = true
			if m[2] == "" {
				found.atEachChange[m[1]] = true
			}
		}

		return nil
	})

	return found, err
})
