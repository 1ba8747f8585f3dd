package replicas

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/branch"
)

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

// Agree refuses a process whose key, id or branch isn't that of the replicas which the store has
// seen, and has a first one say what they are.
func (s *Replica) Agree(ctx context.Context) error {
	if !s.Shared() {
		return nil
	}
	mine := common{Key: hex.EncodeToString(s.Keeper.Derive("replicas")[:8]), Branch: cmp.Or(s.Branch, "main")}
	for {
		theirs, ok, err := commonOf(ctx, s.Records)
		if err != nil {
			return err
		}
		if ok {
			return s.follow(mine, theirs)
		}
		if mine.Installation, err = s.Data.Installation(s.Keeper.Derive("installation")); err != nil {
			return err
		}
		value, err := json.Marshal(mine)
		if err != nil {
			return err
		}
		if _, err := s.Records.Put(ctx, store.Record{Key: installationKey, Value: value}); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// follow compares what replicas must have in common, and takes over the id.
func (s *Replica) follow(mine, theirs common) error {
	switch {
	case mine.Key != theirs.Key:
		return fmt.Errorf("the replicas on this store have another key (%s) than this data directory (%s): give each the same one (--identity), or name another database or prefix of Redis", theirs.Key, mine.Key)
	case mine.Branch != theirs.Branch:
		return fmt.Errorf("the replicas on this store follow branch %s, and this one was given %s: give each the same --branch, or name another database or prefix of Redis", theirs.Branch, mine.Branch)
	}
	id, err := s.Data.InstallationGiven(theirs.Installation)
	if err == nil && id != theirs.Installation {
		err = fmt.Errorf("the replicas on this store are installation %s, and data directory %s is of installation %s: what one makes at a VIM the other would leave alone. Give an empty data directory", theirs.Installation, s.Data.Path, id)
	}
	return err
}

// Silence is after how long without a sign of life of this process its hooks are ended; 0 is never.
func (s *Replica) Silence() time.Duration {
	if !s.Shared() {
		return 0 // nobody else would run them meanwhile
	}
	return s.member.Lasts()
}

// Together gives the desired repository what replicas share of its remote: turns and the accepted
// commit. For a local one, the store keeps the commit in effect.
func (s *Replica) Together(o *gitrepo.Options) {
	name := cmp.Or(s.Branch, "main")
	if !s.Shared() {
		if s.Remote == "" {
			o.Accepted = branch.NewAccepted(s.Records, "local/"+name, s.holder) // apart from what replicas accept of a remote
		}
		return
	}
	s.accepted = branch.NewAccepted(s.Records, name, s.holder)
	o.Turn, o.Accepted, o.Pushers = branch.NewTurns(s.Records, name, s.holder), s.accepted, branch.NewPushers(s.Records, name)
}

// Serves gives the notifications what says which subscriptions this replica serves.
func (s *Replica) Serves(c *notify.Config) {
	if !s.Shared() {
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

// Health returns why this process begins nothing, nil where it may.
func (s *Replica) Health() error {
	if err := s.serving.health(); err != nil || !s.Shared() || s.member.Session() != nil {
		return err
	}
	return errors.New("this replica has no session in the store, which it couldn't reach in time: it begins nothing until it can")
}

// packageBranches begins the names of the records with the heads of package repositories.
const packageBranches = "packages/"

// PackageHead is the head of a package repository that Jibe writes to, as all replicas take it. One of
// another URL is another repository.
func (s *Replica) PackageHead(home desired.Repository) packages.Head {
	sum := sha256.Sum256([]byte(home.URL + "#" + home.Branch))
	return branch.NewAccepted(s.Records, packageBranches+hex.EncodeToString(sum[:16]), s.holder)
}

// CheckPackages refuses package repositories that the other replicas couldn't have.
func (s *Replica) CheckPackages(settings func() (*desired.Settings, error)) error {
	if !s.Shared() {
		return nil
	}
	now, err := settings()
	if err != nil {
		return nil // that is shown as a problem, and has no repositories
	}
	if err := packages.LocalError(now.Repositories); err != nil {
		return fmt.Errorf("%w, on branch %s of %s; or serve with one process, without --store or --remote", err, cmp.Or(s.Branch, "main"), git.WithoutCredentials(s.Remote))
	}
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

// Members are the replicas that serve. instances are all that are known.
func (s *Replica) Members(ctx context.Context, instances iter.Seq[string]) ([]Member, error) {
	list, err := members.List(ctx, s.Records)
	if err != nil {
		return nil, err
	}
	dealt := map[string]int{}
	for id := range instances {
		dealt[s.member.OwnerOf(id)]++
	}
	out := make([]Member, 0, len(list))
	for _, m := range list {
		out = append(out, Member{Record: m, Self: m.Holder == s.member.Holder(), Instances: dealt[m.Holder]})
	}
	return out, nil
}
