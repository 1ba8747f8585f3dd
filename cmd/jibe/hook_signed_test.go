package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/test/process"
)

func TestAnUnsignedPushIsRefusedByTheHookWhetherAServerAnswersOrNot(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		out, err := process.Git(t.Context(), dir, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	git("init", "--quiet", "--bare", "--initial-branch=main")
	tree := git("mktree", "--missing")
	old := git("commit-tree", "-m", "First", tree)
	git("update-ref", "refs/heads/main", old)
	next := git("commit-tree", "-p", old, "-m", "Second", tree)
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte("a ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFBLl9AFMMdGGUAqmQwH8J0jx4QHMNG8uB8CJHiCAtkD\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for what, p := range map[string]struct{ file, ref, want string }{
		"unsigned":        {keys, "refs/heads/main", "commit " + next},
		"no file of keys": {keys + ".gone", "refs/heads/main", "trusted keys"},
		"another branch":  {keys, "refs/heads/main2", ""},
	} {
		var stderr strings.Builder
		err := pushHook{socket: filepath.Join(dir, "no-socket"), repository: admission.DesiredRepository, keys: p.file}.preReceive(t.Context(), strings.NewReader(old+" "+next+" "+p.ref+"\n"), &stderr)
		if (err == nil) != (p.want == "") || !strings.Contains(stderr.String(), p.want) {
			t.Errorf("%s: %v\n%s", what, err, stderr.String())
		}
	}
}
