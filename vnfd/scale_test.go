package vnfd_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jibe-vnfm/jibe/vnfd"
	"pgregory.net/rapid"
)

func simple(t testing.TB) *vnfd.Flavour {
	t.Helper()
	p, err := vnfd.Load(base(t))
	if err != nil {
		t.Fatal(err)
	}
	f, ok := p.VNFD.Flavour("simple")
	if !ok {
		t.Fatal("no flavour simple")
	}
	return f
}

func TestScaleLevelsPreferTheOverrideThenTheLevelThenTheDefault(t *testing.T) {
	f := simple(t)
	for _, c := range []struct {
		level     string
		overrides map[string]int
		want      int
	}{
		{"", nil, 0},
		{"small", nil, 0},
		{"big", nil, 2},
		{"big", map[string]int{"web_aspect": 0}, 0},
		{"", map[string]int{"web_aspect": 3}, 3},
	} {
		got, err := f.ScaleLevels(c.level, c.overrides)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]int{"web_aspect": c.want}, got); diff != "" {
			t.Errorf("%q %v: %s", c.level, c.overrides, diff)
		}
	}
}

func TestUnknownAspectsAndLevelsAreRefusedByName(t *testing.T) {
	f := simple(t)
	_, err := f.ScaleLevels("huge", nil)
	if !errors.Is(err, vnfd.ErrUnknownLevel) || err.Error() != `unknown instantiation level "huge" in flavour "simple": it has big, small` {
		t.Error(err)
	}
	_, err = f.ScaleLevels("", map[string]int{"db_aspect": 1})
	if !errors.Is(err, vnfd.ErrUnknownAspect) || err.Error() != `unknown scaling aspect "db_aspect" in flavour "simple": it has web_aspect` {
		t.Error(err)
	}
	for _, n := range []int{-1, 4} {
		_, err = f.ScaleLevels("", map[string]int{"web_aspect": n})
		want := &vnfd.RangeError{What: "scale level of aspect web_aspect", Value: n, Min: 0, Max: 3}
		got, ok := errors.AsType[*vnfd.RangeError](err)
		if !ok || *got != *want {
			t.Error(err)
		}
	}
	if _, ok := f.VDU("web"); ok {
		t.Error("found a VDU by its name")
	}
}

func TestVduWithoutAspectFollowsTheInstantiationLevel(t *testing.T) {
	f := simple(t)
	db, _ := f.VDU("VDU2")
	for level, want := range map[string]int{"": 1, "small": 1, "big": 3} {
		if n, err := f.Count(db, level, map[string]int{"web_aspect": 3}); err != nil || n != want {
			t.Errorf("level %q: %d, %v; want %d", level, n, err, want)
		}
	}
	db.Levels = nil
	db.Min = 2
	if n, err := f.Count(db, "big", nil); n != 2 || err != nil {
		t.Errorf("without levels and initial delta: %d, %v; want the least number of its profile", n, err)
	}
	db.Min = 0
	db.Initial = 2
	if n, _ := f.Count(db, "big", nil); n != 2 {
		t.Errorf("without levels: %d", n)
	}
}

const remedy = ": ask for another level, or correct vdu_profile, VduInitialDelta or VduInstantiationLevels of the VNFD"

func TestCountOutsideTheProfileIsRefusedWithItsBounds(t *testing.T) {
	f := simple(t)
	web, _ := f.VDU("VDU1")
	web.Max = 3
	_, err := f.Count(web, "", map[string]int{"web_aspect": 3})
	if err == nil || err.Error() != "number of instances of VDU VDU1 is 4, must be within 1..3"+remedy {
		t.Error(err)
	}
	web.Min, web.Max = 2, -1
	_, err = f.Count(web, "", nil)
	if err == nil || err.Error() != "number of instances of VDU VDU1 is 1, must be at least 2"+remedy {
		t.Error(err)
	}
}

func TestWithoutInitialDeltaTheLevelsOwnNumberIsTheStartingPoint(t *testing.T) {
	f := simple(t)
	web, _ := f.VDU("VDU1")
	web.Initial = -1
	web.Levels = map[string]int{"small": 1, "big": 3}
	for _, c := range []struct {
		level  string
		levels map[string]int
		want   int
	}{{"small", nil, 1}, {"big", nil, 3}, {"big", map[string]int{"web_aspect": 3}, 4}, {"big", map[string]int{"web_aspect": 0}, 1}} {
		if n, err := f.Count(web, c.level, c.levels); err != nil || n != c.want {
			t.Errorf("%q %v: %d, %v; want %d", c.level, c.levels, n, err, c.want)
		}
	}
}

