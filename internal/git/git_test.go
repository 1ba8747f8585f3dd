package git

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var megabyte = Limits{Blob: 1 << 20, Tree: 1 << 20, Commit: 1 << 20}

func newRepository(tb testing.TB, dir string) Runner {
	tb.Helper()
	tb.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	tb.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
	if _, err := (Runner{}).Run(tb.Context(), "init", "-q", "--bare", "--object-format=sha1", "--initial-branch=main", dir); err != nil {
		tb.Fatal(err)
	}
	return Runner{Dir: dir}
}

func TestNothingOfTheEnvironmentPointsGitElsewhere(t *testing.T) {
	for name, value := range map[string]string{"GIT_DIR": "/elsewhere", "GIT_SSH_COMMAND": "ssh -i key", "FORGE_TOKEN": "hunter2", "LANG": "de_DE.UTF-8", "LC_MESSAGES": "de_DE", "GIT_PROXY_COMMAND": "x"} {
		t.Setenv(name, value)
	}
	for name, test := range map[string]struct {
		runner   Runner
		has, not []string
	}{
		"the operator's own": {Runner{}, []string{"GIT_SSH_COMMAND", "FORGE_TOKEN", "PATH", "GIT_TERMINAL_PROMPT", "GIT_PROXY_COMMAND"}, []string{"GIT_DIR", "LANG", "LC_MESSAGES", "GIT_ALLOW_PROTOCOL"}},
		"a hook":             {Runner{Quarantine: true}, []string{"GIT_DIR", "PATH"}, []string{"LANG"}},
		"another's":          {Runner{Foreign: true}, []string{"GIT_SSH_COMMAND", "PATH", "GIT_ALLOW_PROTOCOL"}, []string{"GIT_DIR", "FORGE_TOKEN", "LANG", "GIT_PROXY_COMMAND"}},
	} {
		var names []string
		for _, kv := range test.runner.Environ() {
			n, _, _ := strings.Cut(kv, "=")
			names = append(names, n)
		}
		for _, n := range test.has {
			if !slices.Contains(names, n) {
				t.Errorf("%s lacks %s", name, n)
			}
		}
		for _, n := range test.not {
			if slices.Contains(names, n) {
				t.Errorf("%s has %s", name, n)
			}
		}
	}
}

func TestAnotherOnesRepositoryRunsNoCommand(t *testing.T) {
	r := newRepository(t, filepath.Join(t.TempDir(), "r.git"))
	r.Foreign = true
	_, err := r.Run(t.Context(), "fetch", "--", "ext::sh -c true", "+refs/heads/*:refs/x/*")
	if err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("fetch = %v", err)
	}
}

