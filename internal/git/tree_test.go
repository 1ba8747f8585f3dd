package git

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestSplicedTreesAreThoseThatGitWouldMake compares edits in place with encoding
// anew, and lets real git read the deltas back.
func TestSplicedTreesAreThoseThatGitWouldMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.git")
	newRepository(t, dir)
	tmp := t.TempDir()
	store := NewObjects(Runner{Dir: dir}, megabyte, 1<<10)
	defer store.Close()
	rapid.Check(t, func(rt *rapid.T) {
		pack := NewPack()
		blob := pack.Add(KindBlob, []byte("x"))
		sub := pack.Add(KindTree, EncodeTree([]Entry{{ModeFile, "f", blob}}))
		model := map[string]Entry{}
		work := &folder{Tree: &Tree{}}
		want := map[string][]byte{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			name := rapid.StringMatching(`[ab.\-0]{1,3}`).Draw(rt, "name") + strings.Repeat("n", rapid.IntRange(0, 40).Draw(rt, "long"))
			if strings.Trim(name, ".") == "" {
				continue
			}
			e := Entry{ModeFile, name, blob}
			if rapid.Bool().Draw(rt, "folder") {
				e = Entry{ModeDir, name, sub}
			}
			if old, ok := model[name]; ok && old.Mode != e.Mode {
				continue // a name doesn't change its kind in one splice
			}
			oldHash, oldSize := work.hash, len(work.raw)
			var s splice
			if i, found := work.index(name, e.IsDir()); found && rapid.Bool().Draw(rt, "remove") {
				s = work.remove(i)
				delete(model, name)
			} else {
				s = work.set(e)
				model[name] = e
			}
			if naive := EncodeTree(slices.Collect(maps.Values(model))); !bytes.Equal(naive, work.raw) {
				rt.Fatalf("spliced %q\nwant    %q", work.raw, naive)
			}
			work.hash = pack.addSpliced(work.raw, oldHash, oldSize, s)
			want[work.hash] = bytes.Clone(work.raw)
			if parsed, err := ParseTree(work.raw); err != nil || !slices.Equal(parsed.offs, work.offs) {
				rt.Fatalf("offsets %v, parsed %v, %v", work.offs, parsed, err)
			}
		}
		if err := pack.Write(dir, tmp); err != nil {
			rt.Fatal(err)
		}
		for hash, data := range want {
			got, err := store.Get(t.Context(), KindTree, hash)
			if err != nil || !bytes.Equal(got, data) {
				rt.Fatalf("git reads %q, %v; want %q", got, err, data)
			}
		}
	})
	if out, err := (Runner{Dir: dir}).Run(t.Context(), "fsck", "--full", "--no-dangling", "--unreachable"); err != nil {
		t.Error(out, err)
	}
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa40000 b\x00bbbbbbbbbbbbbbbbbbbb"))
	f.Add([]byte("100644 \x00aaaaaaaaaaaaaaaaaaa"))
	f.Add([]byte("40000 \x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tr, err := ParseTree(raw)
		if err != nil {
			return
		}
		var back []byte
		for _, e := range tr.Entries() {
			back = append(back, EncodeTree([]Entry{e})...)
			tr.Find(e.Name)
			if !IsHash(e.Hash) {
				t.Errorf("hash %q", e.Hash)
			}
		}
		if !bytes.Equal(back, raw) {
			t.Errorf("%q becomes %q", raw, back)
		}
	})
}

func TestTheAuthorOfACommitIsWrittenAsGitWritesPeopleAndWithoutAMailByTheNameAlone(t *testing.T) {
	for by, want := range map[string]string{"Ben <ben@example.org>": "Ben <ben@example.org>", "ben": "ben", "ben <>": "ben", "": "Jibe <jibe@localhost>"} {
		c, err := ParseCommit(EncodeCommit(strings.Repeat("1", 40), "", by, "Jibe <jibe@localhost>", time.Unix(1767323045, 0), "Pin it"))
		if err != nil || c.Author != want {
			t.Errorf("the author %q is read as %q, %v, want %q", by, c.Author, err, want)
		}
	}
}

func FuzzParseCommit(f *testing.F) {
	f.Add([]byte("tree " + ZeroHash + "\nparent " + ZeroHash + "\nauthor a <a> 1 +0000\n\nmessage\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCommit(data)
		if err == nil && !IsHash(c.Tree) {
			t.Errorf("%q gives %+v", data, c)
		}
	})
}

func TestACommitIsReadAsItWasWritten(t *testing.T) {
	tree, parent, other := HashObject(KindTree, nil), HashObject(KindBlob, []byte("1")), HashObject(KindBlob, []byte("2"))
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.FixedZone("", 3600))
	raw := EncodeCommit(tree, parent, "Ada <ada@example.com>", "jibe <jibe@example.com>", at, "Scale\n\nwhy\n\nKey: value\n", other)

	c, err := ParseCommit(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := Commit{Tree: tree, Parents: []string{parent, other}, Author: "Ada <ada@example.com>", Committed: at.UTC(), Message: "Scale\n\nwhy\n\nKey: value\n"}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}

	c, err = ParseCommit([]byte("tree " + tree + "\nauthor Ada\ncommitter Ada\n\nno time\n"))
	if err != nil || !c.Committed.IsZero() || c.Message != "no time\n" {
		t.Errorf("a commit without a time is read as %+v, %v", c, err)
	}
}

func TestAnEntryIsFoundWithoutParsingTheWholeTree(t *testing.T) {
	t.Parallel()

	hash := strings.Repeat("1f", 20)
	raw := EncodeTree([]Entry{{ModeFile, "a", hash}, {ModeFile, "b.yaml", hash}, {ModeDir, "b", hash}, {ModeExec, "c", hash}})
	tree, err := ParseTree(raw)
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"a", "b", "b.yaml", "c", "", "d", "b.yam", "100644 a"} {
		want, wantOK := tree.Find(name)
		if got, ok, err := FindEntry(raw, name); err != nil || ok != wantOK || got != want {
			t.Errorf("%q: %v, %v, %v; want %v, %v", name, got, ok, err, want, wantOK)
		}
	}
	for _, cut := range []int{1, 8, len(raw) - 1} {
		if _, ok, err := FindEntry(raw[:cut], "c"); ok || err == nil {
			t.Errorf("%d bytes of a tree of %d: found %v, error %v", cut, len(raw), ok, err)
		}
	}
}
