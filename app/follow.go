package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// follower commits newer versions of their packages for the instances that follow
// them, one step at a time. All that it decides by is in git, in the package
// repositories and in the operation log; what it remembers beside only spares work.
type follower struct {
	repo     *gitrepo.Repo
	branch   string // the one that runs
	log      *oplog.Log
	versions func(tree, vnfdID string) (now *semver.Version, all []packages.Version)
	// check says whether a change would be refused.
	check  func(ctx context.Context, before, after *desired.Instance) error
	logger *slog.Logger

	queue workqueue.TypedRateLimitingInterface[string]
	tried *trials

	mu        sync.Mutex
	following map[string]bool
	settled   map[string]settled // by instance
}

// settled is what needs no second look while an instance's directory stays as it is:
// versions, by tree, that are proposed (true) or refused (false).
type settled struct {
	dir      string // its tree
	proposed map[string]bool
}

// followWorkers is how many instances are looked at, and thus committed for, at once:
// commits that wait together share one push.
const followWorkers = 8

func newFollower(s *Server) *follower {
	f := &follower{
		repo: s.repo, branch: cmp.Or(s.Branch, "main"), log: s.log, versions: s.packages.Versions, logger: s.Log,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 30*time.Second)),
		tried:     newTrials(s.repo, s.log),
		following: map[string]bool{},
		settled:   map[string]settled{},
	}
	f.check = func(ctx context.Context, before, after *desired.Instance) error {
		return s.recon.View().Check(ctx, nil, before, after)
	}
	s.log.OnChange(f.recorded)
	return f
}

// look has the instances looked at: something of them has changed in git.
func (f *follower) look(ids ...string) {
	for _, id := range ids {
		f.queue.Add(id)
	}
}

// lookAll has every instance that follows looked at: the package repositories may
// have something new. Where the settings have changed, so may have what is refused.
func (f *follower) lookAll(settings bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if settings {
		clear(f.settled)
	}
	for id := range f.following {
		f.queue.Add(id)
	}
}

// recorded sees an operation's new state: its end frees the instance for the next step.
func (f *follower) recorded(op *lcm.Operation) {
	if !op.State.Ended() {
		return
	}
	f.tried.add(op)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.following[op.Instance] {
		f.queue.Add(op.Instance)
	}
}

// run works until ctx ends.
func (f *follower) run(ctx context.Context) error {
	for _, rev := range f.repo.List() {
		f.queue.Add(rev.Instance)
	}
	var g errgroup.Group
	for range followWorkers {
		g.Go(func() error {
			for f.next(ctx) {
			}
			return nil
		})
	}
	<-ctx.Done()
	f.queue.ShutDown()
	return g.Wait()
}

func (f *follower) next(ctx context.Context) bool {
	id, shutdown := f.queue.Get()
	if shutdown {
		return false
	}
	defer f.queue.Done(id)
	busy, err := f.follow(ctx, id)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.logger.WarnContext(ctx, "package not followed, will be tried again", "instance", id, "error", err)
		f.queue.AddRateLimited(id)
	case busy:
		f.queue.AddRateLimited(id)
	default:
		f.queue.Forget(id)
	}
	return true
}

// follow takes the instance's next step, if there is one. busy says that it can't be
// told now, and that nothing else will bring the instance back here.
func (f *follower) follow(ctx context.Context, id string) (busy bool, err error) {
	rev, exists := f.repo.Lookup(id)
	var in *desired.Instance
	if exists {
		if in, err = f.repo.Read(ctx, rev); err != nil {
			return false, err
		}
	}
	follows := in != nil && in.Follow.Versions != ""
	f.mu.Lock()
	if follows {
		f.following[id] = true
	} else {
		delete(f.following, id)
		delete(f.settled, id)
	}
	f.mu.Unlock()
	if !follows || in.State != desired.Instantiated || in.Package == "" || in.Suspend || in.Held != "" {
		return false, nil
	}
	record, err := f.log.Instance(ctx, id)
	switch {
	case err != nil:
		return false, err
	case record.Open != "":
		return false, nil // its end brings the instance back
	case record.Prepared != "" || record.Owed != "" || record.Operated.Tree != rev.Tree:
		return true, nil
	}
	now, all := f.versions(in.Package, in.VnfdID)
	return false, f.advance(ctx, rev, in, now, all)
}

