package gitrepo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// maintenance is what is done for speed alone, in the background and with low priority: packs
// are rolled up, and the commit-graph follows the branch, without which git reads every commit
// of a long history to find those of one file. It takes no lock that a write or a push waits
// for. Nothing is ever pruned: what a batch that lost a race left behind is a few kilobytes.
type maintenance struct {
	packs   atomic.Int64 // small ones
	large   atomic.Int64
	running atomic.Bool  // small packs are rolled up
	busy    atomic.Bool  // large packs are rolled up, or the commit-graph is written
	retry   atomic.Int64 // unix nanoseconds before which nothing is tried again
	graphed string       // the head that the commit-graph has; of whoever set busy
}

const (
	// retryMaintenance is the pause after maintenance failed.
	retryMaintenance = 10 * time.Second
	// graphEvery is how often the commit-graph follows the branch.
	graphEvery = time.Minute
	// niceness of the children, as nice(1) counts.
	niceness = 10
)

// count counts the packs of a repository.
func (m *maintenance) count(gitDir string) {
	packs, err := objects.ListPacks(gitDir)
	if err != nil {
		return // the next write says what is wrong
	}
	small, large := split(packs)
	m.packs.Store(int64(len(small)))
	m.large.Store(int64(len(large)))
}

// maintain starts a repack in the background when there are many packs.
func (r *Repo) maintain() {
	m := &r.maint
	if time.Now().UnixNano() < m.retry.Load() {
		return
	}
	if m.packs.Load() > int64(r.opt.RepackAbove) {
		r.inBackground(&m.running, healthRepack, r.repack)
	}
	if m.large.Load() > maxLarge {
		r.inBackground(&m.busy, healthMaintenance, r.repackLarge)
	}
}

// inBackground runs work unless running says that such runs already.
func (r *Repo) inBackground(running *atomic.Bool, kind healthKind, work func(ctx context.Context) error) {
	if !running.CompareAndSwap(false, true) {
		return
	}
	r.work.Go(func() {
		defer running.Store(false)
		err := work(r.ctx)
		if r.ctx.Err() != nil {
			return
		}
		if err != nil {
			r.maint.retry.Store(time.Now().Add(retryMaintenance).UnixNano())
		}
		r.setHealth(kind, err)
	})
}

// keepGraph makes the commit-graph follow the branch as long as the repository is open.
func (r *Repo) keepGraph() {
	for wait(r.ctx, graphEvery) == nil {
		r.inBackground(&r.maint.busy, healthMaintenance, r.writeGraph)
	}
}

// graphLock is the lock under which git replaces the commit-graph.
const graphLock = "objects/info/commit-graphs/commit-graph-chain"

// writeGraph adds the commits to the commit-graph that it doesn't have, and which paths each
// of them changed. git takes no account of one in a repository whose history was cut.
func (r *Repo) writeGraph(ctx context.Context) error {
	head := r.Head()
	if cut, err := r.read.FirstKept(); err != nil || len(cut) > 0 || head == r.maint.graphed {
		return err
	}
	if _, err := git.BreakStaleLocks(r.opt.Dir, graphLock); err != nil {
		return err
	}
	if _, err := r.patiently(ctx, "", "-c", "core.commitGraph=true", "commit-graph", "write", "--reachable", "--split", "--changed-paths", "--no-progress"); err != nil {
		return err
	}
	r.maint.graphed = head
	return nil
}

// patiently runs git with low priority.
func (r *Repo) patiently(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := r.read.Git.Command(ctx, args...)
	var out, said strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	if err := cmd.Start(); err != nil {
		return "", err
	}
	// Where that isn't allowed, it is only less polite.
	_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, niceness)
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("git maintenance of %s: %w: %.500s", r.opt.Dir, err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// abandonedPack is the age from which a file that git was still writing is nobody's: no push
// takes that long.
const abandonedPack = 24 * time.Hour

// clearAbandoned removes unfinished packs that a crash of git left in objects/pack: one of a
// long history is as large as the history.
func clearAbandoned(gitDir string) error {
	for _, pattern := range []string{"tmp_*", ".tmp-*"} {
		left, err := filepath.Glob(filepath.Join(gitDir, "objects", "pack", pattern))
		if err != nil {
			return err
		}
		for _, name := range left {
			if st, err := os.Lstat(name); err != nil || time.Since(st.ModTime()) < abandonedPack {
				continue
			}
			if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
	}
	return nil
}
