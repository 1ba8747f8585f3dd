package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	// EnvForgeURL names the environment variable that holds the URL of a Gitea to test with.
	EnvForgeURL = "JIBE_TEST_GITEA_URL"
	// EnvForgeToken names the environment variable that holds a token of an administrator of it.
	EnvForgeToken = "JIBE_TEST_GITEA_TOKEN"
)

// Forge is a Gitea to test with. Tests make repositories of their own in it.
type Forge struct {
	// URL is where it is, Token that of an administrator.
	URL, Token string
}

// Gitea returns the forge that the environment names, or one that ends with the test. It skips the test
// as [Real] does.
func Gitea(t testing.TB) Forge {
	t.Helper()
	Real(t, "a real Gitea")
	if f := (Forge{os.Getenv(EnvForgeURL), os.Getenv(EnvForgeToken)}); f.URL != "" {
		return f
	}
	script := filepath.Join(Root(), "test", "forge", "forge")
	dir := filepath.Join(t.TempDir(), "forge")
	t.Cleanup(func() {
		if out, err := exec.Command(script, "wipe", "--dir", dir).CombinedOutput(); err != nil {
			t.Errorf("stop Gitea: %v: %s", err, out)
		}
	})
	cmd := exec.CommandContext(t.Context(), script, "start", "--dir", dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("start Gitea: %v: %s", err, &said)
	}
	f, err := readForge(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// readForge reads the file that tells of a forge that was started.
func readForge(file string) (f Forge, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return f, err
	}
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name {
		case EnvForgeURL:
			f.URL = value
		case EnvForgeToken:
			f.Token = value
		}
	}
	if f.URL == "" || f.Token == "" {
		return f, fmt.Errorf("%s names no forge", file)
	}
	return f, nil
}