func TestAnErrorSaysWhatGitSaidWithoutCredentials(t *testing.T) {
	r := newRepository(t, filepath.Join(t.TempDir(), "r.git"))
	_, err := r.Run(t.Context(), "-c", "a.b=c", "fetch", "file://user:hunter2@/nowhere")
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "git fetch: fatal") || strings.Contains(err.Error(), "\n") {
		t.Errorf("fetch = %v", err)
	}
	if _, err := r.Run(t.Context(), "rev-parse", "--verify", "--quiet", "nothing"); ExitCode(err) != 1 {
		t.Errorf("rev-parse = %v, with %d", err, ExitCode(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Run(ctx, "version"); !errors.Is(err, context.Canceled) || ExitCode(err) != -1 {
		t.Errorf("a command that was cancelled = %v, with %d", err, ExitCode(err))
	}
}

func TestLinesAreReadUntilOneIsEnough(t *testing.T) {
	r := newRepository(t, filepath.Join(t.TempDir(), "r.git"))
	endless := []string{"-c", "alias.endless=!yes", "endless"}
	n := 0
	err := r.Lines(t.Context(), func(line string) bool {
		n++
		return line == "y" && n < 3
	}, endless...)
	if err != nil || n != 3 {
		t.Errorf("%d lines were read, %v", n, err)
	}

	var said []string
	all := func(line string) bool { said = append(said, line); return true }
	if err := r.Lines(t.Context(), all, "rev-parse", "--is-bare-repository", "--is-inside-git-dir"); err != nil || len(said) != 2 || said[0] != "true" {
		t.Errorf("git said %q, %v", said, err)
	}
	if err := r.Lines(t.Context(), all, "rev-parse", "--verify", "--quiet", "nothing"); ExitCode(err) != 1 {
		t.Errorf("rev-parse = %v, with %d", err, ExitCode(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.Lines(ctx, func(string) bool { cancel(); return true }, endless...); !errors.Is(err, context.Canceled) || ExitCode(err) != -1 {
		t.Errorf("a command that was cancelled = %v, with %d", err, ExitCode(err))
	}
}

func TestURLsInMessagesLoseTheirUsers(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"no URL, but a@b":              "no URL, but a@b",
		"'https://u:p@h/a' failed":     "'https://***@h/a' failed",
		"https://u:p@x@h/a ssh://t@h":  "https://***@h/a ssh://***@h",
		"https://h/a@b":                "https://h/a@b",
		"\"https://u:p@h\": not found": "\"https://***@h\": not found",
	} {
		if got := redactURLs(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// commitOf puts a file into a repository, and the commit that has it.
func commitOf(tb testing.TB, r Runner, file string, data []byte) (commit, tree, blob string) {
	tb.Helper()
	pack := NewPack()
	blob = pack.Add(KindBlob, data)
	tree = pack.Add(KindTree, EncodeTree([]Entry{{Mode: ModeFile, Name: file, Hash: blob}}))
	commit = pack.Add(KindCommit, EncodeCommit(tree, "", "", "p <p@example.com>", time.Unix(1767323046, 0), "A file\n"))
	if err := pack.Write(r.Dir, tb.TempDir()); err != nil {
		tb.Fatal(err)
	}
	return commit, tree, blob
}

func TestObjectsAreReadByHashAndByName(t *testing.T) {
	r := newRepository(t, filepath.Join(t.TempDir(), "r.git"))
	commit, tree, blob := commitOf(t, r, "a file", []byte("content"))
	s := NewObjects(r, megabyte, 1<<20)
	defer s.Close()
	for range 2 {
		if data, err := s.Get(t.Context(), KindBlob, blob); err != nil || string(data) != "content" {
			t.Errorf("blob = %q, %v", data, err)
		}
		if hash, data, err := s.Lookup(t.Context(), KindBlob, commit+":a file"); err != nil || hash != blob || string(data) != "content" {
			t.Errorf("named blob = %s, %q, %v", hash, data, err)
		}
		if hash, _, err := s.Lookup(t.Context(), KindTree, commit+":"); err != nil || hash != tree {
			t.Errorf("root tree = %s, %v", hash, err)
		}
		for _, name := range []string{commit + ":no file", commit + ":no\nfile", tree[:39] + "x"} {
			if _, _, err := s.Lookup(t.Context(), KindBlob, name); !errors.Is(err, ErrMissing) {
				t.Errorf("%q = %v", name, err)
			}
		}
		if _, err := s.Get(t.Context(), KindBlob, strings.Repeat("1", 40)); !errors.Is(err, ErrMissing) {
			t.Errorf("a missing blob = %v", err)
		}
		if _, err := s.Get(t.Context(), KindBlob, tree); !wrongKind(err) {
			t.Errorf("a tree that should be a blob = %v", err)
		}
	}
	s.Close()
	if _, err := s.Get(t.Context(), KindTree, strings.Repeat("1", 40)); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close = %v", err)
	}
}

func wrongKind(err error) bool {
	_, ok := errors.AsType[*KindError](err)
	return ok
}

func TestALargeObjectIsNotReadAndTheOthersAre(t *testing.T) {
	r := newRepository(t, filepath.Join(t.TempDir(), "r.git"))
	_, _, small := commitOf(t, r, "a", []byte("small"))
	_, _, large := commitOf(t, r, "b", make([]byte, 100_000))
	s := NewObjects(r, Limits{Blob: 1000, Tree: 1000, Commit: 1000}, 1<<20)
	defer s.Close()
	var got []string
	err := s.Each(t.Context(), KindBlob, []string{large, small, large}, func(_ int, data []byte, err error) error {
		if size, ok := errors.AsType[*SizeError](err); ok && errors.Is(err, ErrTooLarge) && size.Size == 100_000 && size.Limit == 1000 {
			got = append(got, "too large")
			return nil
		}
		got = append(got, string(data))
		return err
	})
	if err != nil || !slices.Equal(got, []string{"too large", "small", "too large"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAReaderSurvivesItsChild(t *testing.T) {
	r := newRepository(t, filepath.Join(t.TempDir(), "r.git"))
	_, tree, blob := commitOf(t, r, "a", []byte("x"))
	s := NewObjects(r, megabyte, 0)
	defer s.Close()
	if _, err := s.Get(t.Context(), KindBlob, blob); err != nil {
		t.Fatal(err)
	}
	s.idle[0].kill()
	if _, err := s.Get(t.Context(), KindTree, tree); err != nil {
		t.Errorf("after the child died: %v", err)
	}
}

func TestRefsMoveOnlyFromWhereTheyAre(t *testing.T) {
	r := newRepository(t, filepath.Join(t.TempDir(), "r.git"))
	first, _, _ := commitOf(t, r, "a", []byte("1"))
	second, _, _ := commitOf(t, r, "a", []byte("2"))
	u := NewRefUpdater(r)
	defer u.Close()
	const ref = "refs/heads/main"
	read := func(want string) {
		t.Helper()
		if got, err := ReadRef(r.Dir, ref); err != nil || got != want {
			t.Errorf("the ref is at %q, %v; want %q", got, err, want)
		}
	}
	read("")
	if err := u.Move(t.Context(), ref, first, ""); err != nil {
		t.Fatal(err)
	}
	read(first)
	if err := u.Move(t.Context(), ref, second, second); !errors.Is(err, ErrRefMoved) {
		t.Errorf("from where it isn't = %v", err)
	}
	if err := u.Move(t.Context(), ref, second, first); err != nil {
		t.Fatal(err)
	}
	if err := u.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := u.Move(t.Context(), ref, first, second); err != nil {
		t.Errorf("after the child died: %v", err)
	}
	if _, err := r.Run(t.Context(), "pack-refs", "--all"); err != nil {
		t.Fatal(err)
	}
	read(first)
}

func TestAChildThatMovesRefsIsReplacedBeforeItHasMappedTooManyPacks(t *testing.T) {
	r := newRepository(t, filepath.Join(t.TempDir(), "r.git"))
	u := NewRefUpdater(r)
	defer u.Close()
	u.most = 3
	children, last := map[int]bool{}, ""
	for i := range 10 {
		p := NewPack()
		tree := p.Add(KindTree, nil)
		next := p.Add(KindCommit, EncodeCommit(tree, last, "", "A <a@example.com>", time.Unix(int64(i), 0), "m\n"))
		if err := p.Write(r.Dir, t.TempDir()); err != nil {
			t.Fatal(err)
		}
		if err := u.Move(t.Context(), "refs/heads/main", next, last); err != nil {
			t.Fatal(err)
		}
		if last = next; u.cmd != nil {
			children[u.cmd.Process.Pid] = true
		}
	}
	if got, err := ReadRef(r.Dir, "refs/heads/main"); err != nil || got != last {
		t.Errorf("the ref is at %s (%v), want %s", got, err, last)
	}
	if len(children) != 4 {
		t.Errorf("%d children moved it 10 times, want 4", len(children))
	}
}

func TestRefsAreListedSetAndDeleted(t *testing.T) {
	r := newRepository(t, filepath.Join(t.TempDir(), "r.git"))
	commit, tree, _ := commitOf(t, r, "a", []byte("1"))
	for name, object := range map[string]string{"refs/x/commit": commit, "refs/x/tree": tree, "refs/y/commit": commit} {
		if err := r.SetRef(t.Context(), name, object); err != nil {
			t.Fatal(err)
		}
	}
	if refs, err := r.Refs(t.Context(), "refs/x/"); err != nil || !slices.Equal(refs, []Ref{{Name: "refs/x/commit", Commit: commit}}) {
		t.Errorf("refs = %v, %v", refs, err)
	}
	names, err := r.RefNames(t.Context(), "refs/x/")
	if err != nil || !slices.Equal(names, []string{"refs/x/commit", "refs/x/tree"}) {
		t.Errorf("names = %v, %v", names, err)
	}
	if err := r.DeleteRefs(t.Context(), names); err != nil {
		t.Fatal(err)
	}
	if names, err := r.RefNames(t.Context(), "refs/"); err != nil || !slices.Equal(names, []string{"refs/y/commit"}) {
		t.Errorf("names = %v, %v", names, err)
	}
}
