package members

import (
	"hash/fnv"
	"slices"
)

// Owner is the member that an instance is dealt to: the one with the highest score for it
// (rendezvous hashing). All who know the same members agree, whatever their order. When a member
// goes, only its own instances move; when one comes, it takes its share from each of the others.
// It is "" where there are no members.
func Owner(instance string, members []string) string { return newTable(members).owner(instance) }

// table holds members with what scores need of each.
type table struct {
	ids   []string // sorted
	seeds []uint64
}

func newTable(ids []string) *table {
	t := &table{ids: slices.Compact(slices.Sorted(slices.Values(ids)))}
	for _, id := range t.ids {
		t.seeds = append(t.seeds, mixed(digest(id)))
	}
	return t
}

func (t *table) owner(instance string) string {
	switch len(t.ids) {
	case 0:
		return ""
	case 1:
		return t.ids[0]
	}
	of := digest(instance)
	best, highest := 0, uint64(0)
	for i, seed := range t.seeds {
		if score := mixed(of ^ seed); score > highest { // of equal ones the first counts
			best, highest = i, score
		}
	}
	return t.ids[best]
}

// digest is FNV-1a, which is the same in every process and version.
func digest(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum64()
}

// mixed spreads each bit over all others (the finalizer of MurmurHash3): FNV alone leaves
// texts that differ at their end close to each other.
func mixed(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
