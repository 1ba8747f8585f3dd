package packages

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// onboarding makes a local package repository that Jibe writes to, and its entry.
func (l *lab) onboarding() desired.Repository {
	l.Helper()
	dir := filepath.Join(l.dir, "packages", "packages.git")
	l.git(l.dir, "init", "-q", "--bare", "-b", "main", dir)
	home := desired.Repository{Name: "packages", URL: "packages.git", Branch: "main"}
	// An empty repository has no branch to follow.
	work := filepath.Join(l.dir, "work")
	l.git(l.dir, "clone", "-q", dir, work)
	l.commit(work, "")
	l.git(work, "push", "-q", "origin", "HEAD:main")
	l.sync(home)
	return home
}

// imported writes a package into the repository.
func (l *lab) imported(id, version string, more map[string]string) Imported {
	l.Helper()
	dir := l.TempDir()
	l.put(dir, id, version)
	for name, content := range more {
		l.write(filepath.Join(dir, name), content)
	}
	files, err := csar.Dir(dir)
	if err != nil {
		l.Fatal(err)
	}
	in, err := l.c.Import(l.Context(), files, filepath.Join(l.dir, "scratch-"+id+version))
	if err != nil {
		l.Fatal(err)
	}
	return in
}

// onboard commits content with its record, as an upload does.
func (l *lab) onboard(r *Record, in Imported) {
	l.Helper()
	err := l.c.Edit(l.Context(), Edit{Subject: "Onboard " + r.ID, By: "nfvo <nfvo@jibe.invalid>", Change: func(t *Tip) (Change, error) {
		return Change{Put: []*Record{r}, Add: map[string]string{t.Folder(r.VnfdID): in.Tree}}, nil
	}})
	if err != nil {
		l.Fatal(err)
	}
}

