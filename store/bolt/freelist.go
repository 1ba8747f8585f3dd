package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
)

// The format of a bbolt file, as far as finding its free pages needs it. Numbers have the
// byte order of the machine. A page begins with its header:
//
//	id uint64, flags uint16, count uint16, overflow uint32
//
// where count is the number of elements and overflow that of further pages that belong to it.
// After the header, a branch has elements of {pos, ksize uint32, page uint64} and a leaf has
// elements of {flags, pos, ksize, vsize uint32}, where pos counts from the element's own
// first byte. The value of an element that is a bucket begins with {root page, sequence uint64};
// a root of 0 is a bucket within the value. The list of free pages is their ids in ascending
// order; if there are 65535 or more, count is 65535 and the first id is their number.
const (
	headerSize  = 16
	elementSize = 16
	metaSize    = 64 // after the header

	branchPage   = 0x01
	leafPage     = 0x02
	metaPage     = 0x04
	freelistPage = 0x10
	bucketLeaf   = 0x01 // flag of a leaf's element

	metaMagic   = 0xED0CDAED
	metaVersion = 2
	noFreelist  = ^uint64(0)
	manyPages   = 0xFFFF

	maxPageShift = 24 // pages have at most 16 MiB
	windowSize   = 256 << 10
)

// errDamaged is wrapped by errors that say where a file contradicts itself.
var errDamaged = errors.New("its pages contradict each other")

// restoreFreelist writes the list of free pages into a file that was not closed. bbolt
// would find them itself, but in a goroutine of its own, whose panic on a damaged file would
// kill the process, and by mapping the whole file into memory. It does as a transaction of
// bbolt does: a crash at any point leaves the file as it was, or complete.
func restoreFreelist(f *os.File) error {
	m, ok := lastMeta(f)
	if !ok || m.freelist != noFreelist {
		return nil // whatever is wrong with the file, bbolt says it
	}
	w := &walk{file: f, pageSize: int64(m.pageSize), used: make([]bool, m.pages)}
	if err := w.reach(m.root); err != nil {
		return err
	}
	var free []uint64
	for id := uint64(2); id < m.pages; id++ {
		if !w.used[id] {
			free = append(free, id)
		}
	}
	list := freelist(m.pages, free, int(m.pageSize))
	if _, err := f.WriteAt(list, int64(m.pages)*w.pageSize); err != nil {
		return fmt.Errorf("write the list of free pages: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write the list of free pages: %w", err)
	}
	m.freelist = m.pages
	m.pages += uint64(len(list)) / uint64(m.pageSize)
	m.txid++
	page := m.page()
	if _, err := f.WriteAt(page, int64(m.txid%2)*w.pageSize); err != nil {
		return fmt.Errorf("write the list of free pages: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write the list of free pages: %w", err)
	}
	return nil
}

// freelist returns the page, or pages, at id that list the free pages.
func freelist(id uint64, free []uint64, pageSize int) []byte {
	ids := free
	if len(free) >= manyPages {
		ids = append([]uint64{uint64(len(free))}, free...)
	}
	pages := (headerSize + 8*len(ids) + pageSize - 1) / pageSize
	b := header(id, freelistPage, uint16(min(len(free), manyPages)), uint32(pages-1))
	for _, id := range ids {
		b = binary.NativeEndian.AppendUint64(b, id)
	}
	return append(b, make([]byte, pages*pageSize-len(b))...)
}

func header(id uint64, flags, count uint16, overflow uint32) []byte {
	b := binary.NativeEndian.AppendUint64(nil, id)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint16(b, count)
	return binary.NativeEndian.AppendUint32(b, overflow)
}

// meta is what a transaction leaves in one of the first two pages.
type meta struct {
	pageSize, flags uint32
	root, sequence  uint64
	freelist        uint64 // its page, or noFreelist
	pages           uint64 // how many pages there are, used or free
	txid            uint64
}

// lastMeta returns the meta of the last transaction that is complete.
func lastMeta(f io.ReaderAt) (last meta, found bool) {
	keep := func(m meta, ok bool) {
		if ok && (!found || m.txid > last.txid) {
			last, found = m, true
		}
	}
	first, ok := readMeta(f, 0)
	keep(first, ok)
	for shift := 10; shift <= maxPageShift; shift++ {
		if at := int64(1) << shift; !ok || at == int64(first.pageSize) {
			keep(readMeta(f, at))
		}
	}
	return last, found
}

