package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// CLI runs a command of the client against the server, as its admin, and returns what it
// printed and its exit code.
func (s *Server) CLI(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	binary := s.cmd.Path
	if self, err := os.Executable(); err != nil || binary == self {
		binary = Binary(t) // a laboratory is the test itself, which would run all tests again
	}

	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(Environment(), "JIBE_SERVER="+s.URL, "JIBE_DATA="+s.Data)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Encrypt is a secret as anybody can encrypt it who knows the server's recipient; the flags say what for, vims/ without
// any.
func (s *Server) Encrypt(t testing.TB, text string, flags ...string) string {
	t.Helper()
	identity, err := os.ReadFile(filepath.Join(s.Data, "identity.age"))
	if err != nil {
		t.Fatal(err)
	}
	_, recipient, _ := strings.Cut(string(identity), "# public key: ")
	recipient, _, _ = strings.Cut(recipient, "\n")
	cmd := exec.CommandContext(t.Context(), s.cmd.Path, append([]string{"secret", "encrypt", "--recipient", recipient}, flags...)...)
	cmd.Stdin = strings.NewReader(text)
	sealed, err := cmd.Output()
	if err != nil {
		t.Fatalf("encrypt for %q: %v", recipient, err)
	}
	return strings.TrimSpace(string(sealed))
}
