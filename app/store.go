package app

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
	r.Password, err = resolve("--store-password", o.Password)
	r.SentinelPassword, serr = resolve("--store-sentinel-password", o.SentinelPassword)
	return r, errors.Join(err, serr)
}

// resolve reads what a reference names. It isn't shown where it is no reference: it may be the
// password itself.
func resolve(flag, reference string) (string, error) {
	kind, name, _ := strings.Cut(reference, ":")
	switch {
	case reference == "":
		return "", nil
	case kind == "env":
		if v, ok := os.LookupEnv(name); ok {
			return v, nil
		}
		return "", fmt.Errorf("%s: the environment has no %s", flag, name)
	case kind == "file":
		text, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", flag, err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	return "", fmt.Errorf("%s: want file:PATH or env:NAME", flag)
}

// recordStore is what the server needs of its store, wherever that is.
type recordStore interface {
	store.Store
	// LastWrite returns when the last write ended, and its error if it failed.
	LastWrite() (at time.Time, err error)
	// Probe tries to write size bytes that nobody reads.
	Probe(ctx context.Context, size int) error
}

// openStore opens the store that the options name, and takes it for this process alone.
func (s *Server) openStore(ctx context.Context) error {
	place, err := StoreOf(s.data.Path)
	if err != nil {
		return err
	}
	if s.Store.URL == "" {
		if place != "" {
			return fmt.Errorf("the records of data directory %s are in Redis (%s): give --store; to begin without them, remove %s", s.data.Path, place, filepath.Join(s.data.Path, datadir.StorePlace))
		}
		s.compactStore(ctx)
		b, err := openBolt(s.data, bolt.WithObserver(s.meters.Store))
		if err != nil {
			return err
		}
		s.store = b
		return nil
	}
	o, err := s.Store.redis()
	if err != nil {
		return err
	}
	o.Observe, o.Fenced = s.meters.Store, s.meters.Fenced
	r, err := s.awaitRedis(ctx, o)
	if err != nil {
		return err
	}
	if s.shared() {
		s.store, s.redis = r, r
		return s.keepPlace(ctx, place)
	}
	s.redis = r
	if s.serving, err = newServing(ctx, r, s.Log); err != nil {
		return errors.Join(err, r.Close())
	}
	s.store = s.serving
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
func (s *Server) keepPlace(ctx context.Context, place string) error {
	move := place == "" && datadir.Exists(s.data.Store())
	if err := s.moveStore(ctx, move); err != nil {
		return err
	}
	if err := s.sealRecords(ctx, move || place != "" || datadir.Exists(s.data.Store()+movedSuffix)); err != nil {
		return err
	}
	if err := s.recordRestored(ctx); err != nil {
		return err
	}
	return datadir.WriteDurably(filepath.Join(s.data.Path, datadir.StorePlace), s.Store.URL+"\n")
}

// join makes this process a member of those that serve the store.
func (s *Server) join(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	s.member, err = members.Join(ctx, members.Config{Store: s.store, Log: s.Log, Holder: s.holder, Host: host, Version: s.Version, Shared: s.shared()})
	if err != nil || !s.shared() {
		return err
	}
	alone, err := s.store.Leases(ctx, serveLease)
	if err == nil && len(alone) > 0 {
		err = fmt.Errorf("a process without --remote serves from this store (%s), which lets no other do so: give it --remote, or end it", alone[0].Holder)
	}
	return err
}

// compactStore gives the free space of the store's file back to the disk. A start does without, and
// what is wrong with the file is an error of its opening.
func (s *Server) compactStore(ctx context.Context) {
	freed, err := bolt.Compact(s.data.Store(), datadir.EndPatience)
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

// lookAtStore tells the doctor where to look.
func (s *Server) lookAtStore(t *doctor.Target) {
	if st, ok := s.store.(*bolt.Store); ok {
		t.Store = st.Facts
		return
	}
	t.Redis = s.redis.Facts
	t.Unproven = func(ctx context.Context) ([]string, error) { return unproven(ctx, s.store, s.sealer()) }
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

// inspectStore is lookAtStore where no server runs.
func inspectStore(t *doctor.Target, o Options) {
	if place, _ := StoreOf(o.Data); o.Store.URL == "" && place != "" {
		o.Store.URL = place
	}
	if o.Store.URL == "" {
		t.Store = func(ctx context.Context) (bolt.Facts, error) {
			return bolt.Inspect(ctx, filepath.Join(o.Data, datadir.StoreFile))
		}
		return
	}
	t.Redis = func(ctx context.Context) (redis.Facts, error) {
		ro, err := o.Store.redis()
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
		ro, err := o.Store.redis()
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
