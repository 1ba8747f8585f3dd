package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func noteLine(i int) string {
	return fmt.Sprintf("INSTANTIATE %s of %s COMPLETED", testID(i), testID(i+1))
}

// noteLines is the note of a commit in a closed repository.
func noteLines(t *testing.T, dir, commit string) []string {
	t.Helper()
	return strings.Split(runGit(t, dir, "notes", "--ref=jibe", "show", commit), "\n")
}

func TestTheNoteOfACommitThatBeganVeryManyOperationsIsWrittenAFewTimes(t *testing.T) {
	t.Parallel()

	const n, step = 20_000, 100
	r := openRepo(t, Options{})
	commit := mustWrite(t, r, testID(1), "instances/a", 1).Commit
	var want []string
	for i := range n {
		want = append(want, noteLine(i))
		r.Note(commit, want[i])
		if i%step == step-1 {
			r.flushNotes(t.Context(), false)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := noteLines(t, r.opt.Dir, commit); !slices.Equal(got, want) {
		t.Errorf("the note has %d lines, want %d", len(got), len(want))
	}
	small := largeNote/len(want[0])/step + 1
	if times, err := strconv.Atoi(runGit(t, r.opt.Dir, "rev-list", "--count", objects.NotesRef)); err != nil || times > small+30 {
		t.Errorf("it was written %d times (%v)", times, err)
	}
	if exists(r.notes.journal.name) {
		t.Error("what waited is still in the journal")
	}
}

func TestNotesThatWaitForTheirTurnOutliveACrash(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	commit := mustWrite(t, r, testID(1), "instances/a", 1).Commit
	var want []string
	for i := range largeNote / 50 {
		want = append(want, noteLine(i))
	}
	r.move.Lock() // the writer waits until all are there: one note
	for _, l := range want[:len(want)-1] {
		r.Note(commit, l)
	}
	r.move.Unlock()
	r.flushNotes(t.Context(), false)

	// The crash comes before the turn of what waits, which is only half a second away.
	crashed := filepath.Join(t.TempDir(), "desired.git")
	err := func() error {
		r.move.Lock()
		defer r.move.Unlock()
		r.Note(commit, want[len(want)-1])
		r.Note(commit, want[0])
		if due, err := r.notes.take(false); err != nil || len(due) > 0 {
			return fmt.Errorf("the note was written at once: %d lines, %w", len(due[commit]), err)
		}
		return os.CopyFS(crashed, os.DirFS(r.opt.Dir))
	}()
	if err != nil {
		t.Fatal(err)
	}
	torn, err := os.OpenFile(filepath.Join(objects.OwnDir(crashed), "notes"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(commit + " half a li"); err != nil {
		t.Fatal(err)
	}
	if err := torn.Close(); err != nil {
		t.Fatal(err)
	}
	if got := noteLines(t, crashed, commit); len(got) != len(want)-1 {
		t.Fatalf("the note was written at once: it has %d lines", len(got))
	}
	again := openRepo(t, Options{Dir: crashed})
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if got := noteLines(t, crashed, commit); !slices.Equal(got, want) {
		t.Errorf("the note has %d lines, want %d", len(got), len(want))
	}
}

func TestNotesThatCantBeWrittenAreTriedAgain(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	commit := mustWrite(t, r, testID(1), "instances/a", 1).Commit
	ref := filepath.Join(r.opt.Dir, "refs", "notes", "jibe")
	if err := os.MkdirAll(filepath.Dir(ref), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ref, []byte("no commit\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.Note(commit, "op-1 COMPLETED")
	r.flushNotes(t.Context(), false)
	if err := os.Remove(ref); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := noteLines(t, r.opt.Dir, commit); !slices.Equal(got, []string{"op-1 COMPLETED"}) {
		t.Errorf("the note is %q", got)
	}
}

// TestNotesThatALockHoldsUpDontGrow has a crash in mind that left the lock of the notes: before, each try wrote
// all that waits into the journal once more, and each start read all of it.
func TestNotesThatALockHoldsUpDontGrow(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := openRepo(t, Options{})
	commit := mustWrite(t, r, testID(1), "instances/a", 1).Commit
	r.Note(commit, noteLine(0))
	r.flushNotes(t.Context(), true)
	lock := filepath.Join(r.opt.Dir, "refs", "notes", "jibe.lock")
	if err := os.WriteFile(lock, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	young := time.Now().Add(time.Hour) // however long this takes, nobody takes it for what a crash left
	if err := os.Chtimes(lock, young, young); err != nil {
		t.Fatal(err)
	}
	want := []string{noteLine(0)}
	for i := range 10 {
		want = append(want, noteLine(i+1))
	}
	journal := filepath.Join(objects.OwnDir(r.opt.Dir), "notes")
	size := func() int64 {
		st, err := os.Stat(journal)
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	for range 3 { // starts
		for range 5 { // tries of each
			for _, l := range want {
				r.Note(commit, l)
			}
			r.flushNotes(t.Context(), true)
		}
		if most := int64(len(want) * (len(commit) + len(want[10]) + 2)); size() > most {
			t.Fatalf("the journal has %d bytes, want at most %d", size(), most)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if got := noteLines(t, r.opt.Dir, commit); !slices.Equal(got, want[:1]) {
			t.Fatalf("the note is %q beside the lock", got)
		}
		r = openRepo(t, Options{Dir: r.opt.Dir})
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	r.flushNotes(t.Context(), true) // breaks the lock
	r.flushNotes(t.Context(), true)
	if got := noteLines(t, r.opt.Dir, commit); !slices.Equal(got, want) {
		t.Errorf("the note is %q, want %q", got, want)
	}
	if exists(journal) {
		t.Error("what waited is still in the journal")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNotesOutliveAKillHoweverLongTheRemoteIsAwayAndWritesAreTried(t *testing.T) {
	t.Parallel()

	forge := bareRemote(t)
	r := openRepo(t, Options{Remote: forge, PollInterval: time.Hour})
	commit := mustWrite(t, r, testID(1), shardDir(testID(1)), 1).Commit
	if err := os.Rename(forge, forge+".away"); err != nil {
		t.Fatal(err)
	}
	// The writer never rests.
	ctx, stop := context.WithCancel(t.Context())
	var tried sync.WaitGroup
	defer tried.Wait()
	defer stop()
	for i := range 3 {
		tried.Go(func() {
			for ctx.Err() == nil {
				_, _ = r.Write(ctx, desired.Write{Instance: testID(1), Subject: "s", Change: setLevel(testID(1), 2+i)})
			}
		})
	}
	r.Note(commit, "how it ended")
	kit.Eventually(t, func() error {
		out, err := exec.Command("git", "-C", r.opt.Dir, "notes", "--ref=jibe", "show", commit).CombinedOutput()
		if err == nil && !strings.Contains(string(out), "how it ended") {
			err = errors.New("not yet")
		}
		return err
	})
	stop()
	tried.Wait()
	if err := os.Rename(forge+".away", forge); err != nil {
		t.Fatal(err)
	}
	r.ShareNotes(t.Context())
	if got := noteLines(t, forge, commit); !slices.Contains(got, "how it ended") {
		t.Errorf("the remote's note is %q", got)
	}
}

func TestNotesThatAreBeingWrittenAreSharedToo(t *testing.T) {
	t.Parallel()

	forge := bareRemote(t)
	r := openRepo(t, Options{Remote: forge, PollInterval: time.Hour})
	commit := mustWrite(t, r, testID(1), shardDir(testID(1)), 1).Commit
	r.move.Lock() // as the writer has it
	r.notes.put(note{commit, "how it ended"})
	pack := git.NewPack()
	m := r.buildNotes(t.Context(), pack, true)
	shared := make(chan struct{})
	go func() {
		defer close(shared)
		r.ShareNotes(t.Context())
	}()
	select {
	case <-shared:
	case <-time.After(200 * time.Millisecond):
	}
	if err := pack.Write(r.opt.Dir, objects.OwnDir(r.opt.Dir)); err != nil {
		t.Fatal(err)
	}
	r.moveNotes(t.Context(), m)
	r.move.Unlock()
	<-shared
	if got := noteLines(t, forge, commit); !slices.Contains(got, "how it ended") {
		t.Errorf("the remote's note is %q", got)
	}
}

func TestNotesAreSharedAsSoonAsAPushMayBeMade(t *testing.T) {
	t.Parallel()

	forge := bareRemote(t)
	r := openRepo(t, Options{Remote: forge, PollInterval: time.Hour, PushInterval: time.Second})
	commit := mustWrite(t, r, testID(1), shardDir(testID(1)), 1).Commit
	r.Note(commit, "how it ended")
	r.ShareNotes(t.Context())
	if got := noteLines(t, forge, commit); !slices.Contains(got, "how it ended") {
		t.Errorf("the remote's note is %q", got)
	}
}

func TestNotesThatSeveralShareAtOnceAllArrive(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	commit := mustWrite(t, openRepo(t, Options{Remote: forge, PollInterval: time.Hour}), testID(1), shardDir(testID(1)), 1).Commit
	var all sync.WaitGroup
	var want []string
	for n := range 3 {
		r := openRepo(t, Options{Dir: filepath.Join(t.TempDir(), "mirror.git"), Remote: forge, PollInterval: time.Hour})
		line := fmt.Sprint("seen by ", n)
		want = append(want, line)
		r.Note(commit, line)
		all.Go(func() { r.ShareNotes(t.Context()) })
	}
	all.Wait()
	got := noteLines(t, forge, commit)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("the remote's note is %q, without %q", got, line)
		}
	}
}
