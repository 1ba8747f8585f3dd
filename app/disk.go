package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"
)

// How often the disk is tried: seldom while all is well, as a write that fails is noticed
// by itself, and soon while something is wrong, so that its end is noticed, too.
const (
	diskPause = 5 * time.Second
	diskAgain = time.Second
)

// What is written to try the disk. A disk that is nearly full takes a few bytes and
// refuses the next commit, so that more is tried where there is little room, or where
// something has failed already.
const (
	littleRoom = 1 << 20
	smallProbe = 4 << 10
)

// disk knows whether the store and the desired repository can be written: by how their
// last writes went, and by trying while nothing else does.
type disk struct {
	repo interface{ Probe(size int) error }
	// store is where every request and every operation is recorded.
	store interface {
		LastWrite() (at time.Time, err error)
		Probe(ctx context.Context, size int) error
	}
	dirs []string // on whose file systems there must be room
	log  *slog.Logger

	mu     sync.Mutex
	tried  error // how the last try of the repository went
	failed bool  // and whether all was well then, as far as the log has been told
}

// run tries the disk until ctx ends.
func (d *disk) run(ctx context.Context) error {
	for {
		pause := diskPause
		if d.try(ctx); d.health() != nil {
			pause = diskAgain
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// try writes something to the repository, and to the store where nothing was written
// to it lately.
func (d *disk) try(ctx context.Context) {
	size, record := smallProbe, 0
	failing := d.health() != nil
	if failing || !d.room() {
		size, record = littleRoom, littleRoom
	}
	err := d.repo.Probe(size)
	d.mu.Lock()
	d.tried = err
	d.mu.Unlock()
	if at, _ := d.store.LastWrite(); record > 0 || time.Since(at) >= diskPause {
		_ = d.store.Probe(ctx, record) // which LastWrite tells of
	}
	err = d.health()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil && !d.failed:
		d.log.ErrorContext(ctx, "the data directory can't be written, not ready until it can", "error", err)
	case err == nil && d.failed:
		d.log.InfoContext(ctx, "the data directory can be written again")
	}
	d.failed = err != nil
}

// room says whether there is more than a little room, as far as that can be told.
func (d *disk) room() bool {
	for _, dir := range d.dirs {
		var s syscall.Statfs_t
		if err := syscall.Statfs(dir, &s); err == nil && s.Bavail*uint64(s.Bsize) < littleRoom {
			return false
		}
	}
	return true
}

// health is nil while the store and the desired repository can be written, else why they
// can't.
func (d *disk) health() error {
	d.mu.Lock()
	repo := d.tried
	d.mu.Unlock()
	_, err := d.store.LastWrite()
	if err != nil {
		err = fmt.Errorf("store: %w", err)
	}
	return errors.Join(repo, err)
}
