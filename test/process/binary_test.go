package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestABinaryIsUpToDateUntilAFileOfTheTreeIsNewer(t *testing.T) {
	dir := t.TempDir()
	binary, stamp := filepath.Join(dir, "jibe"), filepath.Join(dir, "jibe.built")
	if unchanged(binary, stamp) {
		t.Error("a binary that isn't there is up to date")
	}

	for _, name := range []string{binary, stamp} {
		if err := os.WriteFile(name, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	built := func(at time.Time) {
		t.Helper()
		if err := os.Chtimes(stamp, at, at); err != nil {
			t.Fatal(err)
		}
	}

	built(time.Now().Add(time.Hour)) // whatever is written meanwhile
	if !unchanged(binary, stamp) {
		t.Error("a binary that is newer than all files isn't up to date")
	}
	main, err := os.Stat(filepath.Join(Root(), "cmd", "jibe", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	built(main.ModTime())
	if unchanged(binary, stamp) {
		t.Error("a binary is up to date although a file may have changed since")
	}
}
