package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git's checksums
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"golang.org/x/sync/errgroup"
)

// The object types of a pack.
const (
	packCommit   = 1
	packTree     = 2
	packBlob     = 3
	packOfsDelta = 6
)

// storedBelow is the size up to which an object isn't compressed when it is
// written: what a commit or a common vnf.yaml saves is less than what its file
// system block leaves empty, and a compressor alone takes a megabyte of memory a
// batch. Trees aren't compressed at any size: their hashes don't compress, and a
// repack deltifies them anyway.
const storedBelow = 1 << 10

// Pack collects the new objects of one batch as a git pack (version 2)
// and its index. A tree that was spliced from another of the same pack is a
// delta, so a flat folder of 10,000 instances costs a hundred bytes a commit.
type Pack struct {
	buf     bytes.Buffer
	entries []packEntry
	byHash  map[[20]byte]int
	zw      *zlib.Writer
}

type packEntry struct {
	hash   [20]byte
	offset int
	crc    uint32
}

// NewPack begins an empty pack.
func NewPack() *Pack {
	p := &Pack{byHash: map[[20]byte]int{}}
	p.buf.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x00") // the count is filled in at the end
	p.zw, _ = zlib.NewWriterLevel(nil, zlib.BestSpeed)
	return p
}

// offsetOf returns where an object of this pack starts.
func (p *Pack) offsetOf(hash string) (int, bool) {
	bin, err := hex.DecodeString(hash)
	if err != nil || len(bin) != 20 {
		return 0, false
	}
	i, ok := p.byHash[[20]byte(bin)]
	if !ok {
		return 0, false
	}
	return p.entries[i].offset, true
}

// Empty says that no object was put in.
func (p *Pack) Empty() bool { return len(p.entries) == 0 }

// Add puts an object in, once, and returns its name.
func (p *Pack) Add(kind string, data []byte) string {
	hash := hashObject(kind, data)
	if _, ok := p.byHash[hash]; !ok {
		typ := map[string]byte{KindCommit: packCommit, KindTree: packTree, KindBlob: packBlob}[kind]
		p.write(hash, typ, len(data), nil, data, len(data) <= storedBelow || kind == KindTree)
	}
	return hex.EncodeToString(hash[:])
}

// addSpliced puts in a tree that was made from base (of baseSize bytes) by one splice.
func (p *Pack) addSpliced(data []byte, base string, baseSize int, s splice) string {
	from, ok := p.offsetOf(base)
	if !ok || len(data) < 256 {
		return p.Add(KindTree, data)
	}
	hash := hashObject(KindTree, data)
	if _, ok := p.byHash[hash]; !ok {
		delta := spliceDelta(baseSize, len(data), s)
		p.write(hash, packOfsDelta, len(delta), ofsEncode(p.buf.Len()-from), delta, len(delta) <= storedBelow)
	}
	return hex.EncodeToString(hash[:])
}

func (p *Pack) write(hash [20]byte, typ byte, size int, base, data []byte, stored bool) {
	start := p.buf.Len()
	head := byte(size&15) | typ<<4
	for size >>= 4; size > 0; size >>= 7 {
		p.buf.WriteByte(head | 0x80)
		head = byte(size & 0x7f)
	}
	p.buf.WriteByte(head)
	p.buf.Write(base)
	if stored {
		writeStored(&p.buf, data)
	} else {
		p.zw.Reset(&p.buf)
		_, _ = p.zw.Write(data) // a bytes.Buffer doesn't fail
		_ = p.zw.Close()
	}
	p.byHash[hash] = len(p.entries)
	p.entries = append(p.entries, packEntry{hash: hash, offset: start, crc: crc32.ChecksumIEEE(p.buf.Bytes()[start:])})
}

// writeStored writes data as a zlib stream of stored blocks.
func writeStored(w *bytes.Buffer, data []byte) {
	w.Write([]byte{0x78, 0x01})
	sum := adler32.Checksum(data)
	for {
		n := min(len(data), 0xffff)
		final := byte(0)
		if n == len(data) {
			final = 1
		}
		w.Write([]byte{final, byte(n), byte(n >> 8), ^byte(n), ^byte(n >> 8)})
		w.Write(data[:n])
		if data = data[n:]; final == 1 {
			break
		}
	}
	_ = binary.Write(w, binary.BigEndian, sum)
}