func TestWhatIsWrittenIsInTheCatalogueAtOnce(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	l.onboarding()
	in := l.imported("amf-id", "1.0", map[string]string{`odd "name" here`: "x", "Files/large": strings.Repeat("0123456789", 1<<20)})
	if in.Package.VNFD.ID != "amf-id" {
		t.Fatalf("vnfdId %s", in.Package.VNFD.ID)
	}
	if left, err := filepath.Glob(filepath.Join(l.dir, "scratch*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	l.onboard(&Record{ID: "one", VnfdID: "amf-id", UserDefinedData: map[string]any{"site": "west", "floor": int64(3)}}, in)
	e := l.find("amf-id")
	if e.Tree != in.Tree || e.Path != "amf-id" || e.Repository != "packages" {
		t.Errorf("entry %+v", e)
	}
	p, err := l.c.Open(t.Context(), e.Tree)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Files.Open(`odd "name" here`); err != nil {
		t.Error(err)
	}
	o, err := l.c.Onboard("one")
	if err != nil || o.Entry == nil || fmt.Sprint(o.Record.UserDefinedData) != "map[floor:3 site:west]" {
		t.Errorf("onboarded %+v %+v, %v", o, o.Record, err)
	}
	bare := filepath.Join(l.dir, "packages", "packages.git")
	if by := l.git(bare, "log", "-1", "--format=%an <%ae> %s", "main"); by != "nfvo <nfvo@jibe.invalid> Onboard one" {
		t.Errorf("the commit is %q", by)
	}
	if out := l.git(bare, "fsck", "--no-dangling"); out != "" {
		t.Error(out)
	}
}

func TestADisabledPackageIsRefusedUntilItIsEnabled(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	l.onboarding()
	in := l.imported("amf-id", "1.0", nil)
	r := &Record{ID: "one", VnfdID: "amf-id", Disabled: true}
	l.onboard(r, in)
	if _, err := l.c.Find("amf-id"); !errors.Is(err, ErrDisabled) || !strings.Contains(err.Error(), "package one") {
		t.Errorf("find: %v", err)
	}
	if err := l.c.Verify(t.Context(), in.Tree); !errors.Is(err, ErrDisabled) {
		t.Errorf("verify: %v", err)
	}
	r.Disabled = false
	l.onboard(r, in)
	if err := l.c.Verify(t.Context(), l.find("amf-id").Tree); err != nil {
		t.Error(err)
	}
}

func TestPackagesThatCameByGitHaveAnIdThatStays(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	home := l.onboarding()
	up := l.upstream("remote")
	l.put(filepath.Join(up, "smf"), "smf-id", "1.0")
	l.commit(up, "")
	remote := desired.Repository{Name: "remote", URL: up}
	l.sync(home, remote)
	id := DerivedID("smf-id")
	if o, err := l.c.Onboard(id); err != nil || o.Record != nil || o.Entry.Repository != "remote" {
		t.Fatalf("%+v, %v", o, err)
	}
	l.put(filepath.Join(up, "smf"), "smf-id", "1.1")
	l.commit(up, "")
	l.sync(home, remote)
	if o, err := l.c.Onboard(id); err != nil || o.Entry.Version != "1.1" {
		t.Errorf("%+v, %v", o, err)
	}
	// Somebody pushes a record with the rest: the API's state is a file like any other.
	work := filepath.Join(l.dir, "work")
	l.write(filepath.Join(work, recordDir, id+".yaml"), "vnfdId: smf-id\ndisabled: true\n")
	l.write(filepath.Join(work, recordDir, "broken.yaml"), "vnfdId: smf-id\nenabled: false\n")
	l.commit(work, "")
	l.git(work, "push", "-q", "origin", "HEAD:main")
	l.sync(home, remote)
	if _, err := l.c.Find("smf-id"); !errors.Is(err, ErrDisabled) {
		t.Errorf("find: %v", err)
	}
	if p := l.c.Problems(); len(p) != 1 || p[0].Path != ".jibe/packages/broken.yaml" || !strings.Contains(p[0].Err.Error(), "enabled") {
		t.Errorf("problems %v", p)
	}
}

func TestEditsOfManyAtOnceAreAllKept(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	home := l.onboarding()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			err := l.c.Edit(t.Context(), Edit{Subject: "Create a package", Change: func(*Tip) (Change, error) {
				return Change{Put: []*Record{{ID: fmt.Sprintf("p%d", i)}}}, nil
			}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Go(func() { // a person pushes meanwhile
		work := filepath.Join(l.dir, "work")
		for i := range 3 {
			l.write(filepath.Join(work, "note"), fmt.Sprint(i))
			l.git(work, "add", "-A")
			l.git(work, "commit", "-q", "-m", "change")
			for { // until nobody was quicker
				l.git(work, "pull", "-q", "--no-edit", "--no-rebase", "origin", "main")
				push := exec.Command("git", "push", "-q", "origin", "HEAD:main")
				push.Dir = work
				if push.Run() == nil || t.Failed() {
					break
				}
			}
		}
	})
	all.Wait()
	l.sync(home)
	if got := l.c.Onboarded(); len(got) != 4 {
		t.Errorf("%d packages", len(got))
	}
}

func TestARepositoryThatIsNotForOnboardingIsNeverWrittenTo(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("remote")
	l.commit(up, "")
	l.sync(desired.Repository{Name: "remote", URL: up, Branch: "main"})
	err := l.c.Edit(t.Context(), Edit{Change: func(*Tip) (Change, error) { return Change{}, nil }})
	if !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
}

func TestAnImportThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	l.onboarding()
	packs := func() int {
		names, err := filepath.Glob(filepath.Join(l.dir, "packages", "packages.git", "objects", "pack", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := packs()
	dir := t.TempDir()
	l.put(dir, "amf-id", "1.0")
	l.write(filepath.Join(dir, "Files/kubernetes/web.yaml"), "changed: true\n")
	l.write(filepath.Join(dir, "TOSCA-Metadata/TOSCA.meta"), "Entry-Definitions: nowhere.yaml\n")
	scratch := filepath.Join(l.dir, "scratch")
	if _, err := l.c.Import(t.Context(), os.DirFS(dir), scratch); err == nil || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("import: %v", err)
	}
	if _, err := os.Stat(scratch); !os.IsNotExist(err) || packs() != before {
		t.Errorf("left behind: %v, %d packs after %d", err, packs(), before)
	}
}
