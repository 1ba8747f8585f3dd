package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestADamagedRepositoryIsAnErrorNotAnEmptyOne(t *testing.T) {
	t.Parallel()

	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   string
	}{
		{"an empty ref file", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "refs/heads/main"), nil, 0o644))
		}, "is damaged"},
		{"a ref to nowhere", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "refs/heads/main"), []byte(strings.Repeat("1", 40)+"\n"), 0o644))
		}, "fsck"},
		{"no ref", func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "refs/heads/main"))) }, "is gone"},
		{"no packs", func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, "objects/pack"))) }, "fsck"},
		{"a cut pack", func(t *testing.T, dir string) {
			packs, _ := filepath.Glob(filepath.Join(dir, "objects/pack/*.pack"))
			for _, p := range packs {
				must(t, os.Chmod(p, 0o644))
				must(t, os.Truncate(p, 40))
			}
		}, "fsck"},
		{"no objects", func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, "objects"))) }, "half of one"},
		{"no HEAD", func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "HEAD"))) }, "half of one"},
		{"a broken config", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "config"), []byte("[core"), 0o644))
		}, "git clone --mirror"},
		{"something else", func(t *testing.T, dir string) {
			must(t, os.RemoveAll(dir))
			must(t, os.MkdirAll(dir, 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o644))
		}, "no bare git repository"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "desired.git")
			r, err := Open(t.Context(), Options{Dir: dir})
			must(t, err)
			mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
			must(t, r.Close())
			tt.damage(t, dir)
			r, err = Open(t.Context(), Options{Dir: dir})
			if err == nil {
				_ = r.Close()
				t.Fatalf("opened, with %d instances", len(r.List()))
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error is %q, want %q in it, and where", err, tt.want)
			}
		})
	}
}

func TestADiskThatRefusesIsUnavailableAndRecovers(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	first := mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	packs := filepath.Join(r.opt.Dir, "objects/pack")
	// Root may write to any directory; a file in the directory's place stops root too.
	if err := os.Rename(packs, packs+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packs, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := r.Write(t.Context(), desired.Write{Instance: testID(1), Subject: "s", Change: setLevel(testID(1), 2)})
	if !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("write = %v", err)
	}
	if err := errors.Join(os.Remove(packs), os.Rename(packs+".away", packs)); err != nil {
		t.Fatal(err)
	}
	if rev, _ := r.Lookup(testID(1)); rev != first {
		t.Errorf("after a failed write the instance is at %+v", rev)
	}
	mustWrite(t, r, testID(1), "", 2)
	fsck(t, r)
}

