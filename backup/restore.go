package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// Verify reads a backup whole, and checks it as [Restore] does; it leaves nothing behind. The files
// are written below temp meanwhile, "" for the system's folder for such. Unless it is nil, use is
// called with their folder once all is known to be whole.
func Verify(ctx context.Context, r io.Reader, temp string, use func(dir string, m *Manifest) error, identities ...Identity) (*Manifest, error) {
	dir, err := os.MkdirTemp(temp, "jibe-verify-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m, err := unpackChecked(ctx, r, dir, identities)
	if err == nil && use != nil {
		err = use(dir, m)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// unpackChecked unpacks a backup into an empty folder, and opens what is in it.
func unpackChecked(ctx context.Context, r io.Reader, dir string, identities []Identity) (*Manifest, error) {
	clear, err := open(r, identities)
	if err != nil {
		return nil, err
	}
	m, err := unpack(ctx, clear, dir)
	if err != nil {
		return nil, err
	}
	// One that an older version made of a data directory whose records are elsewhere has none.
	elsewhere := slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == datadir.StorePlace })
	if _, err := bolt.Inspect(ctx, filepath.Join(dir, datadir.StoreFile)); err != nil && (!elsewhere || !errors.Is(err, os.ErrNotExist)) {
		return nil, fmt.Errorf("the store in the backup: %w", err)
	}
	repositories, err := filepath.Glob(filepath.Join(dir, "packages", "*.git"))
	if err != nil {
		return nil, err
	}
	for _, repo := range append([]string{datadir.Desired(dir)}, repositories...) {
		if err := connected(ctx, repo); err != nil {
			name, _ := filepath.Rel(dir, repo)
			return nil, fmt.Errorf("%s in the backup: %w", name, err)
		}
	}
	return m, nil
}

// connected says whether all is there that the refs of a repository lead to.
func connected(ctx context.Context, dir string) error {
	_, err := git.Runner{Dir: dir}.Run(ctx, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
	return err
}

// folder is where a backup is unpacked until all of it is known to be whole.
const folder = ".restoring"

// Restore makes an empty directory the data directory that the backup is of. All is checked before
// anything is put in place. A restore that is interrupted leaves a directory on which no server
// starts, and which the next restore takes for empty; one that fails leaves an empty one.
//
// Unless it is nil, settle is called when r was read to its end and all is known to be whole, with the
// folder that becomes the data directory. What it writes there is put in place with the rest, or
// nothing is where it returns an error.
func Restore(ctx context.Context, r io.Reader, data string, log *slog.Logger, settle func(dir string, m *Manifest) error, identities ...Identity) (m *Manifest, err error) {
	d, err := datadir.Restore(data, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Abandon())
		}
		err = errors.Join(err, d.Close())
	}()
	staged := filepath.Join(d.Path, folder)
	if err := os.Mkdir(staged, 0o700); err != nil {
		return nil, err
	}
	if m, err = unpackChecked(ctx, r, staged, identities); err != nil {
		return nil, err
	}
	if settle != nil {
		if err := settle(staged, m); err != nil {
			return nil, err
		}
	}
	if err := syncAll(staged); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(staged)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.Name() == "lock" || e.Name() == datadir.UnfinishedFile {
			return nil, fmt.Errorf("%w: it has an entry %s", ErrDamaged, e.Name())
		}
		if err := os.Rename(filepath.Join(staged, e.Name()), filepath.Join(d.Path, e.Name())); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(staged); err != nil {
		return nil, err
	}
	if err := syncAll(d.Path); err != nil {
		return nil, err
	}
	return m, d.Finished()
}

// syncAll makes all durable that was written to the file system of a folder.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
