package automation

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/test/kit"
)

const (
	webID  = "3a5c1f0e-0000-4000-8000-00000000000f"
	webDir = "instances/web"
)

// world is a desired repository with one directory, the operation log, and the package
// repository, in memory. It is used within a bubble of synctest: "nothing is committed"
// holds when every goroutine waits.
type world struct {
	*testing.T
	mu       sync.Mutex
	files    map[string]string // by branch
	commits  map[string][]string
	writes   error
	record   lcm.Instance
	released []string
	refuse   map[string]bool // by the tree of a version
	checked  int
}

// tree is the tree hash of a text, or of a version of the package.
func tree(text string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(text))) }

func (w *world) revision(branch string) desired.Revision {
	return desired.Revision{Instance: webID, Dir: webDir, Tree: tree(w.files[branch])}
}

func (w *world) List() []desired.Revision {
	rev, _ := w.Lookup(webID)
	return []desired.Revision{rev}
}

func (w *world) Lookup(id string) (desired.Revision, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revision("main"), id == webID
}

func (w *world) Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error) {
	files, err := w.Files(ctx, rev)
	if err != nil {
		return nil, err
	}
	return desired.ParseInstance(webDir+"/"+desired.InstanceFile, files[desired.InstanceFile])
}

func (w *world) Files(_ context.Context, rev desired.Revision) (desired.Files, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rev.Tree != tree(w.files["main"]) {
		return nil, desired.ErrNotFound
	}
	return desired.Files{desired.InstanceFile: []byte(w.files["main"])}, nil
}

func (w *world) Write(ctx context.Context, x desired.Write) (desired.Revision, error) {
	return w.Propose(ctx, "main", x)
}

func (w *world) Propose(_ context.Context, branch string, x desired.Write) (desired.Revision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writes != nil {
		return desired.Revision{}, w.writes
	}
	if w.files[branch] == "" {
		w.files[branch] = w.files["main"]
	}
	next, err := x.Change(w.revision(branch), desired.Files{desired.InstanceFile: []byte(w.files[branch])})
	if text := string(next[desired.InstanceFile]); err == nil && text != w.files[branch] {
		w.files[branch] = text
		w.commits[branch] = append(w.commits[branch], x.Subject)
	}
	return w.revision(branch), err
}

func (w *world) Instance(context.Context, string) (*lcm.Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	record := w.record
	return &record, nil
}

func (w *world) Operation(context.Context, string) (*lcm.Operation, error) {
	return nil, store.ErrNotFound
}

func (w *world) OperationEntries(oplog.OperationQuery) iter.Seq[oplog.OperationEntry] {
	return func(func(oplog.OperationEntry) bool) {}
}

func (w *world) versions(pkg, _ string) (now *semver.Version, all []packages.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.released {
		x := packages.Version{Entry: packages.Entry{Tree: tree(v), VnfdID: "vnfd-" + v, Repository: "small", Ref: "v" + v}, Semver: semver.MustParse(v)}
		if x.Tree == pkg {
			now = x.Semver
		}
		all = append(all, x)
	}
	return now, all
}

var errRefused = errors.New("a scale level is out of range")

func (w *world) check(_ context.Context, _, after *desired.Instance) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checked++
	if w.refuse[after.Package] {
		return errRefused
	}
	return nil
}

// operated says that an operation has brought about what is in git.
func (w *world) operated(f *Follower) {
	w.mu.Lock()
	before := w.record.Operated
	w.record = lcm.Instance{ID: webID, Operated: w.revision("main")}
	op := &lcm.Operation{ID: fmt.Sprint(len(w.commits["main"])), Instance: webID, Type: lcm.ChangePackage, State: lcm.Completed, Before: before, After: w.record.Operated}
	w.mu.Unlock()
	f.OperationChanged(op)
}

// committed compares the commits on a branch once the follower has nothing to do any more
// for as long as it may ever pause.
func (w *world) committed(branch string, want ...string) {
	w.Helper()
	kit.Pass(time.Minute)
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.commits[branch]; strings.Join(got, "; ") != strings.Join(want, "; ") {
		w.Errorf("commits on %s: %q, want %q", branch, got, want)
	}
}

