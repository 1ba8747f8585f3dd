package gitrepo

import (
	"fmt"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// mktree makes a tree of a repository from lines of "<mode> <type> <hash>\t<name>".
func mktree(tb testing.TB, dir string, lines ...string) string {
	tb.Helper()
	cmd := exec.Command("git", "-C", dir, "mktree")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("git mktree: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// commitBomb commits, in a clone, instances/ with ten folders that are one tree, which
// has ten that are one tree, and so on: 10^depth directories with a file of that name.
func commitBomb(tb testing.TB, dir string, depth int, file string) {
	tb.Helper()
	commitBombAt(tb, dir, "instances", depth, file)
}

func commitBombAt(tb testing.TB, dir, folder string, depth int, file string) {
	tb.Helper()
	put(tb, dir, "content", vnfFile("", 1))
	blob := runGit(tb, dir, "hash-object", "-w", "content")
	tree := mktree(tb, dir, "100644 blob "+blob+"\t"+file)
	for range depth {
		var lines []string
		for i := range 10 {
			lines = append(lines, fmt.Sprintf("040000 tree %s\t%d", tree, i))
		}
		tree = mktree(tb, dir, lines...)
	}
	root := mktree(tb, dir, "040000 tree "+tree+"\t"+folder)
	commit := runGit(tb, dir, "-c", "user.name=p", "-c", "user.email=p", "commit-tree", "-p", "HEAD", "-m", "Unfold", root)
	runGit(tb, dir, "update-ref", "refs/heads/main", commit)
}

func TestATreeThatUnfoldsToBillionsIsRefusedAtAdmission(t *testing.T) {
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	commitBomb(t, dir, 9, desired.InstanceFile)
	out, err := tryGit(dir, "push", "origin", "main")
	if err == nil || !strings.Contains(out, "instances/") || !strings.Contains(out, "unfolds to too much") || !strings.Contains(out, "push fewer directories") {
		t.Fatalf("it is pushed with %v:\n%s", err, out)
	}
	mustWrite(t, r, testID(1), "", 2)
}

func TestFilesWithWindowsThatUnfoldToBillionsAreRefused(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	commitBombAt(t, dir, "beside", 9, desired.MaintenanceFile)
	out, err := tryGit(dir, "push", "origin", "main")
	if err == nil || !strings.Contains(out, desired.MaintenanceFile+": more than 1000 files of this name") || !strings.Contains(out, "push them in parts") {
		t.Fatalf("it is pushed with %v:\n%s", err, out)
	}
	mustWrite(t, r, testID(1), "", 2)
}

func TestFoldersWithoutInstancesCostNothingHoweverManyTheyUnfoldTo(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	commitBomb(t, dir, 9, "README")
	if out, err := tryGit(dir, "push", "origin", "main"); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, r, testID(2), shardDir(testID(2)), 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again := openRepo(t, Options{Dir: r.opt.Dir})
	if list := again.List(); len(list) != 1 || list[0].Instance != testID(2) {
		t.Errorf("after a restart there are %v", list)
	}
}

func TestATreeOfARemoteThatUnfoldsToBillionsIsHeldAndARestartSurvivesIt(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	r := openRepo(t, Options{Remote: forge})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := filepath.Join(t.TempDir(), "clone")
	runGit(t, "", "clone", "-q", forge, dir)
	good := tipOf(t, dir)
	commitBomb(t, dir, 9, desired.InstanceFile)
	runGit(t, dir, "push", "-q", "origin", "main")
	r.Poke()
	kit.Until(t, "the process holds", func() bool { return r.Health() != nil })
	if !strings.Contains(r.Health().Error(), "unfolds to too much") {
		t.Errorf("health: %v", r.Health())
	}
	if _, err := r.Accept(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "unfolds to too much") {
		t.Errorf("it is accepted with %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again := openRepo(t, Options{Dir: r.opt.Dir, Remote: forge})
	if _, ok := again.Lookup(testID(1)); !ok || again.Health() == nil {
		t.Errorf("after a restart the instance is there: %t, health %v", ok, again.Health())
	}
	runGit(t, dir, "push", "-q", "--force", "origin", good+":main")
	again.Poke()
	kit.Until(t, "the mended branch is followed", func() bool { return again.Health() == nil })
	mustWrite(t, again, testID(1), "", 2)
}

func TestDirectoriesThatAreNestedTooDeepAreRefusedHoweverTheyAreReached(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	put(t, dir, "content", vnfFile("", 1))
	blob := runGit(t, dir, "hash-object", "-w", "content")
	// Each folder leads to the next one and to the one after that, so that every one of
	// them is near the top by some path.
	below, tree := "", mktree(t, dir, "100644 blob "+blob+"\t"+desired.InstanceFile)
	for range objects.MaxDepth + 5 {
		lines := []string{"040000 tree " + tree + "\tone"}
		if below != "" {
			lines = append(lines, "040000 tree "+below+"\ttwo")
		}
		below, tree = tree, mktree(t, dir, lines...)
	}
	root := mktree(t, dir, "040000 tree "+tree+"\tinstances")
	commit := runGit(t, dir, "-c", "user.name=p", "-c", "user.email=p", "commit-tree", "-p", "HEAD", "-m", "Nest", root)
	if out, err := tryGit(dir, "push", "origin", commit+":refs/heads/main"); err == nil || !strings.Contains(out, "nested more than 24 deep") {
		t.Errorf("it is pushed with %v:\n%s", err, out)
	}
}

func TestTheBoundIsOnWhatComesAndNotOnWhatIsThere(t *testing.T) {
	t.Parallel()

	dir := manyInstances(t, 20, shardDir)
	r := openRepo(t, Options{Dir: dir})
	root := runGit(t, dir, "rev-parse", "main^{tree}")
	if _, err := r.read.DiffDirs(t.Context(), "", root, 19); err == nil {
		t.Error("20 directories are within a bound of 19")
	}
	for _, limit := range []int{0, 400} { // their folders are read too
		if changes, err := r.read.DiffDirs(t.Context(), "", root, limit); err != nil || len(changes) != 20 {
			t.Errorf("with a bound of %d: %d directories, %v", limit, len(changes), err)
		}
	}
}

// TestTheDirectoriesThatDifferAreThoseOfANaiveLook compares with reading both commits in
// full, for directories that are instances, that hold some, and that become the other.
func TestTheDirectoriesThatDifferAreThoseOfANaiveLook(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	gitDir := r.opt.Dir
	rapid.Check(t, func(rt *rapid.T) {
		pack := git.NewPack()
		var roots [2]string
		var have [2]map[string]string
		for side := range roots {
			files := map[string]string{}
			for range rapid.IntRange(0, 12).Draw(rt, "files") {
				parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a-", "b"}), 0, 4).Draw(rt, "path")
				name := rapid.SampledFrom([]string{desired.InstanceFile, "x"}).Draw(rt, "name")
				files[path.Join(append(parts, name)...)] = rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "content")
			}
			have[side] = map[string]string{}
			top := filesTree(pack, files, "", have[side], true)
			if top != "" {
				roots[side] = pack.Add(git.KindTree, git.EncodeTree([]git.Entry{{Mode: git.ModeDir, Name: read.InstancesDir, Hash: top}}))
			}
		}
		if err := pack.Write(gitDir, objects.OwnDir(gitDir)); err != nil {
			rt.Fatal(err)
		}
		changes, err := r.read.DiffDirs(t.Context(), roots[0], roots[1], read.MaxChanged)
		if err != nil {
			rt.Fatal(err)
		}
		got, want := map[string][2]string{}, map[string][2]string{}
		for _, c := range changes {
			if _, twice := got[c.Dir]; twice {
				rt.Fatalf("%s is there twice", c.Dir)
			}
			got[c.Dir] = [2]string{c.Before, c.After}
		}
		for side := range have {
			for dir := range have[side] {
				if pair := [2]string{have[0][dir], have[1][dir]}; pair[0] != pair[1] {
					want[read.InstancesDir+"/"+dir] = pair
				}
			}
		}
		if !maps.Equal(got, want) {
			rt.Fatalf("%v and %v differ in\n%v, want\n%v", have[0], have[1], got, want)
		}
	})
}

// filesTree adds the tree of the files below a folder and notes the instances in it: the
// topmost directories with a vnf.yaml.
func filesTree(pack *git.Pack, files map[string]string, dir string, instances map[string]string, outside bool) string {
	_, is := files[path.Join(dir, desired.InstanceFile)]
	is = is && dir != "" && outside
	entries := map[string]git.Entry{}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		rest, ok := strings.CutPrefix(file, dir+"/")
		if dir == "" {
			rest, ok = file, true
		}
		if !ok {
			continue
		}
		name, _, nested := strings.Cut(rest, "/")
		if !nested {
			entries[name] = git.Entry{Mode: git.ModeFile, Name: name, Hash: pack.Add(git.KindBlob, []byte(files[file]))}
		} else if _, done := entries[name]; !done {
			entries[name] = git.Entry{Mode: git.ModeDir, Name: name, Hash: filesTree(pack, files, path.Join(dir, name), instances, outside && !is)}
		}
	}
	if len(entries) == 0 {
		return ""
	}
	hash := pack.Add(git.KindTree, git.EncodeTree(slices.Collect(maps.Values(entries))))
	if is {
		instances[dir] = hash
	}
	return hash
}
