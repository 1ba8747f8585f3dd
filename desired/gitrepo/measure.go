package gitrepo

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// packLimits are what a pack may ask of who reads it.
type packLimits struct {
	// Objects is how many the pack may have.
	Objects int64
	// Object is how large one of them may be, in bytes, and Inflated all of them together as
	// they stand in the pack: deltas as such.
	Object, Inflated int64
	// Deltas is what all objects may have in bytes that stand in the pack as deltas.
	Deltas int64
	// Depth is how long a chain of deltas may be that refer to each other by their places in
	// the pack. (Where one refers by name, only git can tell to what; Deltas bounds those.)
	Depth int
}

// defaultPackLimits hold for pushes over HTTP, whose packs may have 256 MiB. The
// desired state of a million instances comes below them in one push.
func defaultPackLimits() packLimits {
	return packLimits{Objects: 5_000_000, Object: 512 << 20, Inflated: 2 << 30, Deltas: 16 << 30, Depth: 4095}
}

const packMagic = "PACK"

// The types of objects in packs (gitformat-pack).
const (
	packOfsDelta = 6
	packRefDelta = 7
)

// fewer is what to do about a push that is too large.
const fewer = "push fewer commits at once, or by path on the server's host"

// measure reads a pack through and refuses one beyond the limits. It keeps nothing of it, and
// ends as soon as a limit is passed: what a few bytes inflate to doesn't matter.
func measure(r *bufio.Reader, limits packLimits) error {
	m := &measurement{r: &counted{r: r}, limits: limits}
	err := m.pack()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("its pack ends too early: push again")
	}
	return err
}

// counted knows how far it has been read. It reads no more than it is asked for, so that a
// compressed object ends where the next begins.
type counted struct {
	r *bufio.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counted) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

type measurement struct {
	r        *counted
	limits   packLimits
	inflate  io.ReadCloser
	inflated int64
	deltas   int64
	at       []int64  // where objects begin
	depth    []uint16 // of the chains that end there
}

func (m *measurement) pack() error {
	var head [12]byte
	if _, err := io.ReadFull(m.r, head[:]); err != nil {
		return err
	}
	if version := binary.BigEndian.Uint32(head[4:]); string(head[:4]) != packMagic || version != 2 && version != 3 {
		return errors.New("its pack isn't one of version 2 or 3")
	}
	objects := int64(binary.BigEndian.Uint32(head[8:]))
	if objects > m.limits.Objects {
		return fmt.Errorf("its pack says that it has %d objects, and may have %d: %s", objects, m.limits.Objects, fewer)
	}
	for i := range objects {
		if err := m.object(); err != nil {
			return fmt.Errorf("object %d of its pack: %w", i+1, err)
		}
	}
	return nil
}

func (m *measurement) object() error {
	begins := m.r.n
	kind, size, err := m.header()
	if err != nil {
		return err
	}
	if size > m.limits.Object {
		return m.tooLarge(size)
	}
	depth := 0
	switch kind {
	case packOfsDelta:
		back, err := m.offset()
		if err != nil {
			return err
		}
		i, found := slices.BinarySearch(m.at, begins-back)
		if back <= 0 || !found {
			return errors.New("is a delta of nothing")
		}
		if depth = int(m.depth[i]) + 1; depth > m.limits.Depth {
			return fmt.Errorf("is at the end of a chain of more than %d deltas: repack before pushing (git repack -adf)", m.limits.Depth)
		}
	case packRefDelta:
		if _, err := io.CopyN(io.Discard, m.r, 20); err != nil {
			return err
		}
		depth = 1
	case 1, 2, 3, 4:
	default:
		return fmt.Errorf("has the unknown type %d", kind)
	}
	m.at, m.depth = append(m.at, begins), append(m.depth, uint16(depth))
	if m.inflated += size; m.inflated > m.limits.Inflated {
		return fmt.Errorf("the objects inflate to more than %d bytes: %s", m.limits.Inflated, fewer)
	}
	start, err := m.content(size)
	if err != nil || depth == 0 {
		return err
	}
	_, rest, ok := deltaSize(start)
	result, _, ok2 := deltaSize(rest)
	switch {
	case !ok || !ok2:
		return errors.New("is no delta")
	case result > m.limits.Object:
		return m.tooLarge(result)
	}
	if m.deltas += result; m.deltas > m.limits.Deltas {
		return fmt.Errorf("the deltas make more than %d bytes: %s", m.limits.Deltas, fewer)
	}
	return nil
}

func (m *measurement) tooLarge(size int64) error {
	return fmt.Errorf("has %d bytes, and may have %d: keep large files elsewhere, or push by path on the server's host", size, m.limits.Object)
}

// header reads an object's type and size.
func (m *measurement) header() (kind int, size int64, err error) {
	b, err := m.r.ReadByte()
	if err != nil {
		return 0, 0, err
	}
	kind, size = int(b>>4&7), int64(b&15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = m.r.ReadByte(); err != nil {
			return 0, 0, err
		}
		if shift > 55 {
			return 0, 0, errors.New("has a size beyond all bounds")
		}
		size |= int64(b&0x7f) << shift
	}
	return kind, size, nil
}

// offset reads how far before a delta its base begins.
func (m *measurement) offset() (int64, error) {
	b, err := m.r.ReadByte()
	if err != nil {
		return 0, err
	}
	back := int64(b & 0x7f)
	for b&0x80 != 0 {
		if b, err = m.r.ReadByte(); err != nil {
			return 0, err
		}
		if back >= 1<<48 {
			return 0, errors.New("is a delta of nothing")
		}
		back = (back+1)<<7 | int64(b&0x7f)
	}
	return back, nil
}

// deltaStart is how many bytes of a delta hold the sizes of its base and its result.
const deltaStart = 20

// content inflates an object of the size, and returns how it begins.
func (m *measurement) content(size int64) ([]byte, error) {
	var err error
	if m.inflate == nil {
		m.inflate, err = zlib.NewReader(m.r)
	} else if z, ok := m.inflate.(zlib.Resetter); ok {
		err = z.Reset(m.r, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("can't be inflated: %w", err)
	}
	var start bytes.Buffer
	_, err = io.CopyN(&start, m.inflate, min(size, deltaStart))
	if err == nil {
		_, err = io.CopyN(io.Discard, m.inflate, size-int64(start.Len()))
	}
	if err != nil {
		return nil, fmt.Errorf("can't be inflated to its size: %w", err)
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(m.inflate, 1)); n > 0 || err != nil {
		return nil, errors.New("isn't of the size that it says")
	}
	return start.Bytes(), nil
}

// deltaSize reads one of the two sizes that a delta begins with.
func deltaSize(b []byte) (size int64, rest []byte, ok bool) {
	for i, c := range b {
		if i > 8 {
			break
		}
		size |= int64(c&0x7f) << (7 * i)
		if c&0x80 == 0 {
			return size, b[i+1:], true
		}
	}
	return 0, nil, false
}
