package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// history returns the value of the operation trailer of every commit, newest first.
func history(tb testing.TB, gitDir string) []string {
	tb.Helper()
	out := runGit(tb, gitDir, "log", "--format=%(trailers:key="+desired.TrailerOperation+",valueonly,separator=%x2C)", "main")
	return slices.DeleteFunc(strings.Split(out, "\n"), func(s string) bool { return s == "" })
}

func onceEach(tb testing.TB, got, want []string) {
	tb.Helper()
	count := map[string]int{}
	for _, s := range got {
		count[s]++
	}
	for _, s := range want {
		if count[s] != 1 {
			tb.Errorf("%s stands %d times in history", s, count[s])
		}
	}
	if len(got) != len(want) {
		tb.Errorf("%d commits in history, %d were acknowledged", len(got), len(want))
	}
}

func TestNoCommitIsLostAmongWritersPushesAndRepacks(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	const writers, pushers, writes, pushes = 6, 3, 25, 4
	r := openRepo(t, Options{RepackAbove: 5})
	for i := range writers + pushers {
		mustWrite(t, r, testID(i), shardDir(testID(i)), 1)
	}
	var mu sync.Mutex
	var acked []string
	ack := func(op string) { mu.Lock(); acked = append(acked, op); mu.Unlock() }
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			for i := range writes {
				op := fmt.Sprintf("write-%d-%d", n, i)
				_, err := r.Write(t.Context(), desired.Write{
					Instance: testID(n), Subject: op,
					Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: op}},
					// What is written depends on what stood there: a lost update shows.
					Change: func(_ desired.Revision, old desired.Files) (desired.Files, error) {
						return desired.Files{"vnf.yaml": old["vnf.yaml"], "log": fmt.Appendf(old["log"][:len(old["log"]):len(old["log"])], "%d\n", i)}, nil
					},
				})
				if err != nil {
					t.Errorf("%s: %v", op, err)
					return
				}
				ack(op)
				r.Note(r.Head(), "seen "+op)
			}
		})
	}
	for n := range pushers {
		dir := clone(t, r)
		all.Go(func() {
			for i := range pushes {
				op := fmt.Sprintf("push-%d-%d", n, i)
				put(t, dir, shardDir(testID(writers+n))+"/vnf.yaml", vnfFile(testID(writers+n), i+10))
				if out, err := tryGit(dir, "commit", "-q", "-a", "-m", op+"\n\n"+desired.TrailerOperation+": "+op); err != nil {
					t.Errorf("%s: %s", op, out)
					return
				}
				for {
					if _, err := tryGit(dir, "push", "-q", "origin", "HEAD:main"); err == nil {
						break
					}
					if t.Context().Err() != nil {
						return
					}
					if out, err := tryGit(dir, "pull", "-q", "--rebase", "origin", "main"); err != nil {
						t.Errorf("%s: rebase: %s", op, out)
						return
					}
				}
				ack(op)
			}
		})
	}
	all.Wait()
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	onceEach(t, history(t, r.opt.Dir), acked)
	for n := range writers {
		rev, _ := r.Lookup(testID(n))
		files, err := r.read.Files(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(files["log"]), "\n"); got != writes {
			t.Errorf("instance %d has %d of %d lines", n, got, writes)
		}
	}
	if head := tipOf(t, r.opt.Dir); head != r.Head() {
		t.Errorf("index is at %s, main at %s", r.Head(), head)
	}
	sameAsFresh(t, r)
	fsck(t, r)
}

// sameAsFresh compares the index that followed every move with one made anew.
func sameAsFresh(tb testing.TB, r *Repo) {
	tb.Helper()
	fresh, err := r.read.At(context.Background(), r.Head())
	if err != nil {
		tb.Fatal(err)
	}
	strip := func(revs []desired.Revision) []desired.Revision {
		out := slices.Clone(revs)
		for i := range out {
			out[i].Commit = ""
		}
		return out
	}
	if got, want := strip(r.List()), strip(fresh.List()); !slices.Equal(got, want) {
		tb.Errorf("index has\n%v\nhead has\n%v", got, want)
	}
	for _, rev := range r.List() {
		if got := runGit(tb, r.opt.Dir, "rev-parse", rev.Commit+":"+rev.Dir); got != rev.Tree {
			tb.Errorf("%s at %s is %s, not %s", rev.Dir, rev.Commit, got, rev.Tree)
		}
	}
}

