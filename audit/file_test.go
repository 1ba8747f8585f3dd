package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/test/kit"
)

var key = []byte("the key of the installation")

func options(dir string) audit.Options {
	return audit.Options{Path: filepath.Join(dir, "audit.jsonl"), Head: filepath.Join(dir, "audit.head"), Key: key, Log: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, o audit.Options) *audit.File {
	t.Helper()
	l, err := audit.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// write puts n records into the log at dir.
func write(t *testing.T, dir string, n int) {
	t.Helper()
	l := open(t, options(dir))
	for i := range n {
		record(t, l, fmt.Sprintf("/vnflcm/v2/vnf_instances/%d", i))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func record(t *testing.T, l *audit.File, object string) {
	t.Helper()
	if err := l.Record(t.Context(), audit.Record{Identity: "anna", Source: "192.0.2.7", Action: "POST", Object: object, Outcome: audit.Done}); err != nil {
		t.Fatal(err)
	}
}

// verify holds all files of the log at dir against what it noted itself.
func verify(t *testing.T, dir string) (audit.Verified, error) {
	t.Helper()
	end, err := audit.ReadHead(filepath.Join(dir, "audit.head"), key)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "audit.jsonl*"))
	if err != nil {
		t.Fatal(err)
	}
	return audit.Verify(audit.Check{Key: key, Ends: []audit.Head{end}}, files...)
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheChainGoesOnOverRestartsAndRenamedFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 3)
	write(t, dir, 2)
	l := open(t, options(dir))
	record(t, l, "/before")
	if err := os.Rename(filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "audit.jsonl.1")); err != nil {
		t.Fatal(err)
	}
	record(t, l, "/after")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if text := read(t, filepath.Join(dir, "audit.jsonl")); bytes.Count(text, []byte("\n")) != 1 || !bytes.Contains(text, []byte(`"object":"/after"`)) {
		t.Errorf("the new file: %s", text)
	}
	got, err := verify(t, dir)
	if err != nil || got.First != 1 || got.End.Seq != 7 || got.End != l.End() {
		t.Errorf("%+v, %v", got, err)
	}
	// Renamed while nobody writes, it goes on in a new file, too.
	if err := os.Rename(filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "audit.jsonl.2")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, 1)
	if got, err = verify(t, dir); err != nil || got.End.Seq != 8 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestManyWhoRecordAtOnceAllHaveTheirPlace(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir))
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			for range 25 {
				record(t, l, "/x")
			}
		})
	}
	all.Wait()
	l.Close()
	if got, err := verify(t, dir); err != nil || got.End.Seq != 1000 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := l.Record(t.Context(), audit.Record{}); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("a log that is closed takes a record: %v", err)
	}
}

func TestALineThatACrashLeftHalfIsRemovedAndTold(t *testing.T) {
	for cut := 1; cut < 200; cut += 13 {
		dir := t.TempDir()
		write(t, dir, 3)
		// The third record isn't confirmed: nothing says yet that it is there.
		path, head := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "audit.head")
		noted := read(t, head)
		write(t, dir, 1)
		text := read(t, path)
		put(t, path, text[:len(text)-cut])
		put(t, head, noted)
		write(t, dir, 1)
		if got, err := verify(t, dir); err != nil || got.End.Seq != 5 || !bytes.Contains(read(t, path), []byte("of a record that was written only in part")) {
			t.Errorf("without the last %d bytes: %+v, %v", cut, got, err)
		}
	}
}

func TestAHeadOlderThanTheFileIsThatOfACrash(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1)
	head := filepath.Join(dir, "audit.head")
	noted := read(t, head)
	write(t, dir, 2)
	put(t, head, noted)
	write(t, dir, 1)
	if got, err := verify(t, dir); err != nil || got.End.Seq != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestEveryTamperingIsFound alters a log in a thousand ways, by somebody who has the files and not
