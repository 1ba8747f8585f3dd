package main

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired/secret"
)

// verifyAudit runs "jibe audit verify".
func verifyAudit(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	root := newRoot()
	var stdout bytes.Buffer
	root.SetOut(&stdout)
	root.SetArgs(append([]string{"audit", "verify"}, args...))
	err = root.ExecuteContext(t.Context())
	return stdout.String(), err
}

func TestTheAuditLogOfADataDirectoryIsCheckedAndTheFirstBadLineNamed(t *testing.T) {
	t.Setenv("JIBE_DATA", "")
	dir := t.TempDir()
	if _, err := verifyAudit(t, "--data", dir); err == nil || !strings.Contains(err.Error(), "is no data directory") {
		t.Errorf("%v", err)
	}
	if _, err := secret.Open(dir, nil); err != nil {
		t.Fatal(err)
	}
	key, err := app.AuditKey(dir, secret.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := audit.Open(audit.Options{Path: app.AuditFile(dir), Head: app.AuditHead(dir), Key: key, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"anna", "otto", "emil"} {
		if err := l.Record(t.Context(), audit.Record{Identity: name, Action: "POST", Outcome: audit.Done}); err != nil {
			t.Fatal(err)
		}
	}
	end := l.End().String()
	l.Close()
	for _, args := range [][]string{{"--data", dir}, {"--data", dir, "--end", end}, {"--without-key", app.AuditFile(dir)}} {
		if out, err := verifyAudit(t, args...); err != nil || !strings.HasPrefix(out, "records 1 to 3 are whole; the end is "+end+"\n") {
			t.Errorf("%v: %s%v", args, out, err)
		}
	}
	whole, err := os.ReadFile(app.AuditFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(app.AuditFile(dir), bytes.Replace(whole, []byte("otto"), []byte("anna"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := verifyAudit(t, "--data", dir); err == nil || !strings.HasSuffix(err.Error(), "audit.jsonl:2: record 2 was altered, or is by another installation") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(app.AuditFile(dir), whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := verifyAudit(t, "--data", dir); err == nil || !strings.Contains(err.Error(), "record 3 is missing at the end") {
		t.Errorf("%v", err)
	}
	if _, err := verifyAudit(t, "--data", dir, "--partial"); err != nil {
		t.Error(err)
	}
	for want, args := range map[string][]string{"--data": nil, "is no end of an audit log": {"--data", dir, "--end", "3"}, "no such file": {"--data", dir, "none"}} {
		if _, err := verifyAudit(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
