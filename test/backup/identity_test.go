package backup_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/jibe-vnfm/jibe/test/kit"
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
	kit.Long(t)
	t.Parallel()
	dir, _ := small(t)
	data := filepath.Join(dir, "data")
	tokens := filepath.Join(data, "tokens.yaml")
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
	s := process.Start(t, data)

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

func TestAnEncryptedBackupShowsNothingAndOpensForItsRecipientAlone(t *testing.T) {
	t.Parallel()
	dir, _ := small(t)
	data := filepath.Join(dir, "data")
	mine, other := filepath.Join(dir, "mine.key"), filepath.Join(dir, "other.key")
	recipient := newIdentity(t, mine)
	newIdentity(t, other)
	out := must(t, "backup", "--data", data, "--recipient", recipient, dir)
	files, err := filepath.Glob(filepath.Join(dir, "jibe-*.tar.gz.age"))
	if err != nil || len(files) != 1 || !strings.Contains(out, files[0]) {
		t.Fatalf("the backup's file: %v, %v; it was said: %s", files, err, out)
	}
	if strings.Contains(out, "in clear") {
		t.Errorf("an encrypted backup is said to be in clear: %s", out)
	}
	for args, want := range map[string]string{"": "the backup is encrypted", other: "for others than the identities"} {
		if _, err := jibe(t, "restore", files[0], "--verify", "--identity", args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with identity %q: %v, want %q", args, err, want)
		}
	}
	must(t, "restore", files[0], "--identity", mine, "--data", filepath.Join(dir, "restored"))
	a, err := os.ReadFile(filepath.Join(data, "identity.age"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "restored", "identity.age"))
	if err != nil || string(a) != string(b) {
		t.Errorf("the key that was restored is another one: %v", err)
	}
	sealed, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(sealed), "AGE-SECRET-KEY") {
		t.Error("the key is in the encrypted backup in clear")
	}
}
