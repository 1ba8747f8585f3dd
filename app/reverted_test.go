package app_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// upgrade changes the line of the vnfdId by git and returns the commit.
func (f *followed) upgrade(from, to string) string {
	f.Helper()
	commit := f.desired.Edit("Upgrade", "instances/a/vnf.yaml", func(text string) string { return strings.Replace(text, vnfdID(from), vnfdID(to), 1) })
	f.runs(to)
	return commit
}

// pin is the tree that the instance's file names.
func (f *followed) pin() string {
	f.Helper()
	_, pin, _ := strings.Cut(f.git(f.Desired(), "show", "main:instances/a/vnf.yaml"), "\npackage: ")
	pin, _, _ = strings.Cut(pin, "\n")
	return pin
}

func TestAGitRevertToAPackageThatHasLeftItsRepositoryRunsItAgain(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFollowed(t, "")
	was := f.pin()
	// The same version of another build, which is kept as another instance ran it.
	f.upstream("other.git", func(text string) string { return text + "# another build\n" }, "1.4.0")
	f.release(nil, "1.4.1")
	f.known("1.4.1")
	commit := f.upgrade("1.4.0", "1.4.1")
	change(f.desired, map[string]string{"repositories.yaml": "- {name: small, url: packages.git, path: small, tags: \"v*\"}\n- {name: other, url: other.git, path: small, tags: \"v*\"}\n"})
	f.withdrawn("packages.git", "1.4.0", was)
	change(f.desired, map[string]string{"instances/b/vnf.yaml": "vnfdId: " + vnfdID("1.4.0") + "\nflavour: simple\nparams: {namespace: b}\n"})
	kit.Eventually(t, func() error {
		if pins := f.git(f.Desired(), "for-each-ref", "refs/jibe/packages"); strings.Count(pins, "\n") != 2 {
			return fmt.Errorf("pins: %s", pins)
		}
		return nil
	})
	build := f.git(filepath.Join(f.Data, "packages", "other.git"), "rev-parse", "v1.4.0:small")
	f.withdrawn("other.git", "1.4.0", build)

	clone := process.NewClone(t, f.Desired())
	f.git(clone.Dir, "revert", "--no-edit", commit)
	text, err := clone.Read("instances/a/vnf.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, was) {
		t.Fatal("the pin came back by itself: the rest proves nothing")
	}
	if got := f.refusals(admission.Proposal{Instances: []admission.Candidate{{Dir: "instances/a", File: text}}}); got != "" {
		t.Errorf("it would be refused: %s", got)
	}
	f.lands(clone)
	f.runs("1.4.0")
	if now := f.pin(); now != was {
		t.Errorf("it runs %s, and ran %s", now, was)
	}

	// The API finds it, too.
	f.upgrade("1.4.0", "1.4.1")
	a, err := f.Do(t.Context(), http.MethodPost, "/vnflcm/v2/vnf_instances/"+followID+"/change_vnfpkg", map[string]any{"vnfdId": vnfdID("1.4.0")})
	if err != nil || a.Status != http.StatusAccepted {
		t.Fatalf("change_vnfpkg: %v %d %s", err, a.Status, a.Body)
	}
	f.runs("1.4.0")
	if now := f.pin(); now != was {
		t.Errorf("by the API it runs %s, and ran %s", now, was)
	}
	// A VNF that ran nothing before has no claim on it.
	fresh := "vnfdId: " + vnfdID("1.4.0") + "\nflavour: simple\nparams: {namespace: c}\n"
	if got := f.refusals(admission.Proposal{Instances: []admission.Candidate{{Dir: "instances/c", File: fresh}}}); !strings.Contains(got, "no such package") {
		t.Errorf("a new one: %q", got)
	}
}

// withdrawn takes a version out of a package repository and waits until the build is
// unknown.
func (f *followed) withdrawn(repository, version, tree string) {
	f.Helper()
	f.git(filepath.Join(f.Data, "packages", repository), "tag", "-d", "v"+version)
	f.packages.Move("refs/heads/seen", f.packages.Head()) // only the repositories of the start are watched, and these have all of them looked at
	defer f.git(f.packages.Dir, "update-ref", "-d", "refs/heads/seen")
	kit.Eventually(f.T, func() error {
		if strings.Contains(f.catalogue(), tree) {
			return fmt.Errorf("build %s of %s is still known", tree, version)
		}
		return nil
	})
}
