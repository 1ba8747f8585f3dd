package packages

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

const badModules = "[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n"

// hostile are names and contents of files that git refuses, by the word in Jibe's reason.
var hostile = map[string]struct{ content, reason string }{
	"Files/.gitmodules":           {badModules, "gitmodulesUrl"},
	"Files/.gitmodules . .":       {badModules, "gitmodulesUrl"},
	"Files/GITMOD~1":              {badModules, "gitmodulesUrl"},
	"Files/.g\u200citmodules":     {badModules, "gitmodulesUrl"},
	"Files/x/.gitmodules":         {"[submodule \"../x\"]\n\turl = https://example.com/x\n", "gitmodulesName"},
	"Files/y/.gitmodules":         {"[submodule \"x\"]\n\tpath = -x\n\turl = https://example.com/x\n", "gitmodulesPath"},
	"Files/z/.gitmodules":         {"[submodule \"x\"]\n\turl = https://example.com/x\n\tupdate = !rm\n", "gitmodulesUpdate"},
	"Files/folder/.gitmodules/a":  {"1", "gitmodulesBlob"},
	"Files/a/.gitattributes":      {strings.Repeat("x", 3000) + " text\n", "gitattributesLineLength"},
	"Files/a/.gitattributes/file": {"1", "gitattributesBlob"},
	"Files/.g\u200cit/config":     {"1", "some file systems read it as .git"},
	"Files/GIT~1":                 {"1", "some file systems read it as .git"},
	"Files/.git ":                 {"1", "some file systems read it as .git"},
	"Files/.git.":                 {"1", "some file systems read it as .git"},
	"Files/.GIT/config":           {"1", "some file systems read it as .git"},
}

func TestFilesThatGitRefusesAreRefusedAndNamed(t *testing.T) {
	t.Parallel()

	l := newOnboarding(t)
	for name, h := range hostile {
		files := l.files("amf-id", "1.0")
		files[name] = &fstest.MapFile{Data: []byte(h.content)}

		_, err := l.c.Import(t.Context(), files, filepath.Join(l.dir, "scratch"))

		base := strings.SplitN(strings.TrimPrefix(name, "Files/"), "/", 2)[0]
		if !errors.Is(err, ErrUnsound) || !strings.Contains(err.Error(), h.reason) || !strings.Contains(err.Error(), strings.Trim(fmt.Sprintf("%q", base), `"`)) {
			t.Errorf("%q: %v; want %s", name, err, h.reason)
		}
	}

	files := l.files("smf-id", "1.0")
	files["Files/.gitmodules"] = &fstest.MapFile{Data: []byte("[submodule \"x\"]\n\tpath = x\n\turl = https://example.com/x.git\n")}
	files["Files/.gitattributes"] = &fstest.MapFile{Data: []byte("* text\n")}
	in, err := l.c.Import(t.Context(), files, filepath.Join(l.dir, "scratch"))
	if err != nil {
		t.Fatal(err)
	}
	l.edit(Change{Add: map[string]string{"smf": in.Tree}})
	l.find("smf-id")
}

// TestWhatIsImportedPassesGitsFsck compares with git itself: what the check takes, git takes.
func TestWhatIsImportedPassesGitsFsck(t *testing.T) {
	t.Parallel()

	l := newOnboarding(t)
	bare := filepath.Join(l.dir, "packages", "packages.git")
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		files := l.files(fmt.Sprintf("vnf-%d", n), "1.0")
		for range rapid.IntRange(1, 4).Draw(rt, "files") {
			name := rapid.SampledFrom([]string{".git", "git~1", ".gitmodules", "gitmod~1", "gi7eba~1", "GI7D29~1", ".gitattributes", ".gitignore", ".mailmap", "a"}).Draw(rt, "name")
			name = rapid.SampledFrom([]func(string) string{strings.ToUpper, strings.ToLower, strings.ToTitle}).Draw(rt, "case")(name)
			at := rapid.IntRange(0, len(name)).Draw(rt, "at")
			name = name[:at] + rapid.SampledFrom([]string{"", "\u200c", "\ufeff", "\u202e", ".", " ", "x"}).Draw(rt, "inside") + name[at:]
			name += rapid.SampledFrom([]string{"", "", " ", ".", ". .", "~1", "/x"}).Draw(rt, "end")
			content := rapid.SampledFrom([]string{"", badModules, "[submodule \"../x\"]\n", "[[", "[submodule \"x\"]\n\turl = https://example.com/x\n", strings.Repeat("x", 3000)}).Draw(rt, "content")
			if csar.CheckPath("Files/"+name) == nil || rapid.Bool().Draw(rt, "anyway") {
				files["Files/"+name] = &fstest.MapFile{Data: []byte(content)}
			}
		}
		scratch := filepath.Join(l.dir, fmt.Sprintf("scratch-%d", n))
		in, err := l.c.Import(t.Context(), files, scratch)
		if err != nil {
			return
		}
		l.edit(Change{Add: map[string]string{fmt.Sprintf("vnf-%d", n): in.Tree}})
	})

	l.git(bare, "fsck", "--strict", "--no-dangling")
	clone := filepath.Join(l.dir, "clone")
	l.git(l.dir, "-c", "transfer.fsckObjects=true", "clone", "-q", "--bare", "file://"+bare, clone)
}

