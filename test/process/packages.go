package process

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// PackageRepository is the server's own package repository, below its data directory.
const PackageRepository = "packages/packages.git"

// PushPackages puts expanded packages into the local package repository, and waits
// until the process knows all of their ids.
func (s *Server) PushPackages(t testing.TB, vnfdIDs []string, dirs ...string) {
	t.Helper()
	d := s.WorkTree(t, PackageRepository)
	for _, dir := range dirs {
		if err := os.CopyFS(filepath.Join(d.Dir(), filepath.Base(dir)), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	d.Push("Add what the test needs")
	s.AwaitPackages(t, vnfdIDs...)
}

// AwaitPackages waits until the process knows packages of all of these ids.
func (s *Server) AwaitPackages(t testing.TB, vnfdIDs ...string) {
	t.Helper()
	kit.Eventually(t, func() error {
		a, err := s.Do(t.Context(), http.MethodGet, "/jibe/v1/packages", nil)
		if err != nil {
			return err
		}
		for _, id := range vnfdIDs {
			if !strings.Contains(string(a.Body), id) {
				return fmt.Errorf("package %s isn't known: %s", id, a.Body)
			}
		}
		return nil
	})
}

// NextVersion is [WriteNextVersion] for a folder of a name that goes when the test ends. It
// returns the folder.
func NextVersion(t testing.TB, dir, name string, oldnew ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), name)
	if err := WriteNextVersion(dir, to, oldnew...); err != nil {
		t.Fatal(err)
	}
	return to
}

// WriteNextVersion copies an expanded package to a folder, and replaces text in all of its
// files: old and new by turns, as its vnfdId, versions and images. The copy has no checksums.
func WriteNextVersion(dir, to string, oldnew ...string) error {
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		return err
	}
	replace := strings.NewReplacer(oldnew...)
	return filepath.WalkDir(to, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if d.Name() == "TOSCA.meta" {
			text, _, _ = bytes.Cut(text, []byte("\n\n"))
			text = append(text, '\n')
		}
		return os.WriteFile(file, []byte(replace.Replace(string(text))), 0o644)
	})
}

// SmallVnfd is the vnfdId of the package in SmallPackage: one Deployment, whose scaling
// aspect "front" has the levels 0 to 4 (1 to 5 pods), and a ConfigMap, in [SmallManifests].
const SmallVnfd = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bc1"

// SmallPackage is the folder of the package for tests that need many instances.
func SmallPackage() string { return filepath.Join(Root(), "test", "process", "testdata", "small") }

// SmallManifests are the package's manifests, as lcm-kubernetes-def-files lists them.
func SmallManifests() []string {
	return []string{"Files/kubernetes/configmap.yaml", "Files/kubernetes/deployment.yaml"}
}
