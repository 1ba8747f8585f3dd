// Package replicas is this process among those that may serve one installation: the store that has the records, the
// lease or the session by which it writes there, and what replicas have in common. With a store in a file it is alone.
package replicas

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/store/branch"
	"github.com/jibe-vnfm/jibe/store/redis"
)

// Config says where records are, and whose.
type Config struct {
	Data   *datadir.Dir
	Keeper *secret.Keeper
	Store  StoreOptions
	// Remote is what the desired repository is a mirror of, "" for none, and Branch the desired one.
	Remote, Branch string
	Version        string
	Meters         Meters
	Audit          AuditLog
	// Defer tells those who ask meanwhile why the start waits, until stop is called.
	Defer func(why error) (stop func(), err error)
	// Ending is closed when the process is told to end.
	Ending <-chan struct{}
	Log    *slog.Logger
}

// Meters measure the store.
type Meters interface {
	Store(operation string, took time.Duration)
	Fenced()
}

// AuditLog gets the records of restores that are noted at a place; it returns false where it doesn't.
type AuditLog interface {
	Restored(noted []byte, at string) (recorded bool, err error)
}

// Replica is this process.
type Replica struct {
	Config
	Records Records // the store

	serving    *serving         // nil where the store is a file, or others share it
	redis      *redis.Store     // nil where the store is a file
	holder     string           // of leases: this process
	member     *members.Member  // nil before Join
	accepted   *branch.Accepted // nil unless the store is shared
	announcing atomic.Bool      // whether subscribers are told of packages here
}

// Open opens the store. It returns what is to be closed also with an error.
func Open(ctx context.Context, c Config) (*Replica, error) {
	s := &Replica{Config: c, holder: uuid.NewString()}
	return s, s.open(ctx)
}

// Shares reports whether other replicas may serve this installation beside this one: the records are in
// Redis, and the desired repository is on a git server.
func Shares(o StoreOptions, remote string) bool { return o.URL != "" && remote != "" }

// Shared is [Shares] for this one.
func (s *Replica) Shared() bool { return Shares(s.Store, s.Remote) }

// Holder is how this process is called as a holder of leases.
func (s *Replica) Holder() string { return s.holder }

// Member is this process as one of those that serve the store.
func (s *Replica) Member() *members.Member { return s.member }

// Redis is the Redis that has the records, nil where the store is a file.
func (s *Replica) Redis() *redis.Store { return s.redis }

// Ended waits for the end of ctx, or until this process can't be the store's only one any more, where it is to be. Its
// error ends the process.
func (s *Replica) Ended(ctx context.Context) error {
	if s.serving == nil {
		return nil
	}
	return s.serving.ended(ctx)
}

// Close ends the membership, and closes the store.
func (s *Replica) Close(ctx context.Context) error {
	var errs []error
	if s.member != nil {
		errs = append(errs, s.member.Leave(ctx))
	}
	if s.Records != nil {
		errs = append(errs, s.Records.Close())
	}
	return errors.Join(errs...)
}

// Announces reports whether this process notifies subscribers of packages.
func (s *Replica) Announces() bool { return !s.Shared() || s.announcing.Load() }

// Announce has this process tell subscribers of packages, as the only one of all replicas, until ctx ends. The others may
// not have fetched yet what this one has: sync fetches.
func (s *Replica) Announce(ctx context.Context, sync func(context.Context) error) error {
	s.announcing.Store(true)
	defer s.announcing.Store(false)
	if err := sync(ctx); err != nil {
		s.Log.WarnContext(ctx, "package repositories were not all fetched", "error", err)
	}
	<-ctx.Done()
	return nil
}

// followPatience is how long a backup waits for the commits of other replicas.
const followPatience = 10 * time.Second

// FollowAccepted waits for the commits that other replicas have pushed. Where the git server is away, a backup
// does without: that server has them.
func (s *Replica) FollowAccepted(ctx context.Context, repo Waiter) error {
	within, cancel := context.WithTimeout(ctx, followPatience)
	defer cancel()
	commit, err := s.accepted.Load(within)
	if err == nil && commit != "" {
		err = repo.WaitFor(within, commit)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.Log.WarnContext(ctx, "the backup's mirror may lack the newest commits, which the git server has", "error", err)
	}
	return nil
}