// advance commits the lowest version above the one that runs that satisfies the
// constraint, that hasn't been tried in vain, and that wouldn't be refused.
func (f *follower) advance(ctx context.Context, rev desired.Revision, in *desired.Instance, now *semver.Version, all []packages.Version) error {
	within, err := semver.NewConstraint(in.Follow.Versions)
	if err != nil {
		return err // the parser of vnf.yaml let it pass
	}
	var vain map[string]bool
	for _, v := range all {
		if now == nil || !v.Semver.GreaterThan(now) || !within.Check(v.Semver) {
			continue
		}
		if vain == nil {
			if vain, err = f.tried.inVain(ctx, rev.Instance, all); err != nil {
				return err
			}
		}
		proposed, known := f.known(rev, v)
		switch {
		case proposed:
			return nil // it waits for a person
		case known, vain[v.Tree]:
			continue
		}
		err := f.refused(ctx, rev, in, v)
		if err == nil {
			return f.commit(ctx, rev, in, v, all)
		}
		if _, _, forGood := reconciler.Refused(err); !forGood {
			return err
		}
		f.logger.WarnContext(ctx, "a version of the package that is followed would be refused", "instance", rev.Instance,
			"version", v.Semver.String(), "repository", v.Repository, "error", err)
		f.settle(rev, v, false)
	}
	return nil
}

// known is what was settled of the version.
func (f *follower) known(rev desired.Revision, v packages.Version) (proposed, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.settled[rev.Instance]; s.dir == rev.Tree {
		proposed, known = s.proposed[v.Tree]
	}
	return proposed, known
}

func (f *follower) settle(rev desired.Revision, v packages.Version, proposed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.settled[rev.Instance].dir != rev.Tree {
		f.settled[rev.Instance] = settled{rev.Tree, map[string]bool{}}
	}
	f.settled[rev.Instance].proposed[v.Tree] = proposed
}

// refused says why the version can't be.
func (f *follower) refused(ctx context.Context, rev desired.Revision, in *desired.Instance, v packages.Version) error {
	files, err := f.repo.Files(ctx, rev)
	if err != nil {
		return err
	}
	_, next, err := desired.EditInstance(rev.Dir+"/"+desired.InstanceFile, files[desired.InstanceFile], to(v)...)
	if err != nil {
		return err
	}
	return f.check(ctx, in, next)
}

// to are the edits that bring an instance to a version. What else the change asks for
// is filled in when it is operated on, as for a person's.
func to(v packages.Version) []desired.KeyValue {
	return []desired.KeyValue{{Path: []string{"vnfdId"}, Value: v.VnfdID}, {Path: []string{"package"}, Value: v.Tree}}
}

// commit brings the instance's directory to the version: on the branch that runs, or
// on the one that the instance wants pull requests from.
func (f *follower) commit(ctx context.Context, rev desired.Revision, in *desired.Instance, v packages.Version, all []packages.Version) error {
	made := false
	w := desired.Write{
		Instance: rev.Instance,
		Dir:      rev.Dir,
		Subject:  fmt.Sprintf("Follow %s: %s to %s", in.Follow.Versions, cmp.Or(in.Name, path.Base(rev.Dir)), v.Semver),
		Body:     fmt.Sprintf("Package repository %s, %s", v.Repository, v.Ref),
		Trailers: []desired.Trailer{{Key: desired.TrailerRequestedBy, Value: "follow"}},
	}
	edit := func(old desired.Files) (desired.Files, error) {
		text, err := desired.Edit(rev.Dir+"/"+desired.InstanceFile, old[desired.InstanceFile], to(v)...)
		if err != nil {
			return nil, err
		}
		next := desired.Files{}
		for name, data := range old {
			next[name] = data
		}
		next[desired.InstanceFile] = text
		made = true
		return next, nil
	}
	branch := cmp.Or(in.Follow.Branch, f.branch)
	var err error
	if branch == f.branch {
		w.Change = func(at desired.Revision, old desired.Files) (desired.Files, error) {
			if made = false; at.Tree != rev.Tree {
				return old, nil // somebody was faster, which brings the instance back here
			}
			return edit(old)
		}
		_, err = f.repo.Write(ctx, w)
	} else {
		w.Change = func(_ desired.Revision, old desired.Files) (desired.Files, error) {
			if made = false; proposes(rev.Dir, old, v, all) {
				return old, nil
			}
			return edit(old)
		}
		if _, err = f.repo.Propose(ctx, branch, w); err == nil {
			f.settle(rev, v, true)
		}
	}
	if err != nil {
		return fmt.Errorf("bring %s to version %s: %w", rev.Dir, v.Semver, err)
	}
	if made {
		f.logger.InfoContext(ctx, "a newer version of the package is followed", "instance", rev.Instance, "version", v.Semver.String(), "branch", branch)
	}
	return nil
}

// proposes says whether the directory, as a branch has it, is at the version or at a
// later one already.
func proposes(dir string, files desired.Files, v packages.Version, all []packages.Version) bool {
	in, err := desired.ParseInstance(dir+"/"+desired.InstanceFile, files[desired.InstanceFile])
	if err != nil {
		return false
	}
	for _, other := range all {
		if (in.Package == other.Tree || in.Package == "" && in.VnfdID == other.VnfdID) && !other.Semver.LessThan(v.Semver) {
			return true
		}
	}
	return false
}
