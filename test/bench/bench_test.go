package main

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestObjectsOfAListAreCountedWithoutDecoding(t *testing.T) {
	for text, want := range map[string]int{
		`[]`:                             0,
		`[{"a":1}]`:                      1,
		`[{"a":{"b":{}}},{"c":[{},{}]}]`: 2,
		`[{"a":"}{"},{"a":"\"{"},{}]`:    3,
	} {
		if got := objects([]byte(text)); got != want {
			t.Errorf("%s has %d objects, want %d", text, got, want)
		}
	}
}

func TestThePageHasEveryFigureWithItsLimitAndVerdict(t *testing.T) {
	var out bytes.Buffer
	r := &report{w: &out, page: &page{facts: [][2]string{{"version", "jibe 1"}}}}
	r.section("From a push")
	r.latency("push <&> shown", times{10 * time.Millisecond}, 20*time.Millisecond, "")
	r.latency("  slow", times{30 * time.Millisecond}, 20*time.Millisecond, "why")
	r.value("calls", "0", true, "= 0", "a|b")
	r.line("  laid out")
	r.note("left out: %s", "x")
	r.headline(headline{"start", "all", "2 s", "git: 1 s", "2.00x"})
	r.headline(headline{"drift repair", "of 1", "9 ms", "a bare client: 3 ms", "3.00x"})
	r.headline(headline{"drift repair", "of 10", "8 ms", "a bare client: 4 ms", "2.00x"})
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	if err := r.page.write(file, r.total(time.Second)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| version | jibe 1 |", "2 of 3 targets met", "## From a push", "| push <&> shown | p50 10 ms, p95 10 ms (1) | p50 <= 20 ms: met |",
		"| · slow | p50 30 ms, p95 30 ms (1) | **p50 <= 20 ms: missed** | why |", "| calls | 0 | = 0: met | a\\|b |", "```\n  laid out\n```", "* left out: x", "| drift repair | of 10 | 8 ms | a bare client: 4 ms | 2.00x |\n| start | all |", "(pictures/benchmarks.svg)"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "of 1 |") {
		t.Errorf("a smaller size is at the head, too:\n%s", text)
	}
	picture, err := os.ReadFile(filepath.Join(filepath.Dir(file), "pictures", "benchmarks.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(picture, new(struct{})); err != nil || strings.Count(string(picture), "<rect") != 2 || !strings.Contains(string(picture), `class="missed"`) || !strings.Contains(string(picture), "push &lt;&amp;&gt; shown") {
		t.Errorf("%v: %s", err, picture)
	}
}
