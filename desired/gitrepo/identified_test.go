package gitrepo

import (
	"fmt"
	"slices"
	"testing"
)

func TestACopyOfTheIndexTellsOnlyWhatItHasChanged(t *testing.T) {
	t.Parallel()

	var x identified
	x.set("before anybody watches", &slot{})
	if len(x.changed) != 0 {
		t.Errorf("%q", x.changed)
	}
	x.watched = true
	x.set("a", &slot{})
	next := x.copy()
	next.set("b", &slot{})
	x.remove("a")
	if !slices.Equal(x.changed, []string{"a", "a"}) || !slices.Equal(next.changed, []string{"a", "b"}) {
		t.Errorf("%q, and %q of the copy", x.changed, next.changed)
	}
	for i := range mostChanged {
		next.set(fmt.Sprint(i), &slot{})
	}
	if len(next.changed) != 0 || !next.tooMany || !next.copy().tooMany {
		t.Errorf("%d ids are named, too many: %v", len(next.changed), next.tooMany)
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
