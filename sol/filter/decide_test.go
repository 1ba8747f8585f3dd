package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// entry is a resource of which everything is known by its values.
type entry map[string]Value

func (e entry) of(attr string) Value { return e[attr] }

// resource is the entry as clients see it.
func (e entry) resource(t *testing.T) map[string]any {
	t.Helper()
	out := map[string]any{}
	for path, v := range e {
		at := out
		parts := strings.Split(path, "/")
		for _, p := range parts[:len(parts)-1] {
			if at[p] == nil {
				at[p] = map[string]any{}
			}
			at = at[p].(map[string]any)
		}
		switch name := parts[len(parts)-1]; v.kind {
		case text:
			at[name] = v.text
		case boolean:
			at[name] = v.yes
		case moment:
			at[name] = v.time.UTC().Format(time.RFC3339Nano)
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(b))
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// TestWhatIsDecidedOnValuesIsWhatTheResourceSays compares both answers for random filters
// and entries.
func TestWhatIsDecidedOnValuesIsWhatTheResourceSays(t *testing.T) {
	kit.Long(t)
	attrs := []string{"id", "name", "state", "auto", "started", "jibe/directory", "jibe/held"}
	texts := []string{"", "a", "amf", "amf-1", "b", "true", "false", "2026-11-21T02:00:00Z", "2026-11-21T03:00:00+01:00",
		"2026-11-21T2:00:00Z", "2026-11-21T02:00:00.5Z", "2026-11-21", "instances/a", "INSTANTIATED", "7"}
	known := func(path []string) int {
		switch {
		case path[0] == "jibe" && len(path) > 1 && (path[1] == "directory" || path[1] == "held"):
			return 2
		case slices.Contains(attrs, path[0]):
			return 1
		}
		return 0
	}
	r := rand.New(rand.NewPCG(1, 2))
	answers := map[string]int{}
	for range 200_000 {
		e := entry{"id": Text(pick(r, texts...)), "name": Optional(pick(r, texts...)), "state": Optional(pick(r, texts...)),
			"auto": Bool(r.IntN(2) == 0), "started": Time(time.Date(2026, 11, 21, 2, 0, 0, pick(r, 0, 500_000_000), pick(r, time.UTC, time.FixedZone("", 3600)))),
			"jibe/directory": Text(pick(r, texts...)), "jibe/held": Optional(pick(r, texts...))}
		var f Filter
		for range 1 + r.IntN(3) {
			x := Expr{Op: pick(r, "eq", "neq", "gt", "gte", "lt", "lte", "in", "nin", "cont", "ncont"), Path: strings.Split(pick(r, attrs...), "/")}
			if r.IntN(20) == 0 {
				x.Path = append(x.Path, "below")
			}
			for range 1 + r.IntN(3) {
				x.Values = append(x.Values, pick(r, texts...))
			}
			f.exprs = append(f.exprs, x)
		}
		d, rest := f.Split(known)
		if !rest.Empty() {
			t.Fatalf("%s: %s is left", f, rest)
		}
		got, gotErr := d.Match(e.of)
		want, wantErr := f.Match(e.resource(t))
		if got != want || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || gotErr != nil && !errors.Is(gotErr, ErrStructure) {
			t.Fatalf("%s on %v: %v, %v; the resource says %v, %v", f, e, got, gotErr, want, wantErr)
		}
		answers[fmt.Sprint(got, gotErr == nil)]++
		if from, before := d.Between("started"); got && (e["started"].time.Before(from) || !before.IsZero() && !e["started"].time.Before(before)) {
			t.Fatalf("%s matches %v, which is not between %v and %v", f, e["started"].time, from, before)
		}
	}
	for _, what := range []string{"true true", "false true", "false false"} {
		if answers[what] < 100 {
			t.Errorf("only %d filters answered %s", answers[what], what)
		}
	}
}

func TestASplitFilterIsBothOfItsParts(t *testing.T) {
	f, err := Parse("(eq,id,i1);(eq,count,3);(cont,vnfInstanceName,amf)")
	if err != nil {
		t.Fatal(err)
	}
	d, rest := f.Split(func(path []string) int {
		if path[0] == "count" {
			return 0
		}
		return 1
	})
	if rest.String() != "(eq,count,'3')" || !d.Needs("id") || !d.Needs("vnfInstanceName") || d.Needs("count") {
		t.Errorf("%v and %s", d, rest)
	}
}

// FuzzMaybeTime holds that no text is taken for a name that is a moment.
func FuzzMaybeTime(f *testing.F) {
	for _, s := range []string{"2026-11-21T02:00:00Z", "2026-11-21T2:00:00Z", "2026-11-21T02:00:00.5+01:00", "amf", "2026-11-21T02:00:00,5Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := time.Parse(time.RFC3339Nano, s); err == nil && !MaybeTime(s) {
			t.Errorf("%q is a moment", s)
		}
	})
}

func BenchmarkDecideByName(b *testing.B) {
	f, err := Parse("(eq,vnfInstanceName,amf-31337)")
	if err != nil {
		b.Fatal(err)
	}
	d, _ := f.Split(func([]string) int { return 1 })
	name := "amf-31336"
	for b.Loop() {
		if ok, err := d.Match(func(string) Value { return Text(name) }); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
