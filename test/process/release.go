package process

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// NextVersion copies an expanded package into a folder of another name that goes when
// the test ends, and replaces text in all of its files: old and new by turns, as its
// vnfdId, versions and images. The copy has no checksums. It returns the folder.
func NextVersion(t testing.TB, dir, name string, oldnew ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer(oldnew...)
	err := filepath.WalkDir(to, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if d.Name() == "TOSCA.meta" {
			text, _, _ = bytes.Cut(text, []byte("\n\n"))
			text = append(text, '\n')
		}
		return os.WriteFile(file, []byte(replace.Replace(string(text))), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}
