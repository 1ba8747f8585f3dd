package packages

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestManyReadersShareOnePackage(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	tree := l.commit(up, "")
	repo := desired.Repository{Name: "amf", URL: "amf"}
	l.sync(repo)
	var wg sync.WaitGroup
	got := make([]any, 32)
	for i := range got {
		wg.Go(func() {
			if i%8 == 0 {
				if err := l.c.Sync(t.Context(), []desired.Repository{repo}); err != nil {
					t.Error(err)
				}
			}
			p, err := l.c.Open(t.Context(), tree)
			if err != nil {
				t.Error(err)
			}
			got[i] = p
			if err := l.c.Pin(t.Context(), tree); err != nil {
				t.Error(err)
			}
			l.c.Find("amf-id")
		})
	}
	wg.Wait()
	for _, p := range got {
		if p != got[0] {
			t.Fatal("the package was made twice")
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.catalogue().Open(ended, tree); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: %v", err)
	}
}

func TestAPackageReadsAsAFileSystem(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	l.write(filepath.Join(up, "a.b/x"), "1")
	l.write(filepath.Join(up, "a-b"), "2")
	l.write(filepath.Join(up, "a/y"), "")
	if err := os.Chmod(filepath.Join(up, "a-b"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree := l.commit(up, "")
	l.sync(desired.Repository{Name: "amf", URL: "amf"})
	p, err := l.c.Open(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	if p.Tree != tree || len(p.Artifacts) != 1 {
		t.Errorf("tree %s, artifacts %v", p.Tree, p.Artifacts)
	}
	if err := fstest.TestFS(p.Files, "TOSCA-Metadata/TOSCA.meta", "a.b/x", "a-b", "a/y", "Files/kubernetes/web.yaml"); err != nil {
		t.Error(err)
	}
	if info, err := fs.Stat(p.Files, "a-b"); err != nil || info.Mode() != 0o555 {
		t.Errorf("an executable: %v %v", info, err)
	}
}

func TestLargeFilesAreReadOutOfGitAndNotHeld(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	l := newLab(t)
	l.c.most.held = 1 << 10
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	var content strings.Builder
	for i := range 200_000 {
		fmt.Fprintln(&content, i)
	}
	l.write(filepath.Join(up, "Files/image"), content.String())
	tree := l.commit(up, "")
	l.sync(desired.Repository{Name: "amf", URL: "amf"})
	p, err := l.c.Open(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	if held := p.Files.(*files).held; held > 64<<10 {
		t.Errorf("%d bytes are in memory", held)
	}
	if err := fstest.TestFS(p.Files, "Files/image"); err != nil {
		t.Error(err)
	}
	f, err := p.Files.Open("Files/image")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range []int64{1000, 900_000, 17} { // forwards, and back again
		if _, err := f.(io.Seeker).Seek(at, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 100)
		if _, err := io.ReadFull(f, got); err != nil || string(got) != content.String()[at:at+100] {
			t.Errorf("at %d: %q, %v", at, got, err)
		}
	}
}

// looseObject writes an object, however damaged its content is, and returns its name.
func looseObject(t *testing.T, bare, kind, content string) string {
	t.Helper()

	raw := fmt.Appendf(nil, "%s %d\x00%s", kind, len(content), content)
	name := fmt.Sprintf("%x", sha1.Sum(raw))

	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(bare, "objects", name[:2], name[2:])
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, packed.Bytes(), 0o444)); err != nil {
		t.Fatal(err)
	}

	return name
}

func TestHostileTreesAreRefusedByName(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	bare := filepath.Join(l.dir, "desired.git")
	hash := func(kind, content string) string { return looseObject(t, bare, kind, content) }
	entry := func(mode, name, object string) string {
		raw := make([]byte, 20)
		if _, err := fmt.Sscanf(object, "%x", &raw); err != nil {
			t.Fatal(err)
		}
		return mode + " " + name + "\x00" + string(raw)
	}
	blob := hash("blob", "x")
	deep := hash("tree", entry("100644", "x", blob))
	for range 40 {
		deep = hash("tree", entry("40000", "d", deep))
	}
	// Each level names the next ten times: 10^12 files.
	bomb := hash("tree", entry("100644", "x", blob))
	for range 12 {
		var b strings.Builder
		for i := range 10 {
			b.WriteString(entry("40000", fmt.Sprint(i), bomb))
		}
		bomb = hash("tree", b.String())
	}
	l.c.most.file = 5<<20 - 1
	big := hash("blob", strings.Repeat("x", 5<<20))
	for name, c := range map[string]struct{ tree, want string }{
		"parent":    {hash("tree", entry("100644", "..", blob)), "not allowed"},
		"slash":     {hash("tree", entry("100644", "a/b", blob)), "not allowed"},
		"git":       {hash("tree", entry("40000", ".GIT", deep)), "not allowed"},
		"backslash": {hash("tree", entry("100644", `a\b`, blob)), "not allowed"},
		"twice":     {hash("tree", entry("100644", "a", blob)+entry("100755", "a", blob)), "twice"},
		"submodule": {hash("tree", entry("160000", "sub", blob)), "sub: submodules"},
		"mode":      {hash("tree", entry("100000", "a", blob)), "mode 100000"},
		"damaged":   {hash("tree", "100644 a\x00short"), "damaged"},
		"deep":      {deep, "nest more than"},
		"bomb":      {bomb, "more than 10000 files"},
		"big":       {hash("tree", entry("100644", "a", big)), "at most"},
		"missing":   {hash("tree", entry("100644", "a", strings.Repeat("12", 20))), "no such package"},
		"blob":      {blob, "is a blob"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := l.c.Open(t.Context(), c.tree)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, tree := range []string{"", "HEAD", "--help", strings.Repeat("1", 40)} {
		if _, err := l.c.Open(t.Context(), tree); !errors.Is(err, ErrUnknown) {
			t.Errorf("open %q: %v", tree, err)
		}
		if err := l.c.Pin(t.Context(), tree); !errors.Is(err, ErrUnknown) {
			t.Errorf("pin %q: %v", tree, err)
		}
	}
}

func TestWhatIsKeptIsFoundByItsVNFDIdWhateverTheRepositoriesHave(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	repo := desired.Repository{Name: "amf", URL: "amf", Branch: "main"}
	var trees []string
	for _, p := range [][2]string{{"amf-id", "1.0"}, {"smf-id", "1.0"}, {"amf-id", "1.1"}} {
		l.put(up, p[0], p[1])
		trees = append(trees, l.commit(up, ""))
		l.sync(repo)
	}
	l.put(up, "amf-id", "2.0") // which nobody has run
	l.commit(up, "")
	l.sync(repo)
	for _, tree := range trees {
		if err := l.c.Pin(t.Context(), tree); err != nil {
			t.Fatal(err)
		}
	}
	amf := []string{trees[0], trees[2]}
	slices.Sort(amf)
	check := func(c *Catalogue) {
		t.Helper()
		for id, want := range map[string][]string{"amf-id": amf, "smf-id": trees[1:2], "upf-id": nil} {
			for range 2 { // the second time from memory
				if got, err := c.Kept(t.Context(), id); err != nil || !slices.Equal(got, want) {
					t.Errorf("of %s are kept %v, %v; want %v", id, got, err, want)
				}
			}
		}
	}
	check(l.c)
	if err := os.RemoveAll(up); err != nil {
		t.Fatal(err)
	}
	l.sync()
	check(l.catalogue())
}
