package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"
)

// How often the disk is tried: seldom while all is well, as real writes are noticed when
// they fail, and often while something is wrong, so that its end is noticed, too.
const (
	diskPause = 5 * time.Second
	diskAgain = time.Second
)

// How much is written to try the disk, bytes. A disk that is nearly full takes a few bytes
// and refuses the next commit, so that a try is larger where there is little room, or where
// something has failed already.
const (
	littleRoom = 1 << 20
	smallProbe = 4 << 10
)

// Disk knows whether the store and the desired repository can be written: by how their
// last writes went, and by trying while nothing else does.
type Disk struct {
	repo  Probed
	store Written
	dirs  []string // on whose file systems there must be room
	log   *slog.Logger

	mu     sync.Mutex
	tried  error // how the last try of the repository went
	failed bool  // whether the log says that something is wrong
}

// Probed is the desired repository, which can be written for trial.
type Probed interface{ Probe(size int) error }

// Written is the store, where every request and every operation is recorded.
type Written interface {
	// LastWrite returns when the last write ended, and its error if it failed.
	LastWrite() (at time.Time, err error)
	// Probe tries to write size bytes, and removes them.
	Probe(ctx context.Context, size int) error
}

// NewDisk makes it; dirs are on whose file systems there must be room.
func NewDisk(repo Probed, store Written, log *slog.Logger, dirs ...string) *Disk {
	return &Disk{repo: repo, store: store, dirs: dirs, log: log}
}

// Run tries the disk until ctx ends.
func (d *Disk) Run(ctx context.Context) error {
	for {
		pause := diskPause
		if d.try(ctx); d.Health() != nil {
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
func (d *Disk) try(ctx context.Context) {
	size, record := smallProbe, 0
	failing := d.Health() != nil
	if failing || !d.room() {
		size, record = littleRoom, littleRoom
	}
	err := d.repo.Probe(size)
	d.mu.Lock()
	d.tried = err
	d.mu.Unlock()
	if at, _ := d.store.LastWrite(); record > 0 || time.Since(at) >= diskPause {
		_ = d.store.Probe(ctx, record) // LastWrite has its error
	}
	err = d.Health()
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

// room says whether there is more than a little room, or that isn't known.
func (d *Disk) room() bool {
	for _, dir := range d.dirs {
		var s syscall.Statfs_t
		if err := syscall.Statfs(dir, &s); err == nil && s.Bavail*uint64(s.Bsize) < littleRoom {
			return false
		}
	}
	return true
}

// Health returns why the store or the desired repository can't be written, nil while both
// can.
func (d *Disk) Health() error {
	d.mu.Lock()
	repo := d.tried
	d.mu.Unlock()
	_, err := d.store.LastWrite()
	if err != nil {
		err = fmt.Errorf("store: %w", err)
	}
	return errors.Join(repo, err)
}
