package packages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// versions is now and all as text: "1.4.1 of 1.4.0 1.4.1".
func (l *lab) versions(tree, vnfdID string) string {
	l.Helper()
	now, all := l.c.Versions(tree, vnfdID)
	said := "none of"
	if now != nil {
		said = now.String() + " of"
	}
	if !slices.IsSortedFunc(all, func(a, b Version) int { return a.Semver.Compare(b.Semver) }) {
		l.Errorf("not ascending: %v", all)
	}
	for _, v := range all {
		said += " " + v.Semver.String()
	}
	return said
}

// release tags what stands at path with a version of the package.
func (l *lab) release(up, path, version string) (tree string) {
	l.Helper()
	l.put(filepath.Join(up, path), "vnfd-"+path+version, version)
	return l.commit(up, path, "v"+version)
}

func TestTheVersionsOfAPackageAreThoseOfItsPathInItsRepositoryAscending(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	up, other := l.upstream("amf"), l.upstream("other")
	trees := map[string]string{}
	for _, v := range []string{"1.4.0", "1.4.10", "1.4.2", "2.0.0-rc.1"} {
		trees[v] = l.release(up, "amf", v)
		l.release(other, "amf", v+"1")
	}
	smf := l.release(up, "smf", "3.0.0") // its tag is a version of the AMF's too, of the same tree
	l.git(up, "tag", "nightly")
	l.sync(desired.Repository{Name: "amf", URL: "amf", Tags: "*"}, desired.Repository{Name: "other", URL: "other", Tags: "v*"})

	for v, tree := range trees {
		want := v
		if v == "2.0.0-rc.1" {
			want = "3.0.0" // nothing of it has changed since
		}
		if got := l.versions(tree, ""); got != want+" of 1.4.0 1.4.2 1.4.10 2.0.0-rc.1 3.0.0" {
			t.Errorf("%s: %s", v, got)
		}
	}
	if got := l.versions(smf, ""); got != "3.0.0 of 3.0.0" {
		t.Errorf("smf: %s", got)
	}
	_, all := l.c.Versions(trees["1.4.2"], "")
	if v := all[1]; v.Tree != trees["1.4.2"] || v.VnfdID != "vnfd-amf1.4.2" || v.Ref != "v1.4.2" || v.Repository != "amf" || v.Path != "amf" {
		t.Errorf("%+v", v)
	}
}

func TestAPackageWithoutTagsHasNoVersions(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	tree := l.release(up, "", "1.0.0")
	l.sync(desired.Repository{Name: "amf", URL: "amf", Branch: "main"})
	if got := l.versions(tree, "vnfd-1.0.0"); got != "none of" {
		t.Error(got)
	}
	if got := l.versions(fmt.Sprintf("%040d", 1), "nobody"); got != "none of" {
		t.Errorf("an unknown package: %s", got)
	}
}

func TestATreeThatItsTagWasMovedFromIsKnownByItsVnfdID(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	was := l.release(up, "", "1.0.0")
	repo := desired.Repository{Name: "amf", URL: "amf", Tags: "v*"}
	l.release(up, "", "1.1.0")
	l.put(up, "vnfd-1.0.0", "1.0.0")
	l.write(filepath.Join(up, "README"), "mended")
	l.commit(up, "")
	l.git(up, "tag", "-f", "-m", "moved", "v1.0.0")
	l.sync(repo)
	if got := l.versions(was, "vnfd-1.0.0"); got != "1.0.0 of 1.0.0 1.1.0" {
		t.Error(got)
	}

	// Where two versions have the id, nobody knows which of them it was.
	l.put(up, "vnfd-1.0.0", "1.2.0")
	l.commit(up, "", "v1.2.0")
	l.sync(repo)
	if got := l.versions(was, "vnfd-1.0.0"); got != "none of" {
		t.Error(got)
	}
}

func TestVersionsSurviveAnUpstreamThatIsAway(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	tree := l.release(up, "", "1.0.0")
	l.release(up, "", "1.1.0")
	repo := desired.Repository{Name: "amf", URL: "amf", Tags: "v*"}
	l.sync(repo)
	if err := os.Rename(up, up+".away"); err != nil {
		t.Fatal(err)
	}
	l.c = l.catalogue() // of the next process
	if err := l.c.Sync(t.Context(), []desired.Repository{repo}); err == nil {
		t.Fatal("fetched from nowhere")
	}
	if got := l.versions(tree, ""); got != "1.0.0 of 1.0.0 1.1.0" {
		t.Error(got)
	}
}

func TestTheBestOfARangeIsTheNewestOfTheProductAndNeverOneOfTwo(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up, other := l.upstream("amf"), l.upstream("other")
	trees := map[string]string{}
	for _, v := range []string{"1.5.2", "1.5.10", "1.6.0", "2.0.0-rc.1"} {
		trees[v] = l.release(up, "amf", v)
	}
	amf, others := desired.Repository{Name: "amf", URL: "amf", Tags: "v*"}, desired.Repository{Name: "other", URL: "other", Tags: "v*"}
	l.sync(amf)
	product := ""
	for _, e := range l.c.List() {
		product = e.About.ProductName
	}
	for constraint, want := range map[string]string{"1.5.x": "1.5.10", ">=1.5, <2": "1.6.0", "*": "1.6.0", "~1.5.2": "1.5.10", "=1.5.2": "1.5.2"} {
		if got, err := l.c.Best(product, constraint); err != nil || got.Tree != trees[want] || got.Semver.String() != want || got.VnfdID != "vnfd-amf"+want {
			t.Errorf("%s: %+v, %v; want %s", constraint, got, err, want)
		}
	}
	for _, c := range []struct{ product, constraint string }{{product, "3.x"}, {product + "x", "1.5.x"}} {
		if got, err := l.c.Best(c.product, c.constraint); !errors.Is(err, ErrUnknown) {
			t.Errorf("%v: %+v, %v", c, got, err)
		}
	}
	l.release(other, "another", "1.5.10")
	l.sync(amf, others)
	if got, err := l.c.Best(product, "1.5.x"); err == nil || !strings.Contains(err.Error(), "two packages are of version 1.5.10") {
		t.Errorf("of two packages of one version it is %+v, %v", got, err)
	}
}
