package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/test/kit"
)

var testKey = []byte("the installation's key")

// pushAs makes a commit by path, as the hook has a server do it: the pusher is written down
// first.
func pushAs(t *testing.T, r *Repo, dir, who string, change func()) read.Push {
	t.Helper()
	runGit(t, dir, "pull", "-q", "--ff-only", "origin", "main")
	old := tipOf(t, dir)
	change()
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "--allow-empty", "-m", "By "+who)
	p := read.Push{Pusher: who, From: "192.0.2.7", Old: old, New: tipOf(t, dir)}
	if err := r.Pushing(p); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "push", "-q", "origin", "HEAD:main")
	return p
}

// noted waits for the note of a push.
func noted(t *testing.T, r *Repo, p read.Push) *read.Push {
	t.Helper()
	var got *read.Push
	kit.Until(t, "the push is noted", func() (ok bool) {
		var err error
		got, err = r.notedPush(t.Context(), p.New)
		return err == nil && got != nil
	})
	if got.Pusher != p.Pusher || got.From != p.From || got.Old != p.Old || got.New != p.New {
		t.Errorf("the note says %+v of %+v", got, p)
	}
	return got
}

func TestThePusherStandsInANoteAndIsBehindWhatThePushChanged(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	mustWrite(t, r, testID(2), shardDir(testID(2)), 1)
	dir := clone(t, r)
	who := func(n int) string {
		t.Helper()
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		rev, _ := r.Lookup(testID(n))
		who, err := r.read.Author(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		return who
	}
	first := who(1)
	const mallory = `a "b" (c) <d> at x after y seal 00` // a name with all that a note is told apart by
	p := pushAs(t, r, dir, mallory, func() {
		put(t, dir, shardDir(testID(1))+"/vnf.yaml", vnfFile(testID(1), 2))
		runGit(t, dir, "add", "-A")
		runGit(t, dir, "commit", "-q", "-m", "The first of two\n\nRequested-By: root")
		put(t, dir, "README.md", []byte("x"))
	})
	if got := who(1); got != mallory {
		t.Errorf("%q is behind the change, not the pusher", got)
	}
	if got := who(2); got != first {
		t.Errorf("%q is behind what the push didn't change, and %q was", got, first)
	}
	noted(t, r, p)
	mustWrite(t, r, testID(2), "", 5) // Jibe's own
	for commit, want := range map[string]string{p.New: mallory, p.New + "^": mallory, p.Old: "own", r.Head(): "own"} {
		w, err := WhoMade(t.Context(), r.opt.Dir, "main", commit, testKey)
		if err != nil || w.Own != (want == "own") || !w.Own && (w.Push == nil || w.Push.Pusher != want) {
			t.Errorf("%s is made by %+v (%v), want %s", commit, w, err, want)
		}
		w, err = WhoMade(t.Context(), r.opt.Dir, "main", commit, []byte("another key"))
		if err != nil || w.Own || w.Push != nil {
			t.Errorf("with another key %s is made by %+v (%v)", commit, w, err)
		}
	}
	if got := who(2); got != first {
		t.Errorf("%q is behind a commit of Jibe's", got)
	}
	q := pushAs(t, r, dir, "bob", func() {
		runGit(t, dir, "checkout", "-q", "-b", "side", "HEAD^^^") // and then first parent of a merge
		put(t, dir, "side.md", []byte("x"))
		runGit(t, dir, "add", "-A")
		runGit(t, dir, "commit", "-q", "-m", "Side")
		runGit(t, dir, "merge", "-q", "--no-ff", "-m", "The wrong way round", "main")
		runGit(t, dir, "branch", "-q", "-f", "main", "side")
		runGit(t, dir, "checkout", "-q", "main")
	})
	noted(t, r, q)
	// Another process knows the notes alone.
	again := openRepo(t, Options{Dir: r.opt.Dir, Key: testKey})
	rev, _ := again.Lookup(testID(1))
	if got, err := again.read.Author(t.Context(), rev); err != nil || got != "bob" && got != mallory {
		t.Errorf("after a restart %q is behind the change: %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(objects.OwnDir(r.opt.Dir), "pushes")); err != nil {
		t.Error(err)
	}
}

func TestAPushThatGitTookBeforeACrashIsNotedAfterwards(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	old := tipOf(t, dir)
	commit := func(subject string) string {
		runGit(t, dir, "commit", "-q", "--allow-empty", "-m", subject)
		return tipOf(t, dir)
	}
	lost := read.Push{Pusher: "loser", Old: old, New: commit("Never taken")}
	runGit(t, dir, "reset", "-q", "--hard", old)
	took := read.Push{Pusher: "alice", From: "192.0.2.7", Old: old, New: commit("Taken")}
	for _, p := range []read.Push{lost, took} {
		if err := r.Pushing(p); err != nil {
			t.Fatal(err)
		}
	}
	// The process dies between its answer and all that follows, and while it writes the next.
	journal := filepath.Join(objects.OwnDir(r.opt.Dir), "pushes")
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "push", "-q", "origin", "HEAD:main")
	if err := os.WriteFile(journal, append(text, `{"pusher":"half`...), 0o600); err != nil {
		t.Fatal(err)
	}
	again := openRepo(t, Options{Dir: r.opt.Dir, Key: testKey})
	noted(t, again, took)
	if p, err := again.notedPush(t.Context(), lost.New); p != nil || err != nil {
		t.Errorf("a push that git didn't take is noted: %+v %v", p, err)
	}
	next := pushAs(t, again, dir, "bob", func() {})
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	third := openRepo(t, Options{Dir: r.opt.Dir, Key: testKey})
	if p, err := third.pushedBy(t.Context(), third.Head()); err != nil || p == nil || p.Pusher != "bob" {
		t.Errorf("the next push is lost: %+v %v", p, err)
	}
	noted(t, third, next) // by whichever of the two
}

func TestTheWordsOfANoteOrACommitAreBelievedOnlyWithTheInstallationsKey(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	p := pushAs(t, r, dir, "alice", func() {})
	noted(t, r, p)
	line := r.pushLine(*noted(t, r, p))
	if _, ok := r.parsePush(p.New, line); !ok {
		t.Fatalf("%q isn't read", line)
	}
	other := &Repo{opt: Options{Key: []byte("another installation's")}}
	for name, forged := range map[string]bool{
		"another commit's":  second(r.parsePush(p.Old, line)),
		"another name's":    second(r.parsePush(p.New, strings.Replace(line, "alice", "carol", 1))),
		"without a seal":    second(r.parsePush(p.New, line[:strings.Index(line, " seal ")])),
		"another key's":     second(r.parsePush(p.New, other.pushLine(p))),
		"an empty key's":    second((&Repo{}).parsePush(p.New, (&Repo{}).pushLine(p))),
		"with a line added": second(r.parsePush(p.New, line+" x")),
	} {
		if forged {
			t.Errorf("%s is believed", name)
		}
	}
	sealed := func(commit string) bool {
		t.Helper()
		ok, err := r.Sealed(t.Context(), commit)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	own := p.Old
	if !sealed(own) || sealed(p.New) {
		t.Errorf("Jibe's own commit is sealed: %v, a person's: %v", sealed(own), sealed(p.New))
	}
	text := runGit(t, dir, "log", "-1", "--format=%B", own)
	if sealed(runGit(t, r.opt.Dir, "commit-tree", p.New+"^{tree}", "-p", p.New, "-m", text)) {
		t.Error("the same message on another commit is believed")
	}
	w, err := r.Write(t.Context(), desired.Write{Instance: testID(1), Subject: "Scale", Trailers: []desired.Trailer{{Key: desired.TrailerRequestedBy, Value: "nfvo"}},
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			return desired.Files{desired.InstanceFile: vnfFile(testID(1), 9)}, nil
		}})
	if err != nil || !sealed(w.Commit) {
		t.Errorf("a commit with trailers isn't sealed: %v", err)
	}
	if out := runGit(t, r.opt.Dir, "log", "-1", "--format=%(trailers:key=Requested-By,valueonly)", w.Commit); out != "nfvo" {
		t.Errorf("git doesn't read the trailer beside the seal: %q", out)
	}
}

func second(_ read.Push, ok bool) bool { return ok }

func FuzzParsePush(f *testing.F) {
	r := &Repo{opt: Options{Key: testKey}}
	hash := strings.Repeat("ab", 20)
	f.Add("alice (https://dex)", "192.0.2.7", "")
	f.Add(`x" at y after z seal "`, "", " ")
	f.Fuzz(func(t *testing.T, who, from, line string) {
		if _, ok := r.parsePush(hash, line); ok {
			t.Errorf("%q is believed", line)
		}
		p := read.Push{Pusher: who, From: from, New: hash, Old: hash}
		got, ok := r.parsePush(hash, r.pushLine(p))
		if !ok && strings.ToValidUTF8(who+from, "") == who+from {
			t.Errorf("%q isn't read back", r.pushLine(p))
		}
		if ok && strings.Join(strings.Fields(got.Pusher), "") != strings.Join(strings.Fields(strings.ReplaceAll(who, "\x00", "")), "") && strings.ToValidUTF8(who, "") == who {
			t.Errorf("%q became %q", who, got.Pusher)
		}
	})
}

func TestAPushedTrailerIsNotTakenForACommitOfJibes(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	id := testID(1)
	w, err := r.Write(t.Context(), desired.Write{Instance: id, Dir: shardDir(id), Subject: "Scale", Change: setLevel(id, 1),
		Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: "made"}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := clone(t, r)
	put(t, dir, shardDir(id)+"/vnf.yaml", vnfFile(id, 2))
	commitPush(t, dir, "Forge\n\n"+desired.TrailerOperation+": made\n")
	put(t, dir, shardDir(id)+"/vnf.yaml", vnfFile(id, 3))
	commitPush(t, dir, "Forge\n\n"+desired.TrailerOperation+": never made\n")
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := r.FindTrailer(t.Context(), "", desired.TrailerOperation, "made"); err != nil || got != w.Commit {
		t.Errorf("found %q (%v), want Jibe's own %s", got, err, w.Commit)
	}
	if got, err := r.FindTrailer(t.Context(), "", desired.TrailerOperation, "never made"); !errors.Is(err, desired.ErrNotFound) {
		t.Errorf("found %q (%v), which somebody pushed", got, err)
	}
}

// The note of a commit grows with the operations that the commit began, and who pushed it may come later than some of them.
func TestWhoPushedIsReadAgainOnlyWhereTheNoteIsAnother(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	commit := mustWrite(t, r, testID(1), shardDir(testID(1)), 1).Commit
	note := func(line string) {
		t.Helper()
		r.Note(commit, line)
		r.flushNotes(t.Context(), true)
	}
	who := func() string {
		t.Helper()
		p, err := r.notedPush(t.Context(), commit)
		if err != nil {
			t.Fatal(err)
		}
		if p == nil {
			return ""
		}
		return p.Pusher
	}

	note("op-1 COMPLETED")
	for range 2 {
		if got := who(); got != "" {
			t.Errorf("%q is named before the note records a push", got)
		}
	}
	note(r.pushLine(read.Push{Pusher: "ann", From: "192.0.2.7", New: commit, At: r.opt.Now()}))
	if got := who(); got != "ann" {
		t.Errorf("ann's push came to the note, and %q is named", got)
	}
	note("op-2 COMPLETED")
	if got := who(); got != "ann" {
		t.Errorf("another line came to the note, and %q is named", got)
	}
}
