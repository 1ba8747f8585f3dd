package app

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/desired/gitrepo"
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
// commit.
func (s *Server) together(o *gitrepo.Options) {
	if !s.shared() {
		return
	}
	name := cmp.Or(s.Branch, "main")
	s.accepted = branch.NewAccepted(s.store, name, s.holder)
	o.Turn, o.Accepted = branch.NewTurns(s.store, name, s.holder), s.accepted
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
	moved, seen atomic.Uint64 // how often the accepted commit was moved, and was then seen to be here
}

// fresh wraps a handler of what other replicas may have changed.
func (s *Server) fresh(next http.Handler) http.Handler {
	if s.freshness == nil {
		return next
	}
	return rest.Fresh(s.freshness.sync, next)
}

func newFreshness(s *Server) *freshness {
	f := &freshness{Server: s}
	f.moved.Store(1)
	moved := func() { f.moved.Add(1) }
	s.oplog.OnStored(branch.AcceptedKey(cmp.Or(s.Branch, "main")), func(store.Change) { moved() })
	s.oplog.OnLost(moved)
	return f
}

// sync returns when the records and the desired repository are here as any replica has had them
// when it was called.
func (f *freshness) sync(ctx context.Context) error {
	if err := f.oplog.Sync(ctx); err != nil {
		return err
	}
	moved := f.moved.Load()
	if seen := f.seen.Load(); seen >= moved {
		return nil
	}
	commit, err := f.accepted.Load(ctx)
	if err == nil && commit != "" {
		err = f.repo.WaitFor(ctx, commit)
	}
	if err != nil {
		return err
	}
	for seen := f.seen.Load(); seen < moved && !f.seen.CompareAndSwap(seen, moved); seen = f.seen.Load() {
	}
	return nil
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
		respondProblem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	dealt := s.dealt()
	out := make([]Member, 0, len(list))
	for _, m := range list {
		out = append(out, Member{Record: m, Self: m.Holder == s.member.Holder(), Instances: dealt[m.Holder]})
	}
	respondJSON(w, http.StatusOK, out)
}

// dealt is how many instances are dealt to each member.
func (s *Server) dealt() map[string]int {
	n := map[string]int{}
	for e := range s.oplog.InstanceEntries("") {
		n[s.member.OwnerOf(e.ID)]++
	}
	return n
}

// memberCollectors show the replicas as this one sees them.
func (s *Server) memberCollectors() []prometheus.Collector {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	return []prometheus.Collector{
		gauge("jibe_members", "Replicas that serve this installation, as this one sees them.", func() float64 { return float64(len(s.member.Living())) }),
		gauge("jibe_member_session_held", "1 while this replica's session in the store is held, else 0: it begins nothing then.", func() float64 {
			if s.member.Session() == nil {
				return 0
			}
			return 1
		}),
		gauge("jibe_instances_owned", "Instances whose lease this replica holds.", func() float64 { return float64(s.recon.Owned()) }),
	}
}
