package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// person pushes a commit of their own to the remote's branch every so often, until ctx ends, and
// rebases it where others were faster. It returns the operations that it has pushed.
func person(ctx context.Context, t *testing.T, remote string, every time.Duration, n int) (acked []string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "person")
	runGit(t, "", "clone", "-q", remote, dir)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return acked
		case <-tick.C:
		}
		op := fmt.Sprintf("person-%d-%d", n, i)
		put(t, dir, shardDir(testID(n))+"/vnf.yaml", vnfFile(testID(n), i+10))
		runGit(t, dir, "add", "-A")
		runGit(t, dir, "commit", "-q", "-m", op+"\n\nJibe-Operation: "+op)
		for {
			if _, err := tryGit(dir, "push", "-q", "origin", "HEAD:main"); err == nil {
				break
			}
			if out, err := tryGit(dir, "pull", "-q", "--rebase", "origin", "main"); err != nil {
				t.Errorf("%s: rebase: %s", op, out)
				return acked
			}
		}
		acked = append(acked, op)
	}
}

func TestMeasureContended(t *testing.T) {
	for _, every := range durs() {
		for _, replicas := range []int{1, 3} {
			t.Run(fmt.Sprint(every, replicas), func(t *testing.T) {
				f := newHTTPForge(t)
				s := sharedStore(t)
				var inVain, pushes atomic.Int64
				var repos []*Repo
				for p := range replicas {
					repos = append(repos, replica(t, s, f.url, fmt.Sprint("r", p), Options{PollInterval: 30 * time.Second, Observe: func(command string, took time.Duration, err error) {
						if command == "push" {
							pushes.Add(1)
						}
						if errors.Is(err, git.ErrRefMoved) {
							inVain.Add(1)
						}
					}}))
				}
				for i := range 300 {
					_ = i
				}
				if _, err := scale(t.Context(), repos[0], 999, "first"); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var mu sync.Mutex
				var took []time.Duration
				var all sync.WaitGroup
				all.Go(func() { person(ctx, t, f.url, every, 500) })
				for w := range 8 {
					all.Go(func() {
						for i := 0; ctx.Err() == nil; i++ {
							began := time.Now()
							if _, err := scale(t.Context(), repos[w%replicas], w, fmt.Sprintf("%d-%d", w, i)); err != nil {
								t.Error(err)
							}
							mu.Lock()
							took = append(took, time.Since(began))
							mu.Unlock()
							time.Sleep(500 * time.Millisecond)
						}
					})
				}
				all.Wait()
				slices.Sort(took)
				t.Logf("%d writes p50 %s p99 %s max %s; %d pushes, %d in vain", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1], pushes.Load(), inVain.Load())
			})
		}
	}
}

func durs() []time.Duration { return []time.Duration{time.Second, 2 * time.Second} }
