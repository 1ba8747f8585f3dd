package safeyaml_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
)

func TestWhatIsExpensiveOrAmbiguousIsRefusedWithItsLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"syntax", "a: b\nc: [", "line 2: isn't valid YAML: did not find expected node content"},
		{"duplicate", "a: 1\nb: 2\na: 3", `line 3: key "a" already stands at line 1`},
		{"duplicate below", "x:\n  - {a: 1, a: 2}", `line 2: key "a" already stands at line 2`},
		{"merge", "x: &x {a: 1}\ny:\n  <<: *x", "line 3: merge keys (<<) aren't supported: write the keys out"},
		{"complex key", "? [a]\n: b", "line 1: a key isn't a plain word"},
		{"depth", strings.Repeat("[", 70) + strings.Repeat("]", 70), "line 1: is nested more than 64 deep"},
		{"aliases", "x: &x 1\ny: [" + strings.Repeat("*x, ", 33) + "]", "line 2: more than 32 aliases (*x): write the values out"},
		{"documents", strings.Repeat("---\na: 1\n", 1001), "holds more than 1000 YAML documents: split the file"},
		{"unknown anchor", "a: *b", "isn't valid YAML: unknown anchor 'b' referenced"},
	} {
		t.Run(c.name, func(t *testing.T) {
			docs, err := safeyaml.Parse([]byte(c.text))
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, %v; want %s", docs, err, c.want)
			}
		})
	}
}

func TestEmptyDocumentsAreLeftOut(t *testing.T) {
	docs, err := safeyaml.Parse([]byte("---\n# nothing\n---\na: 1\n---\nnull\n---\nb: 2\n"))
	if err != nil || len(docs) != 2 {
		t.Error(len(docs), err)
	}
}

func TestTextStaysAsItIsWritten(t *testing.T) {
	docs, err := safeyaml.Parse([]byte("a: {b: &v 1.10}\nc: *v\nd: null\ne: [1]\nf: ''"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keys string
		want string
		ok   bool
	}{{"a b", "1.10", true}, {"c", "1.10", true}, {"d", "", false}, {"e", "", false}, {"f", "", true}, {"a x", "", false}} {
		got, ok := safeyaml.Text(safeyaml.Get(docs[0], strings.Fields(c.keys)...))
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %q %v", c.keys, got, ok)
		}
	}
}

// An expansion would have 3^10 leaves here, and many more in a bomb made for it.
func TestBombOfAliasesIsNeverExpanded(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1)
	}
	docs, err := safeyaml.Parse([]byte(b.String()))
	if err != nil || len(docs) != 1 {
		t.Error("27 aliases are within the limit:", err)
	}
}

func TestPlainTextHoldsNothingButValues(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"anchor":        {"a: &x 1", []string{"line 1: anchors and aliases aren't allowed"}},
		"documents":     {"a: 1\n---\nb: [", []string{"line 3: isn't valid YAML: did not find expected node content"}},
		"two documents": {"a: 1\n---\nb: 2\n---\nc: [", []string{"line 2: holds several YAML documents"}},
		"all at once": {"a: !x 1\n1: b\n? [c]\n: d\na: {<<: 1, z: 1, z: 2}", []string{
			`line 1: the tag "!x" isn't allowed`, "line 2: the key 1 isn't text", "line 3: a key isn't a plain word", `line 5: key "a" already stands at line 1`}},
		"below": {"a: {<<: {}, z: 1, z: 2}", []string{"line 1: merge keys (<<) aren't supported: write the keys out", `line 1: key "z" already stands at line 1`}},
		"depth": {strings.Repeat("[", 70) + strings.Repeat("]", 70), []string{"line 1: is nested more than 64 deep"}},
	} {
		n, faults := safeyaml.ParsePlain([]byte(c.text))
		var got []string
		for _, f := range faults {
			got = append(got, f.Error())
		}
		if n != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
	for text, want := range map[string]bool{"": false, "# nothing": false, "null": false, "a: 2026-05-04": true} {
		if n, faults := safeyaml.ParsePlain([]byte(text)); len(faults) > 0 || (n != nil) != want {
			t.Errorf("%q: %v, %v", text, n, faults)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a: &x [1]\nb: *x\n---\n{<<: 1}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if docs, err := safeyaml.Parse(data); err == nil && slices.ContainsFunc(docs, safeyaml.Null) {
			t.Errorf("%q gives an empty document", data)
		}
		if n, faults := safeyaml.ParsePlain(data); n != nil && len(faults) > 0 {
			t.Errorf("%q is both right and wrong: %v", data, faults)
		}
	})
}
