package replicas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/doctor"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/reference"
	"github.com/jibe-vnfm/jibe/internal/sealed"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/store/redis"
)

// StoreOptions say where records are kept; the zero value is a file in the data directory.
type StoreOptions struct {
	// URL is that of Redis, as [redis.Options.URL] has it.
	URL string
	// Password and SentinelPassword are references: file:PATH or env:NAME.
	Password, SentinelPassword string
	// Replicas is how many replicas of Redis must have a write before it is answered.
	Replicas int
}

// redis resolves the references.
func (o StoreOptions) redis() (redis.Options, error) {
	if !redis.IsURL(o.URL) {
		// Not told again: it may hold a password in a form that isn't known.
		return redis.Options{}, errors.New("--store: want a URL of Redis, as redis://HOST:6379/0")
	}
	r := redis.Options{URL: o.URL, Replicas: o.Replicas}
	var err, serr error
	r.Password, err = reference.Read("--store-password", o.Password)
	r.SentinelPassword, serr = reference.Read("--store-sentinel-password", o.SentinelPassword)
	return r, errors.Join(err, serr)
}

// Records is what the server needs of its store, wherever that is.
type Records interface {
	store.Store
	// LastWrite returns when the last write ended, and its error if it failed.
	LastWrite() (at time.Time, err error)
	// Probe tries to write size bytes that nobody reads.
	Probe(ctx context.Context, size int) error
}

// open opens the store that the options name, and takes it for this process alone, unless it is shared.
func (s *Replica) open(ctx context.Context) error {
	place, err := StoreOf(s.Data.Path)
	if err != nil {
		return err
	}
	if s.Store.URL == "" {
		if place != "" {
			return fmt.Errorf("the records of data directory %s are in Redis (%s): give --store; to begin without them, remove %s", s.Data.Path, place, filepath.Join(s.Data.Path, datadir.StorePlace))
		}
		s.compactStore(ctx)
		b, err := openBolt(s.Data, bolt.WithObserver(s.Meters.Store))
		if err != nil {
			return err
		}
		s.Records = b
		return nil
	}
	o, err := s.Store.redis()
	if err != nil {
		return err
	}
	o.Observe, o.Fenced = s.Meters.Store, s.Meters.Fenced
	r, err := s.awaitRedis(ctx, o)
	if err != nil {
		return err
	}
	if s.Shared() {
		s.Records, s.redis = r, r
		return s.keepPlace(ctx, place)
	}
	s.redis = r
	if s.serving, err = newServing(ctx, r, s.Log); err != nil {
		return errors.Join(err, r.Close())
	}
	s.Records = s.serving
	if err := s.serving.take(ctx); err != nil {
		return err
	}
	if err := s.keepPlace(ctx, place); err != nil {
		return err
	}
	s.serving.keep()
	return nil
}

// keepPlace notes where the records are, and brings those there that the data directory has.
func (s *Replica) keepPlace(ctx context.Context, place string) error {
	move := place == "" && datadir.Exists(s.Data.Store())
	if err := s.moveStore(ctx, move); err != nil {
		return err
	}
	if err := s.sealRecords(ctx, move || place != "" || datadir.Exists(s.Data.Store()+movedSuffix)); err != nil {
		return err
	}
	if err := s.recordRestored(ctx); err != nil {
		return err
	}
	return datadir.WriteDurably(filepath.Join(s.Data.Path, datadir.StorePlace), s.Store.URL+"\n")
}

// Join makes this process a member of those that serve the store.
func (s *Replica) Join(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	s.member, err = members.Join(ctx, members.Config{Store: s.Records, Log: s.Log, Holder: s.holder, Host: host, Version: s.Version, Shared: s.Shared()})
	if err != nil || !s.Shared() {
		return err
	}
	alone, err := s.Records.Leases(ctx, serveLease)
	if err == nil && len(alone) > 0 {
		err = fmt.Errorf("a process without --remote serves from this store (%s), which lets no other do so: give it --remote, or end it", alone[0].Holder)
	}
	return err
}

