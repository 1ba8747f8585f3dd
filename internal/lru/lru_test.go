package lru

import "testing"

func TestTheValuesThatWereUsedLeastRecentlyGiveWay(t *testing.T) {
	c := New[string](4*(1000+overhead+1), 4*(1000+overhead+1))
	for _, key := range []string{"a", "b", "c", "d"} {
		c.Add(key, key, 1000)
	}
	c.Get("a")
	c.Add("e", "e", 1000)
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true, "e": true} {
		if v, ok := c.Get(key); ok != want || ok && v != key {
			t.Errorf("%s: %q, %v; want %v", key, v, ok, want)
		}
	}
}

func TestAValueThatIsAddedAgainCountsOnce(t *testing.T) {
	c := New[int](2*(1000+overhead+1), 2*(1000+overhead+1))
	c.Add("a", 1, 1000)
	for i := range 10 {
		c.Add("b", i, 1000)
	}
	if v, ok := c.Get("b"); !ok || v != 9 {
		t.Errorf("b is %d, %v", v, ok)
	}
	if _, ok := c.Get("a"); !ok {
		t.Error("a gave way to nothing")
	}
}

func TestAValueThatIsTooLargeIsNotKept(t *testing.T) {
	c := New[int](10_000, 2_500)
	c.Add("a", 1, 100)
	c.Add("big", 1, 5_000)
	if _, ok := c.Get("big"); ok {
		t.Error("it is kept")
	}
	if _, ok := c.Get("a"); !ok {
		t.Error("it has pushed another out")
	}
}
