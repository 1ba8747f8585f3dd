package git

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
	ModeDir       = "40000"
	ModeFile      = "100644"
	ModeExec      = "100755"
	ModeSymlink   = "120000"
	ModeSubmodule = "160000"
)

// Entry is one entry of a tree.
type Entry struct {
	Mode, Name, Hash string
}

// IsDir says whether it is a directory, as old gits wrote them too.
func (e Entry) IsDir() bool { return e.Mode == ModeDir || e.Mode == "040000" }

// IsFile says whether it is a regular file, executable or not.
func (e Entry) IsFile() bool { return strings.HasPrefix(e.Mode, "100") }

// Tree is an encoded git tree with the offsets of its entries, so that one of
// 10,000 entries is found by bisection and replaced by splicing bytes.
type Tree struct {
	raw  []byte
	offs []uint32
}

// ParseTree checks the encoding of a whole tree. The result shares raw.
func ParseTree(raw []byte) (*Tree, error) {
	t := &Tree{raw: raw, offs: make([]uint32, 0, len(raw)/36+1)}
	for at := 0; at < len(raw); {
		_, nul := entryAt(raw[at:])
		if nul < 0 {
			return nil, fmt.Errorf("malformed tree at byte %d", at)
		}
		t.offs = append(t.offs, uint32(at))
		at += nul + 1 + hashSize
	}
	return t, nil
}

// hashSize is the length of an object's name in a tree, in bytes.
const hashSize = 20

// entryAt returns where the mode and the name of the entry end with which the rest of a tree begins: at a space, and at a
// NUL, before the hash. nul is negative for what is no entry.
func entryAt(rest []byte) (sp, nul int) {
	sp, nul = bytes.IndexByte(rest, ' '), bytes.IndexByte(rest, 0)
	if sp < 0 || nul < sp || nul+1+hashSize > len(rest) {
		return 0, -1
	}
	return sp, nul
}

// Len is the number of entries.
func (t *Tree) Len() int { return len(t.offs) }

func (t *Tree) end(i int) int {
	if i+1 < len(t.offs) {
		return int(t.offs[i+1])
	}
	return len(t.raw)
}

// At decodes the entry at i, in git's order.
func (t *Tree) At(i int) Entry {
	return decodeEntry(t.raw[t.offs[i]:t.end(i)])
}

// decodeEntry decodes one entry.
func decodeEntry(b []byte) Entry {
	sp := bytes.IndexByte(b, ' ')
	return Entry{
		Mode: string(b[:sp]),
		Name: string(b[sp+1 : len(b)-21]),
		Hash: hex.EncodeToString(b[len(b)-20:]),
	}
}

// IsLink reports whether the entry at i is a symbolic link or a submodule, without decoding it.
func (t *Tree) IsLink(i int) bool {
	b := t.raw[t.offs[i]:t.end(i)]
	return len(b) > 1 && b[0] == '1' && (b[1] == '2' || b[1] == '6')
}

// Entries decodes all entries in git's order.
func (t *Tree) Entries() []Entry {
	out := make([]Entry, t.Len())
	for i := range out {
		out[i] = t.At(i)
	}
	return out
}

// compare orders as git does: a directory sorts as if its name ended in a slash.
func (t *Tree) compare(i int, name string, dir bool) int {
	b := t.raw[t.offs[i]:t.end(i)]
	sp := bytes.IndexByte(b, ' ')
	return compareNames(string(b[sp+1:len(b)-21]), b[0] == '4' || b[0] == '0', name, dir)
}

