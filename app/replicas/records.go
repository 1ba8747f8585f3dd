package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/store/transfer"
)

const (
	// unfinishedKey is the record that is in Redis while records are brought there, by whom. No
	// server starts on what an interrupted one has left.
	unfinishedKey = "unfinished"
	byMove        = "move"
	byRestore     = "restore"
	// restoredKey is the record of a restore that an audit log is still to get.
	restoredKey = "restored"
)

// stays says of a record that it tells something of its own store, and isn't brought to another: a store
// that has got records of another time is held against git at the next start.
func stays(key string) bool {
	return key == unfinishedKey || key == restoredKey || key == rebuiltKey
}

// target is a store in Redis to which records are brought.
type target interface {
	store.Store
	Renew(ctx context.Context) error
}

// bring makes the records of a store in Redis those of a file. kept keeps others away meanwhile. Nothing
// serves from what is there when it is interrupted, and it may be done again. note is put with the last of it.
func bring(ctx context.Context, by string, from *bolt.Store, to target, kept func(context.Context, func(context.Context) error) error, note ...store.Record) (n int, err error) {
	rec, err := to.Get(ctx, unfinishedKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	mark := store.Record{Key: unfinishedKey, Version: rec.Version, Value: []byte(by)}
	marked, err := to.Put(ctx, mark)
	if err != nil {
		return 0, err
	}
	// Numbers that were given elsewhere don't come again, and who has slept since reads everything anew.
	if err := to.Renew(ctx); err != nil {
		return 0, err
	}
	err = kept(ctx, func(ctx context.Context) error {
		if n, err = transfer.Level(ctx, from, to, stays); err != nil {
			return err
		}
		_, err = to.Put(ctx, append(slices.Clone(note), store.Record{Key: unfinishedKey, Version: marked[0].Version, Delete: true})...)
		return err
	})
	return n, err
}

// movedSuffix is the suffix of a store's file whose records went to Redis.
const movedSuffix = ".moved"

// moveStore brings the records of a file in the data directory to Redis, where there is one. One that was
// interrupted is carried on by the next start. It refuses a Redis that has got a part of some records only.
func (s *Replica) moveStore(ctx context.Context, have bool) error {
	rec, err := s.Records.Get(ctx, unfinishedKey)
	switch {
	case err == nil && string(rec.Value) == byRestore:
		return errors.New("the Redis has a part of a backup's records only: a restore is under way, or was interrupted. Run jibe restore again, with the same backup or another")
	case err == nil && !have:
		return errors.New("the Redis has a part of some records only: a start that moves them there from a data directory is under way, or was interrupted. Start the server on that data directory again")
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case !have:
		return nil
	}
	begun := err == nil
	from, err := openBolt(s.Data)
	if err != nil {
		return err
	}
	n, err := s.move(ctx, from, begun)
	if err := errors.Join(err, from.Close()); err != nil {
		return fmt.Errorf("move the records of %s to Redis: %w", s.Data.Store(), err)
	}
	if err := os.Rename(s.Data.Store(), s.Data.Store()+movedSuffix); err != nil {
		return err
	}
	s.Log.InfoContext(ctx, "the records of the data directory are in Redis now", "records", n, "file", s.Data.Store()+movedSuffix)
	return nil
}

func (s *Replica) move(ctx context.Context, from *bolt.Store, begun bool) (n int, err error) {
	if !begun {
		foreign, err := transfer.Foreign(ctx, from, s.Records, stays)
		if err == nil && foreign != "" {
			err = fmt.Errorf("the Redis has records already that the file doesn't have so (%s): name another database or prefix where they are another installation's; "+
				"to go on with those of Redis, move the file away; to have those of a backup in their place, jibe restore --store", foreign)
		}
		if err != nil {
			return 0, err
		}
	}
	kept := func(ctx context.Context, f func(context.Context) error) error { return f(ctx) }
	if s.serving != nil {
		kept = s.serving.during
	}
	to, ok := s.Records.(target)
	if !ok {
		return 0, fmt.Errorf("records can't be moved to a store of type %T", s.Records)
	}
	return bring(ctx, byMove, from, to, kept)
}

// RestoreOptions say how the records of a backup are restored into Redis.
type RestoreOptions struct {
	Store StoreOptions
	// Force has records that are in Redis replaced.
	Force bool
	// Alone says that no data directory is restored with them, whose audit log would tell of it.
	Alone bool
	Log   *slog.Logger
}

// Restore makes the records of a Redis those of the file in a folder that was unpacked of a backup.
func Restore(ctx context.Context, dir string, m *backup.Manifest, o RestoreOptions, note audit.Record) (err error) {
	path := (&datadir.Dir{Path: dir}).Store()
	if !datadir.Exists(path) {
		return errors.New("the backup has no records: an older jibe made it of a data directory whose records were in Redis. Without --store, its repositories and keys are restored, and a start puts back what git says")
	}
	from, err := bolt.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	ro, err := o.Store.redis()
	if err != nil {
		return err
	}
	r, err := redis.Open(ctx, ro)
	if err != nil {
		return err
	}
	to, err := newServing(ctx, r, o.Log)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := nobodyServes(ctx, r); err != nil {
		return err
	}
	if err := to.take(ctx); err != nil {
		return err
	}
	if err := mayReplace(ctx, from, to, m, o.Force); err != nil {
		return err
	}
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	var notes []store.Record
	if o.Alone { // else the data directory's audit log gets it
		old, err := to.Get(ctx, restoredKey)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if old.Version > 0 {
			text = append(append(old.Value, '\n'), text...)
		}
		notes = []store.Record{{Key: restoredKey, Version: old.Version, Value: text}}
	}
	n, err := bring(ctx, byRestore, from, to, to.during, notes...)
	if err != nil {
		return fmt.Errorf("restore the records into Redis, which has a part of them only now: run this again: %w", err)
	}
	o.Log.InfoContext(ctx, "the records are in Redis", "records", n)
	return nil
}

// nobodyServes refuses a store of which processes are members.
func nobodyServes(ctx context.Context, s store.Store) error {
	list, err := members.List(ctx, s)
	if err != nil || len(list) == 0 {
		return err
	}
	return fmt.Errorf("%d processes serve from this Redis (one on %s): stop all of them first. One that was killed counts for up to half a minute", len(list), list[0].Host)
}

// mayReplace refuses to replace the records of another installation, and, unless it is forced, any that the backup
// doesn't have as they are.
func mayReplace(ctx context.Context, from, to store.Store, m *backup.Manifest, force bool) error {
	theirs, there, err := commonOf(ctx, to)
	if err != nil {
		return err
	}
	mine, here, err := commonOf(ctx, from)
	if err != nil {
		return err
	}
	if !here {
		mine.Installation = m.Installation
	}
	if there && (mine.Installation != theirs.Installation || here && mine.Key != theirs.Key) {
		return fmt.Errorf("the Redis has the records of installation %s (key %s), and the backup is of installation %s (key %s): name another database or prefix",
			theirs.Installation, theirs.Key, mine.Installation, mine.Key)
	}
	if force {
		return nil
	}
	switch rec, err := to.Get(ctx, unfinishedKey); {
	case err == nil && string(rec.Value) == byMove:
		return errors.New("the Redis has a part of the records of a data directory, whose start was interrupted: start the server on it again; --force has those of the backup in their place")
	case err == nil:
		return nil // what an interrupted restore has left
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	foreign, err := transfer.Foreign(ctx, from, to, stays)
	if err == nil && foreign != "" {
		err = fmt.Errorf("the Redis has records already that the backup doesn't have so (%s, for one): --force has those of the backup in their place, and what was recorded since is gone, but for what git says", foreign)
	}
	return err
}

// commonOf reads what the replicas on a store have in common, if it says so.
func commonOf(ctx context.Context, s store.Store) (c common, ok bool, err error) {
	rec, err := s.Get(ctx, installationKey)
	if errors.Is(err, store.ErrNotFound) {
		return c, false, nil
	}
	if err == nil {
		err = json.Unmarshal(rec.Value, &c)
	}
	if err != nil {
		return c, false, fmt.Errorf("what the replicas have in common (%s in the store): %w", installationKey, err)
	}
	return c, true, nil
}

// recordRestored has the audit log tell of a restore of records alone.
func (s *Replica) recordRestored(ctx context.Context) error {
	rec, err := s.Records.Get(ctx, restoredKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if recorded, err := s.Audit.Restored(rec.Value, restoredKey+" in the store"); err != nil || !recorded {
		return err // the note stays for another start
	}
	_, err = s.Records.Put(ctx, store.Record{Key: restoredKey, Version: rec.Version, Delete: true})
	if errors.Is(err, store.ErrConflict) {
		return nil // another replica has recorded it, too
	}
	return err
}

// ForgetWhole has the next start hold the records in a folder against git: the repository may be one on a git
// server that knows of more.
func ForgetWhole(ctx context.Context, dir string) error {
	path := (&datadir.Dir{Path: dir}).Store()
	if !datadir.Exists(path) {
		return nil
	}
	s, err := bolt.Open(path)
	if err != nil {
		return err
	}
	rec, err := s.Get(ctx, rebuiltKey)
	if err == nil {
		_, err = s.Put(ctx, store.Record{Key: rebuiltKey, Version: rec.Version, Delete: true})
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return errors.Join(err, s.Close())
}
