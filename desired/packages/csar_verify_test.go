package packages

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// authority makes a root and the certificate of a vendor, as files of openssl in the lab, and
// returns the root.
func (l *lab) authority(name string) string {
	l.Helper()
	at := func(ext string) string { return filepath.Join(l.dir, name+ext) }
	l.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", at(".key"), "-out", at(".pem"), "-days", "2", "-subj", "/CN="+name)
	data, err := os.ReadFile(at(".pem"))
	if err != nil {
		l.Fatal(err)
	}
	return string(data)
}

// sealed is the package whose manifest the authority has signed, by name of the file.
func (l *lab) sealed(id, by string) map[string][]byte {
	l.Helper()
	dir := filepath.Join(l.dir, "sealed-"+by)
	l.put(dir, id, "1.0.0")
	meta := filepath.Join(dir, "TOSCA-Metadata/TOSCA.meta")
	text, err := os.ReadFile(meta)
	if err != nil {
		l.Fatal(err)
	}
	l.write(meta, strings.Replace(string(text), "\n\n", "\nETSI-Entry-Manifest: p.mf\n\n", 1))
	files := map[string][]byte{}
	manifest := "metadata:\n  vnf_product_name: Sample\n\n"
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[name], err = os.ReadFile(filepath.Join(dir, name))
		manifest += fmt.Sprintf("Name: %s\nAlgorithm: SHA-256\nHash: %x\n\n", name, sha256.Sum256(files[name]))
		return err
	})
	if err != nil {
		l.Fatal(err)
	}
	l.write(filepath.Join(l.dir, "manifest"), manifest)
	key := filepath.Join(l.dir, by)
	l.run("openssl", "cms", "-sign", "-binary", "-in", filepath.Join(l.dir, "manifest"), "-signer", key+".pem", "-inkey", key+".key", "-outform", "PEM", "-out", filepath.Join(l.dir, "signature"))
	signature, err := os.ReadFile(filepath.Join(l.dir, "signature"))
	if err != nil {
		l.Fatal(err)
	}
	files["p.mf"] = append([]byte(manifest), signature...)
	return files
}

// imports commits the packages, each as a tag, in one run of git.
func (l *lab) imports(dir string, versions map[string]map[string][]byte) {
	l.Helper()
	var in bytes.Buffer
	for tag, files := range versions {
		fmt.Fprintf(&in, "commit refs/tags/%s\ncommitter a <a@example.com> 1700000000 +0000\ndata 1\nx\n", tag)
		for name, data := range files {
			fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, len(data), data)
		}
		in.WriteString("\n")
	}
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = dir, &in
	if out, err := cmd.CombinedOutput(); err != nil {
		l.Fatalf("git fast-import: %v\n%s", err, out)
	}
}

func TestOfAPackageInGitWithASignedManifestNoByteCanBeChanged(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	l := newLab(t)
	roots, _ := l.authority("vendor"), l.authority("stranger")
	good := l.sealed("amf", "vendor")
	var names []string
	size := 0
	for name, data := range good {
		names, size = append(names, name), size+len(data)
	}
	slices.Sort(names)
	versions := map[string]map[string][]byte{"v1.0.0": good, "v2.0.0": l.sealed("amf", "stranger")}
	random := rand.New(rand.NewPCG(17, 5))
	for i := range 1000 {
		at := random.IntN(size)
		for _, name := range names {
			if at -= len(good[name]); at >= 0 {
				continue
			}
			bad := map[string][]byte{}
			for n, data := range good {
				bad[n] = data
			}
			bad[name] = bytes.Clone(good[name])
			bad[name][at+len(bad[name])] ^= 1 << random.IntN(8)
			if name == "p.mf" && at == -1 {
				break // the line end after everything
			}
			versions[fmt.Sprintf("v3.0.%d", i)] = bad
			break
		}
	}
	dir := l.upstream("amf")
	l.imports(dir, versions)
	l.sync(desired.Repository{Name: "amf", URL: "amf", Tags: "v*", Verify: desired.Verification{CSAR: roots}})
	if list := l.c.List(); len(list) != 1 || list[0].Ref != "v1.0.0" {
		t.Errorf("offered are %+v", list)
	}
	if e := l.find("amf"); e.Ref != "v1.0.0" || l.c.Verify(t.Context(), e.Tree) != nil {
		t.Errorf("the signed one is %+v", e)
	}
	problems := l.c.Problems()
	if len(problems) < len(versions)-1 {
		t.Errorf("%d of %d are shown as problems", len(problems), len(versions)-1)
	}
	for _, p := range problems {
		if p.Tree == "" {
			continue
		}
		if err := l.c.Verify(t.Context(), p.Tree); err == nil {
			t.Errorf("%s may be used: %v", p.Ref, p)
		}
		if p.Ref == "v2.0.0" && (!errors.Is(p, ErrUnverified) || !strings.Contains(p.Error(), "isn't trusted")) {
			t.Errorf("by a stranger: %v", p)
		}
	}
}
