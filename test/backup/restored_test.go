package backup_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// recorded are the records of one action in the file of an audit log.
func recorded(t testing.TB, file, action string) (list []audit.Record) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v in %s", file, err, line)
		}
		if r.Action == action {
			list = append(list, r)
		}
	}
	return list
}

// end is how far the audit log of a data directory goes, as jibe audit verify says it.
func end(t testing.TB, args ...string) string {
	t.Helper()
	out := must(t, append([]string{"audit", "verify"}, args...)...)
	_, after, ok := strings.Cut(out, "the end is ")
	if !ok {
		t.Fatalf("jibe audit verify said %q", out)
	}
	return strings.TrimSpace(after)
}

// tellsOf fails unless a record says that this process's user restored the file within a time.
func tellsOf(t testing.TB, r audit.Record, file, taken string, from, to time.Time) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if !strings.HasPrefix(r.Identity, "local:") || r.Issuer != "host" || r.Object != file || r.Outcome != audit.Done {
		t.Errorf("the record is %+v", r)
	}
	if r.Time.Before(from.Truncate(time.Microsecond)) || r.Time.After(to) {
		t.Errorf("it was restored between %s and %s, and the record says %s", from, to, r.Time)
	}
	for _, want := range []string{taken, hex.EncodeToString(sum[:])} {
		if !strings.Contains(r.Reason, want) {
			t.Errorf("the record doesn't name %s: %s", want, r.Reason)
		}
	}
}

// takenAt is the moment of a backup up to the second, as jibe restore --verify says it.
func takenAt(t testing.TB, file string) string {
	t.Helper()
	out := must(t, "restore", file, "--verify")
	_, after, _ := strings.Cut(out, "as of ")
	at, err := time.Parse(time.RFC3339, strings.SplitN(after, ",", 2)[0])
	if err != nil {
		t.Fatalf("jibe restore --verify said %q: %v", out, err)
	}
	return at.UTC().Format("2006-01-02T15:04:05")
}

func TestTheAuditLogOfARestoredDirectorySaysWhoRestoredWhichBackupAndStaysWhole(t *testing.T) {
	t.Parallel()
	dir, file := small(t)
	before := end(t, "--data", filepath.Join(dir, "data"))
	restored := filepath.Join(dir, "restored")
	from := time.Now()
	must(t, "restore", file, "--data", restored)
	log := filepath.Join(restored, "audit.jsonl")
	list := recorded(t, log, "restore")
	if len(list) != 1 {
		t.Fatalf("the log has %d records of the restore: %+v", len(list), list)
	}
	tellsOf(t, list[0], file, takenAt(t, file), from, time.Now())
	// The chain goes on from where the backup's was.
	after := end(t, "--data", restored, "--end", before)
	s := process.Start(t, restored)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	end(t, "--data", restored, "--end", before, "--end", after)
	if list := recorded(t, log, "restore"); len(list) != 1 {
		t.Errorf("after a start the log has %d records of the restore: %+v", len(list), list)
	}
	if _, err := jibe(t, "restore", file, "--data", restored); err == nil {
		t.Error("a backup is restored into a directory that isn't empty")
	}
	if again := recorded(t, log, "restore"); len(again) != 1 {
		t.Errorf("a restore that was refused is recorded: %+v", again)
	}
}

func TestAnAuditLogThatIsKeptElsewhereGetsTheRecordsOfRestoresAtTheNextStart(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	dir := process.ShortTempDir(t)
	log := filepath.Join(dir, "audit", "jibe.jsonl")
	if err := os.Mkdir(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, filepath.Join(dir, "data"), "--audit", log)
	s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(dir, "first.tar.gz")
	must(t, "backup", "--data", s.Data, first)
	from := time.Now()
	once := filepath.Join(dir, "once")
	must(t, "restore", first, "--data", once)
	// What is noted goes with a backup that is taken before a server was started.
	second := filepath.Join(dir, "second.tar.gz")
	must(t, "backup", "--data", once, second)
	twice := filepath.Join(dir, "twice")
	must(t, "restore", second, "--data", twice)
	to := time.Now()
	if _, err := os.Stat(filepath.Join(twice, "audit.jsonl")); err == nil {
		t.Error("the restored directory has an audit log, and the chain goes on elsewhere")
	}
	for range 2 { // the second start records nothing more
		s = process.Start(t, twice, "--audit", log)
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	end(t, "--data", twice, log)
	list := recorded(t, log, "restore")
	if len(list) != 2 {
		t.Fatalf("the log has %d records of two restores: %+v", len(list), list)
	}
	tellsOf(t, list[0], first, takenAt(t, first), from, to)
	tellsOf(t, list[1], second, takenAt(t, second), from, to)
}

func TestABackupByAPipeIsRecordedWithItsSum(t *testing.T) {
	t.Parallel()
	dir, file := small(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(dir, "restored")
	cmd := exec.CommandContext(t.Context(), process.Binary(t), "restore", "-", "--data", restored)
	cmd.Stdin, cmd.Env = bytes.NewReader(text), process.Environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	list := recorded(t, filepath.Join(restored, "audit.jsonl"), "restore")
	sum := sha256.Sum256(text)
	if len(list) != 1 || list[0].Object != "standard input" || !strings.Contains(list[0].Reason, hex.EncodeToString(sum[:])) {
		t.Errorf("the records are %+v", list)
	}
}
