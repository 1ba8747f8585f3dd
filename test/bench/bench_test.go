package main

import (
	"bytes"
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