// the key.
func TestEveryTamperingIsFound(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 30)
	path := filepath.Join(dir, "audit.jsonl")
	whole := read(t, path)
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		lines := bytes.SplitAfter(bytes.Clone(whole), []byte("\n"))[:30]
		i, j := rng.IntN(30), rng.IntN(29)
		if j >= i {
			j++
		}
		var what string
		switch seed % 8 {
		case 0:
			what = "a bit"
			lines[i][rng.IntN(len(lines[i]))] ^= 1 << rng.IntN(8)
		case 1:
			what = "a line that is removed"
			lines = append(lines[:i], lines[i+1:]...)
		case 2:
			what = "two lines that change places"
			lines[i], lines[j] = lines[j], lines[i]
		case 3:
			what = "a line twice"
			lines = append(lines[:i+1], lines[i:]...)
		case 4:
			what = "an end that is cut off"
			lines = lines[:i]
		case 5:
			what = "bytes that are cut out"
			n := 1 + rng.IntN(len(lines[i])-1)
			at := rng.IntN(len(lines[i]) - n + 1)
			lines[i] = append(lines[i][:at:at], lines[i][at+n:]...)
		case 6:
			what = "another name"
			lines[i] = bytes.Replace(lines[i], []byte("anna"), []byte("otto"), 1)
		case 7:
			what = "a beginning that is cut off"
			lines = lines[i+1:]
		}
		put(t, path, bytes.Join(lines, nil))
		_, err := verify(t, dir)
		if _, bad := errors.AsType[*audit.BadError](err); !bad && !errors.Is(err, audit.ErrEmpty) {
			t.Fatalf("seed %d: %s isn't found: %v", seed, what, err)
		}
	}
}

func TestWhoKnowsTheFormButNotTheKeyCanNotGoOnWithTheChain(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, dir, 3)
	o := options(other)
	o.Key = []byte("that of somebody else")
	put(t, o.Path, read(t, filepath.Join(dir, "audit.jsonl")))
	forger := open(t, o)
	record(t, forger, "/forged")
	forger.Close()
	put(t, filepath.Join(dir, "audit.jsonl"), read(t, o.Path))
	_, err := verify(t, dir)
	if bad, ok := errors.AsType[*audit.BadError](err); !ok || bad.Line != 4 {
		t.Errorf("%v", err)
	}
	// Jibe doesn't build on what was forged, and what it writes itself shows that it was there.
	write(t, dir, 1)
	_, err = verify(t, dir)
	if bad, ok := errors.AsType[*audit.BadError](err); !ok || bad.Line != 4 {
		t.Errorf("%v", err)
	}
	if text := read(t, filepath.Join(dir, "audit.jsonl")); !bytes.Contains(text, []byte("none of this log's")) {
		t.Errorf("%s", text)
	}
}

func TestWithoutItsEndALogSaysSoEverAfter(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 6)
	path := filepath.Join(dir, "audit.jsonl")
	lines := bytes.SplitAfter(read(t, path), []byte("\n"))
	put(t, path, bytes.Join(lines[:3], nil))
	write(t, dir, 2)
	_, err := verify(t, dir)
	if bad, ok := errors.AsType[*audit.BadError](err); !ok || bad.Line != 4 || bad.Reason != "records 4 to 6 are missing before it" {
		t.Errorf("%v", err)
	}
	if text := read(t, path); !bytes.Contains(text, []byte("records 4 to 6 are missing at the end of the file")) {
		t.Errorf("%s", text)
	}
}

func TestAnEndThatWasNotedElsewhereShowsALogThatWasRolledBackAsAWhole(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 2)
	early, head := read(t, filepath.Join(dir, "audit.jsonl")), read(t, filepath.Join(dir, "audit.head"))
	l := open(t, options(dir))
	record(t, l, "/x")
	noted, err := audit.ParseHead(l.End().String())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	put(t, filepath.Join(dir, "audit.jsonl"), early)
	put(t, filepath.Join(dir, "audit.head"), head)
	if _, err := verify(t, dir); err != nil {
		t.Errorf("the files alone can't show it: %v", err)
	}
	for range 2 { // another record in its place doesn't hide it
		if _, err := audit.Verify(audit.Check{Key: key, Ends: []audit.Head{noted}}, filepath.Join(dir, "audit.jsonl")); err == nil {
			t.Error("the log was rolled back, and verified")
		}
		write(t, dir, 1)
	}
}