func TestLocksThatACrashLeftAreBroken(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	for i, name := range []string{"refs/heads/main.lock", "HEAD.lock", "packed-refs.lock", "refs/jibe/packages/191a7a5c2653cc2f8bdd0001651b2ad9306c5c8a.lock"} {
		lock := filepath.Join(r.opt.Dir, name)
		if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(lock, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		old := tick()().AddDate(-1, 0, 0)
		if err := os.Chtimes(lock, old, old); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, r, testID(1), "", 2+i)
		if err := r.breakLocks(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(lock); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}

func TestALockThatIsHeldIsLeftAlone(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	lock := filepath.Join(r.opt.Dir, "HEAD.lock")
	if err := os.WriteFile(lock, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.breakLocks(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("a lock of now was broken: %v", err)
	}
}

func TestWhatCannotBeParsedKeepsItsLastGoodRevision(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{}) // without a hook, as a remote is
	var good []desired.Revision
	for i := range 3 {
		good = append(good, mustWrite(t, r, testID(i), shardDir(testID(i)), 1))
	}
	dir := clone(t, r)
	put(t, dir, shardDir(testID(0))+"/vnf.yaml", []byte("nonsense: 1\n"))
	put(t, dir, shardDir(testID(1))+"/vnf.yaml", vnfFile(testID(1), 4))
	put(t, dir, "instances/zz/vnf.yaml", vnfFile(testID(2), 9)) // a duplicate
	put(t, dir, "vims/a.yaml", []byte("type: sim\n"))
	commitPush(t, dir, "Break one")
	put(t, dir, "vims/a.yaml", []byte("typ: sim\n"))
	commitPush(t, dir, "Break a VIM")
	check := func(r *Repo) {
		t.Helper()
		if rev, ok := r.Lookup(testID(0)); !ok || rev.Tree != good[0].Tree {
			t.Errorf("the broken one is at %+v, want %+v", rev, good[0])
		} else if _, err := r.read.Read(t.Context(), rev); err != nil {
			t.Error(err)
		}
		if rev, _ := r.Lookup(testID(1)); rev.Tree == good[1].Tree {
			t.Error("the good one wasn't followed")
		}
		if rev, _ := r.Lookup(testID(2)); rev.Dir != good[2].Dir {
			t.Errorf("the duplicate won: %+v", rev)
		}
		var files []string
		for _, p := range r.Problems() {
			files = append(files, p.File)
		}
		if got := strings.Join(files, " "); got != shardDir(testID(0))+"/vnf.yaml instances/zz/vnf.yaml vims/a.yaml" {
			t.Errorf("problems in %s", got)
		}
		if s, err := r.Settings(); err != nil || s.VIMs["a"] == nil {
			t.Errorf("settings %+v, %v", s, err)
		}
	}
	head := tipOf(t, dir)
	kit.Until(t, "the push is followed", func() bool { return r.Head() == head })
	check(r)
	again, err := Open(t.Context(), Options{Dir: r.opt.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	check(again)
}

func TestNotesAreReadByGit(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	rev := mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	runGit(t, r.opt.Dir, "-c", "user.name=p", "-c", "user.email=p", "notes", "--ref=jibe", "add", "-m", "by hand", rev.Commit)
	r.Note(rev.Commit, "op-1 COMPLETED")
	r.Note(rev.Commit, "op-1 COMPLETED")
	second := mustWrite(t, r, testID(1), "", 2)
	r.Note(second.Commit, "op-2 FAILED")
	want := map[string]string{rev.Commit: "by hand\nop-1 COMPLETED", second.Commit: "op-2 FAILED"}
	for commit, text := range want {
		kit.Until(t, "the note is there", func() bool {
			out, err := tryGit(r.opt.Dir, "notes", "--ref=jibe", "show", commit)
			return err == nil && out == text
		})
	}
	r.Note(second.Commit, "op-2 ROLLED_BACK")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if out := runGit(t, r.opt.Dir, "log", "-1", "--notes=jibe", "--format=%N", "main"); !strings.Contains(out, "op-2 FAILED\nop-2 ROLLED_BACK") {
		t.Errorf("after Close the note is %q", out)
	}
	if _, err := r.Write(context.Background(), desired.Write{Instance: testID(1), Subject: "s", Change: setLevel(testID(1), 2)}); !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("write after Close: %v", err)
	}
	fsck(t, r)
}

func TestANoteThatIsFullKeepsNoOtherFromBeingWritten(t *testing.T) {
	t.Parallel()

	const limit = 1 << 20

	r := openRepo(t, Options{maxNote: limit})
	full := mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	other := mustWrite(t, r, testID(1), "", 2)
	text := filepath.Join(t.TempDir(), "note")
	if err := os.WriteFile(text, bytes.Repeat([]byte("op COMPLETED\n"), limit/12), 0o644); err != nil {
		t.Fatal(err)
	}
	runGit(t, r.opt.Dir, "-c", "user.name=p", "-c", "user.email=p", "notes", "--ref=jibe", "add", "-F", text, full.Commit)
	r.Note(full.Commit, "op-1 COMPLETED")
	r.Note(other.Commit, "op-2 COMPLETED")
	kit.Until(t, "the other note is there", func() bool {
		out, err := tryGit(r.opt.Dir, "notes", "--ref=jibe", "show", other.Commit)
		return err == nil && out == "op-2 COMPLETED"
	})
}

func TestANoteBeyondTheLimitIsReadOnceAndHidesNoOther(t *testing.T) {
	t.Parallel()

	const limit = 1 << 20

	r := openRepo(t, Options{Key: testKey, maxNote: limit})
	full := mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	other := mustWrite(t, r, testID(1), "", 2)
	text := filepath.Join(t.TempDir(), "note")
	if err := os.WriteFile(text, bytes.Repeat([]byte("op COMPLETED\n"), limit/12), 0o644); err != nil {
		t.Fatal(err)
	}
	runGit(t, r.opt.Dir, "-c", "user.name=p", "-c", "user.email=p", "notes", "--ref=jibe", "add", "-F", text, full.Commit)
	r.Attest(other.Commit, "op-2 COMPLETED", []byte(`{"id":"op-2"}`))
	kit.Until(t, "the other note is there", func() bool {
		_, err := tryGit(r.opt.Dir, "notes", "--ref=jibe", "show", other.Commit)
		return err == nil
	})

	if p, err := r.notedPush(t.Context(), full.Commit); p != nil || err != nil {
		t.Errorf("the push of a note beyond the limit: %v, %v; want none", p, err)
	}
	note, err := r.noteBlob(t.Context(), full.Commit)
	if err != nil {
		t.Fatal(err)
	}
	r.noted.mu.Lock()
	if known, ok := r.noted.entries[full.Commit]; !ok || known.note != note {
		t.Error("the next lookup reads the note again")
	}
	r.noted.mu.Unlock()

	e, err := r.Evidence(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Notes) != 1 || e.Notes[0].Commit != other.Commit {
		t.Errorf("git proves %+v, want what the other note says", e.Notes)
	}
}
