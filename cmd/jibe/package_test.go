package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// packageCommand runs a command of `jibe package`.
func packageCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newPackage()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestValidateTakesAnArchiveAlsoInsideItsSeal(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	plain := filepath.Join(dir, "webapp.csar")
	if out, err := packageCommand(t, "build", "../../examples/packages/webapp", "-o", plain); err != nil {
		t.Fatal(out, err)
	}
	sealed := filepath.Join(dir, "sealed.zip")
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	inner, err := z.Create("webapp.csar")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inner.Write(data); err != nil {
		t.Fatal(err)
	}
	if _, err := z.Create("webapp.cms"); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sealed, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{plain, sealed} {
		out, err := packageCommand(t, "validate", name)
		if err != nil || !strings.Contains(out, name+": valid: ") {
			t.Errorf("%s: %s%v", name, out, err)
		}
	}
}

func TestValidateOfAnArchiveShowsWhatIsWrongInIt(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	files := filepath.Join(dir, "webapp")
	if err := os.CopyFS(files, os.DirFS("../../examples/packages/webapp")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "Files", "kubernetes", "deployment.yaml"), []byte("kind: Deployment\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "webapp.zip")
	opened, err := csar.Dir(files)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := csar.Build(opened, &b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archive, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}

	out, err := packageCommand(t, "validate", archive)

	if err == nil || !strings.Contains(out, "Files/kubernetes/deployment.yaml:1: document 1: has no apiVersion") {
		t.Errorf("%s%v", out, err)
	}
}

func TestAChangedPackageIsValidAfterRehash(t *testing.T) {
	t.Parallel()

	dir := filepath.Join(t.TempDir(), "webapp")
	if err := os.CopyFS(dir, os.DirFS("../../examples/packages/webapp")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "Files", "kubernetes", "configmap.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "# changed\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := packageCommand(t, "validate", dir); err == nil || !strings.Contains(out, "configmap.yaml was changed") {
		t.Fatalf("%s%v", out, err)
	}

	if out, err := packageCommand(t, "rehash", dir); err != nil {
		t.Fatal(out, err)
	}

	if out, err := packageCommand(t, "validate", dir); err != nil {
		t.Error(out, err)
	}
}
