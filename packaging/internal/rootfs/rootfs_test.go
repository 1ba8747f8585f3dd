package rootfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"time"
)

func TestATreeIsWrittenTheSameWhateverOrderItWasMadeIn(t *testing.T) {
	write := func(names ...string) []byte {
		tree := Tree{}
		for _, n := range names {
			tree.Add(n, 0o644, []byte(n))
		}
		tree["a-link"] = File{Type: tar.TypeLink, Target: "z/file"}
		var b bytes.Buffer
		if err := tree.Write(&b, time.Unix(1, 500)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	first := write("z/file", "b", "c/d/e")
	if !bytes.Equal(first, write("c/d/e", "z/file", "b")) {
		t.Error("the order decides what it is")
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(first)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 1 || h.Uid != 0 {
			t.Errorf("%s: %v, owned by %d", h.Name, h.ModTime, h.Uid)
		}
		names = append(names, h.Name)
	}
	// What a hard link is of must be there before it.
	if want := []string{"b", "c/", "c/d/", "c/d/e", "z/", "z/file", "a-link"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

func TestUnpackPutsFilesWhereAMergedSystemHasThem(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "./lib/"},
		{Typeflag: tar.TypeReg, Name: "./lib/x.so", Mode: 0o4755},
		{Typeflag: tar.TypeReg, Name: "./usr/share/doc/x"},
		{Typeflag: tar.TypeSymlink, Name: "./bin/sh", Linkname: "dash"},
		{Typeflag: tar.TypeReg, Name: "./bin/dash", Mode: 0o755},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tree := Tree{}
	if err := tree.Unpack(&b, func(name string) bool { return name != "usr/share/doc/x" }); err != nil {
		t.Fatal(err)
	}
	if f, ok := tree["usr/lib/x.so"]; !ok || f.Mode != 0o755 {
		t.Errorf("/lib/x.so is %v, %o: want it in usr/lib, without setuid", ok, f.Mode)
	}
	if at, ok := tree.Resolve("/bin/sh"); !ok || at != "usr/bin/dash" {
		t.Errorf("/bin/sh is %s, %v", at, ok)
	}
	if _, ok := tree["usr/share/doc/x"]; ok {
		t.Error("a file is there that nobody wanted")
	}
}