func TestReadersSurviveRepacks(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()

	r := openRepo(t, Options{CacheBytes: 1 << 10, RepackAbove: 1 << 30}) // nothing stays cached
	var revs []desired.Revision
	for i := range 60 {
		revs = append(revs, mustWrite(t, r, testID(i), shardDir(testID(i)), 1))
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				rev := revs[rand.IntN(len(revs))]
				if _, err := r.read.Files(ctx, rev); err != nil && ctx.Err() == nil {
					t.Errorf("read during a repack: %v", err)
					return
				}
			}
		})
	}
	for range 5 {
		runGit(t, r.opt.Dir, "repack", "-a", "-d", "-q", "-f")
		for i := range 5 {
			mustWrite(t, r, testID(i), "", rand.IntN(1_000_000))
		}
		if err := r.repack(t.Context()); err != nil {
			t.Error(err)
		}
	}
	stop()
	readers.Wait()
	fsck(t, r)
}

func TestManyWritesAreRepackedInTheBackground(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := openRepo(t, Options{RepackAbove: 8})
	for i := range 40 {
		mustWrite(t, r, testID(1), shardDir(testID(1)), i)
	}
	kit.Until(t, "few packs are left", func() bool {
		if err := r.Health(); err != nil {
			t.Fatal(err)
		}
		if r.maint.running.Load() {
			return false
		}
		packs, _ := filepath.Glob(filepath.Join(r.opt.Dir, "objects/pack/*.idx"))
		if len(packs) > 9 {
			mustWrite(t, r, testID(1), "", int(time.Now().UnixNano()%1e9))
		}
		return len(packs) <= 9
	})
	fsck(t, r)
}

func TestARefusedChangeRefusesOnlyItself(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	no := errors.New("no")
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = r.Write(t.Context(), desired.Write{
				Instance: testID(i), Dir: shardDir(testID(i)), Subject: "s",
				Change: func(at desired.Revision, old desired.Files) (desired.Files, error) {
					switch i % 4 {
					case 0:
						return nil, no
					case 1:
						return desired.Files{"vnf.yaml": []byte("nonsense: 1\n")}, nil
					case 2:
						return desired.Files{"vnf.yaml": vnfFile(testID(i+1), 1)}, nil
					}
					return setLevel(testID(i), 1)(at, old)
				},
			})
		})
	}
	wg.Wait()
	for i, err := range errs {
		invalid := &desired.InvalidError{}
		switch {
		case i%4 == 0 && !errors.Is(err, no),
			i%4 == 1 && !errors.As(err, &invalid),
			i%4 == 2 && (err == nil || !strings.Contains(err.Error(), "would have the id")),
			i%4 == 3 && err != nil:
			t.Errorf("write %d: %v", i, err)
		}
	}
	if got := len(r.List()); got != 5 {
		t.Errorf("%d instances", got)
	}
	fsck(t, r)
}

func TestACancelledWriteIsNotMade(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	id := testID(1)
	mustWrite(t, r, id, shardDir(id), 1)
	started, release := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := r.Write(context.Background(), desired.Write{Instance: id, Subject: "first", Change: func(at desired.Revision, old desired.Files) (desired.Files, error) {
			close(started)
			<-release
			return setLevel(id, 2)(at, old)
		}})
		first <- err
	}()
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := r.Write(ctx, desired.Write{Instance: id, Subject: "second", Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			t.Error("a withdrawn write was run")
			return nil, errors.New("no")
		}})
		second <- err
	}()
	kit.Until(t, "the second waits", func() bool { r.writer.mu.Lock(); defer r.writer.mu.Unlock(); return len(r.writer.queue) == 1 })
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("withdrawn write: %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
