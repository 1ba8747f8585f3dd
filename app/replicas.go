package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/branch"
)

// shared says that other replicas may serve this installation beside this one: the records are in
// Redis, and the desired repository is on a git server.
func (s *Server) shared() bool { return s.Store.URL != "" && s.Remote != "" }

// checkShared refuses what would not hold with several replicas.
func (s *Server) checkShared() error {
	if s.shared() && s.Confinement.Unconfined && s.AllowHooks.String() != "" {
		return errors.New("--unconfined-hooks: with --store and --remote, other replicas may serve beside this one, and hooks must have a launcher that ends them when their Jibe is stopped: leave it out, or leave out --allow-hooks")
	}
	return nil
}

// installationKey is the key of what all replicas of an installation must have in common.
const installationKey = "installation"

// common is its record.
type common struct {
	// Installation is the id of what the installation makes at VIMs.
	Installation string `json:"installation"`
	// Key tells the replicas' keys from others, and nothing of them.
	Key string `json:"key"`
	// Branch is the one of the desired repository.
	Branch string `json:"branch"`
}

// agree refuses a process whose key, id or branch isn't that of the replicas which the store has
// seen, and has a first one say what they are.
func (s *Server) agree(ctx context.Context) error {
	if !s.shared() {
		return nil
	}
	mine := common{Key: hex.EncodeToString(s.keeper.Derive("replicas")[:8]), Branch: cmp.Or(s.Branch, "main")}
	for {
		theirs, ok, err := commonOf(ctx, s.store)
		if err != nil {
			return err
		}
		if ok {
			return s.follow(mine, theirs)
		}
		if mine.Installation, err = s.data.Installation(s.keeper.Derive("installation")); err != nil {
			return err
		}
		value, err := json.Marshal(mine)
		if err != nil {
			return err
		}
		if _, err := s.store.Put(ctx, store.Record{Key: installationKey, Value: value}); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// follow compares what replicas must have in common, and takes over the id.
func (s *Server) follow(mine, theirs common) error {
	switch {
	case mine.Key != theirs.Key:
		return fmt.Errorf("the replicas on this store have another key (%s) than this data directory (%s): give each the same one (--identity), or name another database or prefix of Redis", theirs.Key, mine.Key)
	case mine.Branch != theirs.Branch:
		return fmt.Errorf("the replicas on this store follow branch %s, and this one was given %s: give each the same --branch, or name another database or prefix of Redis", theirs.Branch, mine.Branch)
	}
	id, err := s.data.InstallationGiven(theirs.Installation)
	if err == nil && id != theirs.Installation {
		err = fmt.Errorf("the replicas on this store are installation %s, and data directory %s is of installation %s: what one makes at a VIM the other would leave alone. Give an empty data directory", theirs.Installation, s.data.Path, id)
	}
	return err
}

// silence is after how long without a sign of life of this process its hooks are ended; 0 is never.
func (s *Server) silence() time.Duration {
	if !s.shared() {
		return 0 // nobody else would run them meanwhile
	}
	return s.member.Lasts()
}

// together gives the desired repository what replicas share of its remote: turns and the accepted
// commit. For a local one, the store keeps the commit in effect.
func (s *Server) together(o *gitrepo.Options) {
	name := cmp.Or(s.Branch, "main")
	if !s.shared() {
		if s.Remote == "" {
			o.Accepted = branch.NewAccepted(s.store, "local/"+name, s.holder) // apart from what replicas accept of a remote
		}
		return
	}
	s.accepted = branch.NewAccepted(s.store, name, s.holder)
	o.Turn, o.Accepted, o.Pushers = branch.NewTurns(s.store, name, s.holder), s.accepted, branch.NewPushers(s.store, name)
}

// serves gives the notifications what says which subscriptions this replica serves.
func (s *Server) serves(c *notify.Config) {
	if !s.shared() {
		return
	}
	c.Mine = s.member.Mine
	c.Session = func() (store.Lease, bool) {
		session := s.member.Session()
		if session == nil {
			return store.Lease{}, false
		}
		return session.Lease(), true
	}
}

// freshness has requests see what other replicas have answered before.
type freshness struct {
	*Server
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

// fresh wraps a handler of what other replicas may have changed.
func (s *Server) fresh(next http.Handler) http.Handler {
	if s.freshness == nil {
		return next
	}
	return rest.Fresh(s.freshness.sync, next)
}

func newFreshness(s *Server) *freshness {
	f := &freshness{Server: s, uploaded: make(chan struct{}, 1)}
	for prefix, moved := range map[string]func(){
		branch.AcceptedKey(cmp.Or(s.Branch, "main")): func() { f.desired.moved.Add(1) },
		branch.AcceptedKey(packageBranches):          func() { f.packagesMoved(&f.onboarded) },
		uploadPrefix:                                 func() { f.packagesMoved(&f.working) },
	} {
		moved()
		s.oplog.OnStored(prefix, func(store.Change) { moved() })
		s.oplog.OnLost(moved)
	}
	return f
}

func (f *freshness) packagesMoved(n *news) {
	n.moved.Add(1)
	select {
	case f.uploaded <- struct{}{}:
	default: // somebody is about to look
	}
}

// sync returns when the records, the desired repository and the packages are here as any replica has
// had them when it was called. For the store, which is near, it waits no longer than an answer does, whatever ctx
// allows for the git server.
func (f *freshness) sync(ctx context.Context) error {
	near, cancel := context.WithTimeout(ctx, rest.FreshWithin)
	defer cancel()
	if err := f.oplog.Sync(near); err != nil {
		return err
	}
	return errors.Join(
		f.desired.wait(func() error {
			commit, err := f.accepted.Load(near)
			if err == nil && commit != "" {
				err = f.repo.WaitFor(ctx, commit)
			}
			return err
		}),
		f.onboarded.wait(func() error { return f.packages.WaitFor(ctx) }),
		f.working.wait(func() error { return f.uploads.load(near) }))
}

// sessionHealth returns why this replica begins nothing, nil where it may.
func (s *Server) sessionHealth() error {
	if !s.shared() || s.member.Session() != nil {
		return nil
	}
	return errors.New("this replica has no session in the store, which it couldn't reach in time: it begins nothing until it can")
}

// announcePackages tells subscribers of packages, as the only one of all replicas. The others may not have
// fetched yet what this one has.
func (s *Server) announcePackages(ctx context.Context) error {
	s.announcing.Store(true)
	defer s.announcing.Store(false)
	if err := s.syncPackages(ctx); err != nil {
		s.Log.WarnContext(ctx, "package repositories were not all fetched", "error", err)
	}
	<-ctx.Done()
	return nil
}

// packageBranches begins the names of the records with the heads of package repositories.
const packageBranches = "packages/"

// packageHead is the head of a package repository that Jibe writes to, as all replicas take it. One of
// another URL is another repository.
func (s *Server) packageHead(home desired.Repository) packages.Head {
	sum := sha256.Sum256([]byte(home.URL + "#" + home.Branch))
	return branch.NewAccepted(s.store, packageBranches+hex.EncodeToString(sum[:16]), s.holder)
}

// checkPackages refuses package repositories that the other replicas couldn't have.
func (s *Server) checkPackages() error {
	if !s.shared() {
		return nil
	}
	settings, err := s.repo.Settings()
	if err != nil {
		return nil // that is shown as a problem, and has no repositories
	}
	if err := packages.LocalError(settings.Repositories); err != nil {
		return fmt.Errorf("%w, on branch %s of %s; or serve with one process, without --store or --remote", err, cmp.Or(s.Branch, "main"), git.WithoutCredentials(s.Remote))
	}
	return nil
}

// packagesPause is how long it takes until what other replicas have written into the package repository
// is fetched again where that failed, mostPackagesPause how long at most.
const (
	packagesPause     = time.Second
	mostPackagesPause = 30 * time.Second
)

// followPackages fetches what other replicas have written into the package repository, until ctx ends.
func (s *Server) followPackages(ctx context.Context) error {
	for {
		select {
		case <-s.freshness.uploaded:
		case <-ctx.Done():
			return nil
		}
		catchUp := func() error { return errors.Join(s.packages.CatchUp(ctx), s.uploads.load(ctx)) }
		pause := packagesPause
		for err := catchUp(); err != nil; err = catchUp() {
			s.Log.WarnContext(ctx, "packages that other replicas have written are not fetched yet, it is tried again", "pause", pause, "error", err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
			pause = min(2*pause, mostPackagesPause)
		}
		if err := s.pkgm.Announce(ctx); err != nil {
			s.Log.ErrorContext(ctx, "subscribers aren't told of packages yet", "error", err)
		}
		s.recon.EnqueueUnobeyed() // the packages that they name may be there now
		s.follower.PackagesChanged()
	}
}

// Member is a replica as GET /jibe/v1/members shows it.
type Member struct {
	members.Record
	// Self says that it is the one that answers.
	Self bool `json:"self,omitempty"`
	// Instances is how many instances are dealt to it.
	Instances int `json:"instances"`
}

// listMembers answers with the replicas that serve: [Member].
func (s *Server) listMembers(w http.ResponseWriter, r *http.Request) {
	list, err := members.List(r.Context(), s.store)
	if err != nil {
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	dealt := s.dealt()
	out := make([]Member, 0, len(list))
	for _, m := range list {
		out = append(out, Member{Record: m, Self: m.Holder == s.member.Holder(), Instances: dealt[m.Holder]})
	}
	answer.JSON(w, http.StatusOK, out)
}

// dealt is how many instances are dealt to each member.
func (s *Server) dealt() map[string]int {
	n := map[string]int{}
	for e := range s.oplog.InstanceEntries("") {
		n[s.member.OwnerOf(e.ID)]++
	}
	return n
}
