package forges

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// gitPath is where git finds the repository.
const gitPath = "/git/"

// hook is a pre-receive hook that refuses what is too large, and writes down the largest that it saw.
const hook = `#!/bin/sh
[ -n "$FORGE_SEEN" ] || exit 0 # by path, on the host
refuse() { echo "$1" >>"$FORGE_SEEN/refused"; echo "GH001: the limit of $1 is exceeded" >&2; exit 1; }
over() { [ "$2" -gt 0 ] && [ "$3" -gt "$2" ] && refuse "$1"; return 0; }
most() { was=$(cat "$FORGE_SEEN/$1" 2>/dev/null || echo 0); [ "$2" -gt "$was" ] && echo "$2" >"$FORGE_SEEN/$1"; return 0; }
branches=$(git for-each-ref --format=x refs/heads | wc -l)
while read old new ref; do
	case $new in *[!0]*) ;; *) continue ;; esac
	case $ref in
	refs/heads/*)
		case $old in *[!0]*) ;; *) branches=$((branches + 1)) ;; esac
		over branches "$FORGE_BRANCHES" "$branches"
		# The most that any folder holds, and how deep they are.
		set -- $(git ls-tree -r -t --name-only "$new" | awk '{ d = $0; if (!sub("/[^/]*$", "", d)) d = "."; n[d]++; k = gsub("/", "/"); if (k > deep) deep = k }
			END { for (d in n) if (n[d] > wide) wide = n[d]; print wide + 0, deep + 0 }')
		most entries "$1"; over entries "$FORGE_ENTRIES" "$1"
		most depth "$2"; over depth "$FORGE_DEPTH" "$2"
		;;
	esac
	file=$(git rev-list --objects "$new" --not --all | cut -d' ' -f1 | git cat-file --batch-check='%(objecttype) %(objectsize)' | awk '$1 == "blob" && $2 > m { m = $2 } END { print m + 0 }')
	most file "$file"; over file "$FORGE_FILE" "$file"
done
size=$(($(du -sk . | cut -f1) * 1024))
most repository "$size"; over repository "$FORGE_REPOSITORY" "$size"
most branches "$branches"
exit 0
`

// Serve makes the forge's repository, with the files as its first commit on main, and serves it by
// git-http-backend.
func (f *Forge) Serve(t testing.TB, files map[string]string) {
	t.Helper()
	root := f.root
	f.Dir = filepath.Join(root, "vnfs.git")
	run := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = git.Runner{}.Environ()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run(root, "init", "-q", "--bare", "--template=", "-b", "main", f.Dir)
	work := filepath.Join(root, "work")
	run(root, "init", "-q", "-b", "main", work)
	for name, text := range files {
		at := filepath.Join(work, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(work, "add", "-A")
	run(work, "-c", "user.name=noc", "-c", "user.email=noc@example.org", "commit", "-q", "--allow-empty", "-m", "First")
	run(work, "push", "-q", f.Dir, "main")
	if err := os.MkdirAll(filepath.Join(f.Dir, "hooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.Dir, "hooks", "pre-receive"), []byte(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(f.seenDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	path, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := append(git.Runner{}.Environ(), "GIT_PROJECT_ROOT="+f.Dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.receivepack", "GIT_CONFIG_VALUE_0=true",
		"FORGE_SEEN="+f.seenDir())
	for name, most := range map[string]int64{"BRANCHES": int64(f.limits.Branches), "ENTRIES": int64(f.limits.Entries), "DEPTH": int64(f.limits.Depth), "FILE": f.limits.File, "REPOSITORY": f.limits.Repository} {
		env = append(env, fmt.Sprintf("FORGE_%s=%d", name, most))
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Root: strings.TrimSuffix(gitPath, "/"), Stderr: io.Discard, Env: env}
	f.git = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serveGit(backend, w, r) })
	f.Remote = f.URL + strings.TrimSuffix(gitPath, "/")
}

func (f *Forge) seenDir() string { return filepath.Join(f.Dir, "seen") }

// serveGit serves one request of git. What only asks where refs are counts for nothing, as it comes before each
// of the two that do.
func (f *Forge) serveGit(backend http.Handler, w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(text)), int64(len(text)), nil
	m := &f.meter
	m.mu.Lock()
	ok, status := true, http.StatusTooManyRequests
	switch {
	case strings.HasSuffix(r.URL.Path, "/git-receive-pack") && string(text) != "0000": // that is what comes before a push of more than a megabyte
		m.is.Pushes++
		var after = seconds(0)
		allowed, wait := m.allow("pushes", f.limits.Pushes)
		if ok = allowed; !ok {
			after = seconds(wait)
		}
		w.Header().Set("Retry-After", strconv.Itoa(after))
	case r.URL.Query().Get("service") == "git-upload-pack":
		m.is.Reads++
		if ok, _ = m.allow("reads", f.limits.Reads); !ok {
			w.Header().Set("Retry-After", "1")
		}
	}
	m.mu.Unlock()
	if !ok {
		http.Error(w, "too many requests", status)
		return
	}
	w.Header().Del("Retry-After")
	backend.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
}

// Seen is the most that pushes have brought, and which limits hooks have enforced.
func (f *Forge) Seen(t testing.TB) (most Tree, refused []string) {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(f.seenDir(), name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(read(name), 10, 64)
		return n
	}
	most = Tree{Branches: int(number("branches")), Entries: int(number("entries")), Depth: int(number("depth")), File: number("file"), Repository: number("repository")}
	return most, strings.Fields(read("refused"))
}

// branch is where a branch is, "" for nowhere.
func (f *Forge) branch(name string) string {
	if f.Dir == "" {
		return f.Branches[name]
	}
	at, err := git.ReadRef(f.Dir, "refs/heads/"+name)
	if err != nil {
		return ""
	}
	return at
}

// known says whether a commit is there.
func (f *Forge) known(commit string) bool {
	if f.Dir != "" {
		_, err := git.Runner{Dir: f.Dir}.Run(context.Background(), "cat-file", "-e", commit+"^{commit}")
		return err == nil
	}
	for _, c := range f.Branches {
		if c == commit {
			return true
		}
	}
	return false
}
