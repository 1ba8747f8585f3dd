package packages

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

// problem returns what the catalogue says of the package at the path, "" for nothing.
func (l *lab) problem(path string) string {
	for _, p := range l.c.Problems() {
		if p.Path == path {
			return p.Err.Error()
		}
	}
	return ""
}

func TestFoldersThatAreLinksOrSubmodulesAreProblems(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("vendor")
	l.put(filepath.Join(up, "amf-1.0"), "amf-id", "1.0")
	l.write(filepath.Join(up, "README.md"), "packages")
	l.write(filepath.Join(up, "elsewhere/deep/x"), "1")
	for name, target := range map[string]string{
		"smf": "/opt/packages/smf", "upf": "elsewhere/deep", "udm": "gone", // hide a package
		"latest": "amf-1.0", "LIESMICH.md": "README.md", // hide none
	} {
		if err := os.Symlink(target, filepath.Join(up, name)); err != nil {
			t.Fatal(err)
		}
	}
	l.write(filepath.Join(up, "ausf/Definitions/x.yaml"), "1")
	if err := os.Symlink("../amf-1.0/TOSCA-Metadata", filepath.Join(up, "ausf/TOSCA-Metadata")); err != nil {
		t.Fatal(err)
	}
	l.commit(up, "")
	l.git(up, "update-index", "--add", "--cacheinfo", "160000,"+strings.TrimSpace(l.git(up, "rev-parse", "HEAD"))+",nrf")
	l.git(up, "commit", "-qm", "a submodule")

	l.sync(desired.Repository{Name: "vendor", URL: "vendor"})

	var got []string
	for _, p := range l.c.Problems() {
		got = append(got, p.Path+": "+p.Err.Error())
	}
	slices.Sort(got)
	want := []string{
		"ausf: TOSCA-Metadata: symbolic links are not allowed in a package: put the file itself there",
		"nrf: it is a submodule, which isn't fetched: put the package's files there, or give its repository an entry of its own in repositories.yaml",
		`smf: it is a symbolic link to "/opt/packages/smf", which isn't followed: put the package's files there`,
		`udm: it is a symbolic link to "gone", which isn't followed: put the package's files there`,
		`upf: it is a symbolic link to "elsewhere/deep", which isn't followed: put the package's files there`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if l.find("amf-id").Path != "amf-1.0" {
		t.Error("the sound package isn't there")
	}
}

const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

func TestPackagesWithPointersOfGitLFSAreProblems(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("vendor")
	for _, name := range []string{"meta", "vnfd", "manifest", "image", "sound"} {
		l.put(filepath.Join(up, name), name+"-id", "1.0")
	}
	l.write(filepath.Join(up, "meta/TOSCA-Metadata/TOSCA.meta"), pointer)
	l.write(filepath.Join(up, "vnfd/Definitions/top.yaml"), pointer)
	l.write(filepath.Join(up, "manifest/Files/kubernetes/web.yaml"), pointer)
	l.write(filepath.Join(up, "image/Files/images/disk.qcow2"), pointer) // listed nowhere
	l.commit(up, "")

	l.sync(desired.Repository{Name: "vendor", URL: "vendor"})

	for name, file := range map[string]string{
		"meta": "TOSCA-Metadata/TOSCA.meta", "vnfd": "Definitions/top.yaml", "manifest": "Files/kubernetes/web.yaml", "image": "Files/images/disk.qcow2",
	} {
		if got, want := l.problem(name), file+": is a pointer of git-lfs"; !strings.Contains(got, want) {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
		if _, err := l.c.Find(name + "-id"); err == nil {
			t.Errorf("%s can be used", name)
		}
	}
	if got := cmp.Or(l.problem("sound"), l.find("sound-id").Path); got != "sound" {
		t.Error(got)
	}
}

func TestAPackageWithoutMetadataIsInTheCatalogue(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("vendor")
	l.put(filepath.Join(up, "amf"), "amf-id", "1.0")
	vnfd, err := os.ReadFile(filepath.Join(up, "amf/Definitions/top.yaml"))
	if err := errors.Join(err, os.Remove(filepath.Join(up, "amf/Definitions/top.yaml")), os.RemoveAll(filepath.Join(up, "amf/TOSCA-Metadata"))); err != nil {
		t.Fatal(err)
	}
	l.write(filepath.Join(up, "amf/amf.yaml"), strings.NewReplacer("- types", "- Definitions/types", "- df", "- Definitions/df").Replace(string(vnfd)))
	l.write(filepath.Join(up, "amf/amf.mf"), "metadata:\n  vnf_product_name: amf\n\nSource: Files/kubernetes/web.yaml\n")
	tree := l.commit(up, "amf")

	l.sync(desired.Repository{Name: "vendor", URL: "vendor"})

	if e := l.find("amf-id"); e.Tree != tree || e.Path != "amf" {
		t.Errorf("%+v, problems %v", e, l.c.Problems())
	}
	p, err := l.c.Open(t.Context(), tree)
	if err != nil || !p.HasArtifact("Files/kubernetes/web.yaml") {
		t.Error(err)
	}
}
