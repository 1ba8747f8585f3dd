package process_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// seedOf is a directory as Kubernetes mounts a ConfigMap: what one sees are links.
func seedOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		to := filepath.Join(dir, "..2026_01_01", name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		top, _, _ := strings.Cut(name, "/")
		if err := os.Symlink(filepath.Join("..data", top), filepath.Join(dir, top)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..2026_01_01", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAFirstStartCommitsTheSeedAndLaterOnesLeaveItAlone(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	data := t.TempDir()
	show := func(s *process.Server, file string) string {
		t.Helper()
		text, err := process.Git(t.Context(), s.Desired(), "show", "main:"+file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	s := process.Start(t, data, "--seed", seedOf(t, map[string]string{"vims/here.yaml": "type: sim\n", "projects/default.yaml": "quotas: {instances: 3}\n"}))
	if vim, repos := show(s, "vims/here.yaml"), show(s, "repositories.yaml"); !strings.Contains(vim, "type: sim") || !strings.Contains(repos, "packages.git") {
		t.Errorf("the first commit has %q and %q", vim, repos)
	}
	head := show(s, "")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s = process.Start(t, data, "--seed", seedOf(t, map[string]string{"vims/here.yaml": "type: sim\ndefault: true\n"}))
	if now := show(s, ""); now != head || strings.Contains(show(s, "vims/here.yaml"), "default") {
		t.Errorf("a later start has changed the repository: %s, was %s", now, head)
	}
}

func TestASeedThatWouldNotBeObeyedIsRefusedWhole(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	for name, test := range map[string]struct{ file, text, want string }{
		"what can't be read":    {"vims/here.yaml", "type: sim\nnonsense: 1\n", "nonsense"},
		"an instance":           {"instances/a/vnf.yaml", "name: a\n", "instances"},
		"a file that is no VIM": {"vims/readme.md", "hello", "vims/readme.md can't be among them"},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			out := refusedStart(t, data, "--seed", seedOf(t, map[string]string{test.file: test.text, "repositories.yaml": "[]\n"}))
			if !strings.Contains(out, test.want) || !strings.Contains(out, "--seed") {
				t.Errorf("it says %q", out)
			}
			// A start without it is a first start still.
			s := process.Start(t, data)
			if text, err := process.Git(t.Context(), s.Desired(), "show", "main:repositories.yaml"); err != nil || !strings.Contains(text, "packages.git") {
				t.Errorf("repositories.yaml is %q, %v", text, err)
			}
		})
	}
	if out := refusedStart(t, t.TempDir(), "--seed", t.TempDir(), "--remote", t.TempDir()); !strings.Contains(out, "--remote") {
		t.Errorf("beside a forge: %q", out)
	}
}

// refusedStart is what jibe serve says that doesn't start.
func refusedStart(t *testing.T, data string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), process.Binary(t), append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("jibe serve ended without an error: %s", out)
	}
	return string(out)
}

func TestTokensAndKeyMayBeKeptElsewhere(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	const token = "a-token-that-stands-in-a-Secret"
	other := process.Start(t, t.TempDir())
	key := filepath.Join(other.Data, "identity.age")
	sealed := other.Encrypt(t, "hunter2")
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(role string) {
		t.Helper()
		text := fmt.Sprintf("tokens: [{name: a, role: %s, token: \"sha256:%x\"}]\n", role, sha256.Sum256([]byte(token)))
		if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("admin")
	data := t.TempDir()
	// One in the data directory is of no account then.
	if err := os.WriteFile(filepath.Join(data, "tokens.yaml"), []byte("tokens: [{name: b, role: admin, token: another-token-that-lets-nobody-in}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, data, "--tokens", tokens, "--identity", key)
	s.Want(t, http.StatusUnauthorized, http.MethodGet, "/vnflcm/v2/vnf_instances", nil, nil)
	s.Token = token
	s.Want(t, http.StatusOK, http.MethodGet, "/vnflcm/v2/vnf_instances", nil, nil)
	s.PushFiles(t, map[string]string{"vims/a.yaml": "type: openstack\nendpoint: https://k.example.org\nproject: p\ncredentials: {username: u, password: '" + strings.TrimSpace(sealed) + "'}\n"})
	has, err := os.ReadFile(filepath.Join(data, "identity.age"))
	if err != nil {
		t.Fatal(err)
	}
	if was, err := os.ReadFile(key); err != nil || string(was) != string(has) {
		t.Errorf("the key is another one: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	// Another key later is of no account: what is encrypted needs the first.
	third := process.Start(t, t.TempDir())
	process.Start(t, data, "--tokens", tokens, "--identity", filepath.Join(third.Data, "identity.age"))
	if now, err := os.ReadFile(filepath.Join(data, "identity.age")); err != nil || string(now) != string(has) {
		t.Errorf("a later start has another key: %v", err)
	}
}
