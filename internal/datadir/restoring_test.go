package datadir

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A restore that is killed while it writes its mark, the first thing it does, has left nothing
// but the beginning of the mark.
func TestARestoreGoesOverOneThatWasKilledAtItsFirstWrite(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, temporary(UnfinishedFile)+"3412736894")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Restore(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if Exists(left) {
		t.Errorf("%s is left", left)
	}
	if !Exists(filepath.Join(dir, UnfinishedFile)) {
		t.Error("the directory isn't marked as one that holds a part of a backup")
	}
}

func TestARestoreRefusesADirectoryWithSomethingOfSomebody(t *testing.T) {
	for _, name := range []string{"store.db", ".new-repository.git", ".new-installation-1"} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a restore into a directory that has %s = %v, want a refusal that names it", name, err)
		}
		if !Exists(file) {
			t.Errorf("%s is gone", name)
		}
	}
}
