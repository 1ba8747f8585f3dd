package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
)

// watcher is one Watch: what changed since its last callback.
type watcher struct {
	ids      map[string]struct{} // under Repo.mu
	settings bool
	wake     chan struct{}
}

// Watch calls changed with the ids of instances whose revision differs between two heads, in
// order and including those that are gone, and whether vims/ or repositories.yaml differ. It
// isn't called for the state at its start: the caller lists that. Changes that arrive during a
// call are given together in the next. Watch returns when ctx ends or the repository is
// closed.
func (r *Repo) Watch(ctx context.Context, changed func(ids []string, settingsChanged bool)) error {
	w := &watcher{ids: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	r.mu.Lock()
	r.watchers[w] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.watchers, w)
		r.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return objects.ErrClosed
		case <-w.wake:
		}
		r.mu.Lock()
		ids := make([]string, 0, len(w.ids))
		for id := range w.ids {
			ids = append(ids, id)
		}
		settings := w.settings
		clear(w.ids)
		w.settings = false
		r.mu.Unlock()
		slices.Sort(ids)
		changed(ids, settings)
	}
}

func (r *Repo) notify(ids []string, settings bool) {
	if len(ids) == 0 && !settings {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.watchers {
		for _, id := range ids {
			w.ids[id] = struct{}{}
		}
		w.settings = w.settings || settings
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// follower reports when the branch's file may have changed.
type follower struct {
	fs     *fsnotify.Watcher
	gitDir string
	ref    string
}

func newFollower(gitDir, ref string) (*follower, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	f := &follower{fs: w, gitDir: gitDir, ref: ref}
	if err := f.watchDirs(); err != nil {
		_ = w.Close()
		return nil, err
	}
	return f, nil
}

// watchDirs watches the directories on the way to the ref: git replaces files by
// renaming, and removes a directory whose last ref was packed.
func (f *follower) watchDirs() error {
	dir := f.gitDir
	for part := range strings.SplitSeq("/"+filepath.ToSlash(filepath.Dir(f.ref)), "/") {
		dir = filepath.Join(dir, part)
		if err := f.fs.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	return nil
}

func (f *follower) concerns(ev fsnotify.Event) bool {
	rel, err := filepath.Rel(f.gitDir, ev.Name)
	if err != nil {
		return false
	}
	rel = filepath.ToSlash(rel)
	return rel == f.ref || rel == "packed-refs" || strings.HasPrefix(f.ref, rel+"/")
}

// firstRetry is after how long a branch that couldn't be followed is tried again. It doubles
// each time, up to the poll interval.
const firstRetry = 100 * time.Millisecond

// follow makes the index follow pushes, within milliseconds where the file system reports
// them, else at the poll interval.
func (r *Repo) follow(f *follower) {
	defer f.fs.Close()
	tick := time.NewTicker(r.opt.PollInterval)
	defer tick.Stop()
	poke := r.poke
	if r.opt.Remote != "" {
		poke = nil // the remote is asked: fetchLoop
	}
	var again <-chan time.Time // when the branch is tried that couldn't be followed
	pause := time.Duration(0)
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-poke:
		case <-again:
			again = nil
		case <-r.behind:
			if again == nil {
				pause = min(max(2*pause, firstRetry), r.opt.PollInterval)
				again = time.After(pause)
			}
			continue
		case ev := <-f.fs.Events:
			if !f.concerns(ev) {
				continue
			}
			if st, err := os.Stat(ev.Name); err == nil && st.IsDir() {
				_ = f.watchDirs() // the poll sees the rest
			}
		case err := <-f.fs.Errors:
			r.log.Warn("watch desired repository", "error", err)
		case <-tick.C:
			_ = f.watchDirs()
		}
		// An error is in Health, and wakes this loop by r.behind.
		if r.Refresh(r.ctx) == nil {
			pause = 0
		}
		r.maintain()
	}
}
