package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// upstream makes another local package repository, with versions of the package that
// edit may alter.
func (f *followed) upstream(name string, edit func(text string) string, versions ...string) {
	f.Helper()
	dir := filepath.Join(f.Data, "packages", name)
	process.InitBare(f.T, dir)
	other := *f
	other.packages = process.BareAt(f.T, dir)
	other.release(edit, versions...)
}

// plan asks for the preview of the instance at the version, with the package
// repository at the url.
func (f *followed) plan(url, version string) (admission.Verdict, error) {
	text := strings.Replace(f.git(f.Desired(), "show", "main:instances/a/vnf.yaml"), "vnfdId: "+vnfdID("1.4.0"), "vnfdId: "+vnfdID(version), 1)
	a, err := f.Do(f.Context(), http.MethodPost, "/jibe/v1/plan", admission.Proposal{
		Settings: &desired.Settings{
			Repositories: []desired.Repository{{Name: "small", URL: url, Path: "small", Tags: "v*", Hooks: true}},
			VIMs:         map[string]*desired.VIM{"cloud": {Type: "sim", Default: true}},
		},
		Instances: []admission.Candidate{{Dir: "instances/a", File: text}},
	})
	var v admission.Verdict
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("%d: %s", a.Status, a.Body)
	}
	if err == nil {
		err = json.Unmarshal(a.Body, &v)
	}
	return v, err
}

func (f *followed) catalogue() string {
	f.Helper()
	a, err := f.Do(f.Context(), http.MethodGet, "/jibe/v1/packages", nil)
	if err != nil {
		f.Fatal(err)
	}
	return string(a.Body) + f.git(f.Desired(), "for-each-ref", "refs/jibe/upstream", "refs/jibe/proposed")
}

func TestAProposalOfOtherPackagesIsPreviewedAndChangesNothingThatRuns(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFollowed(t, "follow: \"*\"\n")
	f.upstream("nine.git", nil, "1.4.0", "9.0.0")
	f.upstream("eight.git", nil, "1.4.0", "8.0.0")
	before := f.catalogue()
	var wg sync.WaitGroup
	for url, version := range map[string]string{"nine.git": "9.0.0", "eight.git": "8.0.0"} {
		wg.Go(func() {
			v, err := f.plan(url, version)
			if err != nil || len(v.Problems) > 0 || len(v.Previews) != 1 {
				t.Errorf("%s: %v %+v", url, err, v)
				return
			}
			p := v.Previews[0]
			tree := strings.TrimPrefix(strings.Join(p.Filled, ""), "package: ")
			if p.Error != "" || p.Type != "CHANGE_VNFPKG" || len(p.Steps) == 0 || f.git(f.Desired(), "cat-file", "-t", tree) != "tree" {
				t.Errorf("%s: %+v", url, p)
			}
		})
	}
	wg.Wait()
	if v, err := f.plan("eight.git", "9.0.0"); err != nil || len(v.Problems) != 1 || !strings.Contains(v.Problems[0].Message, vnfdID("9.0.0")) {
		t.Errorf("a version of another proposal's: %v %+v", err, v)
	}
	if after := f.catalogue(); after != before {
		t.Errorf("the catalogue was %s\nand became %s", before, after)
	}
	f.settles("main", "")

	f.release(nil, "1.4.1") // has the repositories asked and the instance looked at
	f.runs("1.4.1")
	f.settles("main", "Follow *: web to 1.4.1")
}

func TestACommitThatBringsARepositoryGetsItsPinsFromThere(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, "")
	f.upstream("other.git", func(text string) string { return text + "# another build\n" }, "1.4.0")
	change(f.desired, map[string]string{
		"repositories.yaml":    "- {name: small, url: other.git, path: small, tags: \"v*\"}\n",
		"instances/b/vnf.yaml": "vnfdId: " + vnfdID("1.4.0") + "\nflavour: simple\nparams: {namespace: b}\n",
	})
	want := "package: " + f.git(filepath.Join(f.Data, "packages/other.git"), "rev-parse", "v1.4.0:small")
	kit.Eventually(t, func() error {
		if text := f.git(f.Desired(), "show", "main:instances/b/vnf.yaml"); !strings.Contains(text, "package: ") {
			return fmt.Errorf("nothing is pinned: %s", text)
		}
		return nil
	})
	if text := f.git(f.Desired(), "show", "main:instances/b/vnf.yaml"); !strings.Contains(text, want) {
		t.Errorf("not %q: %s", want, text)
	}
}

func TestAProposalIsHeldAgainstTheCommitThatItsAuthorHasSeen(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFollowed(t, "")
	f.release(nil, "1.4.1")
	f.known("1.4.1")
	pin := func(version string) string {
		return f.git(filepath.Join(f.Data, "packages/packages.git"), "rev-parse", "v"+version+":small")
	}
	// What Jibe pins for an upgrade, in the repository a moment before the server knows:
	// written through another name, it causes no event where the server watches.
	old := f.git(f.Desired(), "show", "main:instances/a/vnf.yaml")
	upgraded := strings.NewReplacer(vnfdID("1.4.0"), vnfdID("1.4.1"), pin("1.4.0"), pin("1.4.1")).Replace(old)
	commit := f.desired.Commit("Upgrade", map[string]string{"instances/a/vnf.yaml": upgraded}, f.desired.Head())
	f.desired.Move("refs/heads/side", commit)
	ref := filepath.Join(t.TempDir(), "main")
	if err := os.Link(filepath.Join(f.Desired(), "refs/heads/main"), ref); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ref, []byte(commit+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := f.Do(t.Context(), http.MethodPost, "/jibe/v1/plan", admission.Proposal{Instances: []admission.Candidate{
		{Dir: "instances/a", File: strings.Replace(upgraded, vnfdID("1.4.1"), vnfdID("1.4.0"), 1)}}})
	if err != nil {
		t.Fatal(err)
	}
	var v admission.Verdict
	if err := json.Unmarshal(a.Body, &v); err != nil || len(v.Problems) > 0 {
		t.Errorf("what takes it back is answered with %s (%v)", a.Body, err)
	}
}