// compactStore gives the free space of the store's file back to the disk. A start does without, and
// what is wrong with the file is an error of its opening.
func (s *Replica) compactStore(ctx context.Context) {
	freed, err := bolt.Compact(s.Data.Store(), datadir.EndPatience)
	switch {
	case err != nil:
		s.Log.WarnContext(ctx, "the store keeps room that it doesn't need, the next start tries again", "error", err)
	case freed > 0:
		s.Log.InfoContext(ctx, "the store's file was compacted", "freed", freed)
	}
}

func openBolt(d *datadir.Dir, options ...bolt.Option) (*bolt.Store, error) {
	return bolt.Open(d.Store(), append(options, bolt.WithLockTimeout(datadir.EndPatience))...)
}

// StoreOf returns the URL of the Redis that has the records of a data directory, "" where they
// are in the directory.
func StoreOf(data string) (string, error) {
	text, err := os.ReadFile(filepath.Join(data, datadir.StorePlace))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// Show tells the doctor where to look.
func (s *Replica) Show(t *doctor.Target) {
	if st, ok := s.Records.(*bolt.Store); ok {
		t.Store = st.Facts
		return
	}
	t.Redis = s.redis.Facts
	t.Unproven = func(ctx context.Context) ([]string, error) { return unproven(ctx, s.Records, s.Sealer()) }
}

// unproven returns why subscriptions in a store aren't served.
func unproven(ctx context.Context, from store.Store, by sealed.Sealer) ([]string, error) {
	found, err := notify.FindUnproven(ctx, from, by)
	why := make([]string, 0, len(found))
	for _, x := range found {
		why = append(why, x.Subscription+": "+x.Error())
	}
	return why, err
}

// Show is [Replica.Show] for a data directory on which no server runs.
func (o StoreOptions) Show(t *doctor.Target, data string) {
	if place, _ := StoreOf(data); o.URL == "" && place != "" {
		o.URL = place
	}
	if o.URL == "" {
		t.Store = func(ctx context.Context) (bolt.Facts, error) {
			return bolt.Inspect(ctx, filepath.Join(data, datadir.StoreFile))
		}
		return
	}
	t.Redis = func(ctx context.Context) (redis.Facts, error) {
		ro, err := o.redis()
		if err != nil {
			return redis.Facts{}, err
		}
		r, err := redis.Open(ctx, ro)
		if err != nil {
			return redis.Facts{}, err
		}
		defer r.Close()
		return r.Facts(ctx)
	}
	t.Unproven = func(ctx context.Context) ([]string, error) {
		keeper, err := t.Keeper()
		if err != nil {
			return nil, err
		}
		ro, err := o.redis()
		if err != nil {
			return nil, err
		}
		r, err := redis.Open(ctx, ro)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return unproven(ctx, r, sealerOf(keeper, true))
	}
}

// OpenStopped opens the records of a data directory on which no server runs. place is the URL of the Redis that has
// them, "" where they are in the directory. The URL of o may be left out.
func OpenStopped(ctx context.Context, d *datadir.Dir, o StoreOptions) (records Records, place string, err error) {
	if place, err = StoreOf(d.Path); err != nil {
		return nil, "", err
	}
	if place != "" {
		records, err = openPlace(ctx, o, place)
		return records, place, err
	}
	records, err = openBolt(d)
	return records, "", err
}

// openPlace opens the Redis that has the records of a data directory.
func openPlace(ctx context.Context, o StoreOptions, place string) (*redis.Store, error) {
	if o.URL == "" {
		o.URL = place
	}
	ro, err := o.redis()
	if err != nil {
		return nil, err
	}
	s, err := redis.Open(ctx, ro)
	if err != nil {
		return nil, fmt.Errorf("the records of the data directory are in Redis (is a --store-password needed?): %w", err)
	}
	return s, nil
}
