package datadir_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/internal/datadir"
)

func open(t *testing.T, dir string) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func installation(t *testing.T, d *datadir.Dir, seed string) string {
	t.Helper()
	id, err := d.Installation([]byte(seed))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestTheIDOfAnInstallationStaysAndOutlivesItsKey(t *testing.T) {
	dir := t.TempDir()
	first := installation(t, open(t, dir), "key")
	if len(first) != 16 {
		t.Errorf("the id is %q", first)
	}
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if id := installation(t, open(t, copied), "another key"); id != first {
		t.Errorf("the copy, whose key was rotated, is %q, want %q", id, first)
	}
	if id := installation(t, open(t, t.TempDir()), "key"); id != first {
		t.Errorf("set up anew with its key it is %q, want %q", id, first)
	}
	if id := installation(t, open(t, t.TempDir()), "another key"); id == first {
		t.Error("another installation has the same id")
	}
}

func TestAnIDOfOnesOwnIsTakenAndOneThatCantBeIsRefused(t *testing.T) {
	for text, ok := range map[string]bool{
		"site-b\n": true, "a": true, strings.Repeat("a", 40): true,
		"": false, "\n": false, "Site": false, "a/b": false, "-a": false, "a b": false, strings.Repeat("a", 41): false, "a\nb": false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "installation"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := open(t, dir).Installation([]byte("key"))
		switch {
		case ok && (err != nil || id != strings.TrimSpace(text)):
			t.Errorf("%q: %q, %v", text, id, err)
		case !ok && (err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "installation"))):
			t.Errorf("%q isn't refused by name: %q, %v", text, id, err)
		}
	}
}
