package backup_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/jibe-vnfm/jibe/backup"
)

func TestBorrowedObjectsAreMadeOnesOwnByTheRemedy(t *testing.T) {
	t.Parallel()

	dir, s := data(t)
	repository := filepath.Join(dir, "desired.git")
	lent := filepath.Join(t.TempDir(), "lent.git")
	if out, err := exec.Command("sh", "-ec", `git clone -q --mirror "$1" "$2"; rm -rf "$1"; git clone -q --mirror --shared "$2" "$1"`, "sh", repository, lent).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	source := backup.Source{Data: dir, Version: "test", Store: s}
	_, err := backup.Take(t.Context(), source, io.Discard)
	if err == nil {
		t.Fatal("a backup without the objects that are elsewhere")
	}
	m := regexp.MustCompile(`git -C \S+ repack -a -d`).FindString(err.Error())

	if out, cerr := exec.Command("sh", "-c", m).CombinedOutput(); m == "" || cerr != nil {
		t.Fatalf("%v: %q: %v: %s", err, m, cerr, out)
	}
	if err := os.Remove(filepath.Join(repository, "objects", "info", "alternates")); err != nil { // "that file"
		t.Fatal(err)
	}
	if err := os.RemoveAll(lent); err != nil {
		t.Fatal(err)
	}

	if _, err := backup.Take(t.Context(), source, io.Discard); err != nil {
		t.Error(err)
	}
	if out, err := exec.Command("git", "-C", repository, "fsck", "--connectivity-only").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
