package packages

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// What a person has configured for git is none of the tests'.
func TestMain(m *testing.M) {
	if err := os.Setenv("GIT_CONFIG_GLOBAL", "/dev/null"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// lab is a data directory with a bare desired repository, and upstreams.
type lab struct {
	*testing.T
	dir string
	c   *Catalogue
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, dir: t.TempDir()}
	l.git(l.dir, "init", "-q", "--bare", "desired.git")
	l.c = l.catalogue()
	return l
}

func (l *lab) catalogue() *Catalogue {
	c := New(filepath.Join(l.dir, "desired.git"), filepath.Join(l.dir, "packages"), slog.New(slog.DiscardHandler))
	c.LimitHooks(func(desired.Repository) string { return "" })
	return c
}

func (l *lab) run(name string, args ...string) {
	l.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		l.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func (l *lab) git(dir string, args ...string) string {
	l.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// upstream makes a repository with a work tree below packages/.
func (l *lab) upstream(name string) string {
	l.Helper()
	dir := filepath.Join(l.dir, "packages", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		l.Fatal(err)
	}
	l.git(dir, "init", "-q", "-b", "main")
	return dir
}

func (l *lab) write(name, content string) {
	l.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		l.Fatal(err)
	}
}

// put writes a package into dir.
func (l *lab) put(dir, id, version string) {
	l.Helper()
	ar, err := txtar.ParseFile("testdata/package.txtar")
	if err != nil {
		l.Fatal(err)
	}
	for _, f := range ar.Files {
		l.write(filepath.Join(dir, f.Name), strings.NewReplacer("descriptor_id: ID", "descriptor_id: "+id, "VERSION", version).Replace(string(f.Data)))
	}
}

// commit commits all and returns the tree of path.
func (l *lab) commit(dir, path string, tags ...string) string {
	l.Helper()
	l.git(dir, "add", "-A")
	l.git(dir, "commit", "-q", "--allow-empty", "-m", "change")
	for _, t := range tags {
		l.git(dir, "tag", "-m", "a version", t) // annotated
	}
	return l.git(dir, "rev-parse", "HEAD:"+path)
}

func (l *lab) sync(repos ...desired.Repository) {
	l.Helper()
	if err := l.c.Sync(l.Context(), repos); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) find(id string) *Entry {
	l.Helper()
	e, err := l.c.Find(id)
	if err != nil {
		l.Fatal(err)
	}
	return e
}

func (l *lab) version(tree string) string {
	l.Helper()
	p, err := l.c.Open(l.Context(), tree)
	if err != nil {
		l.Fatal(err)
	}
	return p.VNFD.Version
}

func TestAMovedBranchDoesNotChangeAPin(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	first := l.commit(up, "")
	repo := desired.Repository{Name: "amf", URL: "amf", Branch: "main", Hooks: true}
	l.sync(repo)
	e := l.find("amf-id")
	if want := (Entry{Repository: "amf", Ref: "main", Tree: first, VnfdID: "amf-id", Version: "1.0", About: e.About}); *e != want || !l.c.Hooks(first) || e.About.ProductName == "" {
		t.Fatalf("found %+v", e)
	}
	if err := l.c.Pin(t.Context(), e.Tree); err != nil {
		t.Fatal(err)
	}

	l.put(up, "amf-id", "2.0")
	second := l.commit(up, "")
	l.sync(repo)
	if e := l.find("amf-id"); e.Tree != second || e.Version != "2.0" {
		t.Errorf("found %+v", e)
	}
	for tree, want := range map[string]string{first: "1.0", second: "2.0"} {
		if got := l.version(tree); got != want {
			t.Errorf("tree %s is version %s, not %s", tree, got, want)
		}
	}
	if _, err := l.c.FindTree(first); !errors.Is(err, ErrUnknown) {
		t.Errorf("the old tree: %v", err)
	}
}

func TestAPinOutlivesItsUpstreamAndGarbageCollection(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	pinned := l.commit(up, "")
	l.git(up, "checkout", "-q", "-b", "other")
	l.put(up, "other-id", "3.0")
	loose := l.commit(up, "")
	l.sync(desired.Repository{Name: "amf", URL: "amf", Branch: "main"}, desired.Repository{Name: "other", URL: "amf", Branch: "other"})
	for range 2 {
		if err := l.c.Pin(t.Context(), pinned); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(up); err != nil {
		t.Fatal(err)
	}
	l.sync()
	if list := l.c.List(); len(list) > 0 {
		t.Errorf("still listed: %v", list)
	}
	bare := filepath.Join(l.dir, "desired.git")
	l.git(bare, "gc", "-q", "--prune=now")

	l.c = l.catalogue() // nothing cached
	if got := l.version(pinned); got != "1.0" {
		t.Errorf("version %s", got)
	}
	if _, err := l.c.Open(t.Context(), loose); !errors.Is(err, ErrUnknown) {
		t.Errorf("what wasn't pinned: %v", err)
	}
	if err := l.c.Pin(t.Context(), loose); !errors.Is(err, ErrUnknown) {
		t.Errorf("pin of what is gone: %v", err)
	}
	if got := l.git(bare, "for-each-ref", "--format=%(refname)"); got != "refs/jibe/packages/"+pinned {
		t.Errorf("refs: %s", got)
	}
}

func TestTheHighestSemanticVersionAmongTagsIsFound(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	for _, v := range []string{"v1.9.0", "v1.10.0", "v1.2.0", "v2.0.0-rc.1", "nightly", "w3.0.0"} {
		l.put(up, "amf-id", v)
		l.commit(up, "", v)
	}
	l.sync(desired.Repository{Name: "amf", URL: "amf", Tags: "v*"})
	var got []string
	for _, e := range l.c.List() {
		got = append(got, e.Ref+"="+e.Version)
	}
	if s := strings.Join(got, " "); s != "v2.0.0-rc.1=v2.0.0-rc.1 v1.10.0=v1.10.0 v1.9.0=v1.9.0 v1.2.0=v1.2.0" {
		t.Errorf("order: %s", s)
	}
	// Patterns that git doesn't know.
	l.sync(desired.Repository{Name: "amf", URL: "amf", Tags: "[nv]*[0-9y]"})
	if e := l.find("amf-id"); e.Ref != "v2.0.0-rc.1" || len(l.c.List()) != 5 {
		t.Errorf("found %+v of %d", e, len(l.c.List()))
	}
	l.git(up, "tag", "-d", "v2.0.0-rc.1")
	l.sync(desired.Repository{Name: "amf", URL: "amf", Tags: "v*"})
	if e := l.find("amf-id"); e.Ref != "v1.10.0" {
		t.Errorf("after the tag was deleted: %+v", e)
	}
}

func TestABadPackageHidesNoGoodOne(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("all")
	l.put(filepath.Join(up, "vnf/good"), "good-id", "1.0")
	l.put(filepath.Join(up, "vnf/twin"), "good-id", "1.1")
	l.put(filepath.Join(up, "vnf/link"), "link-id", "1.0")
	if err := os.Symlink("/etc/passwd", filepath.Join(up, "vnf/link/Files/secret")); err != nil {
		t.Fatal(err)
	}
	l.write(filepath.Join(up, "vnf/broken/TOSCA-Metadata/TOSCA.meta"), "what is this\n")
	l.write(filepath.Join(up, "vnf/README.md"), "no package\n")
	l.put(filepath.Join(up, "vnf/other"), "other-id", "1.0")
	l.commit(up, "")
	l.sync(desired.Repository{Name: "all", URL: "all", Path: "vnf"}, desired.Repository{Name: "nothing", URL: "all", Path: "missing"})
	var got []string
	for _, e := range l.c.List() {
		got = append(got, e.VnfdID+" "+e.Path+" "+e.Ref)
	}
	if s := strings.Join(got, ", "); s != "good-id vnf/good HEAD, other-id vnf/other HEAD" {
		t.Errorf("list: %s", s)
	}
	var problems []string
	for _, p := range l.c.Problems() {
		problems = append(problems, p.Repository+":"+p.Path)
		if p.Path == "vnf/link" && !strings.Contains(p.Error(), "Files/secret: symbolic links are not allowed") {
			t.Errorf("problem: %v", p)
		}
	}
	if s := strings.Join(problems, ", "); s != "all:vnf/broken, all:vnf/link, all:vnf/twin, nothing:missing" {
		t.Errorf("problems: %s", s)
	}
	if _, err := l.c.Find("link-id"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "can't be used") {
		t.Errorf("a refused package: %v", err)
	}
}

func TestARepositoryThatIsAwayKeepsWhatItHad(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	for _, name := range []string{"one", "two"} {
		up := l.upstream(name)
		l.put(up, name+"-id", "1.0")
		l.commit(up, "")
	}
	repos := []desired.Repository{{Name: "one", URL: "one"}, {Name: "two", URL: "two"}, {Name: "never", URL: "never.git"}, {Name: "evil", URL: "ext::sh -c true"}}
	l.sync(repos[:2]...)
	if err := os.RemoveAll(filepath.Join(l.dir, "packages/one")); err != nil {
		t.Fatal(err)
	}
	up := filepath.Join(l.dir, "packages/two")
	l.put(up, "two-id", "2.0")
	l.commit(up, "")
	err := l.c.Sync(t.Context(), repos)
	for _, name := range []string{"one", "never", "evil"} {
		if err == nil || !strings.Contains(err.Error(), "package repository "+name+": ") {
			t.Errorf("%s isn't reported: %v", name, err)
		}
	}
	if !strings.Contains(err.Error(), "transport 'ext' not allowed") {
		t.Errorf("evil: %v", err)
	}
	if one, two := l.find("one-id"), l.find("two-id"); one.Version != "1.0" || two.Version != "2.0" {
		t.Errorf("one %+v, two %+v", one, two)
	}
	// A new process, while everything is away.
	l.c = l.catalogue()
	if err := l.c.Load(t.Context(), repos); err != nil {
		t.Fatal(err)
	}
	if l.find("two-id").Version != "2.0" || l.find("one-id").Version != "1.0" {
		t.Error("lost after a restart")
	}
	// A store that can't be read is no empty catalogue.
	if err := os.Rename(filepath.Join(l.dir, "desired.git"), filepath.Join(l.dir, "gone.git")); err != nil {
		t.Fatal(err)
	}
	if err := l.c.Load(t.Context(), repos); err == nil {
		t.Error("no error though the store is gone")
	}
	l.find("two-id")
}

func TestTheFirstRepositoryThatHasAPackageCounts(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	for name, version := range map[string]string{"mirror": "1.0", "origin": "9.0"} {
		up := l.upstream(name)
		l.put(up, "amf-id", version)
		l.commit(up, "")
	}
	mirror, origin := desired.Repository{Name: "mirror", URL: "mirror"}, desired.Repository{Name: "origin", URL: "file://" + filepath.Join(l.dir, "packages/origin")}
	l.sync(mirror, origin)
	if e := l.find("amf-id"); e.Repository != "mirror" {
		t.Errorf("found %+v", e)
	}
	l.sync(origin, mirror)
	if e := l.find("amf-id"); e.Repository != "origin" {
		t.Errorf("found %+v", e)
	}
}

func TestNothingNewMeansNothingReadAndALookupCostsNoGit(t *testing.T) {
	l := newLab(t)
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	l.commit(up, "")
	repo := desired.Repository{Name: "amf", URL: "amf"}

	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	said := filepath.Join(l.dir, "said")
	bin := t.TempDir()
	l.write(filepath.Join(bin, "git"), fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%s\nexec %s \"$@\"\n", said, real))
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	commands := func() string {
		data, err := os.ReadFile(said)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		os.Remove(said)
		return string(data)
	}
	l.sync(repo)
	if s := commands(); !strings.Contains(s, "cat-file") {
		t.Fatalf("the first time read nothing: %s", s)
	}
	l.sync(repo)
	if s := commands(); strings.Contains(s, "cat-file") || !strings.Contains(s, "fetch") {
		t.Errorf("nothing new, but: %s", s)
	}
	tree := l.find("amf-id").Tree
	l.version(tree)
	if err := l.c.Pin(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	commands()
	l.find("amf-id")
	l.version(tree)
	l.c.List()
	if err := l.c.Pin(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	if s := commands(); s != "" {
		t.Errorf("lookups ran git: %s", s)
	}
}
