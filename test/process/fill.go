package process

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1" // git's object names
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// Fill commits files to the branch main of a bare repository, beside what stands there,
// past its hook: very many of them in one pack, which no command of git makes as fast
// where they are in one folder. The topmost folders of the files must be new.
func Fill(ctx context.Context, gitDir, subject string, files map[string]string) error {
	p := &pack{}
	top := &folder{}
	for name, text := range files {
		top.add(name, p.object(3, []byte(text)))
	}
	listed, err := Git(ctx, gitDir, "ls-tree", "main")
	if err != nil {
		return err
	}
	for line := range strings.Lines(listed) {
		head, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		f := strings.Fields(head)
		hash, err := hex.DecodeString(f[2])
		if err != nil {
			return err
		}
		top.entries = append(top.entries, treeEntry{strings.TrimPrefix(f[0], "0"), name, [20]byte(hash)})
	}
	tree := top.write(p)
	index := exec.CommandContext(ctx, "git", "--git-dir="+gitDir, "index-pack", "--stdin")
	index.Stdin, index.Env = bytes.NewReader(p.bytes()), Environment()
	if out, err := index.CombinedOutput(); err != nil {
		return fmt.Errorf("git index-pack: %w: %s", err, out)
	}
	commit, err := Git(ctx, gitDir, "commit-tree", "-p", "main", "-m", subject, hex.EncodeToString(tree[:]))
	if err != nil {
		return err
	}
	_, err = Git(ctx, gitDir, "update-ref", "refs/heads/main", commit)
	return err
}

// treeEntry is one of a git tree.
type treeEntry struct {
	mode, name string
	hash       [20]byte
}

// folder is a git tree that is being filled.
type folder struct {
	entries []treeEntry
	folders map[string]*folder
}

func (f *folder) add(name string, blob [20]byte) {
	first, rest, nested := strings.Cut(name, "/")
	if !nested {
		f.entries = append(f.entries, treeEntry{"100644", path.Base(name), blob})
		return
	}
	if f.folders == nil {
		f.folders = map[string]*folder{}
	}
	if f.folders[first] == nil {
		f.folders[first] = &folder{}
	}
	f.folders[first].add(rest, blob)
}

// write adds the tree, and those below it, to the pack.
func (f *folder) write(p *pack) [20]byte {
	const dir = "40000"
	for name, sub := range f.folders {
		f.entries = append(f.entries, treeEntry{dir, name, sub.write(p)})
	}
	slices.SortFunc(f.entries, func(a, b treeEntry) int { // git sorts folders as if they ended in a slash
		for _, e := range []*treeEntry{&a, &b} {
			if e.mode == dir {
				e.name += "/"
			}
		}
		return strings.Compare(a.name, b.name)
	})
	var raw []byte
	for _, e := range f.entries {
		raw = append(raw, e.mode+" "+e.name+"\x00"...)
		raw = append(raw, e.hash[:]...)
	}
	return p.object(2, raw)
}

// pack is a git pack (gitformat-pack(5)) that is being written, without deltas.
type pack struct {
	body  bytes.Buffer
	zip   *zlib.Writer
	known map[[20]byte]bool
}

// object adds a tree (2) or a blob (3).
func (p *pack) object(kind byte, data []byte) [20]byte {
	h := sha1.New() // git's object names
	fmt.Fprintf(h, "%s %d\x00", map[byte]string{2: "tree", 3: "blob"}[kind], len(data))
	h.Write(data)
	hash := [20]byte(h.Sum(nil))
	if p.known[hash] {
		return hash
	}
	if p.known == nil {
		p.known = map[[20]byte]bool{}
		p.zip, _ = zlib.NewWriterLevel(nil, zlib.BestSpeed)
	}
	p.known[hash] = true
	size, head := len(data)>>4, kind<<4|byte(len(data)&15)
	for ; size > 0; size >>= 7 {
		p.body.WriteByte(head | 0x80)
		head = byte(size & 0x7f)
	}
	p.body.WriteByte(head)
	p.zip.Reset(&p.body)
	_, _ = p.zip.Write(data) // into memory
	_ = p.zip.Close()
	return hash
}

func (p *pack) bytes() []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(p.known)))
	out = append(out, p.body.Bytes()...)
	sum := sha1.Sum(out) // git's trailer
	return append(out, sum[:]...)
}
