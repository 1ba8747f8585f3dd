package packages

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func TestAFlawOfAPackageIsShownAndRefusesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	up := l.upstream("amf")
	judged := map[string]int{}
	judge := func(p *vnfd.Package) []vnfd.Problem {
		judged[p.VNFD.Version]++
		switch p.VNFD.Version {
		case "1.1":
			return []vnfd.Problem{{File: "Files/kubernetes/web.yaml", Line: 3, Message: "has no kind", Severity: vnfd.Error}, {File: "b", Message: "is odd", Severity: vnfd.Warning}}
		case "1.2":
			panic("a library's fault")
		}
		return []vnfd.Problem{{File: "b", Message: "is odd", Severity: vnfd.Warning}}
	}
	l.c.JudgeBy(judge)
	trees := map[string]string{}
	for _, version := range []string{"1.0", "1.1", "1.2"} {
		l.put(up, "amf-id", version)
		trees[version] = l.commit(up, "", "v"+version)
	}
	repo := desired.Repository{Name: "amf", URL: "amf", Tags: "v*", Hooks: true}

	l.sync(repo)
	l.sync(repo)
	l.sync(repo)

	want := map[string]string{"1.0": "", "1.1": "the VNF package is invalid: Files/kubernetes/web.yaml:3: has no kind", "1.2": "its manifests and templates can't be judged: a library's fault"}
	list := l.c.List()
	if len(list) != len(want) || len(l.c.Problems()) > 0 {
		t.Fatalf("list %+v, problems %v", list, l.c.Problems())
	}
	for _, e := range list {
		flaw := ""
		if e.Flaw != nil {
			flaw = e.Flaw.Error()
		}
		if flaw != want[e.Version] {
			t.Errorf("the flaw of %s is %q, want %q", e.Version, flaw, want[e.Version])
		}
		if judged[e.Version] != 1 {
			t.Errorf("%s was judged %d times", e.Version, judged[e.Version])
		}
		if err := l.c.Verify(t.Context(), e.Tree); err != nil {
			t.Errorf("%s can't be used: %v", e.Version, err)
		}
	}
	if e := l.find("amf-id"); e.Tree != trees["1.2"] || !strings.HasPrefix(e.Version, "1.2") {
		t.Errorf("found %+v", e)
	}
}

func TestAPackageThatCantBeReadNowIsJudgedLater(t *testing.T) {
	t.Parallel()

	for name, lose := range map[string]func(l *lab, end func()) (back func()){
		"the store is away": func(l *lab, _ func()) func() { return l.loseObjects() },
		"the server ends":   func(_ *lab, end func()) func() { end(); return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.c.most.held = 1 << 10
			up := l.upstream("amf")
			l.put(up, "amf-id", "1.0")
			l.write(filepath.Join(up, "BaseHOT/top.yaml"), strings.Repeat("# large\n", 1<<10))
			l.commit(up, "")
			ctx, end := context.WithCancel(t.Context())
			defer end()
			judged := 0
			l.c.JudgeBy(func(p *vnfd.Package) []vnfd.Problem {
				if judged++; judged == 1 {
					defer lose(l, end)()
				}
				if _, err := fs.ReadFile(p.Files, "BaseHOT/top.yaml"); err != nil {
					return []vnfd.Problem{{File: "BaseHOT/top.yaml", Message: err.Error(), Severity: vnfd.Error}}
				}
				return nil
			})
			repo := desired.Repository{Name: "amf", URL: "amf"}

			err := l.c.Sync(ctx, []desired.Repository{repo})
			if problem := l.problem(""); !errors.Is(err, errStore) && !strings.Contains(problem, ErrDamaged.Error()) {
				t.Errorf("while it can't be read: %v, %q", err, problem)
			}
			l.sync(repo)

			if e := l.find("amf-id"); e == nil || e.Flaw != nil || judged != 2 {
				t.Errorf("judged %d times: %+v", judged, e)
			}
		})
	}
}

func TestAPackageThatCantBeReadNowIsVerifiedLater(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.c.most.held = 1 << 10
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	l.write(filepath.Join(up, vouched), strings.Repeat("# large\n", 1<<10))
	l.vouch(up, vouched, false)
	tree := l.commit(up, "")
	l.sync(desired.Repository{Name: "amf", URL: "amf"})
	if _, err := l.c.Open(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	l.c.sound = &verdicts{}

	back := l.loseObjects()
	if err := l.c.Verify(t.Context(), tree); !errors.Is(err, errStore) || errors.Is(err, ErrUnsound) {
		t.Errorf("while it can't be read: %v", err)
	}
	back()
	if err := l.c.Verify(t.Context(), tree); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// loseObjects takes the objects of the store away until back is called.
func (l *lab) loseObjects() (back func()) {
	l.Helper()
	objects := filepath.Join(l.dir, "desired.git", "objects")
	if err := os.Rename(objects, objects+".away"); err != nil {
		l.Error(err)
	}
	return func() {
		if err := os.Rename(objects+".away", objects); err != nil {
			l.Error(err)
		}
	}
}
