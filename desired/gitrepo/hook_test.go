package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// TestMain lets the test's own program be the hook, and the victim of a crash.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "hook" {
		os.Exit(runHook())
	}
	if len(os.Args) > 2 && os.Args[1] == "write-until-killed" {
		os.Exit(writeUntilKilled(os.Args[2]))
	}
	os.Exit(withGit(m))
}

// withGit runs the tests with a configuration of git of their own: neither that of who runs them counts nor that of
// the machine, what a person commits is synced to no disk, and git doesn't look after each command whether it
// should tidy up, which would be a process or two each time. Jibe's own settings are in its repositories and say
// otherwise where it matters.
func withGit(m *testing.M) int {
	dir, err := os.MkdirTemp("", "jibe-git-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)

	config := filepath.Join(dir, "config")
	ssh := filepath.Join(dir, "ssh")
	err = errors.Join(
		os.WriteFile(config, []byte(gitConfig), 0o600),
		os.WriteFile(ssh, []byte(hangingSSH), 0o700),
		os.Setenv("GIT_CONFIG_GLOBAL", config),
		os.Setenv("GIT_CONFIG_SYSTEM", os.DevNull),
		os.Setenv("GIT_SSH_COMMAND", ssh),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

const gitConfig = `[init]
	defaultBranch = main
[core]
	fsync = none
[gc]
	auto = 0
[maintenance]
	auto = false
[receive]
	autogc = false
`

func runHook() int {
	ctx := context.Background()
	updates, err := check.ReadPush(os.Stdin)
	if err == nil {
		var q *check.Checker
		if q, err = check.OpenQuarantine(ctx, ""); err == nil {
			defer q.Close()
			var ps []*desired.Problem
			if ps, err = q.CheckPush(ctx, updates, check.PushPolicy{Options: check.PushOptions()}); len(ps) > 0 {
				for _, p := range ps {
					fmt.Fprintln(os.Stderr, p)
				}
				return 1
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

func withHook(t *testing.T) *Repo {
	t.Helper()
	r := openRepo(t, Options{})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.InstallHooks(Hook{Binary: self, Socket: filepath.Join(r.opt.Dir, "it's a socket"), Repository: "desired.git"}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestABadPushIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()

	derived := "instances/derived"
	tests := []struct {
		name   string
		edit   func(t *testing.T, dir string)
		args   []string
		ref    string
		refuse string // "" passes
	}{
		{name: "a scale is accepted", edit: func(t *testing.T, dir string) {
			put(t, dir, shardDir(testID(1))+"/vnf.yaml", vnfFile(testID(1), 5))
		}},
		{name: "an unknown key", edit: func(t *testing.T, dir string) {
			put(t, dir, shardDir(testID(1))+"/vnf.yaml", append(vnfFile(testID(1), 5), "colour: red\n"...))
		}, refuse: "/vnf.yaml:7: "},
		{name: "two projects that claim the same folder", edit: func(t *testing.T, dir string) {
			put(t, dir, "projects/north.yaml", []byte("instances: [a/*]\n"))
			put(t, dir, "projects/south.yaml", []byte("instances: [a/b]\n"))
		}, refuse: "projects/south.yaml: projects south and north both claim the folder instances/a/b"},
		{name: "a project's file that would be passed over", edit: func(t *testing.T, dir string) {
			put(t, dir, "projects/north.yml", []byte("instances: [a]\n"))
		}, refuse: "projects/north.yml: projects/ holds a file for each project"},
		{name: "a project's file that is a link", edit: func(t *testing.T, dir string) {
			put(t, dir, "projects/README.md", []byte("for people\n"))
			if err := os.Symlink("../README.md", filepath.Join(dir, "projects/north.yaml")); err != nil {
				t.Fatal(err)
			}
		}, refuse: "projects/north.yaml: is a symbolic link, not a file"},
		{name: "projects that is a file", edit: func(t *testing.T, dir string) {
			put(t, dir, "projects", []byte("instances: [a]\n"))
		}, refuse: "projects: is not a folder"},
		{name: "a project is accepted", edit: func(t *testing.T, dir string) {
			put(t, dir, "projects/north.yaml", []byte("instances: [a]\nquotas: {instances: 3}\n"))
		}},
		{name: "two new directories with one id", edit: func(t *testing.T, dir string) {
			put(t, dir, "instances/x/vnf.yaml", vnfFile(testID(77), 1))
			put(t, dir, "instances/y/vnf.yaml", vnfFile(testID(77), 1))
		}, refuse: "is already that of instances/"},
		{name: "the id of an unchanged instance", edit: func(t *testing.T, dir string) {
			put(t, dir, "instances/x/vnf.yaml", vnfFile(testID(1), 1))
		}, refuse: "is already that of " + shardDir(testID(1))},
		{name: "the id that an unchanged directory derives", edit: func(t *testing.T, dir string) {
			put(t, dir, "instances/x/vnf.yaml", vnfFile(desired.DeriveID(derived), 1))
		}, refuse: "is already that of " + derived},
		{name: "a move without an id", edit: func(t *testing.T, dir string) {
			runGit(t, dir, "mv", derived, "instances/elsewhere")
		}, refuse: "write its id into the moved file: id: " + desired.DeriveID(derived)},
		{name: "a move with its id is accepted", edit: func(t *testing.T, dir string) {
			runGit(t, dir, "mv", derived, "instances/elsewhere")
			put(t, dir, "instances/elsewhere/vnf.yaml", vnfFile(desired.DeriveID(derived), 1))
		}},
		{name: "another id for what runs", edit: func(t *testing.T, dir string) {
			put(t, dir, shardDir(testID(1))+"/vnf.yaml", vnfFile(testID(99), 1))
		}, refuse: "put it back: id: " + testID(1)},
		{name: "no id any more for what runs", edit: func(t *testing.T, dir string) {
			put(t, dir, shardDir(testID(1))+"/vnf.yaml", vnfFile("", 1))
		}, refuse: "put it back: id: " + testID(1)},
		{name: "a move that loses the id", edit: func(t *testing.T, dir string) {
			runGit(t, dir, "rm", "-q", "-r", shardDir(testID(1)))
			put(t, dir, "instances/elsewhere/vnf.yaml", vnfFile("", 7))
		}, refuse: "instances/elsewhere/vnf.yaml: moving " + shardDir(testID(1)) + " without its id would terminate VNF instance " + testID(1)},
		{name: "a folder of another case", edit: func(t *testing.T, dir string) {
			put(t, dir, "instances/Derived/vnf.yaml", vnfFile("", 1))
		}, refuse: "instances/Derived and instances/derived differ only in case"},
		{name: "a folder of another Unicode form", edit: func(t *testing.T, dir string) {
			put(t, dir, "instances/caf\u00e9/vnf.yaml", vnfFile("", 1))
			put(t, dir, "instances/cafe\u0301/vnf.yaml", vnfFile("", 2))
		}, refuse: "differ only in case or Unicode form"},
		{name: "a copy beside a change of the original", edit: func(t *testing.T, dir string) {
			put(t, dir, shardDir(testID(1))+"/vnf.yaml", vnfFile(testID(1), 5))
			put(t, dir, "instances/00/vnf.yaml", vnfFile(testID(1), 5))
		}, refuse: "instances/00/vnf.yaml: id " + testID(1) + " is already that of " + shardDir(testID(1))},
		{name: "too many removed", edit: func(t *testing.T, dir string) {
			for i := range 11 {
				runGit(t, dir, "rm", "-q", "-r", shardDir(testID(i)))
			}
		}, refuse: "git push -o terminate=11"},
		{name: "another number than removed", edit: func(t *testing.T, dir string) {
			for i := range 11 {
				runGit(t, dir, "rm", "-q", "-r", shardDir(testID(i)))
			}
		}, args: []string{"-o", "terminate=12"}, refuse: "git push -o terminate=11"},
		{name: "many removed on purpose are accepted", edit: func(t *testing.T, dir string) {
			for i := range 11 {
				runGit(t, dir, "rm", "-q", "-r", shardDir(testID(i)))
			}
		}, args: []string{"-o", "terminate=11"}},
		{name: "a symbolic link", edit: func(t *testing.T, dir string) {
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, shardDir(testID(1)), "link")); err != nil {
				t.Fatal(err)
			}
		}, refuse: "/link: is a symbolic link"},
		{name: "vnf.yaml as a symbolic link", edit: func(t *testing.T, dir string) {
			put(t, dir, "instances/x/other.yaml", vnfFile("", 1))
			if err := os.Symlink("other.yaml", filepath.Join(dir, "instances/x/vnf.yaml")); err != nil {
				t.Fatal(err)
			}
		}, refuse: "instances/x/vnf.yaml: is a symbolic link"},
		{name: "a submodule", edit: func(t *testing.T, dir string) {
			runGit(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+tipOf(t, dir)+","+derived+"/sub")
		}, refuse: "/sub: is a submodule"},
		{name: "an oversized file", edit: func(t *testing.T, dir string) {
			put(t, dir, derived+"/big", make([]byte, objects.MaxObject+1))
		}, refuse: "/big: object too large"},
		{name: "an instance inside another", edit: func(t *testing.T, dir string) {
			put(t, dir, derived+"/sub/vnf.yaml", vnfFile("", 1))
		}, refuse: "inside the directory of another"},
		{name: "an instance without a directory", edit: func(t *testing.T, dir string) {
			put(t, dir, "instances/vnf.yaml", vnfFile("", 1))
		}, refuse: "needs a directory of its own"},
		{name: "a bad VIM", edit: func(t *testing.T, dir string) {
			put(t, dir, "vims/a.yaml", []byte("typ: sim\n"))
		}, refuse: "vims/a.yaml:1"},
		{name: "anything on another branch is accepted", edit: func(t *testing.T, dir string) {
			put(t, dir, "instances/vnf.yaml", []byte("nonsense"))
		}, ref: "refs/heads/feature/x"},
		{name: "a pin of Jibe's", edit: func(t *testing.T, dir string) {}, ref: "refs/jibe/packages/x", refuse: "Jibe's own"},
		{name: "the notes of Jibe's", edit: func(t *testing.T, dir string) {}, ref: objects.NotesRef, refuse: "Jibe's own"},
	}
	r := withHook(t)
	for i := range 12 {
		mustWrite(t, r, testID(i), shardDir(testID(i)), 1)
	}
	mustWrite(t, r, desired.DeriveID(derived), derived, 1)
	dir := clone(t, r)
	put(t, dir, derived+"/vnf.yaml", vnfFile("", 1))
	commitPush(t, dir, "Leave the id out")
	base := tipOf(t, dir)
	few := kit.Quick(t)
	for i, tt := range tests {
		if few && i%3 != 0 {
			continue // a push is a dozen processes
		}

		t.Run(tt.name, func(t *testing.T) {
			before := tipOf(t, r.opt.Dir)
			runGit(t, dir, "fetch", "-q", "origin")
			runGit(t, dir, "reset", "-q", "--hard", base)
			runGit(t, dir, "clean", "-fdxq")
			tt.edit(t, dir)
			if tt.name != "a submodule" { // which add -A would take away again
				runGit(t, dir, "add", "-A")
			}
			runGit(t, dir, "commit", "-q", "--allow-empty", "-m", tt.name)
			ref := tt.ref
			if ref == "" {
				ref = "refs/heads/main"
			}
			out, err := tryGit(dir, append(append([]string{"push"}, tt.args...), "origin", "HEAD:"+ref)...)
			if tt.refuse == "" {
				if err != nil {
					t.Fatalf("refused: %s", out)
				}
				if ref == "refs/heads/main" { // back to where the next case starts
					back := runGit(t, dir, "commit-tree", base+"^{tree}", "-p", "HEAD", "-m", "back")
					runGit(t, dir, "push", "-q", "origin", back+":main")
					base = back
				}
				return
			}
			if err == nil || !strings.Contains(strings.ReplaceAll(out, "\nremote: ", " "), tt.refuse) {
				t.Errorf("got %v\n%s\nwant a refusal with %q", err, out, tt.refuse)
			}
			if after := tipOf(t, r.opt.Dir); after != before {
				t.Errorf("main moved from %s to %s", before, after)
			}
		})
	}
	if out, err := tryGit(dir, "push", "origin", ":main"); err == nil {
		t.Errorf("the branch could be deleted: %s", out)
	}
}

func TestAPersonClonesAndPushesOverHTTP(t *testing.T) {
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	mux := http.NewServeMux()
	mux.Handle("/git/desired.git/", http.StripPrefix("/git/desired.git", r.HTTPHandler()))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	url := srv.URL + "/git/desired.git"
	dir := filepath.Join(t.TempDir(), "clone")
	runGit(t, "", "clone", "-q", url, dir)
	put(t, dir, shardDir(testID(1))+"/vnf.yaml", vnfFile(testID(1), 3))
	big := make([]byte, 3<<20) // more than git sends in one piece
	for i := range big {
		big[i] = byte(i * i >> 7)
	}
	put(t, dir, "notes.bin", big)
	runGit(t, dir, "config", "http.postBuffer", "65536")
	commitPush(t, dir, "Scale by hand")
	kit.Until(t, "the push is followed", func() bool {
		rev, _ := r.Lookup(testID(1))
		in, err := r.read.Read(t.Context(), rev)
		return err == nil && in.Levels["vdu1_aspect"] == 3
	})
	put(t, dir, shardDir(testID(1))+"/vnf.yaml", []byte("nonsense: true\n"))
	runGit(t, dir, "commit", "-q", "-a", "-m", "Break it")
	if out, err := tryGit(dir, "push", "origin", "HEAD:main"); err == nil || !strings.Contains(out, "vnf.yaml:1") {
		t.Errorf("a bad push over HTTP: %v\n%s", err, out)
	}
	for _, p := range []string{"/config", "/HEAD", "/objects/info/packs", "/../x"} {
		res, err := http.Get(url + p)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s is %d", p, res.StatusCode)
		}
	}
}

func TestAWorkingCopyHasTheHashesThatGitGives(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	put(t, dir, "instances/site-a/amf/vnf.yaml", vnfFile("", 1))
	put(t, dir, "instances/site-a/amf/scripts/b/run", []byte("#!/bin/sh\n"))
	put(t, dir, "instances/site-a/amf/scripts.d", []byte("x"))
	put(t, dir, "instances/site-a/amf/empty/.keep", nil)
	if err := os.Chmod(filepath.Join(dir, "instances/site-a/amf/scripts/b/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("run", filepath.Join(dir, "instances/site-a/amf/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "instances/site-a/amf/nothing"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "vims/kube-a.yaml", []byte("type: sim\n"))
	w, err := read.WorkingCopy(dir)
	if err != nil {
		t.Fatal(err)
	}
	commitPush(t, dir, "Add amf")
	at, err := r.At(t.Context(), tipOf(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(w.List()) != 2 || len(at.List()) != 2 {
		t.Fatalf("working copy has %v, commit %v", w.List(), at.List())
	}
	for i, rev := range w.List() {
		c := at.List()[i]
		if rev.Tree != c.Tree || rev.Dir != c.Dir || rev.Instance != c.Instance {
			t.Errorf("working copy has %+v, commit %+v", rev, c)
		}
		mine, err1 := w.Files(t.Context(), rev)
		theirs, err2 := at.Files(t.Context(), c)
		if err1 != nil || err2 != nil || len(mine) != len(theirs) {
			t.Errorf("files %d %v, %d %v", len(mine), err1, len(theirs), err2)
		}
	}
	if s, err := w.Settings(); err != nil || s.VIMs["kube-a"] == nil {
		t.Errorf("settings %+v, %v", s, err)
	}
	if _, err := w.File(t.Context(), "../etc/passwd"); err == nil {
		t.Error("a file outside the working copy was read")
	}
}

func FuzzReadPush(f *testing.F) {
	f.Add(git.ZeroHash + " " + strings.Repeat("a", 40) + " refs/heads/main\n")
	f.Fuzz(func(t *testing.T, in string) {
		updates, err := check.ReadPush(strings.NewReader(in))
		for _, u := range updates {
			if err == nil && (!strings.HasPrefix(u.Ref, "refs/") || u.Old == git.ZeroHash || u.New == git.ZeroHash) {
				t.Errorf("%q gives %+v", in, u)
			}
		}
	})
}
