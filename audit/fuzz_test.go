package audit_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/audit"
)

// FuzzVerify gives files to verify that nobody wrote with the key: none may pass as more than is
// in it of the log.
func FuzzVerify(f *testing.F) {
	dir := f.TempDir()
	l, err := audit.Open(options(dir))
	if err != nil {
		f.Fatal(err)
	}
	for range 3 {
		if err := l.Record(f.Context(), audit.Record{Time: time.Unix(1, 0), Action: "POST", Outcome: audit.Done}); err != nil {
			f.Fatal(err)
		}
	}
	l.Close()
	whole := read(f, filepath.Join(dir, "audit.jsonl"))
	f.Add(whole)
	f.Add(whole[:len(whole)-2])
	f.Add([]byte(`{"seq":1,"time":"2026-01-01T00:00:00Z","action":"x","outcome":"done","prev":"","mac":""}` + "\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		put(t, path, data)
		if got, err := audit.Verify(audit.Check{Key: key}, path); err == nil && (!bytes.HasPrefix(whole, data) || got.First != 1) {
			t.Errorf("%q was verified", data)
		}
		_, _ = audit.Verify(audit.Check{Partial: true}, path)
		_, _ = audit.ReadHead(path, key)
		if h, err := audit.ParseHead(string(data)); err == nil && h.String() != string(data) {
			t.Errorf("%q is the end %v", data, h)
		}
	})
}
