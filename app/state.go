package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/admission/packagecheck"
	"github.com/jibe-vnfm/jibe/app/githooks"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// state is what outlives a process: its records, and the repositories.
type state struct {
	*host
	replica   *replicas.Replica
	oplog     *oplog.Log
	freshness *replicas.Freshness // nil unless the store is shared
	packages  *catalogue
	repo      *gitrepo.Repo
	hooks     *githooks.Hooks
	first     bool // nothing was ever committed
}

// openState opens it. It returns what is to be closed also with an error. ending is closed when the process is told to end.
func openState(ctx context.Context, h *host, ending <-chan struct{}) (*state, error) {
	s := &state{host: h}
	return s, s.open(ctx, ending)
}

// open opens the store and the repositories, in the order in which they need each other.
func (s *state) open(ctx context.Context, ending <-chan struct{}) error {
	var err error
	fresh := !datadir.Exists(s.data.Desired())
	// Before the store: one without its repository is refused at the next start.
	if err := gitrepo.Create(ctx, s.data.Desired(), s.Branch); err != nil {
		return fmt.Errorf("desired repository: %w", err)
	}
	if s.replica, err = replicas.Open(ctx, replicas.Config{
		Data: s.data, Keeper: s.keeper, Store: s.Store, Remote: s.Remote, Branch: s.Branch, Version: s.Version, Meters: s.meters, Audit: s.audit, Defer: s.deferred, Ending: ending, Log: s.Log,
	}); err != nil {
		return err
	}
	if err := s.replica.Agree(ctx); err != nil {
		return err
	}
	if err := s.openLog(ctx); err != nil {
		return err
	}
	if err := s.openPackages(ctx); err != nil {
		return err
	}
	if err := s.openRepo(ctx, fresh); err != nil {
		return err
	}
	s.hooks = &githooks.Hooks{Binary: s.Binary, Socket: s.data.Socket(), Packages: s.data.Packages(), Repo: s.repo}
	if err := s.hooks.Install(s.data.Desired(), admission.DesiredRepository); err != nil {
		return fmt.Errorf("desired repository: %w", err)
	}
	if err := s.hooks.InstallPackages(); err != nil {
		return err
	}
	if err := s.syncPackages(ctx); err != nil {
		// The packages of an earlier fetch are there: one that is away is no reason not to start.
		s.Log.WarnContext(ctx, "package repositories were not all fetched", "error", err)
	}
	return nil
}

// openPackages makes the catalogue of packages.
func (s *state) openPackages(ctx context.Context) error {
	s.packages = &catalogue{
		Catalogue: packages.New(s.data.Desired(), s.data.Packages(), s.Log),
		ctx:       ctx,
		settings:  func() (*desired.Settings, error) { return s.repo.Settings() },
	}
	s.packages.JudgeBy(packagecheck.Judge)
	if s.shared() {
		s.packages.RemoteOnly()
		s.packages.Share(s.replica.PackageHead)
	}
	if s.Remote != "" {
		s.packages.NeverWrite(s.Remote)
	}
	if err := s.verifyPackages(); err != nil {
		return err
	}
	s.packages.LimitHooks(s.AllowHooks.Barred)
	return nil
}

// openRepo opens the desired repository; fresh says that it was made a moment ago.
func (s *state) openRepo(ctx context.Context, fresh bool) error {
	verify, err := s.verifyDesired()
	if err != nil {
		return err
	}
	options := gitrepo.Options{
		Dir: s.data.Desired(), Branch: s.Branch, Remote: s.Remote, AcceptHead: s.AcceptHead, PollInterval: s.Poll, PushInterval: s.PushInterval, Log: s.Log, Operated: s.operated,
		NeededRepositories: s.packages.Needed, Verify: verify, Key: s.keeper.Derive(datadir.GitPurpose), Observe: s.meters.Git, Held: s.meters.Held,
	}
	s.replica.Together(&options)
	if s.repo, err = gitrepo.Open(ctx, options); err != nil {
		return fmt.Errorf("desired repository: %w", err)
	}
	if err := s.checkKnown(ctx); err != nil {
		if fresh { // the mirror of a wrong remote would be in the way of the right one
			err = errors.Join(err, s.repo.Close(), os.RemoveAll(s.data.Desired()))
			s.repo = nil
		}
		return err
	}
	// A repository without a commit is new, or its first start was cut short.
	s.first = s.repo.Head() == ""
	if err := s.seed(ctx); err != nil {
		return err
	}
	if err := s.replica.CheckPackages(s.repo.Settings); err != nil {
		return err
	}
	return nil
}

// close closes what was opened.
func (s *state) close(ctx context.Context) error {
	var errs []error
	if s.repo != nil {
		errs = append(errs, s.repo.Close())
	}
	if s.replica != nil {
		errs = append(errs, s.replica.Close(ctx))
	}
	return errors.Join(errs...)
}

// openLog opens the operation log.
func (s *state) openLog(ctx context.Context) (err error) {
	options := []oplog.Option{oplog.WithLog(s.Log), oplog.WithMember(s.replica.Holder()), oplog.WithSealer(s.replica.Sealer())}
	if s.shared() {
		options = append(options, oplog.Shared())
	}
	if s.oplog, err = oplog.Open(ctx, s.replica.Records, time.Now, options...); err != nil {
		return err
	}
	s.freshness = s.replica.Freshness(s.oplog)
	return nil
}

// operated are the revisions that were last operated on.
func (s *state) operated(context.Context) ([]desired.Revision, error) {
	var revs []desired.Revision
	for inst := range s.oplog.InstanceEntries("") {
		if inst.Operated.Tree != "" {
			revs = append(revs, inst.Operated)
		}
	}
	return revs, nil
}

// at finds an instance as it stood at a commit.
func (s *state) at(ctx context.Context, commit, instance string) (desired.Revision, error) {
	snapshot, err := s.repo.At(ctx, commit)
	if err != nil {
		return desired.Revision{}, err
	}
	rev, ok := snapshot.Lookup(instance)
	if !ok {
		return desired.Revision{Instance: instance, Commit: commit}, nil
	}
	return rev, nil
}

var _ desired.Repo = (*gitrepo.Repo)(nil)
