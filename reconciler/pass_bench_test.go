package reconciler_test

import (
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
)

// BenchmarkPassAtRest is what one pass of an instance costs of which nothing has moved.
func BenchmarkPassAtRest(b *testing.B) {
	w := newWorld(b, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.looks()

	b.ReportAllocs()
	for b.Loop() {
		if err := w.recon.Pass(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
}
