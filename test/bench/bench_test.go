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

func TestATableDividesGrowthByThatOfTheWorkAndPointsAtWhatGrowsFaster(t *testing.T) {
	x := &table{sizes: []int{1000, 10_000}}
	for column, d := range []time.Duration{time.Second, 10 * time.Second} {
		x.duration(column, figure{name: "linear", work: growing}, d)
		x.set(column, figure{name: "quadratic", work: growing}, d.Seconds()*d.Seconds())
		x.duration(column, figure{name: "should be steady", limit: within(2 * time.Second)}, d)
	}
	x.set(1, figure{name: "missing at first", unit: perSecond, limit: most(5, 0)}, 7)
	x.set(0, figure{name: "rate", unit: perSecond, limit: most(5, 5000)}, 1)
	x.set(1, figure{name: "rate", unit: perSecond}, 1)
	var out bytes.Buffer
	r := &report{w: &out}
	x.print(r)
	for name, want := range map[string]string{
		"linear":           "1.00",
		"quadratic":        "10.00(!)",
		"should be steady": "10.00(!) [MISSED: <= 2.00 s from 1000; not at [10000]]",
		"missing at first": "- [met: >= 5/s from 1000]",
		"rate":             "1.00 [MISSED: >= 5/s from 10000; not at [10000]]",
	} {
		found := false
		for line := range strings.Lines(out.String()) {
			fields := strings.Join(strings.Fields(line), " ")
			found = found || strings.HasPrefix(fields, name+" ") && strings.HasSuffix(fields, want)
		}
		if !found {
			t.Errorf("%s doesn't end in %q:\n%s", name, want, &out)
		}
	}
	if r.judged != 3 || r.missed != 2 {
		t.Errorf("%d judged, %d missed, want 3 and 2", r.judged, r.missed)
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

func TestTheNextPageIsWhatTheLinkNames(t *testing.T) {
	for link, want := range map[string]string{
		"":                                 "",
		`<http://a:1/b?c=d%26>;rel="next"`: "/b?c=d%26",
		`<http://a:1/b>;rel="self"`:        "",
	} {
		if got, err := nextPage(link); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", link, got, err, want)
		}
	}
}