func TestTheLevelsOwnNumberHoldsWhereTheOthersContradictIt(t *testing.T) {
	f := simple(t)
	web, _ := f.VDU("VDU1")
	web.Initial, web.Levels = 2, map[string]int{"big": 2} // by initial delta and steps it would be 4
	for _, c := range []struct {
		level  string
		levels map[string]int
		want   int
	}{{"big", nil, 2}, {"big", map[string]int{"web_aspect": 3}, 3}, {"big", map[string]int{"web_aspect": 1}, 1}, {"small", nil, 2}, {"", map[string]int{"web_aspect": 1}, 3}} {
		if n, err := f.Count(web, c.level, c.levels); err != nil || n != c.want {
			t.Errorf("%q %v: %d, %v; want %d", c.level, c.levels, n, err, c.want)
		}
	}
	if n, err := f.Count(web, "big", map[string]int{"web_aspect": 0}); err == nil {
		t.Errorf("%d instances, below the profile's 1", n)
	}
}

func TestAScaledVduWithoutANumberStartsFromItsProfile(t *testing.T) {
	f := simple(t)
	web, _ := f.VDU("VDU1")
	web.Initial, web.Min = -1, 2
	if n, err := f.Count(web, "big", nil); err != nil || n != 4 {
		t.Errorf("%d, %v; want the least number and two steps, 4", n, err)
	}
}

// genFlavour draws a flavour whose VDUs all have an initial delta.
func genFlavour(t *rapid.T) *vnfd.Flavour {
	f := &vnfd.Flavour{ID: "f"}
	for i := range rapid.IntRange(0, 4).Draw(t, "aspects") {
		f.Aspects = append(f.Aspects, vnfd.Aspect{ID: fmt.Sprint("a", i), MaxLevel: rapid.IntRange(1, 9).Draw(t, "max")})
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "levels") {
		l := vnfd.Level{ID: fmt.Sprint("l", i), Aspects: map[string]int{}}
		for _, a := range f.Aspects {
			if rapid.Bool().Draw(t, "named") {
				l.Aspects[a.ID] = rapid.IntRange(0, a.MaxLevel).Draw(t, "level")
			}
		}
		f.Levels = append(f.Levels, l)
		f.DefaultLevel = l.ID
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "vdus") {
		v := vnfd.VDU{ID: fmt.Sprint("v", i), Initial: rapid.IntRange(0, 5).Draw(t, "initial"), Max: -1, Deltas: map[string]int{}}
		for _, a := range f.Aspects {
			if rapid.Bool().Draw(t, "scaled") {
				v.Deltas[a.ID] = rapid.IntRange(0, 3).Draw(t, "delta")
			}
		}
		f.VDUs = append(f.VDUs, v)
	}
	return f
}

func TestOneStepOfAnAspectAddsItsDeltaToItsVdusAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := genFlavour(t)
		if len(f.Aspects) == 0 {
			return
		}
		levels := map[string]int{}
		for _, a := range f.Aspects {
			levels[a.ID] = rapid.IntRange(0, a.MaxLevel).Draw(t, "at")
		}
		a := rapid.SampledFrom(f.Aspects).Draw(t, "aspect")
		levels[a.ID] = rapid.IntRange(0, a.MaxLevel-1).Draw(t, "below")
		more := maps.Clone(levels)
		more[a.ID]++
		for i := range f.VDUs {
			v := &f.VDUs[i]
			before, err1 := f.Count(v, "", levels)
			after, err2 := f.Count(v, "", more)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if after-before != v.Deltas[a.ID] {
				t.Fatalf("VDU %s goes from %d to %d by a step of %d", v.ID, before, after, v.Deltas[a.ID])
			}
		}
	})
}

func TestScaleLevelsNameEveryAspectWithinItsRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := genFlavour(t)
		overrides := map[string]int{}
		valid := true
		for _, a := range f.Aspects {
			if rapid.Bool().Draw(t, "override") {
				n := rapid.IntRange(-2, 11).Draw(t, "to")
				overrides[a.ID] = n
				valid = valid && n >= 0 && n <= a.MaxLevel
			}
		}
		got, err := f.ScaleLevels("", overrides)
		if (err == nil) != valid {
			t.Fatalf("%v: %v", overrides, err)
		}
		if err != nil {
			if _, ok := errors.AsType[*vnfd.RangeError](err); !ok {
				t.Fatal(err)
			}
			return
		}
		if len(got) != len(f.Aspects) {
			t.Fatal("not every aspect:", got)
		}
		again, err := f.ScaleLevels("", got)
		if err != nil || !maps.Equal(got, again) {
			t.Fatal("asking for what one has changes it:", got, again, err)
		}
		for id, n := range overrides {
			if got[id] != n {
				t.Fatalf("%s is %d, not %d", id, got[id], n)
			}
		}
	})
}

func TestErrorsOfLongListsStayShort(t *testing.T) {
	f := &vnfd.Flavour{ID: "f"}
	for i := range 400 {
		f.Aspects = append(f.Aspects, vnfd.Aspect{ID: fmt.Sprint("a", i), MaxLevel: 1})
	}
	_, err := f.ScaleLevels("", map[string]int{"x": 1})
	if err == nil || !strings.HasSuffix(err.Error(), "a19, and 380 more") {
		t.Error(err)
	}
}
