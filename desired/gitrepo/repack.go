package gitrepo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// maintenance keeps the number of packs small. Nothing is ever pruned: what a
// batch that lost a race left behind is a few kilobytes.
type maintenance struct {
	packs   atomic.Int64
	running atomic.Bool
	retry   atomic.Int64 // unix nanoseconds before which nothing is tried again
}

// count counts the packs of a repository.
func (m *maintenance) count(gitDir string) {
	items, err := os.ReadDir(filepath.Join(gitDir, "objects", "pack"))
	if err != nil {
		return // the next write says what is wrong
	}
	n := int64(0)
	for _, it := range items {
		if strings.HasSuffix(it.Name(), ".idx") {
			n++
		}
	}
	m.packs.Store(n)
}

// maintain starts a repack in the background when there are many packs.
func (r *Repo) maintain() {
	m := &r.maint
	if m.packs.Load() <= int64(r.opt.RepackAbove) || time.Now().UnixNano() < m.retry.Load() || !m.running.CompareAndSwap(false, true) {
		return
	}
	r.work.Go(func() {
		defer m.running.Store(false)
		if err := r.repack(r.ctx); err != nil && r.ctx.Err() == nil {
			m.retry.Store(time.Now().Add(time.Minute).UnixNano())
			r.setHealth(healthRepack, err)
			return
		}
		r.setHealth(healthRepack, nil)
	})
}

// repack rolls small packs up into larger ones by real git, so that each is at
// least twice as large as the next. Objects that nothing refers to are kept.
func (r *Repo) repack(ctx context.Context) error {
	started := time.Now()
	_, err := r.git.Run(ctx, "-c", "pack.threads=1", "repack", "--geometric=2", "-d", "-q", "--window=5", "--depth=50")
	if err != nil {
		return err
	}
	r.maint.count(r.opt.Dir)
	r.objects.Refresh()
	r.log.Debug("repacked", "packs", r.maint.packs.Load(), "took", time.Since(started))
	return nil
}
