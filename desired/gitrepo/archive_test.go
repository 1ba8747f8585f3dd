package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// longHistory is a closed repository in which one instance was changed n times and has notes, and
// the revisions that this made.
func longHistory(t *testing.T, n int) (Options, []desired.Revision) {
	t.Helper()
	opt := Options{Dir: filepath.Join(t.TempDir(), "desired.git"), Now: tick()}
	r := openRepo(t, opt)
	var revs []desired.Revision
	for i := range n {
		rev := mustWrite(t, r, testID(1), shardDir(testID(1)), i)
		r.Note(rev.Commit, "COMPLETED")
		revs = append(revs, rev)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return opt, revs
}

// cutTo archives a repository and keeps so many commits.
func cutTo(t *testing.T, opt CutOptions, archive string) CutReport {
	t.Helper()
	if err := Archive(t.Context(), opt.Dir, archive); err != nil {
		t.Fatal(err)
	}
	opt.Archive = archive
	report, err := Cut(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	runGit(t, opt.Dir, "fsck", "--strict")
	return report
}

func has(t *testing.T, dir, object string) bool {
	t.Helper()
	_, err := tryGit(dir, "cat-file", "-e", object)
	return err == nil
}

func TestACutKeepsHeadClonesAndWhatTheStoreNames(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	opt, revs := longHistory(t, 20)
	archive := filepath.Join(t.TempDir(), "archive.git")
	whole, stale := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "stale")
	runGit(t, "", "clone", "-q", opt.Dir, whole)
	runGit(t, "", "init", "-q", "-b", "main", stale)
	runGit(t, stale, "remote", "add", "origin", opt.Dir)
	runGit(t, opt.Dir, "branch", "early", revs[4].Commit)
	runGit(t, stale, "pull", "-q", "origin", "early")
	runGit(t, opt.Dir, "branch", "-D", "early")

	report := cutTo(t, CutOptions{Options: opt, Commits: 3, Named: []desired.Revision{revs[2]}}, archive)
	if report.First != revs[17].Commit || report.Kept != 3 || report.Removed != 17 || report.Held != "" {
		t.Errorf("%+v", report)
	}
	if has(t, opt.Dir, revs[16].Commit) || has(t, opt.Dir, revs[5].Tree) {
		t.Error("what was cut is still there")
	}
	r := openRepo(t, opt)
	if r.Head() != revs[19].Commit {
		t.Errorf("head is %s", r.Head())
	}
	if in, err := r.read.Read(t.Context(), revs[2]); err != nil || in.ID != testID(1) {
		t.Errorf("a revision that the store names: %v, %v", in, err)
	}
	if _, err := r.read.Read(t.Context(), revs[3]); !errors.Is(err, desired.ErrNotFound) {
		t.Errorf("a revision that nobody names: %v", err)
	}
	for _, rev := range revs[17:] {
		if _, err := r.read.Author(t.Context(), rev); err != nil {
			t.Error(err)
		}
		if note := runGit(t, opt.Dir, "notes", "--ref=jibe", "show", rev.Commit); note != "COMPLETED" {
			t.Errorf("note of %s: %q", rev.Commit, note)
		}
	}
	for _, since := range []string{"", revs[1].Commit, revs[18].Commit} {
		if _, err := r.FindTrailer(t.Context(), since, desired.TrailerOperation, "none"); !errors.Is(err, desired.ErrNotFound) {
			t.Errorf("a trailer since %q: %v", since, err)
		}
	}
	earlier := 0
	if err := r.Earlier(t.Context(), testID(1), func(*desired.Instance) bool { earlier++; return false }); err != nil || earlier != 3 {
		t.Errorf("%d earlier files, %v", earlier, err)
	}

	mustWrite(t, r, testID(1), "", 100)
	for _, dir := range []string{whole, stale} {
		if dir == stale { // it lacks commits that only the archive has
			runGit(t, dir, "pull", "-q", "--ff-only", archive, "main")
		}
		runGit(t, dir, "pull", "-q", "--ff-only", "origin", "main")
		put(t, dir, "README.md", []byte(dir))
		runGit(t, dir, "add", "-A")
		runGit(t, dir, "commit", "-qm", "Read me")
		runGit(t, dir, "push", "-q", "origin", "HEAD:main")
	}
	if n := runGit(t, whole, "rev-list", "--count", "HEAD"); n != "22" {
		t.Errorf("the clone has %s commits", n)
	}
	fresh := clone(t, r)
	runGit(t, fresh, "fetch", "-q", "--unshallow", archive, "main")
	if n := runGit(t, fresh, "rev-list", "--count", "HEAD"); n != "23" {
		t.Errorf("a clone that is joined with the archive has %s commits", n)
	}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	fsck(t, r)
}

func TestAnArchiveGathersAllHistoryOverManyCuts(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()

	opt, revs := longHistory(t, 12)
	archive := filepath.Join(t.TempDir(), "archive.git")
	for i := range 3 {
		if report := cutTo(t, CutOptions{Options: opt, Commits: 2}, archive); report.Kept != 2 {
			t.Errorf("cut %d: %+v", i, report)
		}
		if report := cutTo(t, CutOptions{Options: opt, Commits: 2}, archive); report.Removed != 0 {
			t.Errorf("cut %d, again: %+v", i, report)
		}
		r := openRepo(t, opt)
		for j := range 4 {
			rev := mustWrite(t, r, testID(1), "", 1000+10*i+j)
			r.Note(rev.Commit, "COMPLETED")
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cutTo(t, CutOptions{Options: opt, Commits: 1}, archive)
	runGit(t, archive, "fsck", "--strict")
	if n := runGit(t, archive, "rev-list", "--count", "main"); n != "24" {
		t.Errorf("the archive has %s commits", n)
	}
	if note := runGit(t, archive, "log", "-1", "--format=%N", "--notes=jibe", "--end-of-options", revs[0].Commit); note != "" && !strings.Contains(note, "COMPLETED") {
		t.Errorf("note %q", note)
	}
	restored := filepath.Join(t.TempDir(), "desired.git")
	runGit(t, "", "clone", "-q", "--mirror", archive, restored)
	r := openRepo(t, Options{Dir: restored})
	if in, err := r.read.Read(t.Context(), revs[0]); err != nil || in.ID != testID(1) {
		t.Errorf("in the restored repository: %v, %v", in, err)
	}
	mustWrite(t, r, testID(1), "", 5000)
}

func TestACutThatWasInterruptedIsFinishedByTheNext(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	opt, revs := longHistory(t, 10)
	archive := filepath.Join(t.TempDir(), "archive.git")
	if err := Archive(t.Context(), opt.Dir, archive); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(t.TempDir(), "work")
	runGit(t, "", "clone", "-q", opt.Dir, work)
	put(t, work, "README.md", []byte("read me"))
	runGit(t, work, "add", "-A")
	runGit(t, work, "commit", "-qm", "Read me")
	end := errors.New("the process ends")
	// It is cut short before each of its steps, and the server runs in between.
	for _, last := range []string{"choose", "graft", "drop"} {
		_, err := Cut(t.Context(), CutOptions{Options: opt, Archive: archive, Commits: 3, step: func(name string) error {
			if last == "choose" {
				if out, err := tryGit(work, "push", "origin", "main"); err == nil || !strings.Contains(out, "being archived") {
					t.Errorf("a push meanwhile: %v\n%s", err, out)
				}
			}
			if name == last {
				return end
			}
			return nil
		}})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
		r := openRepo(t, opt)
		mustWrite(t, r, testID(1), "", 77)
		mustWrite(t, r, testID(1), "", 9)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		runGit(t, opt.Dir, "fsck", "--strict")
		if err := Archive(t.Context(), opt.Dir, archive); err != nil {
			t.Fatal(err)
		}
	}
	if !has(t, opt.Dir, revs[0].Commit) {
		t.Error("it was removed too early for this test")
	}
	if report := cutTo(t, CutOptions{Options: opt, Commits: 3}, archive); report.Kept != 3 {
		t.Errorf("%+v", report)
	}
	if has(t, opt.Dir, revs[0].Commit) {
		t.Error("it isn't removed")
	}
}

func TestHistoryStaysThatAnOperationGoesBy(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	opt, revs := longHistory(t, 10)
	report := cutTo(t, CutOptions{Options: opt, Commits: 2, Moving: []desired.Revision{revs[4], revs[7]}}, filepath.Join(t.TempDir(), "a.git"))
	if report.First != revs[4].Commit || report.Held != revs[4].Commit || report.Kept != 6 {
		t.Errorf("%+v", report)
	}
	r := openRepo(t, opt)
	if _, err := r.At(t.Context(), revs[4].Commit); err != nil {
		t.Error(err)
	}
}

func TestACutKeepsMergesBranchesAndTags(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	opt, revs := longHistory(t, 4)
	work := filepath.Join(t.TempDir(), "work")
	runGit(t, "", "clone", "-q", opt.Dir, work)
	runGit(t, work, "tag", "-m", "then", "then", revs[1].Commit)
	runGit(t, work, "checkout", "-q", "-b", "side", revs[2].Commit)
	put(t, work, "side.md", []byte("a side branch that begins before the cut"))
	runGit(t, work, "add", "-A")
	runGit(t, work, "commit", "-qm", "Side")
	runGit(t, work, "checkout", "-q", "main")
	for _, name := range []string{"one", "two"} {
		put(t, work, name+".md", []byte(name))
		runGit(t, work, "add", "-A")
		runGit(t, work, "commit", "-qm", name)
	}
	kept := tipOf(t, work)
	runGit(t, work, "merge", "-q", "--no-ff", "-m", "Merge", "side")
	runGit(t, work, "branch", "old", revs[0].Commit)
	runGit(t, work, "push", "-q", "origin", "main", "side", "old", "then")

	report := cutTo(t, CutOptions{Options: opt, Commits: 2}, filepath.Join(t.TempDir(), "a.git"))
	if report.First != kept {
		t.Errorf("%+v, want %s", report, kept)
	}
	for _, name := range []string{"main", "side", "old", "then^{commit}"} {
		if want, got := runGit(t, work, "rev-parse", name), runGit(t, opt.Dir, "rev-parse", name); got != want {
			t.Errorf("%s is at %s, want %s", name, got, want)
		}
		runGit(t, opt.Dir, "ls-tree", "-r", name)
	}
	if got := runGit(t, opt.Dir, "log", "--format=%s", "main"); got != "Merge\ntwo\nSide" {
		t.Errorf("history:\n%s", got)
	}
	runGit(t, work, "pull", "-q", "--ff-only", "origin", "main")
	put(t, work, "three.md", []byte("three"))
	runGit(t, work, "add", "-A")
	runGit(t, work, "commit", "-qm", "three")
	runGit(t, work, "push", "-q", "origin", "main")
}

func TestACutIsRefusedWhereItWouldLoseSomething(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	opt, _ := longHistory(t, 5)
	archive := filepath.Join(t.TempDir(), "a.git")
	if err := Archive(t.Context(), opt.Dir, archive); err != nil {
		t.Fatal(err)
	}
	cut := func() string {
		_, err := Cut(t.Context(), CutOptions{Options: opt, Commits: 1, Archive: archive})
		if err == nil {
			t.Error("it was cut")
			return ""
		}
		return err.Error()
	}
	r := openRepo(t, opt)
	mustWrite(t, r, testID(1), "", 50)
	work := clone(t, r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := cut(); !strings.Contains(got, "is not in it") {
		t.Errorf("an archive that lacks a commit: %s", got)
	}
	put(t, work, shardDir(testID(1))+"/vnf.yaml", []byte("nonsense: 1\n"))
	runGit(t, work, "commit", "-qam", "Break it")
	runGit(t, work, "push", "-q", "origin", "main")
	if err := Archive(t.Context(), opt.Dir, archive); err != nil {
		t.Fatal(err)
	}
	if got := cut(); !strings.Contains(got, "repair them first") {
		t.Errorf("a file that isn't obeyed: %s", got)
	}
	for _, ref := range []string{fetchedRef, aheadRef} {
		runGit(t, opt.Dir, "update-ref", ref, "main")
		if got := cut(); !strings.Contains(got, "on a forge") {
			t.Errorf("a mirror, by %s: %s", ref, got)
		}
		runGit(t, opt.Dir, "update-ref", "-d", ref)
	}
	for _, to := range []string{work, filepath.Join(opt.Dir, "a.git"), os.TempDir()} {
		if err := Archive(t.Context(), opt.Dir, to); err == nil {
			t.Errorf("%s was taken for an archive", to)
		}
	}
}

func TestACutByAgeKeepsTheStateAtThatTime(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	opt, revs := longHistory(t, 10) // one second apart, and notes between them
	at, err := time.Parse(time.RFC3339, runGit(t, opt.Dir, "log", "-1", "--format=%cI", revs[6].Commit))
	if err != nil {
		t.Fatal(err)
	}
	if report := cutTo(t, CutOptions{Options: opt, Since: at}, filepath.Join(t.TempDir(), "a.git")); report.First != revs[5].Commit || report.Kept != 5 {
		t.Errorf("%+v", report)
	}
}
