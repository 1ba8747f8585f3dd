package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// data makes a small data directory: a store, two repositories, keys.
func data(t testing.TB) (dir string, s *bolt.Store) {
	t.Helper()
	dir = t.TempDir()
	s, err := bolt.Open(filepath.Join(dir, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := s.Put(t.Context(), store.Record{Key: "a", Value: []byte("record")}); err != nil {
		t.Fatal(err)
	}
	for _, repo := range []string{"desired.git", "packages/packages.git"} {
		repo = filepath.Join(dir, repo)
		for _, args := range [][]string{{"init", "--quiet", "--bare", "--initial-branch=main", repo}, {"-C", repo, "fast-import", "--quiet"}} {
			cmd := exec.CommandContext(t.Context(), "git", args...)
			cmd.Stdin = strings.NewReader("commit refs/heads/main\ncommitter A <a@example.org> 0 +0000\ndata 1\nx\nM 100644 inline file\ndata 4\ntext\n\n")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v: %s", args, err, out)
			}
		}
	}
	for name, text := range map[string]string{"identity.age": "key", "tokens.yaml": "tokens: []", "installation": "abc\n", "secrets/kubeconfig": "secret",
		"uploads/one.csar": "archive", "audit.jsonl": "{\"a\":1}\n{\"half", "audit.head": "{}", "hook.sock.note": "other"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, s
}

func take(t testing.TB) (m *backup.Manifest, archive []byte) {
	t.Helper()
	dir, s := data(t)
	var b bytes.Buffer
	m, err := backup.Take(t.Context(), backup.Source{Data: dir, Version: "test", Store: s}, &b)
	if err != nil {
		t.Fatal(err)
	}
	return m, b.Bytes()
}

func restore(ctx context.Context, archive []byte, dir string) error {
	_, err := backup.Restore(ctx, bytes.NewReader(archive), dir, slog.New(slog.DiscardHandler), nil)
	return err
}

func TestWhatWasTakenIsRestored(t *testing.T) {
	m, archive := take(t)
	dir := filepath.Join(t.TempDir(), "new")
	if err := restore(t.Context(), archive, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"identity.age": "key", "secrets/kubeconfig": "secret", "uploads/one.csar": "archive", "audit.jsonl": "{\"a\":1}\n", "hook.sock.note": "other"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	for _, repo := range []string{"desired.git", "packages/packages.git"} {
		if out, err := exec.CommandContext(t.Context(), "git", "-C", filepath.Join(dir, repo), "show", "main:file").Output(); err != nil || string(out) != "text" {
			t.Errorf("%s has %q, %v", repo, out, err)
		}
	}
	if m.Head == "" || m.Installation != "abc" || m.Taken.IsZero() {
		t.Errorf("the manifest says %+v", m)
	}
	s, err := bolt.Open(filepath.Join(dir, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if rec, err := s.Get(t.Context(), "a"); err != nil || string(rec.Value) != "record" {
		t.Errorf("the record is %q, %v", rec.Value, err)
	}
}

func TestRecordsInRedisAreInABackupAsAFile(t *testing.T) {
	dir, _ := data(t)
	if err := os.WriteFile(filepath.Join(dir, "store.url"), []byte("redis://redis.example:6379/0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := redis.Open(t.Context(), redis.Options{URL: redisserver.Start(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := r.Put(t.Context(), store.Record{Key: "b", Value: []byte("in Redis")}, store.Record{Key: "log/"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	m, err := backup.Take(t.Context(), backup.Source{Data: dir, Version: "test", Store: r, Place: "redis://redis.example:6379/0"}, &b)
	if err != nil || m.Records == "" {
		t.Fatalf("the manifest is %+v, %v", m, err)
	}
	to := filepath.Join(t.TempDir(), "new")
	if err := restore(t.Context(), b.Bytes(), to); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "store.url")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the restored directory says that its records are elsewhere: %v", err)
	}
	s, err := bolt.Open(filepath.Join(to, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	recs, err := s.List(t.Context(), "", "", 0)
	if err != nil || len(recs) != 2 || string(recs[0].Value) != "in Redis" {
		t.Errorf("the records are %+v, %v", recs, err)
	}
	if next, err := s.Put(t.Context(), store.Record{Key: "log/"}); err != nil || next[0].Key <= out[1].Key {
		t.Errorf("after %s comes %+v, %v", out[1].Key, next, err)
	}
}

func TestABackupWithoutRecordsIsRestoredOnlyWhereItSaysThatTheyAreElsewhere(t *testing.T) {
	for place, want := range map[string]bool{"redis://redis.example:6379/0\n": true, "": false} {
		_, archive := take(t)
		archive = older(t, archive, place)
		to := filepath.Join(t.TempDir(), "new")
		if err := restore(t.Context(), archive, to); (err == nil) != want {
			t.Errorf("records at %q: restored with %v", place, err)
		} else if got, _ := os.ReadFile(filepath.Join(to, "store.url")); string(got) != place {
			t.Errorf("the restored directory has its records at %q, want %q", got, place)
		}
	}
}

// older makes a backup as one was that has no records, but the URL of where they are, unless that is "".
func older(t testing.TB, archive []byte, place string) []byte {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	again := gzip.NewWriter(&b)
	in, out := tar.NewReader(zipped), tar.NewWriter(again)
	write := func(name string, text []byte) {
		t.Helper()
		err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(text))})
		if err == nil {
			_, err = out.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			if err := out.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Name {
		case "store.db":
			continue
		case backup.ManifestFile:
			var m backup.Manifest
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			m.Files = slices.DeleteFunc(m.Files, func(f backup.File) bool { return f.Name == "store.db" })
			if place != "" {
				write("store.url", []byte(place))
				m.Files = append(m.Files, backup.File{Name: "store.url", Size: int64(len(place)), SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(place)))})
			}
			if text, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
		}
		write(h.Name, text)
	}
	if err := errors.Join(out.Close(), again.Close()); err != nil {
		t.Fatal(err)
	}
	end, err := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	if err != nil {
		t.Fatal(err)
	}
	end.Comment = fmt.Sprintf("jibe backup sha256:%x", sha256.Sum256(b.Bytes()))
	if err := end.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestEachByteThatChangedIsNoticed changes one byte at a time of a whole backup.
func TestEachByteThatChangedIsNoticed(t *testing.T) {
	kit.Long(t)
	_, archive := take(t)
	var whole backup.Checker
	whole.Write(archive)
	if err := whole.Complete(); err != nil {
		t.Fatal(err)
	}
	for at := range archive {
		var c backup.Checker
		c.Write(archive[:at])
		c.Write([]byte{archive[at] ^ 1})
		c.Write(archive[at+1:])
		if c.Complete() == nil {
			t.Fatalf("a change of byte %d of %d isn't noticed", at, len(archive))
		}
	}
	// What restores reads it so, too; there, each is unpacked, so that fewer are tried.
	dir := t.TempDir()
	step := max(1, len(archive)/150)
	for at := 0; at < len(archive); at += step {
		bad := bytes.Clone(archive)
		bad[at] ^= 0x40
		name := filepath.Join(dir, fmt.Sprint(at))
		if err := restore(t.Context(), bad, name); err == nil {
			t.Errorf("a backup whose byte %d is another is restored", at)
		}
		if left, err := os.ReadDir(name); err == nil && len(left) > 1 {
			t.Errorf("the directory has %v after a restore that was refused", left)
		}
	}
	for _, size := range []int{0, 1, len(archive) / 2, len(archive) - 1} {
		if err := restore(t.Context(), archive[:size], filepath.Join(dir, fmt.Sprint("short-", size))); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("the first %d bytes of %d: %v", size, len(archive), err)
		}
	}
	if err := restore(t.Context(), append(bytes.Clone(archive), 'x'), filepath.Join(dir, "long")); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("with a byte more: %v", err)
	}
}

func TestARestoreGoesIntoAnEmptyDirectoryOnly(t *testing.T) {
	_, archive := take(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restore(t.Context(), archive, dir); err == nil || !strings.Contains(err.Error(), "isn't empty") {
		t.Errorf("Restore = %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

func TestABackupWithAnEndOfItsReaderLeavesNothingInTheDataDirectory(t *testing.T) {
	dir, s := data(t)
	r, w := io.Pipe()
	go func() {
		_, _ = io.CopyN(io.Discard, r, 100) // then nobody reads any more
		r.CloseWithError(errors.New("gone"))
	}()
	if _, err := backup.Take(t.Context(), backup.Source{Data: dir, Version: "test", Store: s}, w); err == nil {
		t.Error("a backup that nobody read to its end is said to be taken")
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".backup-*")); err != nil || len(left) > 0 {
		t.Errorf("the data directory keeps %v, %v", left, err)
	}
}

func TestTheLastBackupIsNotedAndNeverGoesBack(t *testing.T) {
	dir := t.TempDir()
	if _, err := backup.Last(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Last = %v", err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, taken := range []time.Time{at, at.Add(-time.Hour)} {
		if err := backup.SetLast(dir, taken); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := backup.Last(dir); err != nil || !got.Equal(at) {
		t.Errorf("Last = %v, %v; want %v", got, err, at)
	}
}
