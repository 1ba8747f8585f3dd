package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// record is a [Head] in memory. Where dead is set, nothing can be put there any more, as by a replica
// that was killed.
type record struct {
	mu     sync.Mutex
	commit string
	dead   bool
}

func (r *record) Load(context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commit, nil
}

func (r *record) Move(_ context.Context, from, to string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return false, errors.New("killed")
	}
	if r.commit != from {
		return false, nil
	}
	r.commit = to
	return true, nil
}

func (r *record) kill(dead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = dead
}

// server makes an empty repository on a git server, and its entry.
func server(t *testing.T) desired.Repository {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "uploads.git")
	(&lab{T: t}).git(t.TempDir(), "init", "-q", "--bare", "-b", "main", dir)
	return desired.Repository{Name: "uploads", URL: "file://" + dir, Branch: "main", Onboarding: true}
}

// replica is one of several that write to home, and share the record.
func replica(t *testing.T, home desired.Repository, r *record) *lab {
	t.Helper()
	l := newLab(t)
	l.c.RemoteOnly()
	l.c.Share(func(desired.Repository) Head { return r })
	_ = l.c.Sync(t.Context(), []desired.Repository{home}) // an empty one has no branch
	return l
}

// at is where the server's branch is.
func (l *lab) at(home desired.Repository) string {
	l.Helper()
	return l.git(strings.TrimPrefix(home.URL, "file://"), "rev-parse", "--verify", "-q", "main")
}

// has fails unless the catalogue has the packages, and no others.
func (l *lab) has(ids ...string) {
	l.Helper()
	var got []string
	for _, o := range l.c.Onboarded() {
		if o.Entry != nil {
			got = append(got, o.Entry.VnfdID)
		}
	}
	if len(got) != len(ids) {
		l.Fatalf("the catalogue has %v, want %v", got, ids)
	}
	for _, id := range ids {
		l.find(id)
	}
}

// clean fails where a commit that was made left a ref behind.
func (l *lab) clean() {
	l.Helper()
	if left := l.git(filepath.Join(l.dir, "desired.git"), "for-each-ref", proposed); left != "" {
		l.Errorf("left behind: %s", left)
	}
}

