package chart

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// each is the key of an assertion of all objects.
const each = "each object"

// assertion is what is expected of one object.
type assertion struct {
	key            string
	added, without bool // beside those of the defaults, or left out of them

	has, hasnt []string // lines, or some that stand together
}

// caseAssertions are those of one file of values.
type caseAssertions []assertion

// assertions reads testdata/assertions.txt, which says what its lines mean.
func assertions(t *testing.T) map[string]caseAssertions {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "assertions.txt"))
	if err != nil {
		t.Fatal(err)
	}

	all := map[string]caseAssertions{}
	for _, file := range archive.Files {
		var list caseAssertions
		sign := "" // of the line before

		for line := range strings.Lines(string(file.Data)) {
			object, isObject := strings.CutPrefix(line, "=== ")
			switch {
			case isObject:
				list = append(list, assertionOf(strings.TrimSpace(object)))
			case line == "\n":
			case len(list) == 0 || line[0] != '+' && line[0] != '-':
				t.Fatalf("%s: neither an object nor a line of one: %q", file.Name, line)
			default:
				list[len(list)-1].add(line, line[:1] == sign)
			}
			sign = line[:1]
		}
		all[file.Name] = list
	}

	return all
}

func assertionOf(object string) assertion {
	if key, ok := strings.CutPrefix(object, "without "); ok {
		return assertion{key: key, without: true}
	}

	key, added := strings.CutPrefix(object, "with ")
	return assertion{key: key, added: added}
}

// add adds a line, or continues the last one.
func (a *assertion) add(line string, together bool) {
	lines := &a.has
	if line[0] == '-' {
		lines, together = &a.hasnt, false
	}

	if together {
		(*lines)[len(*lines)-1] += line[1:]
	} else {
		*lines = append(*lines, line[1:])
	}
}

// check compares a rendering with the assertions, and all that they don't name with the defaults.
func (c caseAssertions) check(t *testing.T, defaults, rendering []rendered) {
	t.Helper()
	for _, of := range c {
		inDefaults, inRendering := find(defaults, of.key), find(rendering, of.key)

		switch {
		case of.key == each:
			for _, r := range rendering {
				of.checkText(t, r)
			}
		case (inDefaults >= 0) == of.added:
			t.Errorf("the defaults have %s: %t", of.key, of.added)
		case (inRendering >= 0) == of.without:
			t.Errorf("%s is rendered: %t", of.key, of.without)
		case !of.without:
			of.checkText(t, rendering[inRendering])
		}
	}

	named := func(key string) bool {
		return slices.ContainsFunc(c, func(of assertion) bool { return of.key == key || of.key == each && find(defaults, key) >= 0 })
	}
	for _, r := range rendering {
		if i := find(defaults, r.key); !named(r.key) && (i < 0 || defaults[i].text != r.text) {
			t.Errorf("%s differs from the defaults:\n%s", r.key, changes(defaults, []rendered{r}))
		}
	}
	for _, r := range defaults {
		if !named(r.key) && find(rendering, r.key) < 0 {
			t.Errorf("%s is left out", r.key)
		}
	}
}

func (a assertion) checkText(t *testing.T, r rendered) {
	t.Helper()
	text := "\n" + r.text
	for _, lines := range a.has {
		if !strings.Contains(text, "\n"+lines) {
			t.Errorf("%s has no\n%sbut\n%s", r.key, lines, r.text)
		}
	}
	for _, line := range a.hasnt {
		if strings.Contains(text, "\n"+line) {
			t.Errorf("%s has %s", r.key, line)
		}
	}
}