func TestABadPackageFromOutsideHidesNoOther(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("vendor")
	l.put(filepath.Join(up, "amf"), "amf-id", "1.0")
	l.commit(up, "", "v1.0")
	l.put(filepath.Join(up, "smf"), "smf-id", "1.0")
	l.write(filepath.Join(up, "smf/Files/.gitmodules"), badModules)
	l.put(filepath.Join(up, "upf"), "upf-id", "1.0")
	l.commit(up, "", "v1.1")
	l.commitTree(up, "upf", "udm", "GIT~1")

	l.sync(desired.Repository{Name: "vendor", URL: "vendor"})

	if got := l.problem("smf"); !strings.Contains(got, "gitmodulesUrl") || !strings.Contains(got, "Files/.gitmodules") {
		t.Errorf("smf: %q", got)
	}
	if got := l.problem("udm"); !strings.Contains(got, "some file systems read it as .git") {
		t.Errorf("udm: %q", got)
	}
	if l.find("amf-id").Path != "amf" || l.find("upf-id").Path != "upf" {
		t.Error("the sound packages aren't there")
	}
	if _, err := l.c.Find("smf-id"); !errors.Is(err, ErrUnsound) {
		t.Errorf("the bad one can be chosen: %v", err)
	}
	if failing := l.c.Failing(); len(failing) != 0 {
		t.Errorf("failing: %v", failing)
	}
}

// commitTree adds a folder to the commit that is a package of it with one more entry, which no work tree could have.
func (l *lab) commitTree(dir, of, to, name string) {
	l.Helper()
	tree := strings.Split(l.git(dir, "ls-tree", "HEAD:"+of), "\n")
	blob := l.git(dir, "hash-object", "-w", filepath.Join(dir, of, "TOSCA-Metadata", "TOSCA.meta"))
	entry := l.input(dir, strings.Join(append(tree, "100644 blob "+blob+"\t"+name), "\n")+"\n", "mktree")
	root := strings.Split(l.git(dir, "ls-tree", "HEAD"), "\n")
	whole := l.input(dir, strings.Join(append(root, "040000 tree "+entry+"\t"+to), "\n")+"\n", "mktree")
	l.git(dir, "update-ref", "HEAD", l.git(dir, "commit-tree", "-p", "HEAD", "-m", "no work tree could have it", whole))
}

