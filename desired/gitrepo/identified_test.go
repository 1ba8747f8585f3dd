package gitrepo

import (
	"fmt"
	"slices"
	"testing"
)

func TestACopyOfTheIndexTellsOnlyWhatItHasChanged(t *testing.T) {
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
