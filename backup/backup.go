// Package backup makes one file of a data directory while its server works, and a data directory
// of such a file again.
//
// A backup is what a crash at one moment would have left: the store as of that moment, and the
// desired repository with every commit that a record of the store names, and with no commit of
// Jibe's own that a record doesn't know. It owns the order in which the parts are read, the form
// of the file, and what is checked before a data directory is put in place. It never opens a
// server's parts itself, and knows nothing of what records and commits mean.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/store"
)

// Format is the version of the form of backups that this package writes, and the newest that it
// reads.
const Format = 1

// ManifestFile is the name of the last file in a backup.
const ManifestFile = "manifest.json"

// Manifest says what a backup holds. It comes last: a backup without one isn't whole.
type Manifest struct {
	Format int `json:"format"`
	// Jibe is the version that made the backup.
	Jibe string `json:"jibe"`
	// Taken is the moment as of which the backup is.
	Taken time.Time `json:"taken"`
	// Installation is the id under which objects stand at VIMs.
	Installation string `json:"installation,omitempty"`
	// Head is the commit of the desired branch, "" where there was none.
	Head string `json:"head,omitempty"`
	// Records is the URL of the Redis that the records were in, "" where they were in a file. The
	// backup has them as a file in any case.
	Records string `json:"records,omitempty"`
	Files   []File `json:"files"`
}

// File is one file of the data directory.
type File struct {
	// Name is relative to the data directory, with slashes.
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Size is how large the restored directory is, bytes.
func (m *Manifest) Size() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Source is the data directory that is backed up. Data, Version and Store are required.
type Source struct {
	// Data is its path. Nobody but the caller's process has it, and that takes one backup at a
	// time.
	Data string
	// Version is that of Jibe.
	Version string
	// Store is copied, wherever it keeps its records. Place is the URL of where that is, "" for a
	// file of the data directory.
	Store store.Store
	Place string
	// Still calls a function while no commit of Jibe's own is made; nil where none can be, as
	// nothing runs.
	Still func(during func() error) error
	// Follow has the desired repository catch up with what other processes have written to the
	// store, as their commits are made elsewhere; nil where there are none.
	Follow func(ctx context.Context) error
	Now    func() time.Time
}

// stagingPrefix begins the name of the folder in the data directory in which the parts are
// gathered, mostly as further names of the same files.
const stagingPrefix = ".backup-"

// Take writes a backup to w. Where it returns an error, what was written is none, and shows it.
//
// The order of reading is what makes a backup consistent, as each fact is read before those that
// it may name:
//
//	uploads             become commits in package repositories, and then vanish
//	store               its records name commits
//	notes, pushes       go from these files into git
//	desired repository  its commits name packages, and were encrypted for keys
//	packages, keys      former keys are kept beside the newest
//	audit log           has what was answered, and its end is noted behind it
//
// A commit of Jibe's own and the records before and behind it are one fact, which Still keeps from
// being cut through. Those of other processes are on the remote, and whoever starts on a restored
// store holds it against git.
func Take(ctx context.Context, src Source, w io.Writer) (*Manifest, error) {
	if src.Now == nil {
		src.Now = time.Now
	}
	if err := clearStaging(src.Data); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(src.Data, stagingPrefix)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	defer os.RemoveAll(dir) // the next backup removes what stays
	s := &staging{data: src.Data, dir: dir, limits: map[string]int64{}}
	m := &Manifest{Format: Format, Jibe: src.Version}
	if err := s.gather(ctx, src, m); err != nil {
		return nil, fmt.Errorf("backup of %s: %w", src.Data, err)
	}
	if err := s.write(ctx, w, m); err != nil {
		return nil, fmt.Errorf("backup of %s: %w", src.Data, err)
	}
	return m, nil
}

// clearStaging removes what backups that were interrupted have left.
func clearStaging(data string) error {
	left, err := filepath.Glob(filepath.Join(data, stagingPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what an interrupted backup left: %w", err)
		}
	}
	return nil
}

// gather reads the parts in their order.
func (s *staging) gather(ctx context.Context, src Source, m *Manifest) error {
	still := src.Still
	if still == nil {
		still = func(during func() error) error { return during() }
	}
	copied, err := copyRecords(ctx, src.Store, filepath.Join(s.dir, datadir.StoreFile))
	if err != nil {
		return err
	}
	m.Records = src.Place
	if err := s.tree("uploads", nil); err != nil {
		return errors.Join(err, copied.Close())
	}
	desired := &repository{dir: datadir.Desired(src.Data), name: "desired.git"}
	refs := func() error {
		for _, journal := range []string{"jibe/notes", "jibe/pushes"} {
			if err := s.text("desired.git/"+journal, filepath.Join(desired.dir, filepath.FromSlash(journal))); err != nil {
				return err
			}
		}
		return desired.readRefs(ctx)
	}
	err = still(func() error {
		if err := copied.Take(); err != nil {
			return err
		}
		m.Taken = src.Now().UTC()
		if src.Follow != nil {
			return nil
		}
		return refs()
	})
	if err == nil && src.Follow != nil {
		if err = src.Follow(ctx); err == nil {
			err = still(refs)
		}
	}
	if err := errors.Join(err, copied.Close()); err != nil {
		return err
	}
	m.Head = desired.head()
	if err := s.repository(desired); err != nil {
		return err
	}
	if err := s.packages(ctx); err != nil {
		return err
	}
	if err := s.rest(); err != nil {
		return err
	}
	if id, err := os.ReadFile(filepath.Join(s.dir, "installation")); err == nil {
		m.Installation = strings.TrimSpace(string(id))
	}
	return s.audit()
}

// LastFile is the name of the file in the data directory that says when the last backup was taken
// that its taker has whole.
const LastFile = "backup.last"

// SetLast notes that the backup of a moment is in somebody's hands.
func SetLast(data string, taken time.Time) error {
	if last, err := Last(data); err == nil && last.After(taken) {
		return nil
	}
	if err := datadir.WriteDurably(filepath.Join(data, LastFile), taken.UTC().Format(time.RFC3339)+"\n"); err != nil {
		return fmt.Errorf("note the last backup: %w", err)
	}
	return nil
}

// Last is the moment of the last backup; [os.ErrNotExist] where there was none.
func Last(data string) (time.Time, error) {
	text, err := os.ReadFile(filepath.Join(data, LastFile))
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", filepath.Join(data, LastFile), err)
	}
	return at, nil
}