// InOrder reports whether a stands before b in a tree, as git has them: two of one name don't.
func InOrder(a, b Entry) bool { return compareNames(a.Name, a.IsDir(), b.Name, b.IsDir()) < 0 }

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
func (t *Tree) index(name string, dir bool) (int, bool) {
	lo, hi := 0, t.Len()
	for lo < hi {
		mid := (lo + hi) / 2
		if t.compare(mid, name, dir) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < t.Len() {
		b := t.raw[t.offs[lo]:t.end(lo)]
		sp := bytes.IndexByte(b, ' ')
		if string(b[sp+1:len(b)-21]) == name {
			return lo, true
		}
	}
	return lo, false
}

// Find returns the entry of that name, of whatever kind.
func (t *Tree) Find(name string) (Entry, bool) {
	for _, dir := range []bool{false, true} {
		if i, ok := t.index(name, dir); ok {
			return t.At(i), true
		}
	}
	return Entry{}, false
}

// FindEntry returns the entry of that name of an encoded tree, of whatever kind, without keeping where the others are.
func FindEntry(raw []byte, name string) (Entry, bool, error) {
	for at := 0; at < len(raw); {
		sp, nul := entryAt(raw[at:])
		if nul < 0 {
			return Entry{}, false, fmt.Errorf("malformed tree at byte %d", at)
		}
		end := at + nul + 1 + hashSize
		if string(raw[at+sp+1:at+nul]) == name {
			return decodeEntry(raw[at:end]), true, nil
		}
		at = end
	}

	return Entry{}, false, nil
}

// clone returns a tree that splice may alter.
func (t *Tree) clone() *Tree {
	return &Tree{raw: slices.Clone(t.raw), offs: slices.Clone(t.offs)}
}

// splice says which bytes of a tree gave way to which: raw[from:to] became with.
type splice struct {
	from, to int
	with     []byte
}

// set replaces or inserts an entry in place; an entry of the same name and
// another kind gives way.
func (t *Tree) set(e Entry) splice {
	bin, _ := hex.DecodeString(e.Hash)
	enc := slices.Concat([]byte(e.Mode), []byte{' '}, []byte(e.Name), []byte{0}, bin)
	i, found := t.index(e.Name, e.IsDir())
	from := len(t.raw)
	if i < t.Len() {
		from = int(t.offs[i])
	}
	to := from
	if found {
		to = t.end(i)
	}
	return t.replace(i, found, splice{from: from, to: to, with: enc})
}

func (t *Tree) replace(i int, found bool, s splice) splice {
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
func (t *Tree) remove(i int) splice {
	return t.replace(i, true, splice{from: int(t.offs[i]), to: t.end(i)})
}

// EncodeTree orders and encodes entries.
func EncodeTree(entries []Entry) []byte {
	slices.SortFunc(entries, func(a, b Entry) int { return compareNames(a.Name, a.IsDir(), b.Name, b.IsDir()) })
	var out []byte
	for _, e := range entries {
		bin, _ := hex.DecodeString(e.Hash)
		out = append(out, e.Mode...)
		out = append(out, ' ')
		out = append(out, e.Name...)
		out = append(out, 0)
		out = append(out, bin...)
	}
	return out
}

// HashObject is the object name that git gives to content.
func HashObject(kind string, data []byte) string {
	h := hashObject(kind, data)
	return hex.EncodeToString(h[:])
}

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

// DiffTrees calls fn for every entry that differs; an absent one is zero.
func DiffTrees(a, b *Tree, fn func(before, after Entry)) {
	for i, j := 0, 0; i < a.Len() || j < b.Len(); {
		switch {
		case i == a.Len():
			fn(Entry{}, b.At(j))
			j++
		case j == b.Len():
			fn(a.At(i), Entry{})
			i++
		default:
			if bytes.Equal(a.raw[a.offs[i]:a.end(i)], b.raw[b.offs[j]:b.end(j)]) {
				i++
				j++
				continue
			}
			ea, eb := a.At(i), b.At(j)
			switch c := compareNames(ea.Name, ea.IsDir(), eb.Name, eb.IsDir()); {
			case c == 0:
				fn(ea, eb)
				i++
				j++
			case c < 0:
				fn(ea, Entry{})
				i++
			default:
				fn(Entry{}, eb)
				j++
			}
		}
	}
}
