package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// testID is the id of the n-th test instance.
func testID(n int) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%d", n)).String()
}

func shardDir(id string) string { return "instances/" + id[:2] + "/" + id }
func flatDir(id string) string  { return "instances/" + id }

func vnfFile(id string, level int) []byte {
	s := "name: vnf\nvnfdId: b1bb0ce7-ebca-4fa7-95ed-4840d70a1177\nflavour: simple\nlevels:\n  vdu1_aspect: " + fmt.Sprint(level) + "\n"
	if id != "" {
		s = "id: " + id + "\n" + s
	}
	return []byte(s)
}

func setLevel(id string, level int) desired.Change {
	return func(desired.Revision, desired.Files) (desired.Files, error) {
		return desired.Files{"vnf.yaml": vnfFile(id, level)}, nil
	}
}

// tick is a clock that moves one second a call, from a fixed time.
func tick() func() time.Time {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time { at = at.Add(time.Second); return at }
}

func openRepo(tb testing.TB, opt Options) *Repo {
	tb.Helper()
	if opt.Dir == "" {
		opt.Dir = filepath.Join(tb.TempDir(), "desired.git")
	}
	r, err := Open(tb.Context(), opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	return r
}

func mustWrite(tb testing.TB, r *Repo, id, dir string, level int) desired.Revision {
	tb.Helper()
	rev, err := r.Write(context.Background(), desired.Write{
		Instance: id, Dir: dir, Subject: fmt.Sprintf("Scale %s to %d", id, level),
		Change: setLevel(id, level),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return rev
}

// git runs real git as a person would.
func runGit(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(git.Runner{}.Environ(),
		"GIT_AUTHOR_NAME=A Person", "GIT_AUTHOR_EMAIL=person@example.com",
		"GIT_COMMITTER_NAME=A Person", "GIT_COMMITTER_EMAIL=person@example.com")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// tipOf is where a bare repository's main is, or the branch that a clone has checked out.
func tipOf(tb testing.TB, dir string) string {
	tb.Helper()

	ref := "refs/heads/main"
	if folder := filepath.Join(dir, ".git"); exists(folder) {
		dir = folder
		head, err := os.ReadFile(filepath.Join(dir, "HEAD"))
		if err != nil {
			tb.Fatal(err)
		}
		var symbolic bool
		if ref, symbolic = strings.CutPrefix(strings.TrimSpace(string(head)), "ref: "); !symbolic {
			return ref
		}
	}
	at, err := git.ReadRef(dir, ref)
	if err != nil {
		tb.Fatal(err)
	}
	return at
}

func put(tb testing.TB, dir, file string, data []byte) {
	tb.Helper()
	name := filepath.Join(dir, file)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		tb.Fatal(err)
	}
}

// clone makes a person's working copy.
func clone(tb testing.TB, r *Repo) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "clone")
	runGit(tb, "", "clone", "-q", r.opt.Dir, dir)
	return dir
}

func commitPush(tb testing.TB, dir, message string) {
	tb.Helper()
	runGit(tb, dir, "add", "-A")
	runGit(tb, dir, "commit", "-q", "-m", message)
	runGit(tb, dir, "push", "-q", "origin", "HEAD:main")
}

func fsck(tb testing.TB, r *Repo) {
	tb.Helper()
	// Packs are put together while git looks, and what was in the old ones it calls missing.
	kit.Eventually(tb, func() error {
		out, err := tryGit(r.opt.Dir, "fsck", "--strict", "--no-dangling")
		if err == nil && out != "" {
			err = errors.New("it isn't whole")
		}
		if err != nil {
			return fmt.Errorf("git fsck: %w: %s", err, out)
		}
		return nil
	})
}

func TestAWriteIsACommitThatGitSees(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Now: tick()})
	if r.Head() != "" || len(r.List()) != 0 {
		t.Fatalf("a new repository has head %q and %d instances", r.Head(), len(r.List()))
	}
	id := testID(1)
	rev, err := r.Write(t.Context(), desired.Write{
		Instance: id, Dir: shardDir(id), Subject: "Create amf", Body: "As asked.",
		Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: "op-1"}, {Key: desired.TrailerType, Value: "INSTANTIATE"}},
		By:       "Ann <ann@example.com>",
		Change:   setLevel(id, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	fsck(t, r)
	if got := runGit(t, r.opt.Dir, "rev-parse", "main", "main:"+shardDir(id)); got != rev.Commit+"\n"+rev.Tree {
		t.Errorf("git has %q, Write returned %+v", got, rev)
	}
	want := "Create amf\n\nAs asked.\n\nVnf-Lcm-Op-Occ: op-1\nOperation: INSTANTIATE|Ann <ann@example.com>|Jibe <jibe@localhost>|1767323046"
	if got := runGit(t, r.opt.Dir, "log", "-1", "--format=%B%x7c%an <%ae>|%cn <%ce>|%ct", "main"); strings.Replace(got, "\n|", "|", 1) != want {
		t.Errorf("commit is\n%s\nwant\n%s", got, want)
	}
	if got, ok := r.Lookup(id); !ok || got != rev {
		t.Errorf("Lookup = %+v, %v; want %+v", got, ok, rev)
	}
	in, err := r.read.Read(t.Context(), rev)
	if err != nil || in.ID != id || in.Levels["vdu1_aspect"] != 1 {
		t.Errorf("Read = %+v, %v", in, err)
	}
	if c, err := r.FindTrailer(t.Context(), "", desired.TrailerOperation, "op-1"); err != nil || c != rev.Commit {
		t.Errorf("FindTrailer = %q, %v", c, err)
	}
	if _, err := r.FindTrailer(t.Context(), rev.Commit, desired.TrailerOperation, "op-2"); !errors.Is(err, desired.ErrNotFound) {
		t.Errorf("FindTrailer of an unknown one = %v", err)
	}
}