func TestAnUploadIsPushedToTheGitServerAndSeenByTheOthers(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	home, head := server(t), &record{}
	one, two := replica(t, home, head), replica(t, home, head)
	one.onboard(&Record{ID: "one", VnfdID: "amf-id"}, one.imported("amf-id", "1.0", nil))
	one.has("amf-id")
	one.clean()
	if at := one.at(home); head.commit != at {
		t.Errorf("the branch is at %s, and the others take it to be at %s", at, head.commit)
	}
	if by := one.git(strings.TrimPrefix(home.URL, "file://"), "log", "--format=%an <%ae> %s", "main"); by != "nfvo <nfvo@jibe.invalid> Onboard one" {
		t.Errorf("the history is %q", by)
	}
	if behind, err := two.c.Behind(t.Context()); err != nil || !behind {
		t.Fatalf("the other is behind: %v, %v", behind, err)
	}
	waited := make(chan error)
	go func() { waited <- two.c.WaitFor(t.Context()) }()
	if err := two.c.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	two.has("amf-id")
	if p, err := two.c.Open(t.Context(), two.find("amf-id").Tree); err != nil || p.VNFD.ID != "amf-id" {
		t.Errorf("%+v, %v", p, err)
	}
	// It takes the content away again, at a moment when the first has looked last.
	err := two.c.Edit(t.Context(), Edit{Subject: "Delete", Change: func(t *Tip) (Change, error) {
		return Change{Drop: []string{"one"}, Remove: []string{t.Folder("amf-id")}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := one.c.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	one.has()
}

func TestEditsOfReplicasAndOfAPersonAreAllKept(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	home, head := server(t), &record{}
	labs := []*lab{replica(t, home, head), replica(t, home, head), replica(t, home, head)}
	labs[0].onboard(&Record{ID: "first", VnfdID: "amf-id"}, labs[0].imported("amf-id", "1.0", nil))
	work := filepath.Join(t.TempDir(), "work")
	labs[0].git(t.TempDir(), "clone", "-q", home.URL, work)
	const each = 3
	var all sync.WaitGroup
	for n, l := range labs {
		all.Go(func() {
			for i := range each {
				err := l.c.Edit(t.Context(), Edit{Subject: "Create a package", Change: func(*Tip) (Change, error) {
					return Change{Put: []*Record{{ID: fmt.Sprintf("p%d-%d", n, i)}}}, nil
				}})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		labs[0].write(filepath.Join(work, "README.md"), "# Uploads\n")
		labs[0].git(work, "add", "-A")
		labs[0].git(work, "commit", "-q", "-m", "Say what this is")
		for t.Context().Err() == nil { // until nobody was quicker
			labs[0].git(work, "pull", "-q", "--no-edit", "--no-rebase", "origin", "main")
			push := exec.Command("git", "push", "-q", "origin", "HEAD:main")
			push.Dir = work
			if push.Run() == nil || t.Failed() {
				break
			}
		}
	})
	all.Wait()
	for _, l := range labs {
		// What a person pushed last is told by nobody: the next fetch finds it.
		l.sync(home)
		if err := l.c.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := l.c.Onboarded(); len(got) != len(labs)*each+1 {
			t.Errorf("%d packages", len(got))
		}
		l.clean()
	}
	if at := labs[0].at(home); head.commit != at {
		t.Errorf("the branch is at %s, and the replicas take it to be at %s", at, head.commit)
	}
}

func TestACommitThatNobodyWasToldOfIsNotMadeAgain(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	home, head := server(t), &record{}
	one := replica(t, home, head)
	one.onboard(&Record{ID: "first", VnfdID: "amf-id"}, one.imported("amf-id", "1.0", nil))
	was := head.commit
	head.kill(true) // between the push and the record
	one.onboard(&Record{ID: "second", VnfdID: "smf-id"}, one.imported("smf-id", "1.0", nil))
	head.kill(false)
	pushed := one.at(home)
	if head.commit != was || pushed == was {
		t.Fatalf("the branch is at %s, the record at %s", pushed, head.commit)
	}
	// The next process does the same again, as its archive is still there.
	next := replica(t, home, head)
	if head.commit != pushed {
		t.Errorf("after a fetch the record is at %s, and the branch at %s", head.commit, pushed)
	}
	in := next.imported("smf-id", "1.0", nil)
	if err := next.c.Edit(t.Context(), Edit{Change: func(tip *Tip) (Change, error) {
		if tip.Folders[in.Tree] == "" {
			t.Errorf("the content isn't there: %v", tip.Folders)
		}
		return Change{}, nil
	}}); err != nil {
		t.Fatal(err)
	}
	next.has("amf-id", "smf-id")
}

// hook puts a hook into the server's repository.
func hook(t *testing.T, home desired.Repository, name, script string) {
	t.Helper()
	file := filepath.Join(strings.TrimPrefix(home.URL, "file://"), "hooks", name)
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
}

func TestAPushWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	home, head := server(t), &record{}
	one := replica(t, home, head)
	in := one.imported("amf-id", "1.0", nil)
	hook(t, home, "post-receive", "kill -9 $PPID\n") // the branch has moved, and nobody says so
	one.onboard(&Record{ID: "one", VnfdID: "amf-id"}, in)
	one.has("amf-id")
	if n := one.git(strings.TrimPrefix(home.URL, "file://"), "rev-list", "--count", "main"); n != "1" {
		t.Errorf("%s commits", n)
	}
	if at := one.at(home); head.commit != at {
		t.Errorf("the branch is at %s, and the record at %s", at, head.commit)
	}
}

func TestAGitServerThatIsAwayOrRefusesIsSaidAndNothingChanges(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	home, head := server(t), &record{}
	one := replica(t, home, head)
	one.onboard(&Record{ID: "one", VnfdID: "amf-id"}, one.imported("amf-id", "1.0", nil))
	was, dir := one.at(home), strings.TrimPrefix(home.URL, "file://")
	edit := func() error {
		return one.c.Edit(t.Context(), Edit{Subject: "Create", Change: func(*Tip) (Change, error) {
			return Change{Put: []*Record{{ID: "two"}}}, nil
		}})
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := edit(); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("away: %v", err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	hook(t, home, "pre-receive", "echo main is protected >&2\nexit 1\n")
	if err := edit(); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "main is protected") {
		t.Errorf("refused: %v", err)
	}
	if at := one.at(home); at != was || head.commit != was || len(one.c.Onboarded()) != 1 {
		t.Errorf("the branch was at %s and is at %s, the record at %s, packages %v", was, at, head.commit, one.c.Onboarded())
	}
	one.clean()
	if err := os.Remove(filepath.Join(dir, "hooks", "pre-receive")); err != nil {
		t.Fatal(err)
	}
	if err := edit(); err != nil || len(one.c.Onboarded()) != 2 {
		t.Errorf("afterwards: %v, %v", err, one.c.Onboarded())
	}
}

func TestABranchThatIsGoneIsNotBegunAnew(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	home, head := server(t), &record{}
	one := replica(t, home, head)
	one.onboard(&Record{ID: "one", VnfdID: "amf-id"}, one.imported("amf-id", "1.0", nil))
	one.git(strings.TrimPrefix(home.URL, "file://"), "update-ref", "-d", "refs/heads/main")
	err := one.c.Edit(t.Context(), Edit{Change: func(*Tip) (Change, error) { return Change{Put: []*Record{{ID: "two"}}}, nil }})
	if !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "gone") {
		t.Error(err)
	}
}

func TestUploadsNeverGoToTheDesiredRepository(t *testing.T) {
	t.Parallel()

	home := server(t)
	l := replica(t, home, &record{})
	l.c.NeverWrite(strings.TrimSuffix(home.URL, ".git") + "/")
	err := l.c.Edit(t.Context(), Edit{Change: func(*Tip) (Change, error) { return Change{Put: []*Record{{ID: "two"}}}, nil }})
	if !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "desired repository") {
		t.Error(err)
	}
}
