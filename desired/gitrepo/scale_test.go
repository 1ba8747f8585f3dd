package gitrepo

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// packInstances fills a new repository with n instances, closed: in one pack, as git
// fast-import takes minutes for a folder of so many.
func packInstances(tb testing.TB, n int, where func(i int) string) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "desired.git")
	r, err := Open(tb.Context(), Options{Dir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	commit := packMany(tb, dir, n, "", where)
	if err := r.Close(); err != nil {
		tb.Fatal(err)
	}
	runGit(tb, dir, "update-ref", "refs/heads/main", commit)
	return dir
}

// packMany puts a commit that has n instances and nothing else into a repository, and
// returns it.
func packMany(tb testing.TB, dir string, n int, parent string, where func(i int) string) string {
	tb.Helper()
	pack := git.NewPack()
	folders := map[string][]git.Entry{} // by path, those of instances left out
	for i := range n {
		file := pack.Add(git.KindBlob, vnfFile(testID(i), 1))
		at := where(i)
		folders[path.Dir(at)] = append(folders[path.Dir(at)], git.Entry{Mode: git.ModeDir, Name: path.Base(at), Hash: pack.Add(git.KindTree, git.EncodeTree([]git.Entry{{Mode: git.ModeFile, Name: "vnf.yaml", Hash: file}}))})
	}
	for _, at := range slices.Sorted(maps.Keys(folders)) {
		if at != read.InstancesDir {
			folders[read.InstancesDir] = append(folders[read.InstancesDir], git.Entry{Mode: git.ModeDir, Name: path.Base(at), Hash: pack.Add(git.KindTree, git.EncodeTree(folders[at]))})
		}
	}
	top := pack.Add(git.KindTree, git.EncodeTree(folders[read.InstancesDir]))
	root := pack.Add(git.KindTree, git.EncodeTree([]git.Entry{{Mode: git.ModeDir, Name: read.InstancesDir, Hash: top}}))
	commit := pack.Add(git.KindCommit, git.EncodeCommit(root, parent, "", "p <p>", time.Unix(1767323046, 0), "Many\n"))
	if err := pack.Write(dir, tb.TempDir()); err != nil {
		tb.Fatal(err)
	}
	return commit
}

func TestAHundredThousandInstancesAreOpenedChangedAndOpenedAgain(t *testing.T) {
	testenv.Chaos(t, "a large machine")
	t.Parallel()

	const n = 100_000
	for name, where := range map[string]func(i int) string{
		"as the API makes them": func(i int) string { return shardDir(testID(i)) },
		"in a hundred folders":  func(i int) string { return fmt.Sprintf("instances/site-%02d/%s", i%100, testID(i)) },
		"in one folder":         func(i int) string { return flatDir(testID(i)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := packInstances(t, n, where)
			r := openRepo(t, Options{Dir: dir})
			first := r.Head()
			if got := len(r.List()); got != n {
				t.Fatalf("there are %d instances", got)
			}
			rev := mustWrite(t, r, testID(1), "", 2)
			if rev.Dir != where(1) {
				t.Errorf("the write is at %s", rev.Dir)
			}
			problems, err := r.check.CheckPush(t.Context(), []check.RefUpdate{{Ref: "refs/heads/main", Old: first, New: rev.Commit}}, check.PushPolicy{})
			if err != nil || len(problems) > 0 {
				t.Errorf("a push of that would be refused: %v, %v", problems, err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			again := openRepo(t, Options{Dir: dir})
			if got, ok := again.Lookup(testID(1)); !ok || got.Tree != rev.Tree || len(again.List()) != n {
				t.Errorf("after a restart there are %d instances, and the one that was changed is %+v", len(again.List()), got)
			}
		})
	}
}

func TestTheIdsOfManyNewInstancesAreHeldAgainstThoseThatAreThere(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(0), "instances/there", 1)
	dir := clone(t, r)
	for i := range 3 * check.FewClaims {
		put(t, dir, fmt.Sprintf("instances/new/%d/vnf.yaml", i), vnfFile(testID(i+1), 1))
	}
	put(t, dir, "instances/new/twice/vnf.yaml", vnfFile(testID(0), 1))
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "-c", "user.name=p", "-c", "user.email=p", "commit", "-qm", "Many")
	out, err := tryGit(dir, "push", "origin", "main")
	if want := "id " + testID(0) + " is already that of instances/there/vnf.yaml"; err == nil || strings.Count(out, want) != 1 {
		t.Errorf("it is pushed with %v:\n%s\nwant %q once", err, out, want)
	}
	runGit(t, dir, "rm", "-rqf", "instances/new/twice")
	commitPush(t, dir, "Mended")
}

func TestAllInstancesOfALargeNetworkAreReadWithoutParsingThemAgain(t *testing.T) {
	testenv.Chaos(t, "a large machine")
	const n = 20_000
	r := openRepo(t, Options{Dir: packInstances(t, n, func(i int) string { return shardDir(testID(i)) }), CacheBytes: 32 << 20})
	list := r.List()
	allocs := testing.AllocsPerRun(1, func() {
		for _, rev := range list {
			if _, err := r.read.Read(t.Context(), rev); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > n/10 {
		t.Errorf("reading %d instances made %.0f allocations", n, allocs)
	}
}
