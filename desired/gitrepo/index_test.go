package gitrepo

import (
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

// indexOf has n instances, each with its own name.
func indexOf(n int) *index {
	x := newIndex()
	for i := range n {
		x.put(&slot{rev: desired.Revision{Instance: testID(i), Dir: shardDir(testID(i)), Tree: "1"}, name: fmt.Sprint("vnf-", i)})
	}
	return x
}

func TestACopyOfTheIndexAndAChangeOfOneInstanceCostTheSameAtAnySize(t *testing.T) {
	cost := func(n int) float64 {
		x := indexOf(n)
		return testing.AllocsPerRun(100, func() {
			c := x.clone()
			c.apply(headMove{
				changes: []dirChange{{dir: shardDir(testID(1)), after: "2"}},
				slots:   []*slot{{rev: desired.Revision{Instance: testID(1), Dir: shardDir(testID(1)), Tree: "2"}, name: "vnf"}},
			})
		})
	}
	if few, many := cost(300), cost(30_000); many > 2*few+20 {
		t.Errorf("it takes %v allocations among 300 instances, and %v among 30,000", few, many)
	}
}

func TestACopyOfTheIndexDoesntSeeWhatChangesLater(t *testing.T) {
	t.Parallel()

	x := indexOf(500)
	before := x.list()
	c := x.clone()
	// One moves away, one claims another's id, one is new.
	for i, id := range []int{1, 2, 1_000} {
		x.put(&slot{rev: desired.Revision{Instance: testID(id), Dir: fmt.Sprint("instances/new-", i), Tree: "2"}, name: "vnf-3"})
	}
	x.remove(shardDir(testID(2)))
	x.remove(shardDir(testID(4)))
	for i, rev := range c.list() {
		if rev != before[i] {
			t.Fatalf("number %d is %+v, want %+v", i, rev, before[i])
		}
	}
	if got := c.named("vnf-3"); len(got) != 1 || len(x.named("vnf-3")) != 4 {
		t.Errorf("the copy has %v of that name, the index %v", got, x.named("vnf-3"))
	}
	if len(c.problems()) != 0 || len(x.problems()) != 1 {
		t.Errorf("the copy has problems %v, the index %v", c.problems(), x.problems())
	}
}

// BenchmarkIndexOfOneChange is a copy of the index, as each push that is judged makes one, and
// a list of all ids after it.
func BenchmarkIndexOfOneChange(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		x := indexOf(n)
		move := headMove{
			changes: []dirChange{{dir: shardDir(testID(1)), after: "2"}},
			slots:   []*slot{{rev: desired.Revision{Instance: testID(1), Dir: shardDir(testID(1)), Tree: "2"}, name: "vnf"}},
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.clone().apply(move)
			}
		})
	}
}
