package githooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestNoCallerTakesAllTurnsOfGit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGitTurns("fetch", 4, 2)
		got := make(chan string, 20)
		take := func(ctx context.Context, caller string) (release func()) {
			release = func() {}
			done, err := g.take(ctx, caller)
			if err == nil {
				got <- caller
				release = done
			}
			return release
		}
		end := take(t.Context(), "greedy")
		take(t.Context(), "greedy")
		left, leave := context.WithCancel(t.Context())
		go take(left, "greedy")
		synctest.Wait()
		go take(t.Context(), "greedy")
		synctest.Wait()
		leave()
		synctest.Wait()

		take(t.Context(), "other")
		take(t.Context(), "third") // all four are taken
		go take(t.Context(), "other")
		synctest.Wait()
		if g.running != 4 || len(g.waiting) != 2 || g.of["greedy"] != 2 {
			t.Fatalf("running %d of %v, waiting %d", g.running, g.of, len(g.waiting))
		}
		end()
		end()
		synctest.Wait()
		if g.running != 4 || g.of["greedy"] != 2 || len(g.waiting) != 1 {
			t.Errorf("the first that waits hasn't the turn: %v", g.of)
		}
		kit.Pass(turnWithin)
		if g.running != 4 || len(g.waiting) != 0 || len(g.waitedBy) != 0 {
			t.Errorf("after %s %d wait, and %d run", turnWithin, len(g.waiting), g.running)
		}

		for range waitingOfOne {
			go take(t.Context(), "greedy")
		}
		synctest.Wait()
		if _, err := g.take(t.Context(), "greedy"); !errors.Is(err, errGitBusy) {
			t.Errorf("one more waits: %v", err)
		}
		kit.Pass(turnWithin)
	})
}

// gitProcesses are the processes that serve a repository.
func gitProcesses(t *testing.T, dir string) (n int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if env, err := os.ReadFile(name); err == nil && bytes.Contains(env, []byte("GIT_PROJECT_ROOT="+dir+"\x00")) {
			n++
		}
	}
	return n
}

// TestClientsThatReadNothingHoldFewProcessesOfGit counts the processes behind clients that ask for a clone and read nothing of it.
func TestClientsThatReadNothingHoldFewProcessesOfGit(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("it counts processes by /proc")
	}

	dir := filepath.Join(t.TempDir(), "large.git")
	head := largeRepository(t, dir)
	g := newGitTurns("fetch", fetchesAtOnce, fetchesOfOne)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := r.Header.Get("X-Caller")
		gitrepo.Served{Dir: dir, Log: slog.New(slog.DiscardHandler), Turn: func(ctx context.Context, _ bool) (func(), error) { return g.take(ctx, caller) }}.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	body := fmt.Sprintf("%04xwant %s\n00000009done\n", 4+len("want ")+40+1, head)
	var conns []net.Conn
	for range 80 {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conns = append(conns, conn)
		fmt.Fprintf(conn, "POST /git-upload-pack HTTP/1.1\r\nHost: jibe\r\nX-Caller: slow\r\nContent-Type: application/x-git-upload-pack-request\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	counted := func() (running, waiting, refused int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.running, len(g.waiting), g.refused
	}
	kit.Until(t, "as many are served and wait as may", func() bool {
		running, waiting, refused := counted()
		return running == fetchesOfOne && waiting == waitingOfOne && running+waiting+refused == len(conns) && gitProcesses(t, dir) >= fetchesOfOne
	})
	if n := gitProcesses(t, dir); n > 3*fetchesOfOne {
		t.Errorf("there are %d processes of git", n)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/git-upload-pack", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Caller", "slow")
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("one more is answered %s, %v", res.Status, res.Header)
	}

	clone := exec.Command("git", "-c", "http.extraHeader=X-Caller: other", "clone", "-q", "--bare", srv.URL, filepath.Join(t.TempDir(), "clone"))
	if out, err := clone.CombinedOutput(); err != nil {
		t.Errorf("another caller can't clone meanwhile: %v\n%s", err, out)
	}

	for _, conn := range conns {
		conn.Close()
	}
	kit.Until(t, "no process is left", func() bool {
		running, waiting, _ := counted()
		return running+waiting+gitProcesses(t, dir) == 0
	})
}

// largeRepository makes a bare repository with more than the buffers of a connection hold, and returns its head.
func largeRepository(t *testing.T, dir string) (head string) {
	t.Helper()
	git := func(stdin []byte, args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Stdin = bytes.NewReader(stdin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git(nil, "init", "-q", "--bare", "-b", "main")
	large := make([]byte, 24<<20)
	_, _ = rand.Read(large)
	blob := git(large, "hash-object", "-w", "--stdin")
	tree := git([]byte("100644 blob "+blob+"\tlarge\n"), "mktree")
	head = git(nil, "commit-tree", "-m", "Large", tree)
	git(nil, "update-ref", "refs/heads/main", head)
	return head
}
