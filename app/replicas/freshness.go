package replicas

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/branch"
)

// Freshness has requests see what other replicas have answered before.
type Freshness struct {
	replica  *Replica
	oplog    *oplog.Log
	repo     Waiter
	packages Packages
	uploads  *Uploads
	// desired and onboarded are commits of the desired and of the package repository, working the
	// packages that replicas work on. uploaded holds something where one of the latter may have moved.
	desired, onboarded, working news
	uploaded                    chan struct{}
}

// news is something that any replica may move, as far as this one has it.
type news struct {
	moved, seen atomic.Uint64 // how often it was moved, and was then seen to be here
}

// wait has f wait until what was moved is here, unless it was seen since.
func (n *news) wait(f func() error) error {
	moved := n.moved.Load()
	if n.seen.Load() >= moved {
		return nil
	}
	if err := f(); err != nil {
		return err
	}
	for seen := n.seen.Load(); seen < moved && !n.seen.CompareAndSwap(seen, moved); seen = n.seen.Load() {
	}
	return nil
}

// Wrap wraps a handler of what other replicas may have changed.
func (f *Freshness) Wrap(next http.Handler) http.Handler {
	if f == nil {
		return next
	}
	return rest.Fresh(f.sync, next)
}

// Waiter is a repository that other replicas write to, too.
type Waiter interface {
	WaitFor(ctx context.Context, commit string) error
}

// Packages is the catalogue of packages, which other replicas write to, too.
type Packages interface {
	WaitFor(ctx context.Context) error
	CatchUp(ctx context.Context) error
}

// Freshness follows what the other replicas put into the store from now on; nil where there are none.
func (s *Replica) Freshness(log *oplog.Log) *Freshness {
	if !s.Shared() {
		return nil
	}
	f := &Freshness{replica: s, oplog: log, uploaded: make(chan struct{}, 1)}
	for prefix, moved := range map[string]func(){
		branch.AcceptedKey(cmp.Or(s.Branch, "main")): func() { f.desired.moved.Add(1) },
		branch.AcceptedKey(packageBranches):          func() { f.packagesMoved(&f.onboarded) },
		uploadPrefix:                                 func() { f.packagesMoved(&f.working) },
	} {
		moved()
		log.OnStored(prefix, func(store.Change) { moved() })
		log.OnLost(moved)
	}
	return f
}

func (f *Freshness) packagesMoved(n *news) {
	n.moved.Add(1)
	select {
	case f.uploaded <- struct{}{}:
	default: // somebody is about to look
	}
}

// Of says of which repositories. It is called before requests are served.
func (f *Freshness) Of(repo Waiter, packages Packages, uploads *Uploads) {
	if f != nil {
		f.repo, f.packages, f.uploads = repo, packages, uploads
	}
}

// sync returns when the records, the desired repository and the packages are here as any replica has
// had them when it was called. For the store, which is near, it waits no longer than an answer does, whatever ctx
// allows for the git server.
func (f *Freshness) sync(ctx context.Context) error {
	near, cancel := context.WithTimeout(ctx, rest.FreshWithin)
	defer cancel()
	if err := f.oplog.Sync(near); err != nil {
		return err
	}
	return errors.Join(
		f.desired.wait(func() error {
			commit, err := f.replica.accepted.Load(near)
			if err == nil && commit != "" {
				err = f.repo.WaitFor(ctx, commit)
			}
			return err
		}),
		f.onboarded.wait(func() error { return f.packages.WaitFor(ctx) }),
		f.working.wait(func() error { return f.uploads.load(near) }))
}

// packagesPause is how long it takes until what other replicas have written into the package repository
// is fetched again where that failed, mostPackagesPause how long at most.
const (
	packagesPause     = time.Second
	mostPackagesPause = 30 * time.Second
)

// FollowPackages fetches what other replicas have written into the package repository, until ctx ends. arrived is called
// after each time.
func (f *Freshness) FollowPackages(ctx context.Context, arrived func(context.Context)) error {
	for {
		select {
		case <-f.uploaded:
		case <-ctx.Done():
			return nil
		}
		catchUp := func() error { return errors.Join(f.packages.CatchUp(ctx), f.uploads.load(ctx)) }
		pause := packagesPause
		for err := catchUp(); err != nil; err = catchUp() {
			f.replica.Log.WarnContext(ctx, "packages that other replicas have written are not fetched yet, it is tried again", "pause", pause, "error", err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
			pause = min(2*pause, mostPackagesPause)
		}
		arrived(ctx)
	}
}
