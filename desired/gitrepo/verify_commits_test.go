package gitrepo

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// seal is a folder with SSH keys, and a file of those that a host trusts.
type seal struct {
	testing.TB
	dir, file string
}

func newSeal(tb testing.TB, trusted ...string) *seal {
	tb.Helper()
	s := &seal{tb, tb.TempDir(), ""}
	s.file = filepath.Join(s.dir, "allowed")
	for _, name := range []string{"alice", "forge", "mallory"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", filepath.Join(s.dir, name)).CombinedOutput(); err != nil {
			tb.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	s.trust(trusted...)
	return s
}

// trust makes the file trust these and no others.
func (s *seal) trust(names ...string) {
	s.Helper()
	var lines []byte
	for _, name := range names {
		pub, err := os.ReadFile(filepath.Join(s.dir, name+".pub"))
		if err != nil {
			s.Fatal(err)
		}
		lines = append(lines, (name + " " + string(pub))...)
	}
	if err := os.WriteFile(s.file, lines, 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *seal) verification() *check.Verification {
	s.Helper()
	v, err := check.NewVerification(s.file, bytes.Repeat([]byte{1}, 32))
	if err != nil {
		s.Fatal(err)
	}
	return v
}

// by are git's options to sign as a person; "" signs nothing.
func (s *seal) by(name string) []string {
	if name == "" {
		return []string{"-c", "commit.gpgSign=false"}
	}
	return []string{"-c", "gpg.format=ssh", "-c", "user.signingKey=" + filepath.Join(s.dir, name), "-c", "commit.gpgSign=true"}
}

// change commits another level of the instance, signed by the person.
func (s *seal) change(dir, id string, level int, by string) {
	s.Helper()
	put(s, dir, flatDir(id)+"/vnf.yaml", vnfFile(id, level))
	runGit(s, dir, "add", "-A")
	runGit(s, dir, append(s.by(by), "commit", "-q", "-m", "Scale")...)
}

func levelOf(tb testing.TB, r *Repo, id string) int {
	tb.Helper()
	rev, ok := r.Lookup(id)
	if !ok {
		return -1
	}
	in, err := r.read.Read(tb.Context(), rev)
	if err != nil {
		tb.Fatal(err)
	}
	return in.Levels["vdu1_aspect"]
}

func TestARemotesCommitsAreObeyedOnlyWhereEachIsSigned(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	s := newSeal(t, "alice", "forge")
	forge := bareRemote(t)
	work := filepath.Join(t.TempDir(), "work")
	runGit(t, "", "clone", "-q", forge, work)
	runGit(t, work, "checkout", "-q", "-b", "main")
	id := testID(1)
	s.change(work, id, 1, "alice")
	runGit(t, work, "push", "-q", "origin", "HEAD:main")
	r := openRepo(t, Options{Remote: forge, Verify: s.verification(), PollInterval: time.Hour, Key: []byte("of the installation")})
	if l := levelOf(t, r, id); l != 1 {
		t.Fatalf("level %d", l)
	}
	good := r.Head()
	pulled := func() error { return r.pull(t.Context()) }
	held := func(what, want string) {
		t.Helper()
		err := pulled()
		if !errors.Is(err, check.ErrUnverified) || !errors.Is(err, errHeld) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", what, err, want)
		}
		if h := r.Health(); h == nil || !strings.Contains(h.Error(), want) {
			t.Errorf("%s: health %v", what, h)
		}
		if ps := r.Problems(); len(ps) != 1 || !strings.Contains(ps[0].Error(), want) {
			t.Errorf("%s: problems %v", what, ps)
		}
		if r.Head() != good || levelOf(t, r, id) != 1 {
			t.Errorf("%s: it is obeyed", what)
		}
		if _, err := r.Accept(t.Context(), ""); !errors.Is(err, check.ErrUnverified) {
			t.Errorf("%s: a person may accept it: %v", what, err)
		}
		_, err = r.Write(t.Context(), desired.Write{Instance: id, Dir: flatDir(id), Subject: "Scale", Change: setLevel(id, 9)})
		if !errors.Is(err, desired.ErrUnavailable) {
			t.Errorf("%s: written on top: %v", what, err)
		}
		runGit(t, work, "reset", "-q", "--hard", good)
		runGit(t, work, "push", "-q", "-f", "origin", "HEAD:main")
		if err := pulled(); err != nil || len(r.Problems()) > 0 {
			t.Errorf("%s: repaired: %v %v", what, err, r.Problems())
		}
	}
	push := func() { t.Helper(); runGit(t, work, "push", "-q", "-f", "origin", "HEAD:main") }

	s.change(work, id, 2, "")
	push()
	held("unsigned", "the commit has no signature")
	s.change(work, id, 2, "mallory")
	push()
	held("by a stranger", "isn't one of those that are trusted")
	s.change(work, id, 2, "")
	s.change(work, id, 3, "alice")
	push()
	held("signed on top of an unsigned one", "the commit has no signature")
	// A merge whose first parent is the stranger's line would hide it.
	s.change(work, id, 2, "")
	stranger := tipOf(t, work)
	runGit(t, work, "reset", "-q", "--hard", good)
	put(t, work, "README", []byte("a\n"))
	runGit(t, work, "add", "-A")
	runGit(t, work, append(s.by("alice"), "commit", "-q", "-m", "Readme")...)
	side := tipOf(t, work)
	runGit(t, work, "reset", "-q", "--hard", stranger)
	runGit(t, work, append(s.by("forge"), "merge", "-q", "--no-ff", "-m", "Merge", side)...)
	push()
	held("merged the wrong way round", "the commit has no signature")

	// A pull request that the forge has merged, by its key: it vouches for what it merges.
	runGit(t, work, "checkout", "-q", "-b", "request")
	s.change(work, id, 2, "")
	runGit(t, work, "checkout", "-q", "main")
	runGit(t, work, append(s.by("forge"), "merge", "-q", "--no-ff", "-m", "Merge request", "request")...)
	push()
	if err := pulled(); err != nil || levelOf(t, r, id) != 2 {
		t.Errorf("merged by the forge: %v, level %d", err, levelOf(t, r, id))
	}
	// Jibe's own commits count, and git believes them as well; the next person builds on them.
	rev := mustWrite(t, r, id, flatDir(id), 4)
	if ok, err := r.Sealed(t.Context(), rev.Commit); err != nil || !ok {
		t.Errorf("a commit of Jibe's that is signed isn't sealed: %t %v", ok, err)
	}
	own := filepath.Join(s.dir, "own")
	if err := os.WriteFile(own, []byte(s.verification().Own()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runGit(t, forge, "-c", "gpg.ssh.allowedSignersFile="+own, "verify-commit", "main")
	runGit(t, work, "fetch", "-q", "origin")
	runGit(t, work, "reset", "-q", "--hard", "origin/main")
	s.change(work, id, 5, "alice")
	push()
	if err := pulled(); err != nil || levelOf(t, r, id) != 5 {
		t.Errorf("on top of Jibe's: %v, level %d", err, levelOf(t, r, id))
	}
	// A mirror that is made anew has nothing to stand on, and may begin with Jibe's commit.
	mustWrite(t, r, id, flatDir(id), 6)
	again := openRepo(t, Options{Remote: forge, Verify: s.verification()})
	if l := levelOf(t, again, id); l != 6 {
		t.Errorf("made anew: level %d", l)
	}
	// A key that is taken from the file counts no more, without a restart.
	s.trust("forge")
	runGit(t, work, "fetch", "-q", "origin")
	runGit(t, work, "reset", "-q", "--hard", "origin/main")
	s.change(work, id, 7, "alice")
	push()
	if err := pulled(); !errors.Is(err, check.ErrUnverified) || levelOf(t, r, id) != 6 {
		t.Errorf("by a key that was taken away: %v, level %d", err, levelOf(t, r, id))
	}
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	if err := pulled(); !errors.Is(err, check.ErrUnverified) {
		t.Errorf("without the file of keys: %v", err)
	}
	if _, err := Open(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "new.git"), Remote: forge, Verify: &check.Verification{File: s.file}}); !errors.Is(err, check.ErrUnverified) {
		t.Errorf("a first start without keys: %v", err)
	}
}

func TestAPushIsRefusedWhoseCommitsAreNotAllSigned(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	s := newSeal(t, "alice")
	r := openRepo(t, Options{Verify: s.verification()})
	id := testID(1)
	mustWrite(t, r, id, flatDir(id), 1)
	if err := r.InstallHooks(Hook{Binary: filepath.Join(s.dir, "jibe"), Socket: filepath.Join(s.dir, "socket"), Repository: "desired.git"}); err != nil {
		t.Fatal(err)
	}
	hook, err := os.ReadFile(filepath.Join(r.opt.Dir, "hooks", "pre-receive"))
	if err != nil || !strings.Contains(string(hook), "--verify-desired '"+s.file+"'") {
		t.Errorf("the hook is %s (%v)", hook, err)
	}
	work := clone(t, r)
	check := func() []*desired.Problem {
		t.Helper()
		runGit(t, work, "push", "-q", "-f", "--no-verify", filepath.Join(s.dir, "quarantine.git"), "HEAD:main")
		reader := read.New(git.Runner{Dir: filepath.Join(s.dir, "quarantine.git")}, "main", 1<<20)
		defer reader.Close()
		ps, _, err := check.New(reader).CheckSigned(t.Context(), []check.RefUpdate{{Ref: "refs/heads/main", Old: r.Head(), New: tipOf(t, work)}}, s.file)
		if err != nil {
			t.Fatal(err)
		}
		return ps
	}
	runGit(t, s.dir, "clone", "-q", "--bare", r.opt.Dir, "quarantine.git")
	s.change(work, id, 2, "alice")
	if ps := check(); len(ps) > 0 {
		t.Errorf("signed: %v", ps)
	}
	s.change(work, id, 3, "")
	if ps := check(); len(ps) != 1 || !strings.Contains(ps[0].Error(), "A Person <person@example.com>\": it isn't signed by a trusted key: the commit has no signature") {
		t.Errorf("unsigned: %v", ps)
	}
	s.trust("mallory")
	runGit(t, work, "reset", "-q", "--hard", "HEAD~1")
	if ps := check(); len(ps) != 1 {
		t.Errorf("by a key that isn't trusted any more: %v", ps)
	}
}

func TestAReplacedObjectIsNotWhatIsRead(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	id := testID(1)
	mustWrite(t, r, id, flatDir(id), 1)
	work := clone(t, r)
	put(t, work, flatDir(id)+"/vnf.yaml", vnfFile(id, 7))
	runGit(t, work, "add", "-A")
	runGit(t, work, "commit", "-q", "-m", "Another state")
	// No hook looks at other branches, and this one says what every commit of the real one holds.
	runGit(t, work, "push", "-q", "origin", "HEAD:refs/replace/"+r.Head())
	fresh := openRepo(t, Options{Dir: r.opt.Dir})
	kit.Eventually(t, func() error { return fresh.Refresh(t.Context()) })
	if l := levelOf(t, fresh, id); l != 1 {
		t.Errorf("level %d is read", l)
	}
}
