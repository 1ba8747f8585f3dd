package gitrepo

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

func TestACopyOfTheIndexTellsOnlyWhatItHasChanged(t *testing.T) {
	t.Parallel()

	var x read.Identified
	x.Set("before anybody watches", &read.Slot{})
	if len(x.Changed) != 0 {
		t.Errorf("%q", x.Changed)
	}
	x.Watched = true
	x.Set("a", &read.Slot{})
	next := x.Copy()
	next.Set("b", &read.Slot{})
	x.Remove("a")
	if !slices.Equal(x.Changed, []string{"a", "a"}) || !slices.Equal(next.Changed, []string{"a", "b"}) {
		t.Errorf("%q, and %q of the copy", x.Changed, next.Changed)
	}
	for i := range read.MostChanged {
		next.Set(fmt.Sprint(i), &read.Slot{})
	}
	if len(next.Changed) != 0 || !next.TooMany || !next.Copy().TooMany {
		t.Errorf("%d ids are named, too many: %v", len(next.Changed), next.TooMany)
	}
}

func TestWhoWatchesHeadsIsToldOfWritesAndPushes(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	take := r.WatchHeads()
	want := func(all bool, ids ...string) {
		t.Helper()
		got, gotAll := take()
		slices.Sort(ids)
		if !slices.Equal(got, ids) || gotAll != all {
			t.Errorf("%q, %v; want %q, %v", got, gotAll, ids, all)
		}
	}
	want(true)
	a, b := testID(1), testID(2)
	mustWrite(t, r, a, flatDir(a), 1)
	want(false, a)
	mustWrite(t, r, a, flatDir(a), 2)
	mustWrite(t, r, b, flatDir(b), 1)
	want(false, a, b)
	want(false)

	clone := t.TempDir()
	runGit(t, clone, "clone", "-q", r.opt.Dir, ".")
	runGit(t, clone, "rm", "-q", "-r", flatDir(b))
	runGit(t, clone, "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "commit", "-q", "-m", "Remove b")
	runGit(t, clone, "push", "-q")
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(false, b)
	if _, there := r.LookupHead(b); there {
		t.Error("what is told of isn't there to be seen yet")
	}
}
