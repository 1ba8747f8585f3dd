package process_test

import (
	"archive/zip"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// packages are the VNFD ids of all packages in the package management API by id, "" for one
// without content.
func packages(t *testing.T, s *process.Server) map[string]string {
	t.Helper()
	var list []struct{ ID, VnfdID string }
	s.Want(t, http.StatusOK, http.MethodGet, "/vnfpkgm/v2/vnf_packages", nil, &list, "Version", "2.1.0")
	all := map[string]string{}
	for _, p := range list {
		all[p.ID] = p.VnfdID
	}
	return all
}

// zipped is an archive of a folder as it is.
func zipped(t *testing.T, dir, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := zip.NewWriter(f)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestThePackageThatTheCommandLineAddsIsOnboardedOnceOrRefusedWithTheReason(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s := process.Start(t, filepath.Join(t.TempDir(), "data"))
	dir := filepath.Join(process.Root(), "examples", "packages", "webapp")
	file := filepath.Join(t.TempDir(), "webapp.csar")
	if out, errs, code := s.CLI(t, "package", "build", dir, "--output", file); code != 0 {
		t.Fatalf("build: exit code %d: %s%s", code, out, errs)
	}
	add := func(name string) (said string, code int) {
		t.Helper()
		out, errs, code := s.CLI(t, "package", "add", name)
		if (code == 0) != (errs == "") {
			t.Errorf("exit code %d, and stderr says %q", code, errs)
		}
		return out + errs, code
	}
	said, code := add(file)
	if want := file + ": onboarded: vnfdId " + webapp + ", version 1.0, package "; code != 0 || !strings.HasPrefix(said, want) {
		t.Fatalf("exit code %d: %s", code, said)
	}
	id := strings.TrimSpace(said[strings.LastIndex(said, " "):])
	for _, again := range []string{file, dir} {
		if said, code := add(again); code != 0 || said != again+": the server has it already: vnfdId "+webapp+", package "+id+"\n" {
			t.Errorf("%s once more: exit code %d: %s", again, code, said)
		}
	}
	if said, code := add(process.SmallPackage()); code != 0 || !strings.Contains(said, ": onboarded: vnfdId "+process.SmallVnfd) {
		t.Errorf("a folder: exit code %d: %s", code, said)
	}
	for _, vnfd := range []string{webapp, process.SmallVnfd} {
		s.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": vnfd}, nil)
	}

	// What is refused leaves nothing there.
	before := packages(t, s)
	if len(before) != 2 || before[id] != webapp {
		t.Errorf("the server has %v", before)
	}
	other := process.NextVersion(t, dir, "other", "image: ", "image: other/")
	const broken = "tosca_definitions_version: tosca_simple_yaml_1_2\ntopology_template: [\n"
	unreadable := process.NextVersion(t, process.SmallPackage(), "unreadable", process.SmallVnfd, "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bff")
	const definition = "Definitions/small_top.vnfd.yaml"
	if err := os.WriteFile(filepath.Join(unreadable, definition), []byte(broken), 0o644); err != nil {
		t.Fatal(err)
	}
	noZip := filepath.Join(t.TempDir(), "no.csar")
	if err := os.WriteFile(noZip, []byte("this is no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, name string
		says       []string
	}{
		{"a file that isn't there", filepath.Join(t.TempDir(), "none.csar"), []string{"none.csar", "no such file"}},
		{"a file that is no archive", noZip, []string{"no.csar", "zip"}},
		{"an archive with a VNFD that can't be read", zipped(t, unreadable, "broken.csar"), []string{"the server refused ", "broken.csar", definition + ":2: "}},
		{"a folder with a VNFD that can't be read", unreadable, []string{"unreadable", definition + ":2: "}},
		{"other content with the same vnfdId", other, []string{"another package", webapp, id, "descriptor_id"}},
	} {
		said, code := add(c.name)
		if code != 1 {
			t.Errorf("%s: exit code %d", c.what, code)
		}
		for _, words := range c.says {
			if !strings.Contains(said, words) {
				t.Errorf("%s: no %q in %s", c.what, words, said)
			}
		}
	}
	if now := packages(t, s); len(now) != len(before) {
		t.Errorf("the server had %v and has %v", before, now)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if said, code := add(file); code != 1 || !strings.Contains(said, strings.TrimPrefix(s.URL, "http://")) {
		t.Errorf("while the server is away: exit code %d: %s", code, said)
	}
}
