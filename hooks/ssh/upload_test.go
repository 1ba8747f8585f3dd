package ssh

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAFileArrivesWholeWithItsModeWhateverItsName(t *testing.T) {
	vm, c := one(t, Options{})
	on(t, vm, "mkdir", "-m", "777", "/srv/with space")
	for name, at := range map[string]string{
		"plain":                            "/home/ubuntu/plain",
		"/tmp/it's":                        "/tmp/it's",
		"/srv/with space/a \"b\" $HOME":    "/srv/with space/a \"b\" $HOME",
		"-rf":                              "/home/ubuntu/-rf",
		"/tmp/two\nlines":                  "/tmp/two\nlines",
		"/tmp/" + strings.Repeat("n", 255): "/tmp/" + strings.Repeat("n", 255),
	} {
		for _, text := range []string{"first", "", "second $(id)\n"} {
			if err := c.Upload(soon(t), strings.NewReader(text), name, 0o640); err != nil {
				t.Errorf("%q: %v", name, err)
				continue
			}
			if got, err := vm.ReadFile(at); err != nil || string(got) != text {
				t.Errorf("%q holds %q, %v; want %q", at, got, err, text)
			}
		}
		if got := on(t, vm, "stat", "-c", "%a %U", at); got != "640 ubuntu" {
			t.Errorf("%q is %s", at, got)
		}
	}
	if got := on(t, vm, "sh", "-c", "ls -A /tmp /home/ubuntu '/srv/with space' | grep -c part-; true"); got != "0" {
		t.Errorf("%s temporary files were left", got)
	}
}

func TestABigFileArrivesWhole(t *testing.T) {
	vm, c := one(t, Options{})
	data := make([]byte, 20<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	if err := c.Upload(soon(t), bytes.NewReader(data), "/tmp/big", 0o755); err != nil {
		t.Fatal(err)
	}
	if got, want := on(t, vm, "sha256sum", "/tmp/big"), fmt.Sprintf("%x  /tmp/big", sha256.Sum256(data)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAFileThatDoesNotArriveLeavesItsTarget(t *testing.T) {
	vm, c := one(t, Options{})
	on(t, vm, "sh", "-c", "echo former >/tmp/file; mkdir -m 755 /srv/closed; mkdir -m 777 /srv/full; mount -t tmpfs -o size=64k,mode=777 full /srv/full; echo former >/srv/full/file")
	broken := errors.New("the disk is broken")
	err := c.Upload(soon(t), io.MultiReader(strings.NewReader("begin"), failing{broken}), "/tmp/file", 0o644)
	mustBe(t, err, broken)

	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- c.Upload(ctx, r, "/tmp/file", 0o644) }()
	fmt.Fprint(w, "begin")
	cancel()
	mustBe(t, <-done, context.Canceled)
	r.Close()

	for name, want := range map[string]string{
		"/srv/closed/file":  "Permission denied",
		"/srv/missing/file": "irectory",
		"/srv/full/file":    "No space left",
		"/srv/full":         "is a directory",
		"/srv/":             "names no file",
		"":                  "names no file",
		"a\x00b":            "zero byte",
	} {
		says(t, c.Upload(soon(t), bytes.NewReader(make([]byte, 1<<20)), name, 0o644), want)
	}
	for _, name := range []string{"/tmp/file", "/srv/full/file"} {
		if got := on(t, vm, "cat", name); got != "former" {
			t.Errorf("%s holds %d bytes", name, len(got))
		}
	}
	kit.Until(t, "an end of all temporary files", func() bool {
		return on(t, vm, "sh", "-c", "ls -A /tmp /home/ubuntu /srv /srv/full | grep -c part-; true") == "0"
	})
}
