package csar_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

type entry struct {
	name string
	mode fs.FileMode
	data string
}

func zipped(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if strings.HasSuffix(e.name, "/") {
			h.Method = zip.Store
		}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(data []byte, limits csar.Limits) (fs.FS, error) {
	return csar.Open(bytes.NewReader(data), int64(len(data)), limits)
}

func TestUnsafeArchivesAreRefusedByTheNameOfTheEntry(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []entry
		want    string
	}{
		{"parent", []entry{{name: "../../etc/passwd"}}, `unsafe VNF package: "../../etc/passwd" leaves the package or isn't in its shortest form`},
		{"hidden parent", []entry{{name: "a/../../b"}}, `unsafe VNF package: "a/../../b" leaves the package or isn't in its shortest form`},
		{"not shortest", []entry{{name: "a//b"}}, `unsafe VNF package: "a//b" leaves the package or isn't in its shortest form`},
		{"empty", []entry{{name: "./"}}, `unsafe VNF package: "./" leaves the package or isn't in its shortest form`},
		{"absolute", []entry{{name: "/etc/passwd"}}, `unsafe VNF package: "/etc/passwd" is an absolute path`},
		{"drive", []entry{{name: "C:/x"}}, `unsafe VNF package: "C:/x" is an absolute path`},
		{"backslash", []entry{{name: `..\x`}}, `unsafe VNF package: "..\\x" has a "\" in its path: use "/"`},
		{"control", []entry{{name: "a\nb"}}, `unsafe VNF package: "a\nb" has characters in its path that aren't printable UTF-8`},
		{"symlink", []entry{{"link", fs.ModeSymlink | 0o777, "/etc/passwd"}}, `unsafe VNF package: "link" is a symbolic link: put the file itself into the package`},
		{"device", []entry{{"tty", fs.ModeDevice | fs.ModeCharDevice | 0o666, ""}}, `unsafe VNF package: "tty" is neither a file nor a directory`},
		{"case", []entry{{name: "Files/a"}, {name: "files/b"}}, `unsafe VNF package: "Files" and "files" differ only in case`},
		{"twice", []entry{{name: "a", data: "1"}, {name: "a", data: "2"}}, `unsafe VNF package: "a" is in the archive twice`},
		{"file and directory", []entry{{name: "a"}, {name: "a/b"}}, `unsafe VNF package: "a" is both a file and a directory`},
		{"long", []entry{{name: strings.Repeat("a", 600)}}, `unsafe VNF package: the path "` + strings.Repeat("a", 60) + `"… is longer than 512 bytes`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(zipped(t, c.entries...), csar.Limits{})
			if !errors.Is(err, csar.ErrUnsafe) || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestArchivesBeyondTheLimitsAreRefused(t *testing.T) {
	bomb := zipped(t, entry{name: "bomb", data: strings.Repeat("\x00", 4<<20)})
	for _, c := range []struct {
		name   string
		data   []byte
		limits csar.Limits
		want   string
	}{
		{"ratio", bomb, csar.Limits{}, "is it a bomb?"},
		{"one file", bomb, csar.Limits{MaxFile: 1 << 20}, `"bomb" has 4194304 bytes, more than 1048576`},
		{"total", zipped(t, entry{name: "a", data: strings.Repeat("x", 3000)}, entry{name: "b", data: strings.Repeat("y", 3000)}), csar.Limits{MaxTotal: 5000}, "its files have more than 5000 bytes in all"},
		{"archive", zipped(t, entry{name: "a"}), csar.Limits{MaxTotal: 10}, "bytes, more than 10"},
		{"count", zipped(t, entry{name: "a"}, entry{name: "b"}), csar.Limits{MaxFiles: 1}, "it has 2 entries, more than 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(c.data, c.limits)
			if !errors.Is(err, csar.ErrTooLarge) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
}

// A bomb may claim to be small: what is read must not exceed the claim.
func TestFileThatIsLargerThanItClaimsIsNotRead(t *testing.T) {
	data := zipped(t, entry{name: "bomb", data: strings.Repeat("\x00", 4<<20)})
	i := bytes.LastIndex(data, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(data[i+24:], 1000)
	files, err := open(data, csar.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fs.ReadFile(files, "bomb"); err == nil || len(got) > 1000 {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	dst := filepath.Join(t.TempDir(), "out")
	if err := csar.Extract(files, dst); err == nil {
		t.Error("extracted")
	}
	left, err := os.ReadDir(filepath.Dir(dst))
	if err != nil || len(left) > 0 {
		t.Error("something was left behind:", left, err)
	}
}

func TestFileThatIsNotAZipIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.csar")
	if err := os.WriteFile(name, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{name, filepath.Dir(name), name + ".gone"} {
		if _, err := csar.OpenFile(n, csar.Limits{}); err == nil || !strings.Contains(err.Error(), n) {
			t.Error(n, err)
		}
	}
}

func TestBuiltPackageExtractsToTheSameFilesAndTheSameBytesEachTime(t *testing.T) {
	src, err := csar.Dir(filepath.Join(examples, "webapp"))
	if err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	for _, b := range []*bytes.Buffer{&one, &two} {
		if err := csar.Build(src, b); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two builds differ")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "webapp.csar")
	if err := os.WriteFile(name, one.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := csar.OpenFile(name, csar.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, problems := csar.Check(a); len(problems) > 0 {
		t.Error(problems)
	}
	dst := filepath.Join(dir, "out")
	if err := csar.Extract(a, dst); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(content(t, src), content(t, os.DirFS(dst))); diff != "" {
		t.Error(diff)
	}
	if err := csar.Extract(a, dst); !errors.Is(err, fs.ErrExist) {
		t.Error("extracted over what was there:", err)
	}
}

const examples = "../../examples/packages"

func content(t *testing.T, files fs.FS) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, p)
		m[p] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOnlyTheRightToRunSurvivesTheArchive(t *testing.T) {
	files := fstest.MapFS{
		"Scripts/run.sh": {Data: []byte("#!/bin/sh\n"), Mode: 0o4700},
		"Files/a":        {Data: []byte("a"), Mode: 0o600},
		".git/config":    {Data: []byte("x"), Mode: 0o600},
	}
	var b bytes.Buffer
	if err := csar.Build(files, &b); err != nil {
		t.Fatal(err)
	}
	z, err := open(b.Bytes(), csar.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(t.TempDir(), "out")
	if err := csar.Extract(z, dst); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"Scripts/run.sh": 0o100, "Files/a": 0} {
		st, err := os.Stat(filepath.Join(dst, name))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode()&(0o100|fs.ModeSetuid) != want {
			t.Error(name, st.Mode())
		}
	}
	if _, err := os.Stat(filepath.Join(dst, ".git")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(".git is in the package:", err)
	}
}

func TestDirRefusesLinksThatLeaveThePackage(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(dir, "inside")); err != nil {
		t.Fatal(err)
	}
	files, err := csar.Dir(dir)
	if err != nil {
		t.Fatal("a link inside the package:", err)
	}
	if data, err := fs.ReadFile(files, "inside"); err != nil || string(data) != "a" {
		t.Error(string(data), err)
	}
	link := filepath.Join(dir, "link")
	for _, target := range []string{outside, "../" + filepath.Base(filepath.Dir(outside)) + "/secret", "nothing"} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		_, err := csar.Dir(dir)
		if !errors.Is(err, csar.ErrUnsafe) || !strings.Contains(err.Error(), `"link"`) {
			t.Error(target, err)
		}
		// A link that was made after the check leads nowhere either.
		if _, err := fs.ReadFile(files, "link"); err == nil {
			t.Error("read through a link to", target)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := csar.Dir(filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestRehashRepairsOnlyTheChecksums(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "webapp")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(examples, "webapp"))); err != nil {
		t.Fatal(err)
	}
	meta := filepath.Join(dir, filepath.FromSlash(vnfd.MetaFile))
	before, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	// The manifest lists TOSCA.meta, whose own checksums change first.
	before = bytes.Replace(before, []byte("CSAR-Version: 1.1\n"), []byte("CSAR-Version: 1.1\nETSI-Entry-Manifest: vnf.mf\n"), 1)
	write(t, meta, before)
	write(t, filepath.Join(dir, "vnf.mf"), []byte("metadata:\n  vnf_product_name: webapp\n\nSource: TOSCA-Metadata/TOSCA.meta\r\nAlgorithm: SHA-512\nHash: H\nSource: Files/kubernetes/configmap.yaml\nAlgorithm: SHA-224\nHash: 00\n"))
	changed := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: webapp-config}\n")
	write(t, filepath.Join(dir, "Files/kubernetes/configmap.yaml"), changed)

	if err := csar.Rehash(dir); err != nil {
		t.Fatal(err)
	}
	files, err := csar.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := csar.Check(files); len(problems) > 0 {
		t.Error(problems)
	}
	after, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	old, err := fs.ReadFile(os.DirFS(filepath.Join(examples, "webapp")), "Files/kubernetes/configmap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(before), fmt.Sprintf("%x", sha256.Sum256(old)), fmt.Sprintf("%x", sha256.Sum256(changed)), 1)
	if diff := cmp.Diff(want, string(after)); diff != "" {
		t.Error(diff)
	}
	whole := content(t, files)
	if err := csar.Rehash(dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole, content(t, files)); diff != "" {
		t.Error("the second time:", diff)
	}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRehashRefusesChecksumsThatCanNotHold(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "TOSCA-Metadata"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, vnfd.MetaFile), []byte("Entry-Definitions: a.yaml\nName: TOSCA-Metadata/TOSCA.meta\nAlgorithm: SHA-256\nHash: 00\n"))
	if err := csar.Rehash(dir); err == nil || !strings.Contains(err.Error(), "can't hold") {
		t.Error(err)
	}
}

// FuzzOpen: whatever the bytes are, an archive that opens has only safe paths
// and unpacks to no more than the limits allow, below its directory.
func FuzzOpen(f *testing.F) {
	f.Add(zipped(f, entry{name: "a/b", data: "x"}, entry{name: "c/"}))
	f.Add(zipped(f, entry{name: "../x", data: "x"}))
	f.Add(zipped(f, entry{"l", fs.ModeSymlink | 0o777, "/etc"}))
	limits := csar.Limits{MaxFiles: 50, MaxFile: 1 << 20, MaxTotal: 2 << 20}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := open(data, limits)
		if err != nil {
			return
		}
		var total int64
		err = fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				t.Fatal(err)
			}
			if d.IsDir() {
				return nil
			}
			if !d.Type().IsRegular() || !fs.ValidPath(p) || strings.Contains(p, `\`) {
				t.Fatalf("%q is a %s", p, d.Type())
			}
			in, err := files.Open(p)
			if err != nil {
				return nil // a broken local header: nothing can be read
			}
			defer in.Close()
			n, _ := io.Copy(io.Discard, in)
			if total += n; total > limits.MaxTotal {
				t.Fatalf("read %d bytes", total)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestRehashOfAPackageWithoutMetadata(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	write(t, filepath.Join(dir, "amf.yaml"), []byte("tosca_definitions_version: tosca_simple_yaml_1_2\n"))
	write(t, filepath.Join(dir, "amf.mf"), []byte("metadata:\n  vnf_product_name: amf\n\nSource: amf.yaml\nAlgorithm: SHA-256\nHash: 00\n"))

	if err := csar.Rehash(dir); err != nil {
		t.Fatal(err)
	}

	if err := vnfd.VerifyArtifacts(&vnfd.Package{Files: os.DirFS(dir)}); err != nil {
		t.Error(err)
	}
	if seal, err := csar.FindSeal(os.DirFS(dir)); seal != nil || err != nil {
		t.Error(seal, err)
	}
}
