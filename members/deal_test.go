package members_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/members"
)

func ids(n int, name string) (list []string) {
	for i := range n {
		list = append(list, uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, name, i)).String())
	}
	return list
}

func TestInstancesAreDealtEvenly(t *testing.T) {
	for _, instances := range [][]string{ids(10_000, "instance"), numbered(10_000)} {
		for n := 2; n <= 7; n++ {
			living := ids(n, "member")
			got := map[string]int{}
			for _, i := range instances {
				got[members.Owner(i, living)]++
			}
			for _, m := range living {
				if share := float64(got[m]) * float64(n) / float64(len(instances)); math.Abs(share-1) > 0.06 {
					t.Errorf("%d members: one has %d of %d", n, got[m], len(instances))
				}
			}
		}
	}
}

// numbered are ids that differ at their end alone.
func numbered(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("vnf-%05d", i))
	}
	return list
}

func TestOnlyTheInstancesOfALostMemberMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		living := rapid.SliceOfNDistinct(rapid.StringN(1, 12, -1), 1, 8, func(s string) string { return s }).Draw(t, "members")
		lost := rapid.SampledFrom(living).Draw(t, "lost")
		left := slices.DeleteFunc(slices.Clone(living), func(m string) bool { return m == lost })
		mixed := rapid.Permutation(living).Draw(t, "in another order")
		for _, i := range rapid.SliceOfN(rapid.String(), 1, 50).Draw(t, "instances") {
			was, is := members.Owner(i, living), members.Owner(i, left)
			switch {
			case !slices.Contains(living, was):
				t.Fatalf("%q is dealt to %q, which is no member", i, was)
			case members.Owner(i, mixed) != was:
				t.Fatalf("%q is dealt by the order of the members", i)
			case was != lost && is != was:
				t.Fatalf("%q moves from %q to %q as %q goes", i, was, is, lost)
			case was == lost && (is == lost || is == "" && len(left) > 0):
				t.Fatalf("%q stays with %q, which is lost: %q", i, lost, is)
			}
		}
	})
}

func BenchmarkOwner(b *testing.B) {
	living, instances := ids(3, "member"), ids(1000, "instance")
	for n := range b.N {
		members.Owner(instances[n%1000], living)
	}
}
