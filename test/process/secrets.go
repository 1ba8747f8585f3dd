package process

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

// fileRef is a reference to a file in the text of a VIM or an instance.
var fileRef = regexp.MustCompile(`file:(/[^/\s"',}][^\s"',}]*)`)

// Keep copies the files that references in the text name into the directory of secrets
// of a data directory, which need not be there yet, and returns the text with references to
// the copies: a server reads no others.
func Keep(data, text string) (string, error) {
	dir := filepath.Join(data, secret.DefaultDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	var failed error
	kept := fileRef.ReplaceAllStringFunc(text, func(ref string) string {
		from := fileRef.FindStringSubmatch(ref)[1]
		to := filepath.Join(dir, filepath.Base(from))
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, content, 0o600)
		}
		if err != nil {
			failed = fmt.Errorf("keep %s for the server: %w", from, err)
		}
		return "file:" + to
	})
	return kept, failed
}

// Keep is [Keep] for a server that runs.
func (s *Server) Keep(t testing.TB, text string) string {
	t.Helper()
	kept, err := Keep(s.Data, text)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}
