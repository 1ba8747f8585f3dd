package backup_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/jibe-vnfm/jibe/test/process"
)

// newIdentity writes a new age identity to a file and returns its recipient.
func newIdentity(t testing.TB, file string) string {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String()
}

func TestABackupOverTheAPINeedsTheRoleAdminAndIsRecorded(t *testing.T) {
	dir := process.ShortTempDir(t)
	s := process.Start(t, filepath.Join(dir, "data"))
	tokens := filepath.Join(s.Data, "tokens.yaml")
	text, err := os.ReadFile(tokens)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tokens, append(text, "- {name: ann, token: a-token-of-an-operator, role: operator}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("a-token-of-an-operator"), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "b.tar.gz")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s = process.Start(t, s.Data)
	if _, err := jibe(t, "backup", "--server", s.URL, "--token-file", token, name); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("an operator's backup = %v, want 403", err)
	}
	s.Want(t, http.StatusBadRequest, http.MethodPost, "/jibe/v1/backup/kept", map[string]any{"taken": "2999-01-01T00:00:00Z"}, nil)
	admin := filepath.Join(dir, "admin")
	if err := os.WriteFile(admin, []byte(s.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "backup", "--server", s.URL, "--token-file", admin, name)
	must(t, "restore", name, "--verify")
	if _, err := os.Stat(filepath.Join(s.Data, "backup.last")); err != nil {
		t.Errorf("the server doesn't know of the backup: %v", err)
	}
	log, err := os.ReadFile(filepath.Join(s.Data, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`/jibe/v1/backup","outcome":"done"`, `"outcome":"refused"`} {
		if !strings.Contains(strings.ReplaceAll(string(log), " ", ""), want) {
			t.Errorf("the audit log doesn't say %s:\n%s", want, log)
		}
	}
}