func TestAWriteThatChangesNothingMakesNoCommit(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	id := testID(1)
	first := mustWrite(t, r, id, shardDir(id), 1)
	if again := mustWrite(t, r, id, "", 1); again != first || r.Head() != first.Commit {
		t.Errorf("got %+v at %s, want %+v", again, r.Head(), first)
	}
}

func TestAPushIsNoticedAndOnlyWhatChangedIsTold(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	for i := range 5 {
		mustWrite(t, r, testID(i), shardDir(testID(i)), 1)
	}
	type call struct {
		ids      []string
		settings bool
	}
	calls := make(chan call, 100)
	go func() {
		_ = r.Watch(t.Context(), func(ids []string, settings bool) { calls <- call{ids, settings} })
	}()
	kit.Until(t, "the watcher is there", func() bool { r.mu.RLock(); defer r.mu.RUnlock(); return len(r.watchers) == 1 })
	dir := clone(t, r)
	put(t, dir, shardDir(testID(3))+"/vnf.yaml", vnfFile(testID(3), 7))
	runGit(t, dir, "rm", "-q", "-r", shardDir(testID(4)))
	put(t, dir, "vims/kube-a.yaml", []byte("type: sim\n"))
	commitPush(t, dir, "Scale by hand")
	got := <-calls
	want := map[string]bool{testID(3): true, testID(4): true}
	if len(got.ids) != 2 || !want[got.ids[0]] || !want[got.ids[1]] || !got.settings {
		t.Errorf("told %+v, want %v and the settings", got, want)
	}
	if _, ok := r.Lookup(testID(4)); ok {
		t.Error("a removed instance is still there")
	}
	if s, err := r.Settings(); err != nil || s.VIMs["kube-a"] == nil {
		t.Errorf("settings = %+v, %v", s, err)
	}
	mustWrite(t, r, testID(2), "", 9)
	if got := <-calls; len(got.ids) != 1 || got.ids[0] != testID(2) {
		t.Errorf("told %+v after a write", got)
	}
	fsck(t, r)
}

func TestTheAuthorOfARevisionIsWhoChangedItsDirectory(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	write := func(n, level int, by string) {
		t.Helper()
		if _, err := r.Write(t.Context(), desired.Write{Instance: testID(n), Dir: shardDir(testID(n)), Subject: "set", By: by, Change: setLevel(testID(n), level)}); err != nil {
			t.Fatal(err)
		}
	}
	write(1, 0, "Ann <ann@example.com>")
	write(1, 1, "Bob <bob@example.com>")
	write(2, 1, "Cid <cid@example.com>")
	write(2, 2, "Dan <dan@example.com>")
	for n, want := range map[int]string{1: "Bob <bob@example.com>", 2: "Dan <dan@example.com>"} {
		rev, ok := r.Lookup(testID(n))
		if !ok {
			t.Fatalf("instance %d isn't found", n)
		}
		rev.Commit = r.Head() // as who sees all four commits at once has it
		if got, err := r.read.Author(t.Context(), rev); err != nil || got != want {
			t.Errorf("instance %d: author %q (%v), want %q", n, got, err, want)
		}
	}
}