// ofsEncode encodes the distance to a delta's base.
func ofsEncode(n int) []byte {
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append(out, byte(n&0x7f)|0x80)
	}
	slices.Reverse(out)
	return out
}

// spliceDelta is git's delta: copy what stands before, insert, copy what stands after.
func spliceDelta(baseSize, size int, s splice) []byte {
	out := binary.AppendUvarint(nil, uint64(baseSize))
	out = binary.AppendUvarint(out, uint64(size))
	out = deltaCopy(out, 0, s.from)
	for with := s.with; len(with) > 0; {
		n := min(len(with), 0x7f)
		out = append(out, byte(n))
		out = append(out, with[:n]...)
		with = with[n:]
	}
	return deltaCopy(out, s.to, baseSize-s.to)
}

func deltaCopy(out []byte, offset, size int) []byte {
	for size > 0 {
		n := min(size, 0xffff)
		op, at := byte(0x80), len(out)
		out = append(out, 0)
		for i := range 4 {
			if b := byte(offset >> (8 * i)); b != 0 {
				out = append(out, b)
				op |= 1 << i
			}
		}
		for i := range 2 {
			if b := byte(n >> (8 * i)); b != 0 {
				out = append(out, b)
				op |= 0x10 << i
			}
		}
		out[at] = op
		offset, size = offset+n, size-n
	}
	return out
}

// finish returns the pack and its index (version 2).
func (p *Pack) finish() (pack, idx []byte, name string, err error) {
	pack = p.buf.Bytes()
	binary.BigEndian.PutUint32(pack[8:], uint32(len(p.entries)))
	sum := sha1.Sum(pack) //nolint:gosec // git's checksum
	p.buf.Write(sum[:])
	index := new(idxfile.Writer)
	for _, e := range p.entries {
		index.Add(e.hash, uint64(e.offset), e.crc)
	}
	if err := index.OnFooter(sum); err != nil {
		return nil, nil, "", fmt.Errorf("index of a pack: %w", err)
	}
	sorted, err := index.Index()
	if err != nil {
		return nil, nil, "", fmt.Errorf("index of a pack: %w", err)
	}
	var out bytes.Buffer
	if _, err := idxfile.NewEncoder(&out).Encode(sorted); err != nil {
		return nil, nil, "", fmt.Errorf("index of a pack: %w", err)
	}
	return p.buf.Bytes(), out.Bytes(), hex.EncodeToString(sum[:]), nil
}

// TmpPrefix begins the names of files that are being written.
const TmpPrefix = "tmp_"

// Write makes the batch's objects durable: the pack and its index are synced
// side by side, renamed (the index last: it is what makes a pack visible), and
// the directory is synced. After an error nothing is visible. Until then they stand in
// tmpDir, outside objects/ and on the same file system: git repack would take them for
// packs, and a local clone copies whatever stands there. A crash leaves them there, with
// [TmpPrefix].
func (p *Pack) Write(gitDir, tmpDir string) (err error) {
	dir := filepath.Join(gitDir, "objects", "pack")
	pack, idx, name, err := p.finish()
	if err != nil {
		return err
	}
	files := []struct {
		ext  string
		data []byte
		tmp  string
	}{{ext: ".pack", data: pack}, {ext: ".idx", data: idx}}
	defer func() {
		for _, f := range files {
			if err != nil && f.tmp != "" {
				_ = os.Remove(f.tmp)
			}
		}
	}()
	var g errgroup.Group
	for i := range files {
		f := &files[i]
		f.tmp = filepath.Join(tmpDir, TmpPrefix+name+f.ext)
		g.Go(func() error { return WriteSynced(f.tmp, f.data) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Rename(f.tmp, filepath.Join(dir, "pack-"+name+f.ext)); err != nil {
			return err
		}
	}
	return SyncDir(dir)
}