func TestOlderFilesMayBeKeptElsewhereOnlyIfThatIsSaid(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 3)
	path := filepath.Join(dir, "audit.jsonl")
	if err := os.Rename(path, filepath.Join(t.TempDir(), "kept")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, 1)
	if _, err := audit.Verify(audit.Check{Key: key}, path); err == nil || !strings.Contains(err.Error(), "records 1 to 3 are missing") {
		t.Errorf("%v", err)
	}
	if got, err := audit.Verify(audit.Check{Key: key, Partial: true}, path); err != nil || got.First != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestARecordIsOneBoundedLineWhateverAStrangerSends(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir))
	for _, evil := range []string{"a\nb\r\n", "\x1b[2J\u009b2J", "\u202eabc\u2028", "\xff\xfe\x00", strings.Repeat("\x00", 1<<20), strings.Repeat("ß", 1<<16) + "\"}", `{"seq":1}`} {
		if err := l.Record(t.Context(), audit.Record{Identity: evil, Issuer: evil, Source: evil, Action: evil, Object: evil, Project: evil,
			Outcome: audit.Outcome(evil), Reason: evil, Commit: evil, Result: evil}); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	text := read(t, filepath.Join(dir, "audit.jsonl"))
	for line := range bytes.Lines(text) {
		if len(line) > 64<<10 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
	for _, r := range string(text) {
		if r != '\n' && r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u2028' || r == '\ufffd' {
			t.Fatalf("%q is in the log", r)
		}
	}
	if got, err := verify(t, dir); err != nil || got.End.Seq != 7 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatSomebodyElseWritesIntoTheFileStaysAndIsTold(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir))
	record(t, l, "/one")
	f, err := os.OpenFile(filepath.Join(dir, "audit.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, `{"seq":2}`)
	f.Close()
	record(t, l, "/two")
	record(t, l, "/three")
	l.Close()
	_, err = verify(t, dir)
	if bad, ok := errors.AsType[*audit.BadError](err); !ok || bad.Line != 2 {
		t.Errorf("%v", err)
	}
	if text := read(t, filepath.Join(dir, "audit.jsonl")); !bytes.Contains(text, []byte("somebody else wrote to it")) {
		t.Errorf("%s", text)
	}
}

func TestAFileOfAnotherProcessOrThatOthersMayWriteIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, options(dir))
	o := options(dir)
	o.Head += "2"
	if _, err := audit.Open(o); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("%v", err)
	}
	o = options(t.TempDir())
	put(t, o.Path, nil)
	if err := os.Chmod(o.Path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Open(o); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v", err)
	}
}

func TestAnOutputThatTakesNothingMakesTheLogUnreadyUntilItDoes(t *testing.T) {
	dir := t.TempDir()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	out := &swap{to: full}
	o := options(dir)
	o.Path, o.Out = "", out
	l := open(t, o)
	if err := l.Record(t.Context(), audit.Record{Action: "POST"}); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if err := l.Ready(); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	f, err := os.Create(filepath.Join(dir, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out.set(f)
	kit.Until(t, "the log can be written again", func() bool { return l.Ready() == nil })
	record(t, l, "/again")
	l.Close()
	if got, err := verify(t, dir); err != nil || got.End.Seq != 2 || !bytes.Contains(read(t, f.Name()), []byte("couldn't be written from")) {
		t.Errorf("%+v, %v", got, err)
	}
}

// swap is an output that can be replaced while it is used.
type swap struct {
	mu sync.Mutex
	to *os.File
}

func (s *swap) set(to *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = to
}

func (s *swap) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}
