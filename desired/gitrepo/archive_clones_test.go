package gitrepo

import (
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// clones is a way to clone a repository.
type clones struct{ url, how, protocol string }

func TestShallowAndPartialClonesPullAndPush(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := openRepo(t, Options{})
	for i := range 6 {
		mustWrite(t, r, testID(i%2), shardDir(testID(i%2)), i)
	}
	srv := httptest.NewServer(r.HTTPHandler())
	t.Cleanup(srv.Close)
	file := "file://" + r.opt.Dir
	all := []clones{ // each two values of two of the three are in one of them
		{srv.URL, "--depth=1", "2"}, {srv.URL, "--filter=tree:0", "0"}, {srv.URL, "--filter=blob:none", "2"},
		{file, "--depth=1", "0"}, {file, "--filter=tree:0", "2"}, {file, "--filter=blob:none", "0"},
	}
	count := 6
	for _, c := range all {
		dir := filepath.Join(t.TempDir(), "clone")
		as := func(args ...string) string {
			t.Helper()
			return runGit(t, dir, append([]string{"-c", "protocol.version=" + c.protocol}, args...)...)
		}
		runGit(t, "", "-c", "protocol.version="+c.protocol, "clone", "-q", c.how, c.url, dir)
		put(t, dir, "README.md", []byte(c.how+c.protocol+c.url))
		as("add", "-A")
		as("commit", "-qm", "Read me")
		as("push", "-q", "origin", "main")
		mustWrite(t, r, testID(1), "", 100+count)
		as("pull", "-q", "--ff-only", "origin", "main")
		if count += 2; c.how == "--depth=1" {
			as("fetch", "-q", "--unshallow", "origin")
		}
		// It asks for each blob or tree that it lacks.
		if got := as("log", "-3", "--stat", "--format=%H", "HEAD", "--", "instances"); len(got) == 0 {
			t.Errorf("%+v: no history", c)
		}
		if n := as("rev-list", "--count", "HEAD"); n != strconv.Itoa(count) {
			t.Errorf("%+v: %s commits, want %d", c, n, count)
		}
	}
	fsck(t, r)
}