// follow runs the test in a bubble, with a follower and an instance at version 1.4.0 that
// has more lines in its file.
func follow(t *testing.T, lines string, test func(w *world, f *Follower)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, commits: map[string][]string{}, refuse: map[string]bool{}, released: []string{"1.4.0"},
			files: map[string]string{"main": "id: " + webID + "\nname: web\nvnfdId: vnfd-1.4.0\npackage: " + tree("1.4.0") + "\nflavour: simple\n" + lines}}
		w.record = lcm.Instance{ID: webID, Operated: w.revision("main")}
		f := NewFollower(Config{Repo: w, Branch: "main", Oplog: w, Versions: w.versions, Check: w.check,
			Refused: func(err error) bool { return errors.Is(err, errRefused) }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		test(w, f)
	})
}

func (w *world) release(f *Follower, versions ...string) {
	w.mu.Lock()
	w.released = append(w.released, versions...)
	w.mu.Unlock()
	f.PackagesChanged()
}

func TestTheNextStepWaitsForTheEndOfTheOperation(t *testing.T) {
	t.Parallel()

	follow(t, "follow: ~1.4\n", func(w *world, f *Follower) {
		w.release(f, "1.4.1", "1.4.2", "1.5.0")
		const first, second = "Follow ~1.4: web to 1.4.1", "Follow ~1.4: web to 1.4.2"
		w.committed("main", first)
		f.InstancesChanged(webID)
		w.committed("main", first) // no operation has begun yet
		w.operated(f)
		w.committed("main", first, second)
		w.operated(f)
		w.committed("main", first, second) // 1.5.0 is not within ~1.4
	})
}

func TestAnInstanceThatIsBusyIsLookedAtAgainThoughNothingBringsItBack(t *testing.T) {
	t.Parallel()

	follow(t, "follow: ~1.4\n", func(w *world, f *Follower) {
		w.mu.Lock()
		w.record.Prepared = "op"
		w.mu.Unlock()
		w.release(f, "1.4.1")
		w.committed("main")
		w.mu.Lock()
		w.record.Prepared = ""
		w.mu.Unlock()
		w.committed("main", "Follow ~1.4: web to 1.4.1")
	})
}

func TestAnInstanceThatNothingMayBeDoneForFollowsNothing(t *testing.T) {
	t.Parallel()

	for _, lines := range []string{"suspend: true\nfollow: ~1.4\n", "held: op\nfollow: ~1.4\n", "state: notInstantiated\nfollow: ~1.4\n", ""} {
		follow(t, lines, func(w *world, f *Follower) {
			w.release(f, "1.4.1")
			w.committed("main")
		})
	}
}

func TestARefusedVersionIsPassedOverAndCheckedAgainOnlyUnderOtherSettings(t *testing.T) {
	t.Parallel()

	follow(t, "follow: ~1.4\n", func(w *world, f *Follower) {
		w.refuse[tree("1.4.1")] = true
		w.release(f, "1.4.1")
		w.committed("main")
		f.PackagesChanged()
		w.committed("main")
		if w.checked != 1 {
			t.Errorf("it was checked %d times", w.checked)
		}
		w.mu.Lock()
		w.refuse[tree("1.4.1")] = false
		w.mu.Unlock()
		f.SettingsChanged()
		w.committed("main", "Follow ~1.4: web to 1.4.1")
	})
}

func TestAProposalWaitsForAPersonAndIsMadeOnce(t *testing.T) {
	t.Parallel()

	follow(t, "follow: {versions: ~1.4, branch: upgrades}\n", func(w *world, f *Follower) {
		w.release(f, "1.4.1")
		w.committed("upgrades", "Follow ~1.4: web to 1.4.1")
		w.release(f, "1.4.2")
		f.SettingsChanged() // and so it forgets what it has proposed
		w.committed("upgrades", "Follow ~1.4: web to 1.4.1")
		w.committed("main")
	})
}

func TestARepositoryThatCanNotBeWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()

	follow(t, "follow: ~1.4\n", func(w *world, f *Follower) {
		w.mu.Lock()
		w.writes = desired.ErrUnavailable
		w.mu.Unlock()
		w.release(f, "1.4.1")
		w.committed("main")
		w.mu.Lock()
		w.writes = nil
		w.mu.Unlock()
		w.committed("main", "Follow ~1.4: web to 1.4.1")
	})
}