func TestADamagedFileFailsItsPackageOnly(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("vendor")
	for _, name := range []string{"amf", "smf"} {
		l.put(filepath.Join(up, name), name+"-id", "1.0")
	}
	l.write(filepath.Join(up, "smf/Files/kubernetes/web.yaml"), "damaged: true\n")
	l.commit(up, "")
	vendor := desired.Repository{Name: "vendor", URL: "vendor"}
	if err := l.c.fetch(t.Context(), upstream, []desired.Repository{vendor}); err != nil {
		t.Fatal(err)
	}
	l.unpack()
	hash := l.git(up, "rev-parse", "HEAD:smf/Files/kubernetes/web.yaml")
	object := filepath.Join(l.dir, "desired.git", "objects", hash[:2], hash[2:])
	good, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(object, 0o644); err != nil {
		t.Fatal(err)
	}

	for _, bad := range [][]byte{[]byte("x"), good[:len(good)/2], append(slices.Clone(good[:12]), 1, 2, 3)} {
		if err := os.WriteFile(object, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := l.c.Load(t.Context(), []desired.Repository{vendor}); err != nil {
			t.Fatal(err)
		}
		if got := l.problem("smf"); !strings.Contains(got, ErrDamaged.Error()) {
			t.Errorf("smf: %q", got)
		}
		l.find("amf-id")
	}

	if err := os.WriteFile(object, good, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.c.Load(t.Context(), []desired.Repository{vendor}); err != nil {
		t.Fatal(err)
	}
	l.find("smf-id")
}

func TestADamagedCommitFailsItsVersionOnly(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("vendor")
	l.put(filepath.Join(up, "amf"), "amf-id", "1.0")
	l.commit(up, "", "v1.0.0")
	l.put(filepath.Join(up, "amf"), "amf-2", "2.0")
	l.commit(up, "", "v2.0.0")
	vendor := desired.Repository{Name: "vendor", URL: "vendor", Tags: "v*"}
	if err := l.c.fetch(t.Context(), upstream, []desired.Repository{vendor}); err != nil {
		t.Fatal(err)
	}
	l.unpack()
	hash := l.git(up, "rev-parse", "v2.0.0^{commit}")
	object := filepath.Join(l.dir, "desired.git", "objects", hash[:2], hash[2:])
	good, err := os.ReadFile(object)
	if err == nil {
		err = os.Chmod(object, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}

	for _, bad := range [][]byte{[]byte("x"), good[:len(good)/2], nil} {
		if err := os.WriteFile(object, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := l.c.Load(t.Context(), []desired.Repository{vendor}); err != nil {
			t.Errorf("with %d bytes: %v", len(bad), err)
			continue
		}
		l.find("amf-id")
		if !slices.ContainsFunc(l.c.Problems(), func(p Unusable) bool { return strings.Contains(p.Ref, "v2.0.0") }) {
			t.Errorf("with %d bytes the problems are %v", len(bad), l.c.Problems())
		}
	}

	if err := os.WriteFile(object, good, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.c.Load(t.Context(), []desired.Repository{vendor}); err != nil {
		t.Fatal(err)
	}
	l.find("amf-2")
}

// unpack has the store hold loose objects, so that one can be damaged.
func (l *lab) unpack() {
	l.Helper()
	for _, pack := range l.glob("desired.git/objects/pack/*.pack") {
		data, err := os.ReadFile(pack)
		if err := errors.Join(err, os.Remove(pack)); err != nil {
			l.Fatal(err)
		}
		l.input(filepath.Join(l.dir, "desired.git"), string(data), "unpack-objects", "-q")
	}
}

func TestARepositoryThatCantBeFetchedIsKnown(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("vendor")
	l.put(filepath.Join(up, "amf"), "amf-id", "1.0")
	l.commit(up, "")
	vendor := desired.Repository{Name: "vendor", URL: "vendor"}
	l.sync(vendor)
	if err := os.Rename(up, up+".away"); err != nil {
		t.Fatal(err)
	}

	_ = l.c.Sync(t.Context(), []desired.Repository{vendor})

	if failing := l.c.Failing(); len(failing) != 1 || failing[0].Repository != "vendor" {
		t.Errorf("failing: %v", failing)
	}
	l.find("amf-id")
	if err := os.Rename(up+".away", up); err != nil {
		t.Fatal(err)
	}
	l.sync(vendor)
	if failing := l.c.Failing(); len(failing) != 0 {
		t.Errorf("failing: %v", failing)
	}
}

// newOnboarding is a lab with a package repository that Jibe writes to.
func newOnboarding(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	l.onboarding()
	return l
}

// files are those of a package.
func (l *lab) files(id, version string) fstest.MapFS {
	l.Helper()
	ar, err := txtar.ParseFile("testdata/package.txtar")
	if err != nil {
		l.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, f := range ar.Files {
		files[f.Name] = &fstest.MapFile{Data: []byte(strings.NewReplacer("descriptor_id: ID", "descriptor_id: "+id, "VERSION", version).Replace(string(f.Data)))}
	}
	return files
}

// edit commits a change to the repository that Jibe writes to.
func (l *lab) edit(change Change) {
	l.Helper()
	if err := l.c.Edit(l.Context(), Edit{Subject: "Change", Change: func(*Tip) (Change, error) { return change, nil }}); err != nil {
		l.Fatal(err)
	}
}

// glob returns the files in the lab that match.
func (l *lab) glob(pattern string) []string {
	l.Helper()
	names, err := filepath.Glob(filepath.Join(l.dir, pattern))
	if err != nil {
		l.Fatal(err)
	}
	return names
}

// input runs git on a standard input.
func (l *lab) input(dir, stdin string, args ...string) string {
	l.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
