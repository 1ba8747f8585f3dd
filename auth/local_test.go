package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestALocalTokenIsTheFirstInClear(t *testing.T) {
	t.Parallel()
	digest := "sha256:30182e35bf94d26bbb1371f62ffcfd566295ffd1692f05a677b7094247620753"
	path := filepath.Join(t.TempDir(), "tokens.yaml")

	if _, err := LocalToken(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}

	for text, want := range map[string]string{
		"tokens: [{token: '" + digest + "'}, {token: the-second-in-clear}, {token: the-third-in-clear}]": "the-second-in-clear",
		"tokens: [{token: '" + digest + "'}]": "",
		"tokens: a-secret-out-of-place":       "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := LocalToken(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error quotes the file: %v", err)
		}
	}
}
