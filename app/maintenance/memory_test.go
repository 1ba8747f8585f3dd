package maintenance

import "testing"

func TestGarbageIsPlentyBesideASmallHeapAndScarceBesideALargeOne(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 300}, {10 << 20, 300}, {64 << 20, 300}, {128 << 20, 200}, {256 << 20, 100}, {512 << 20, 50}, {4 << 30, 50},
	} {
		if got := garbage(c.live); got != c.want {
			t.Errorf("%d MiB that live: %d %%, want %d %%", c.live>>20, got, c.want)
		}
	}
}

func TestMemoryIsGivenBackOnceWhenTheProcessComesToRest(t *testing.T) {
	t.Parallel()

	var r resting
	allocated := uint64(0)
	look := func(more uint64) bool {
		allocated += more
		return r.begins(allocated)
	}
	given := func(looks int, more uint64) (times int) {
		for range looks {
			if look(more) {
				times++
			}
		}
		return times
	}
	if n := given(100, 100<<20); n != 0 {
		t.Errorf("it was given back %d times while the process worked", n)
	}
	if n := given(100, 1<<10); n != 1 {
		t.Errorf("it was given back %d times in one rest", n)
	}
	if n := given(1, 5<<20) + given(50, 1<<10); n != 0 {
		t.Errorf("it was given back %d times for a little", n)
	}
	if n := given(1, 500<<20) + given(50, 1<<10); n != 1 {
		t.Errorf("it was given back %d times in the next rest", n)
	}
}
