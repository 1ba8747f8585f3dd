package gitrepo

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSplicedTreesAreThoseThatGitWouldMake compares edits in place with encoding
// anew, and lets real git read the deltas back.
func TestSplicedTreesAreThoseThatGitWouldMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.git")
	git(t, "", "init", "-q", "--bare", dir)
	if err := os.MkdirAll(ownDir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	store := newObjectStore(gitCLI{dir: dir}, 1<<10)
	defer store.close()
	rapid.Check(t, func(rt *rapid.T) {
		pack := newPackBuilder()
		blob := pack.add(kindBlob, []byte("x"))
		sub := pack.add(kindTree, encodeTree([]entry{{modeFile, "f", blob}}))
		model := map[string]entry{}
		work := &workTree{tree: &tree{}}
		want := map[string][]byte{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			name := rapid.StringMatching(`[ab.\-0]{1,3}`).Draw(rt, "name") + strings.Repeat("n", rapid.IntRange(0, 40).Draw(rt, "long"))
			if strings.Trim(name, ".") == "" {
				continue
			}
			e := entry{modeFile, name, blob}
			if rapid.Bool().Draw(rt, "folder") {
				e = entry{modeDir, name, sub}
			}
			if old, ok := model[name]; ok && old.mode != e.mode {
				continue // a name doesn't change its kind in one splice
			}
			oldHash, oldSize := work.hash, len(work.raw)
			var s splice
			if i, found := work.index(name, e.isDir()); found && rapid.Bool().Draw(rt, "remove") {
				s = work.remove(i)
				delete(model, name)
			} else {
				s = work.set(e)
				model[name] = e
			}
			if naive := encodeTree(slices.Collect(maps.Values(model))); !bytes.Equal(naive, work.raw) {
				rt.Fatalf("spliced %q\nwant    %q", work.raw, naive)
			}
			work.hash = pack.addSpliced(work.raw, oldHash, oldSize, s)
			want[work.hash] = bytes.Clone(work.raw)
			if parsed, err := parseTree(work.raw); err != nil || !slices.Equal(parsed.offs, work.offs) {
				rt.Fatalf("offsets %v, parsed %v, %v", work.offs, parsed, err)
			}
		}
		if err := pack.writePack(dir); err != nil {
			rt.Fatal(err)
		}
		for hash, data := range want {
			got, err := store.get(t.Context(), kindTree, hash)
			if err != nil || !bytes.Equal(got, data) {
				rt.Fatalf("git reads %q, %v; want %q", got, err, data)
			}
		}
	})
	if out := git(t, dir, "fsck", "--full", "--no-dangling", "--unreachable"); strings.Contains(out, "error") {
		t.Error(out)
	}
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa40000 b\x00bbbbbbbbbbbbbbbbbbbb"))
	f.Add([]byte("100644 \x00aaaaaaaaaaaaaaaaaaa"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tr, err := parseTree(raw)
		if err != nil {
			return
		}
		var back []byte
		for _, e := range tr.entries() {
			back = append(back, encodeTree([]entry{e})...)
			tr.find(e.name)
		}
		if !bytes.Equal(back, raw) {
			t.Errorf("%q becomes %q", raw, back)
		}
	})
}

func FuzzParseCommit(f *testing.F) {
	f.Add([]byte("tree " + zeroHash + "\nparent " + zeroHash + "\nauthor a <a> 1 +0000\n\nmessage\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCommit(data)
		if err == nil && !isHash(c.tree) {
			t.Errorf("%q gives %+v", data, c)
		}
	})
}
