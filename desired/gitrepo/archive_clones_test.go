package gitrepo

import (
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"
)

func TestShallowAndPartialClonesPullAndPush(t *testing.T) {
	r := openRepo(t, Options{})
	for i := range 6 {
		mustWrite(t, r, testID(i%2), shardDir(testID(i%2)), i)
	}
	srv := httptest.NewServer(r.HTTPHandler())
	t.Cleanup(srv.Close)
	count := 6
	for _, url := range []string{"file://" + r.opt.Dir, srv.URL} {
		for _, how := range []string{"--depth=1", "--filter=blob:none", "--filter=tree:0"} {
			for _, protocol := range []string{"0", "2"} {
				dir := filepath.Join(t.TempDir(), "clone")
				as := func(args ...string) string {
					t.Helper()
					return runGit(t, dir, append([]string{"-c", "protocol.version=" + protocol}, args...)...)
				}
				runGit(t, "", "-c", "protocol.version="+protocol, "clone", "-q", how, url, dir)
				put(t, dir, "README.md", []byte(how+protocol+url))
				as("add", "-A")
				as("commit", "-qm", "Read me")
				as("push", "-q", "origin", "main")
				mustWrite(t, r, testID(1), "", 100+count)
				as("pull", "-q", "--ff-only", "origin", "main")
				if count += 2; how == "--depth=1" {
					as("fetch", "-q", "--unshallow", "origin")
				}
				// It asks for each blob or tree that it lacks.
				if got := as("log", "--stat", "--format=%H", "--", "instances"); len(got) == 0 {
					t.Errorf("%s of %s: no history", how, url)
				}
				if n := as("rev-list", "--count", "HEAD"); n != strconv.Itoa(count) {
					t.Errorf("%s of %s: %s commits, want %d", how, url, n, count)
				}
			}
		}
	}
	fsck(t, r)
}
