package main

import "testing"

func TestGarbageIsPlentyBesideASmallHeapAndScarceBesideALargeOne(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 300}, {10 << 20, 300}, {64 << 20, 300}, {96 << 20, 200}, {192 << 20, 100}, {384 << 20, 50}, {4 << 30, 50},
	} {
		if got := garbage(c.live); got != c.want {
			t.Errorf("%d MiB that live: %d %%, want %d %%", c.live>>20, got, c.want)
		}
	}
}
