package git

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	gitobject "github.com/go-git/go-git/v5/plumbing/object"
	memorystorage "github.com/go-git/go-git/v5/storage/memory"
)

// The shapes of trees in a desired repository: a folder of an instance, and a flat folder of
// 10,000 instances.
var treeSizes = []int{3, 10_000}

func rawTree(n int) []byte {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{Mode: ModeDir, Name: fmt.Sprintf("upf-%05d", i), Hash: HashObject(KindBlob, fmt.Append(nil, i))}
	}
	return EncodeTree(entries)
}

func memory(kind plumbing.ObjectType, raw []byte) *plumbing.MemoryObject {
	o := new(plumbing.MemoryObject)
	o.SetType(kind)
	_, _ = o.Write(raw) // memory doesn't fail
	return o
}

// BenchmarkDecodeTree is one decoding of a tree: ours finds where the entries are, go-git makes each.
func BenchmarkDecodeTree(b *testing.B) {
	for _, n := range treeSizes {
		raw := rawTree(n)
		b.Run(fmt.Sprintf("ours/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseTree(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("ours, all entries/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t, err := ParseTree(raw)
				if err != nil || len(t.Entries()) != n {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("go-git/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var t gitobject.Tree
				if err := t.Decode(memory(plumbing.TreeObject, raw)); err != nil || len(t.Entries) != n {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReplaceInTree is what a commit of one instance does to its folder: one entry is found,
// and another takes its place.
func BenchmarkReplaceInTree(b *testing.B) {
	for _, n := range treeSizes {
		raw := rawTree(n)
		name := fmt.Sprintf("upf-%05d", n/2)
		with := HashObject(KindBlob, []byte("another"))
		b.Run(fmt.Sprintf("ours/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t, err := ParseTree(raw)
				if err != nil {
					b.Fatal(err)
				}
				t.set(Entry{Mode: ModeDir, Name: name, Hash: with})
			}
		})
		b.Run(fmt.Sprintf("go-git/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var t gitobject.Tree
				if err := t.Decode(memory(plumbing.TreeObject, raw)); err != nil {
					b.Fatal(err)
				}
				for i := range t.Entries {
					if t.Entries[i].Name == name {
						t.Entries[i].Hash = plumbing.NewHash(with)
					}
				}
				if err := t.Encode(new(plumbing.MemoryObject)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDiffTrees is what a push of one instance of 10,000 asks of its folder.
func BenchmarkDiffTrees(b *testing.B) {
	raw := rawTree(10_000)
	changed, err := ParseTree(append([]byte(nil), raw...))
	if err != nil {
		b.Fatal(err)
	}
	before, err := ParseTree(raw)
	if err != nil {
		b.Fatal(err)
	}
	changed.set(Entry{Mode: ModeDir, Name: "upf-05000", Hash: HashObject(KindBlob, []byte("another"))})
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		DiffTrees(before, changed, func(_, _ Entry) { n++ })
		if n != 1 {
			b.Fatal(n)
		}
	}
}

// BenchmarkPackOfACommit is what one commit adds to a repository whose folder has 10,000 instances: the
// commit, the folder and a file.
func BenchmarkPackOfACommit(b *testing.B) {
	tree, blob := rawTree(10_000), []byte("vnfdId: upf-1.0\n")
	commit := EncodeCommit(HashObject(KindTree, tree), "", "Ada <ada@example.com>", "jibe <jibe@example.com>", time.Unix(1e9, 0), "Scale\n")
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := NewPack()
			p.Add(KindBlob, blob)
			p.Add(KindTree, tree)
			p.Add(KindCommit, commit)
			if _, _, _, err := p.finish(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("go-git", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			storage := memorystorage.NewStorage()
			var hashes []plumbing.Hash
			for _, o := range []*plumbing.MemoryObject{memory(plumbing.BlobObject, blob), memory(plumbing.TreeObject, tree), memory(plumbing.CommitObject, commit)} {
				h, err := storage.SetEncodedObject(o)
				if err != nil {
					b.Fatal(err)
				}
				hashes = append(hashes, h)
			}
			var out bytes.Buffer
			if _, err := packfile.NewEncoder(&out, storage, false).Encode(hashes, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodeCommit(b *testing.B) {
	raw := EncodeCommit(HashObject(KindTree, nil), HashObject(KindTree, []byte{1}), "Ada <ada@example.com>", "jibe <jibe@example.com>", time.Unix(1e9, 0),
		"Scale upf-00001\n\nJibe-Operation: 7bb7fc90-525f-417d-978e-99875fc63d82\n")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseCommit(raw); err != nil {
			b.Fatal(err)
		}
	}
}
