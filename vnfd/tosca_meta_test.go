package vnfd_test

import (
	"crypto"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// listed adds an artifact to the base, with the checksum that it has.
func listed(t *testing.T, files fstest.MapFS, where, name, algorithm string, data string) {
	t.Helper()
	files[name] = &fstest.MapFile{Data: []byte(data)}
	h, ok := vnfd.Hash(algorithm)
	if !ok {
		t.Fatal(algorithm)
	}
	sum, err := vnfd.Sum(files, name, h)
	if err != nil {
		t.Fatal(err)
	}
	key := "Name"
	if where != vnfd.MetaFile {
		key = "Source"
	}
	text := string(files[where].Data) + "\r\n\n" + key + ": " + name + "\r\nContent-Type: text/plain\nAlgorithm: " + algorithm + "\nHash: " + sum + "\n"
	files[where] = &fstest.MapFile{Data: []byte(text)}
}

func invalid(t *testing.T, err error) string {
	t.Helper()
	e, ok := errors.AsType[*vnfd.InvalidError](err)
	if !ok {
		t.Fatalf("not an InvalidError: %v", err)
	}
	var lines []string
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

func TestEveryAlgorithmIsVerifiedInMetaAndManifest(t *testing.T) {
	for _, algorithm := range []string{"SHA-224", "SHA-256", "SHA-384", "sha-512"} {
		for _, where := range []string{vnfd.MetaFile, "vnf.mf"} {
			files := base(t)
			files["vnf.mf"] = &fstest.MapFile{Data: []byte("metadata:\n  vnf_product_name: Sample\n")}
			files[vnfd.MetaFile].Data = append([]byte("ETSI-Entry-Manifest: vnf.mf\n"), files[vnfd.MetaFile].Data...)
			listed(t, files, where, "Files/a.txt", algorithm, "hello")
			p, err := vnfd.Load(files)
			if err != nil {
				t.Fatal(err)
			}
			if !p.HasArtifact("Files/a.txt") {
				t.Error("not listed:", p.Artifacts)
			}
			if err := vnfd.VerifyArtifacts(p); err != nil {
				t.Error(algorithm, where, err)
			}
			files["Files/a.txt"] = &fstest.MapFile{Data: []byte("hellp")}
			got := invalid(t, vnfd.VerifyArtifacts(p))
			if !strings.HasPrefix(got, where+":") || !strings.Contains(got, "Files/a.txt was changed: its "+algorithm+" is ") {
				t.Error(got)
			}
			delete(files, "Files/a.txt")
			got = invalid(t, vnfd.VerifyArtifacts(p))
			if !strings.HasSuffix(got, "Files/a.txt is listed but isn't in the package") {
				t.Error(got)
			}
		}
	}
}

func TestArtifactThatIsListedTwiceMustHoldBothTimes(t *testing.T) {
	files := base(t)
	files["vnf.mf"] = &fstest.MapFile{Data: []byte("metadata:\n")}
	files[vnfd.MetaFile].Data = append([]byte("ETSI-Entry-Manifest: vnf.mf\n"), files[vnfd.MetaFile].Data...)
	listed(t, files, vnfd.MetaFile, "Files/a.txt", "SHA-256", "hello")
	listed(t, files, "vnf.mf", "Files/a.txt", "SHA-512", "hello")
	p, err := vnfd.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Scripts/scale.py", "Files/a.txt"}, p.Artifacts); diff != "" {
		t.Error(diff)
	}
	if err := vnfd.VerifyArtifacts(p); err != nil {
		t.Error(err)
	}
	files["vnf.mf"].Data = []byte("Source: Files/a.txt\nAlgorithm: SHA-256\nHash: bb\n")
	if got := invalid(t, vnfd.VerifyArtifacts(p)); got != "vnf.mf:3: Files/a.txt was changed: its SHA-256 is 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824, not bb" {
		t.Error(got)
	}
}

func TestManifestIsReadUpToItsSignature(t *testing.T) {
	files := base(t)
	files[vnfd.MetaFile].Data = append([]byte("ETSI-Entry-Manifest: vnf.mf\n"), files[vnfd.MetaFile].Data...)
	files["vnf.mf"] = &fstest.MapFile{Data: []byte("metadata:\n  vnf_product_name: Sample\n\nnon_mano_artifact_sets:\n  x:\n    Source: Files/x\nSource: Files/y\n-----BEGIN CMS-----\nSource: Files/z\n")}
	m, err := vnfd.ReadMeta(files)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, a := range m.Artifacts {
		paths = append(paths, a.Path)
	}
	if diff := cmp.Diff([]string{"Scripts/scale.py", "Files/x", "Files/y"}, paths); diff != "" {
		t.Error(diff)
	}
}

func TestArtifactOutsideThePackageIsListedButNotVerified(t *testing.T) {
	files := base(t)
	files[vnfd.MetaFile].Data = append(files[vnfd.MetaFile].Data, "\nName: https://example.com/a.yaml\nAlgorithm: SHA-256\nHash: 00\n"...)
	p, err := vnfd.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	if !p.HasArtifact("https://example.com/a.yaml") {
		t.Error(p.Artifacts)
	}
	if err := vnfd.VerifyArtifacts(p); err != nil {
		t.Error(err)
	}
}

func TestDefinitionLargerThanTheLimitIsRefused(t *testing.T) {
	files := base(t)
	files["Definitions/df.yaml"] = &fstest.MapFile{Data: append(files["Definitions/df.yaml"].Data, []byte(strings.Repeat("# filler\n", vnfd.MaxFile/9+1))...)}
	_, err := vnfd.Load(files)
	if got := invalid(t, err); got != "Definitions/df.yaml: is larger than 1048576 bytes" {
		t.Error(got)
	}
}

func TestDefinitionsThatAreTooMuchTogetherAreRefused(t *testing.T) {
	files := base(t)
	filler := []byte("# " + strings.Repeat("x", vnfd.MaxFile-10) + "\na: 1\n")
	imports := "imports:\n"
	for _, n := range strings.Split("abcdefgh", "") {
		files["Definitions/"+n+".yaml"] = &fstest.MapFile{Data: filler}
		imports += "  - " + n + ".yaml\n"
	}
	files["Definitions/top.yaml"].Data = []byte(strings.Replace(string(files["Definitions/top.yaml"].Data), "imports:\n", imports, 1))
	_, err := vnfd.Load(files)
	if got := invalid(t, err); !strings.Contains(got, "the files of the VNFD have more than 8388608 bytes in all") {
		t.Error(got)
	}
}

func TestUnknownAlgorithmsAreNotHashes(t *testing.T) {
	for _, a := range []string{"", "MD5", "SHA-1", "SHA256"} {
		if h, ok := vnfd.Hash(a); ok {
			t.Error(a, "is", h)
		}
	}
	if h, _ := vnfd.Hash("SHA-256"); h != crypto.SHA256 {
		t.Error(h)
	}
}

// counted counts how often each file is opened.
type counted struct {
	fstest.MapFS
	opened map[string]int
}

func (c counted) Open(name string) (fs.File, error) {
	c.opened[name]++
	return c.MapFS.Open(name)
}

func TestAFileThatIsListedAThousandTimesIsReadOnce(t *testing.T) {
	meta := "Entry-Definitions: a.yaml\n" + strings.Repeat("Name: a.txt\nAlgorithm: SHA-256\nHash: 00\n", 5000)
	files := counted{fstest.MapFS{vnfd.MetaFile: {Data: []byte(meta)}, "a.txt": {Data: []byte("hello")}}, map[string]int{}}
	err := vnfd.VerifyArtifacts(&vnfd.Package{Files: files})
	bad, ok := errors.AsType[*vnfd.InvalidError](err)
	if !ok || len(bad.Problems) != 1000 || files.opened["a.txt"] > 2 {
		t.Errorf("%T with %d problems, %d readings", err, len(bad.Problems), files.opened["a.txt"])
	}
	if said := err.Error(); strings.Count(said, "was changed") != 20 || !strings.Contains(said, "and 980 more") {
		t.Errorf("it says %d times what is wrong", strings.Count(said, "was changed"))
	}
}
