package app_test

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/process"
)

func TestAPushToTheMirrorOfAForgeIsRefusedNamingTheForge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "forge.git")
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "http.lowSpeedTime=20"}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	work := filepath.Join(t.TempDir(), "work")
	for _, args := range [][]string{
		{"init", "-q", "--bare", "-b", "main", dir}, {"clone", "-q", dir, work},
		{"-C", work, "commit", "-q", "--allow-empty", "-m", "first"}, {"-C", work, "push", "-q", "origin", "HEAD:main"},
	} {
		if out, err := git(args...); err != nil {
			t.Fatal(out)
		}
	}
	// Whom Jibe logs in as is for no one else to see.
	s, stop := start(t, process.ShortTempDir(t), sim.NewCloud(), "file://secret-token@localhost"+dir)
	defer stop()
	at, err := url.Parse(s.URL + "/git/desired.git")
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("jibe", s.Token)
	head, _ := git("-C", work, "rev-parse", "HEAD")
	if out, err := git("ls-remote", at.String(), "refs/heads/main"); err != nil || !strings.HasPrefix(out, head) {
		t.Errorf("the mirror shows %s, want %s: %v", out, head, err)
	}
	out, err := git("-C", work, "push", at.String(), "HEAD:other")
	if err == nil || !strings.Contains(out, "push to file://localhost"+dir) || strings.Contains(out, "secret-token") {
		t.Errorf("a push: %v, %s", err, out)
	}
}
