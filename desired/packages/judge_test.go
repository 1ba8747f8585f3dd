package packages

import (
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