func readMeta(f io.ReaderAt, at int64) (meta, bool) {
	b := make([]byte, headerSize+metaSize)
	if _, err := f.ReadAt(b, at); err != nil {
		return meta{}, false
	}
	b = b[headerSize:]
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	m := meta{u32(b[8:]), u32(b[12:]), u64(b[16:]), u64(b[24:]), u64(b[32:]), u64(b[40:]), u64(b[48:])}
	return m, u32(b) == metaMagic && u32(b[4:]) == metaVersion && u64(b[56:]) == checksum(b[:56]) &&
		m.pageSize >= headerSize+metaSize && m.pageSize <= 1<<maxPageShift && (at == 0 || at == int64(m.pageSize))
}

// page returns the page that holds m.
func (m meta) page() []byte {
	b := header(m.txid%2, metaPage, 0, 0)
	for _, n := range []uint32{metaMagic, metaVersion, m.pageSize, m.flags} {
		b = binary.NativeEndian.AppendUint32(b, n)
	}
	for _, n := range []uint64{m.root, m.sequence, m.freelist, m.pages, m.txid} {
		b = binary.NativeEndian.AppendUint64(b, n)
	}
	b = binary.NativeEndian.AppendUint64(b, checksum(b[headerSize:]))
	return append(b, make([]byte, int(m.pageSize)-len(b))...)
}

func checksum(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b) // it never fails
	return h.Sum64()
}

// walk finds the pages of a file that are in use.
type walk struct {
	file     *os.File
	pageSize int64
	used     []bool // by page

	window []byte // a part of the file
	at     int64  // where it begins
}

// reach marks the meta pages and all that is reached from root. It goes level by level, each
// in the order of the file, so that the disk reads forwards.
func (w *walk) reach(root uint64) error {
	if len(w.used) < 2 {
		return fmt.Errorf("%w: %d pages", errDamaged, len(w.used))
	}
	w.used[0], w.used[1] = true, true
	for level := []uint64{root}; len(level) > 0; {
		var next []uint64
		slices.Sort(level)
		for _, id := range level {
			below, err := w.page(id)
			if err != nil {
				return fmt.Errorf("page %d: %w", id, err)
			}
			next = append(next, below...)
		}
		level = next
	}
	return nil
}

// page marks the page id, and returns the pages that it points to.
func (w *walk) page(id uint64) (below []uint64, err error) {
	u16, u32, u64 := binary.NativeEndian.Uint16, binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	b, err := w.read(int64(id)*w.pageSize, w.pageSize)
	if err != nil {
		return nil, err
	}
	flags, count, last := u16(b[8:]), int(u16(b[10:])), id+uint64(u32(b[12:]))
	if u64(b) != id || flags != branchPage && flags != leafPage {
		return nil, fmt.Errorf("%w: it is another page's", errDamaged)
	}
	if last >= uint64(len(w.used)) {
		return nil, fmt.Errorf("%w: it goes beyond the end", errDamaged)
	}
	for p := id; p <= last; p++ {
		if w.used[p] {
			return nil, fmt.Errorf("%w: it is used twice", errDamaged)
		}
		w.used[p] = true
	}
	size := int64(last-id+1) * w.pageSize
	whole := func() error { // only a bucket, or elements that need more than a page, need all of it
		if int64(len(b)) < size {
			b, err = w.read(int64(id)*w.pageSize, size)
		}
		return err
	}
	for i := range count {
		at := headerSize + i*elementSize
		if at+elementSize > len(b) {
			if err := whole(); err != nil {
				return nil, err
			}
		}
		if at+elementSize > len(b) {
			return nil, fmt.Errorf("%w: too many elements", errDamaged)
		}
		if flags == branchPage {
			below = append(below, u64(b[at+8:]))
			continue
		}
		if u32(b[at:])&bucketLeaf == 0 {
			continue
		}
		if err := whole(); err != nil {
			return nil, err
		}
		value := at + int(u32(b[at+4:])) + int(u32(b[at+8:]))
		if value+8 > len(b) {
			return nil, fmt.Errorf("%w: a bucket beyond its end", errDamaged)
		}
		if root := u64(b[value:]); root != 0 {
			below = append(below, root)
		}
	}
	for _, p := range below {
		if p < 2 || p >= uint64(len(w.used)) {
			return nil, fmt.Errorf("%w: it points to page %d of %d", errDamaged, p, len(w.used))
		}
	}
	return below, nil
}

// read returns size bytes of the file, which are valid until the next read.
func (w *walk) read(at, size int64) ([]byte, error) {
	if at < w.at || at+size > w.at+int64(len(w.window)) {
		if int64(cap(w.window)) < size {
			w.window = make([]byte, max(size, windowSize))
		}
		n, err := w.file.ReadAt(w.window[:cap(w.window)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		w.window, w.at = w.window[:n], at
		if int64(n) < size {
			return nil, fmt.Errorf("%w: the file ends before it", errDamaged)
		}
	}
	return w.window[at-w.at : at-w.at+size], nil
}
