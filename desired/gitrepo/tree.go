package gitrepo

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's object names
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The modes of tree entries, as git writes them.
const (
	modeDir       = "40000"
	modeFile      = "100644"
	modeExec      = "100755"
	modeSymlink   = "120000"
	modeSubmodule = "160000"
)

// entry is one entry of a tree.
type entry struct {
	mode, name, hash string
}

func (e entry) isDir() bool  { return e.mode == modeDir || e.mode == "040000" }
func (e entry) isFile() bool { return strings.HasPrefix(e.mode, "100") }

// tree is an encoded git tree with the offsets of its entries, so that one of
// 10,000 entries is found by bisection and replaced by splicing bytes.
type tree struct {
	raw  []byte
	offs []uint32
}

// parseTree checks the encoding of a whole tree. The result shares raw.
func parseTree(raw []byte) (*tree, error) {
	t := &tree{raw: raw, offs: make([]uint32, 0, len(raw)/36+1)}
	for at := 0; at < len(raw); {
		sp := bytes.IndexByte(raw[at:], ' ')
		nul := bytes.IndexByte(raw[at:], 0)
		if sp < 0 || nul < sp || at+nul+21 > len(raw) {
			return nil, fmt.Errorf("malformed tree at byte %d", at)
		}
		t.offs = append(t.offs, uint32(at))
		at += nul + 21
	}
	return t, nil
}

func (t *tree) len() int { return len(t.offs) }

func (t *tree) end(i int) int {
	if i+1 < len(t.offs) {
		return int(t.offs[i+1])
	}
	return len(t.raw)
}

func (t *tree) at(i int) entry {
	b := t.raw[t.offs[i]:t.end(i)]
	sp := bytes.IndexByte(b, ' ')
	return entry{
		mode: string(b[:sp]),
		name: string(b[sp+1 : len(b)-21]),
		hash: hex.EncodeToString(b[len(b)-20:]),
	}
}

// entries decodes all entries in git's order.
func (t *tree) entries() []entry {
	out := make([]entry, t.len())
	for i := range out {
		out[i] = t.at(i)
	}
	return out
}

// sortName is what git orders entries by: a directory sorts as if its name ended in a slash.
func (t *tree) compare(i int, name string, dir bool) int {
	b := t.raw[t.offs[i]:t.end(i)]
	sp := bytes.IndexByte(b, ' ')
	return compareNames(string(b[sp+1:len(b)-21]), b[0] == '4' || b[0] == '0', name, dir)
}

func compareNames(a string, aDir bool, b string, bDir bool) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return tail(a, n, aDir) - tail(b, n, bDir)
}

func tail(s string, n int, dir bool) int {
	if len(s) > n {
		return int(s[n])
	}
	if dir {
		return '/'
	}
	return 0
}

// index returns where name stands or would stand as a directory or a file.
func (t *tree) index(name string, dir bool) (int, bool) {
	lo, hi := 0, t.len()
	for lo < hi {
		mid := (lo + hi) / 2
		if t.compare(mid, name, dir) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < t.len() {
		b := t.raw[t.offs[lo]:t.end(lo)]
		sp := bytes.IndexByte(b, ' ')
		if string(b[sp+1:len(b)-21]) == name {
			return lo, true
		}
	}
	return lo, false
}

// find returns the entry of that name, of whatever kind.
func (t *tree) find(name string) (entry, bool) {
	for _, dir := range []bool{false, true} {
		if i, ok := t.index(name, dir); ok {
			return t.at(i), true
		}
	}
	return entry{}, false
}

// clone returns a tree that splice may alter.
func (t *tree) clone() *tree {
	return &tree{raw: slices.Clone(t.raw), offs: slices.Clone(t.offs)}
}

// splice says which bytes of a tree gave way to which: raw[from:to] became with.
type splice struct {
	from, to int
	with     []byte
}

// set replaces or inserts an entry in place; an entry of the same name and
// another kind gives way.
func (t *tree) set(e entry) splice {
	bin, _ := hex.DecodeString(e.hash)
	enc := slices.Concat([]byte(e.mode), []byte{' '}, []byte(e.name), []byte{0}, bin)
	i, found := t.index(e.name, e.isDir())
	from := len(t.raw)
	if i < t.len() {
		from = int(t.offs[i])
	}
	to := from
	if found {
		to = t.end(i)
	}
	return t.replace(i, found, splice{from: from, to: to, with: enc})
}

func (t *tree) replace(i int, found bool, s splice) splice {
	if grow := len(s.with) - (s.to - s.from); grow == 0 {
		copy(t.raw[s.from:], s.with)
		return s
	} else {
		t.raw = slices.Replace(t.raw, s.from, s.to, s.with...)
		switch {
		case len(s.with) == 0:
			t.offs = slices.Delete(t.offs, i, i+1)
		case !found:
			t.offs = slices.Insert(t.offs, i, uint32(s.from))
			i++
		default:
			i++
		}
		for ; i < len(t.offs); i++ {
			t.offs[i] = uint32(int(t.offs[i]) + grow)
		}
	}
	return s
}

// remove takes out the entry at i.
func (t *tree) remove(i int) splice {
	return t.replace(i, true, splice{from: int(t.offs[i]), to: t.end(i)})
}

// encodeTree orders and encodes entries.
func encodeTree(entries []entry) []byte {
	slices.SortFunc(entries, func(a, b entry) int { return compareNames(a.name, a.isDir(), b.name, b.isDir()) })
	var out []byte
	for _, e := range entries {
		bin, _ := hex.DecodeString(e.hash)
		out = append(out, e.mode...)
		out = append(out, ' ')
		out = append(out, e.name...)
		out = append(out, 0)
		out = append(out, bin...)
	}
	return out
}

// hashObject is the object name that git gives to content.
func hashObject(kind string, data []byte) [20]byte {
	h := sha1.New() //nolint:gosec // git's object names
	var head [32]byte
	b := append(head[:0], kind...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(data)), 10)
	h.Write(append(b, 0))
	h.Write(data)
	return [20]byte(h.Sum(nil))
}
