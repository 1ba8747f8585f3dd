package changed

import (
	"slices"
	"strconv"
	"testing"
)

func TestEachWatcherTakesWhatHasChangedSinceItTookLast(t *testing.T) {
	var f Feed
	f.Note("before anybody watched")
	one := f.Watch()
	want := func(take Take, all bool, ids ...string) {
		t.Helper()
		if got, gotAll := take(); !slices.Equal(got, ids) || gotAll != all {
			t.Errorf("%q, %v; want %q, %v", got, gotAll, ids, all)
		}
	}
	want(one, true)
	f.Note("b", "a")
	f.Note("a")
	two := f.Watch()
	want(one, false, "a", "b")
	want(one, false)
	want(two, true)
	f.Note("c")
	want(one, false, "c")
	want(two, false, "c")
	f.NoteAll()
	f.Note("d")
	want(one, true)
}

func TestAWatcherThatTakesNothingCostsABoundedAmount(t *testing.T) {
	var f Feed
	take := f.Watch()
	take()
	for i := range 2 * most {
		f.Note(strconv.Itoa(i))
	}
	if n := len(f.watchers[0].ids); n != 0 {
		t.Errorf("%d ids are kept", n)
	}
	if ids, all := take(); len(ids) != 0 || !all {
		t.Errorf("%d ids, %v", len(ids), all)
	}
}
