package natural

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNamesStandAsPeopleCount(t *testing.T) {
	for _, names := range [][]string{
		{"", "0", "1", "2", "10", "100"},
		{"upf-1", "upf-2", "upf-11", "upf-11a", "upf-11b", "upf-101"},
		{"1.2", "1.9", "1.10", "1.10.1", "2.0"},
		{"region-2/site-9", "region-2/site-10", "region-10/site-1"},
		{"a", "a-1", "a0", "a1", "b"},
		{"Amf", "amf"}, // as git has them
		{"x007", "x07", "x7", "x008", "x8"},
		{"x1y10", "x01y11", "x1y11", "x001y12"},
		{"n99999999999999999998", "n99999999999999999999", "n100000000000000000000"}, // more than any integer
		{"tokyo-２", "tokyo-３", "東京-1", "東京-2", "東京-10"},
	} {
		mixed := slices.Clone(names)
		for range 20 {
			rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			slices.SortFunc(mixed, Compare)
			if !slices.Equal(mixed, names) {
				t.Fatalf("they stand as %q, want %q", mixed, names)
			}
		}
	}
}

// FuzzTheOrderIsTotal holds any three texts against what sorting relies on.
func FuzzTheOrderIsTotal(f *testing.F) {
	f.Add("upf-2", "upf-11", "upf-02")
	f.Add("a1b02", "a01b2", "a1b1")
	f.Add("0", "00", "")
	f.Add("x0", "x", "x00a")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if got, back := Compare(a, b), Compare(b, a); got != -back {
			t.Errorf("%q against %q is %d, and the other way round %d", a, b, got, back)
		}
		if (Compare(a, b) == 0) != (a == b) {
			t.Errorf("%q and %q count as the same", a, b)
		}
		if Compare(a, b) < 0 && Compare(b, c) < 0 && Compare(a, c) >= 0 {
			t.Errorf("%q, %q, %q: the first stands before the second, that before the third, and the first not before the third", a, b, c)
		}
		digits := func(s string) bool { return strings.ContainsAny(s, "0123456789") }
		if want := strings.Compare(a, b); !digits(a) && !digits(b) && Compare(a, b) != want {
			t.Errorf("without digits %q against %q is %d, want %d", a, b, Compare(a, b), want)
		}
	})
}

// BenchmarkSort is what it costs to have 10,000 names stand in order, from any order.
func BenchmarkSort(b *testing.B) {
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("region-%d/site-%d/upf-%d", i/1000, i/50, i)
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	list := make([]string, len(names))
	for b.Loop() {
		copy(list, names)
		slices.SortFunc(list, Compare)
	}
}
