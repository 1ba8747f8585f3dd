package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// newKey makes a key of SSH in a file, and returns the line of its public half.
func newKey(t *testing.T, file string) (public []byte) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", filepath.Base(file), "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func TestOnlyWhatItsPusherHasSignedIsTakenWhereThatIsAskedFor(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	data, keys := pushData(t, pushTokens+"- {name: noc, role: operator, token: token-of-noc-00000}\n"), t.TempDir()
	var trusted strings.Builder
	for _, name := range []string{"ops", "noc", "stranger"} {
		public := newKey(t, filepath.Join(keys, name))
		if name != "stranger" {
			fmt.Fprintf(&trusted, "%[1]s,%[1]s@example.com %[2]s", name, public)
		}
	}
	file := filepath.Join(keys, "trusted")
	if err := os.WriteFile(file, []byte(trusted.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, data, "--verify-desired", file, "--require-signed-push")
	s.AwaitPackages(t, process.SmallVnfd)
	w := process.NewWorkTree(t, s.Desired())
	commit := func(signer string) {
		args := []string{"commit", "-q", "--allow-empty", "-m", "By " + signer}
		if signer != "" {
			args = append([]string{"-c", "gpg.format=ssh", "-c", "user.signingKey=" + filepath.Join(keys, signer)}, append(args, "-S")...)
		}
		w.Git(args...)
	}
	n := 0
	for what, c := range map[string]struct {
		pusher  string
		signers []string
		want    string
	}{
		"their own":             {"noc", []string{"noc"}, ""},
		"two of their own":      {"ops", []string{"ops", "ops"}, ""},
		"somebody else's":       {"noc", []string{"ops"}, "is signed by ops, ops@example.com ("},
		"one of two is another": {"ops", []string{"ops", "noc"}, "and pushed by ops: each commit must be signed by who pushes it"},
		"nobody's":              {"ops", []string{""}, "the commit has no signature"},
		"an unknown key's":      {"ops", []string{"stranger"}, "isn't one of those that are trusted"},
		"who has no key here":   {"root", []string{"ops"}, "and pushed by root"},
	} {
		w.Git("fetch", "-q", "origin")
		if _, err := process.Git(t.Context(), w.Dir(), "rev-parse", "--verify", "-q", "origin/main"); err == nil {
			w.Git("reset", "-q", "--hard", "origin/main")
		}
		for _, signer := range c.signers {
			n++
			w.Write("instances/east/amf/vnf.yaml", fmt.Sprintf(notYet, fmt.Sprintf("amf-%d", n)))
			w.Git("add", "-A")
			commit(signer)
		}
		out, err := process.Git(t.Context(), w.Dir(), "push", as(s, c.pusher, "desired.git"), "HEAD:main")
		said := strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(out, err), "\nremote: ", " "), "remote: ", "")
		if (err == nil) != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %s", what, said)
		}
	}
	// A push by path has the account of its process for a pusher, whose name stands in no line.
	w.Git("fetch", "-q", "origin")
	w.Git("reset", "-q", "--hard", "origin/main")
	commit("ops")
	if out, err := process.Git(t.Context(), w.Dir(), "push", s.Desired(), "HEAD:main"); err == nil || !strings.Contains(fmt.Sprint(out, err), "pushed by local:") {
		t.Errorf("by path: %s %v", out, err)
	}
}
