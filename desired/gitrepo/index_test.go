package gitrepo

import (
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// indexOf has n instances, each with its own name.
func indexOf(n int) *read.Index {
	x := read.NewIndex()
	for i := range n {
		x.Put(&read.Slot{Rev: desired.Revision{Instance: testID(i), Dir: shardDir(testID(i)), Tree: "1"}, Name: fmt.Sprint("vnf-", i)})
	}
	return x
}

func TestACopyOfTheIndexAndAChangeOfOneInstanceCostTheSameAtAnySize(t *testing.T) {
	cost := func(n int) float64 {
		x := indexOf(n)
		return testing.AllocsPerRun(100, func() {
			c := x.Clone()
			c.Apply(read.HeadMove{
				Changes: []read.DirChange{{Dir: shardDir(testID(1)), After: "2"}},
				Slots:   []*read.Slot{{Rev: desired.Revision{Instance: testID(1), Dir: shardDir(testID(1)), Tree: "2"}, Name: "vnf"}},
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
	before := x.List()
	c := x.Clone()
	// One moves away, one claims another's id, one is new.
	for i, id := range []int{1, 2, 1_000} {
		x.Put(&read.Slot{Rev: desired.Revision{Instance: testID(id), Dir: fmt.Sprint("instances/new-", i), Tree: "2"}, Name: "vnf-3"})
	}
	x.Remove(shardDir(testID(2)))
	x.Remove(shardDir(testID(4)))
	for i, rev := range c.List() {
		if rev != before[i] {
			t.Fatalf("number %d is %+v, want %+v", i, rev, before[i])
		}
	}
	if got := c.Named("vnf-3"); len(got) != 1 || len(x.Named("vnf-3")) != 4 {
		t.Errorf("the copy has %v of that name, the index %v", got, x.Named("vnf-3"))
	}
	if len(c.Problems()) != 0 || len(x.Problems()) != 1 {
		t.Errorf("the copy has problems %v, the index %v", c.Problems(), x.Problems())
	}
}

// BenchmarkIndexOfOneChange is a copy of the index, as each push that is judged makes one, and
// a list of all ids after it.
func BenchmarkIndexOfOneChange(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		x := indexOf(n)
		move := read.HeadMove{
			Changes: []read.DirChange{{Dir: shardDir(testID(1)), After: "2"}},
			Slots:   []*read.Slot{{Rev: desired.Revision{Instance: testID(1), Dir: shardDir(testID(1)), Tree: "2"}, Name: "vnf"}},
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.Clone().Apply(move)
			}
		})
	}
}
