package gitrepo

import (
	"fmt"
	"testing"
	"time"
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

// BenchmarkWhoPushedForEachOfOneCommit asks for each of as many instances as one commit changed who pushed it, while what
// came of their operations is noted. Ten times as many may not take more than thirty times as long: it was a hundred.
func BenchmarkWhoPushedForEachOfOneCommit(b *testing.B) {
	each := map[int]time.Duration{}
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				r := openRepo(b, Options{Key: testKey})
				commit := mustWrite(b, r, testID(1), "instances/a", 1).Commit
				b.StartTimer()
				for i := range n {
					if _, err := r.notedPush(b.Context(), commit); err != nil {
						b.Fatal(err)
					}
					r.Attest(commit, fmt.Sprintf("INSTANTIATE %s of %s COMPLETED", testID(i), testID(n+i)), []byte(`{"state":"COMPLETED"}`))
					if i%250 == 249 {
						r.flushNotes(b.Context(), false)
					}
				}
				if err := r.Close(); err != nil {
					b.Fatal(err)
				}
			}
			each[n] = b.Elapsed() / time.Duration(b.N*n)
			b.ReportMetric(float64(each[n].Nanoseconds()), "ns/instance")
		})
	}
	if small, large := each[1_000], each[10_000]; small > 0 && large > 3*small {
		b.Errorf("an instance takes %s among 10,000 and %s among 1,000", large, small)
	}
}
