package gitrepo

import (
	"fmt"
	"testing"
)

// BenchmarkNotesOfOneCommit notes the outcomes of as many operations as one commit began, as
// they come: 250 for each time that the notes are written.
func BenchmarkNotesOfOneCommit(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				r := openRepo(b, Options{})
				commit := mustWrite(b, r, testID(1), "instances/a", 1).Commit
				b.StartTimer()
				for i := range n {
					r.Note(commit, fmt.Sprintf("INSTANTIATE %s of %s COMPLETED", testID(i), testID(n+i)))
					if i%250 == 249 {
						r.flushNotes(b.Context(), false)
					}
				}
				if err := r.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
