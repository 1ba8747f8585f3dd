package gitrepo

import (
	"context"
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// bothCases has half of the instances in a site's folder, and half in one that is spelled alike.
func bothCases(id string) string {
	site := "berlin"
	if id[len(id)-1]%2 == 1 {
		site = "Berlin"
	}
	return "instances/" + site + "/" + id
}

// countedSpelling is the spelling at a root, which counts the trees that it reads.
func countedSpelling(r *read.Reader, root string) (*read.Spelling, *int) {
	s, n := r.SpellingAt(root), new(int)
	load := s.Load
	s.Load = func(ctx context.Context, hash string) (*git.Tree, error) {
		*n++
		return load(ctx, hash)
	}
	return s, n
}

func TestFoldersSpelledAlikeAreReadOnceForAllInstances(t *testing.T) {
	t.Parallel()

	dir := manyInstances(t, 60, bothCases)
	r := openRepo(t, Options{Dir: dir})
	head, root := r.Head(), r.root
	if n := r.index.Alike.Len(); n != 60 {
		t.Fatalf("%d instances are in folders spelled alike", n)
	}
	m, err := r.read.PrepareMove(t.Context(), "", root, head, 0)
	if err != nil {
		t.Fatal(err)
	}

	const folders = 4 // the root, instances/, and both sites
	at, reads := countedSpelling(r.read, root)
	if err := r.read.HoldClashes(t.Context(), read.NewIndex(), &m, head, at); err != nil {
		t.Fatal(err)
	}
	if *reads > folders {
		t.Errorf("%d trees are read to hold what clashes", *reads)
	}
	for _, s := range m.Slots {
		if s.Rev.Instance != "" {
			t.Errorf("%s isn't held", s.Rev.Dir)
		}
	}

	x, still := read.NewIndex(), read.HeadMove{}
	x.Apply(m)
	at, reads = countedSpelling(r.read, root)
	if err := r.read.EndClashes(t.Context(), x, &still, head, at); err != nil {
		t.Fatal(err)
	}
	if *reads > folders || len(still.Changes) > 0 {
		t.Errorf("%d trees are read while it clashes; %d instances are let go", *reads, len(still.Changes))
	}

	person := commitTo(t, dir)
	person.move("instances/Berlin", "instances/hamburg")
	renamed := person.push("Rename it")
	root, err = r.read.RootOf(t.Context(), renamed)
	if err != nil {
		t.Fatal(err)
	}
	at, reads = countedSpelling(r.read, root)
	if err := r.read.EndClashes(t.Context(), x, &still, renamed, at); err != nil {
		t.Fatal(err)
	}
	if *reads > folders || len(still.Changes) != 60 {
		t.Errorf("%d trees are read once it doesn't clash; %d instances are let go", *reads, len(still.Changes))
	}
}

// BenchmarkSpelledAlike is a commit, and a start, while two folders of a site are spelled alike: what differs from one to the
// other should be the size alone.
func BenchmarkSpelledAlike(b *testing.B) {
	for _, n := range []int{5_000, 50_000} {
		dir := manyInstances(b, n, bothCases)
		r := openRepo(b, Options{Dir: dir})
		m, err := r.read.PrepareMove(b.Context(), "", r.root, r.Head(), 0)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				held, x := read.HeadMove{Changes: m.Changes, Slots: append([]*read.Slot{}, m.Slots...)}, read.NewIndex()
				if err := r.read.HoldClashes(b.Context(), x, &held, r.Head(), r.read.SpellingAt(r.root)); err != nil {
					b.Fatal(err)
				}
				x.Apply(held)
				if err := r.read.EndClashes(b.Context(), x, &read.HeadMove{}, r.Head(), r.read.SpellingAt(r.root)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
