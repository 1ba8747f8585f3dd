// Package automation makes the commits that nobody types. Today that is following the
// versions of packages. It is one more author of the desired repository: it commits as a
// person would, and never starts an operation itself. What comes of its commits is the
// reconciler's business.
package automation

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"path"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// Repo is what a follower needs of the desired repository.
type Repo interface {
	List() []desired.Revision
	Lookup(instance string) (desired.Revision, bool)
	Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error)
	Files(ctx context.Context, rev desired.Revision) (desired.Files, error)
	// Write commits on the branch that Jibe runs.
	Write(ctx context.Context, w desired.Write) (desired.Revision, error)
	// Propose commits on another branch, for a pull request.
	Propose(ctx context.Context, branch string, w desired.Write) (desired.Revision, error)
}

// Operations is what a follower needs of the operation log.
type Operations interface {
	// Instance returns the record of an instance.
	Instance(ctx context.Context, id string) (*lcm.Instance, error)
	// Operation returns an operation, or [store.ErrNotFound].
	Operation(ctx context.Context, id string) (*lcm.Operation, error)
	// OperationEntries returns the operations that q picks, without reading their records.
	OperationEntries(q oplog.OperationQuery) iter.Seq[oplog.OperationEntry]
}

// Config is what a [Follower] works with. Everything in it is required.
type Config struct {
	Repo Repo
	// Branch is the one that Jibe runs.
	Branch string
	Oplog  Operations
	// Versions are the version of a package (nil where it has none), by its tree or its
	// vnfdId, and all versions of it that the repositories have, the lowest first.
	Versions func(tree, vnfdID string) (now *semver.Version, all []packages.Version)
	// Check returns why a change would be refused, or why that can't be known now.
	Check func(ctx context.Context, before, after *desired.Instance) error
	// Refused tells the two apart: a refusal stays as long as the instance and the
	// settings are what they are.
	Refused func(err error) bool
	Log     *slog.Logger
}

// Follower commits newer versions of their packages for the instances that follow them
// (follow in vnf.yaml), one step at a time. It decides by git, the package repositories
// and the operation log alone; what it remembers beside them only saves work, so that a
// restart loses nothing.
type Follower struct {
	Config
	history *history

	mu        sync.Mutex
	queue     workqueue.TypedRateLimitingInterface[string] // of the present Run, nil outside of one
	following map[string]bool
	settled   map[string]settled // by instance
}

// settled holds the versions of which nothing need be found out again while the
// directory of an instance stays as it is.
type settled struct {
	dir string // its tree
	// proposed says of a version, by its tree, whether a pull request has it (true) or
	// it would be refused (false).
	proposed map[string]bool
}

// followWorkers is how many instances are looked at, and thus committed for, at once:
// commits that wait together share one push.
const followWorkers = 8

// NewFollower makes a follower, which does nothing until [Follower.Run].
func NewFollower(c Config) *Follower {
	return &Follower{
		Config:    c,
		history:   newHistory(c.Repo, c.Oplog),
		following: map[string]bool{},
		settled:   map[string]settled{},
	}
}

// InstancesChanged notifies the follower that something of these instances has changed
// in git. It returns at once.
func (f *Follower) InstancesChanged(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.add(id)
	}
}

// add has an instance looked at; f.mu is held. Outside of [Follower.Run] nobody looks, and the next
// one looks at all.
func (f *Follower) add(id string) {
	if f.queue != nil {
		f.queue.Add(id)
	}
}

// PackagesChanged notifies the follower that the package repositories may have something
// new. It returns at once.
func (f *Follower) PackagesChanged() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookAtAll()
}

// SettingsChanged notifies the follower that VIMs or package repositories have changed,
// and with them, maybe, which versions would be refused. It returns at once.
func (f *Follower) SettingsChanged() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.settled)
	f.lookAtAll()
}

// lookAtAll has every instance that follows looked at; f.mu is held.
func (f *Follower) lookAtAll() {
	for id := range f.following {
		f.add(id)
	}
}

// OperationChanged notifies the follower of an operation's new state: its end frees the
// instance for the next step. It returns at once.
func (f *Follower) OperationChanged(op *lcm.Operation) {
	if !op.State.Ended() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.following[op.Instance] {
		f.add(op.Instance)
	}
}

// Run looks at all instances, and then at those that something has changed of, until ctx
// ends. It may be run again, but not twice at a time.
func (f *Follower) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 30*time.Second))
	f.mu.Lock()
	f.queue = queue
	f.mu.Unlock()
	for _, rev := range f.Repo.List() {
		queue.Add(rev.Instance)
	}
	var g errgroup.Group
	for range followWorkers {
		g.Go(func() error {
			for f.next(ctx, queue) {
			}
			return nil
		})
	}
	<-ctx.Done()
	f.mu.Lock()
	f.queue = nil
	f.mu.Unlock()
	queue.ShutDown()
	return g.Wait()
}

func (f *Follower) next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string]) bool {
	id, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(id)
	busy, err := f.follow(ctx, id)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.Log.WarnContext(ctx, "package not followed, will be tried again", "instance", id, "error", err)
		queue.AddRateLimited(id)
	case busy:
		queue.AddRateLimited(id)
	default:
		queue.Forget(id)
	}
	return true
}

// follow takes the instance's next step, if there is one. busy means that the step can't
// be known yet, and that no change will bring the instance back here.
func (f *Follower) follow(ctx context.Context, id string) (busy bool, err error) {
	rev, exists := f.Repo.Lookup(id)
	var in *desired.Instance
	if exists {
		if in, err = f.Repo.Read(ctx, rev); err != nil {
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
	record, err := f.Oplog.Instance(ctx, id)
	switch {
	case err != nil:
		return false, err
	case record.Open != "", record.Proposed != "":
		return false, nil // its end brings the instance back
	case record.Prepared != "" || record.OutstandingCommit != "" || record.Operated.Tree != rev.Tree:
		return true, nil
	}
	now, all := f.Versions(in.Package, in.VnfdID)
	return false, f.advance(ctx, rev, in, now, all)
}

// advance commits the lowest version above the one that runs that satisfies the
// constraint, that hasn't been tried in vain, and that wouldn't be refused.
func (f *Follower) advance(ctx context.Context, rev desired.Revision, in *desired.Instance, now *semver.Version, all []packages.Version) error {
	within, err := semver.NewConstraint(in.Follow.Versions)
	if err != nil {
		return err // the parser of vnf.yaml let it pass
	}
	var inVain map[string]bool
	for _, v := range all {
		if now == nil || !v.Semver.GreaterThan(now) || !within.Check(v.Semver) {
			continue
		}
		if inVain == nil {
			if inVain, err = f.history.inVain(ctx, rev.Instance, all); err != nil {
				return err
			}
		}
		proposed, known := f.known(rev, v)
		switch {
		case proposed:
			return nil // it waits for a person
		case known, inVain[v.Tree]:
			continue
		}
		err := f.check(ctx, rev, in, v)
		switch {
		case err == nil:
			return f.commit(ctx, rev, in, v, all)
		case !f.Refused(err):
			return err
		}
		f.Log.WarnContext(ctx, "a version of the package that is followed would be refused", "instance", rev.Instance,
			"version", v.Semver.String(), "repository", v.Repository, "error", err)
		f.settle(rev, v, false)
	}
	return nil
}

// known returns what was settled of the version.
func (f *Follower) known(rev desired.Revision, v packages.Version) (proposed, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.settled[rev.Instance]; s.dir == rev.Tree {
		proposed, known = s.proposed[v.Tree]
	}
	return proposed, known
}

func (f *Follower) settle(rev desired.Revision, v packages.Version, proposed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.settled[rev.Instance].dir != rev.Tree {
		f.settled[rev.Instance] = settled{rev.Tree, map[string]bool{}}
	}
	f.settled[rev.Instance].proposed[v.Tree] = proposed
}

// check is [Config.Check] of the change to the version.
func (f *Follower) check(ctx context.Context, rev desired.Revision, in *desired.Instance, v packages.Version) error {
	files, err := f.Repo.Files(ctx, rev)
	if err != nil {
		return err
	}
	_, next, err := desired.EditInstance(rev.Dir+"/"+desired.InstanceFile, files[desired.InstanceFile], editsTo(v)...)
	if err != nil {
		return err
	}
	return f.Check(ctx, in, next)
}

// editsTo are the edits that bring an instance to a version. What else the change needs
// is filled in when it is operated on, as it is for a person's commit.
func editsTo(v packages.Version) []desired.KeyValue {
	return []desired.KeyValue{{Path: []string{"vnfdId"}, Value: v.VnfdID}, {Path: []string{"package"}, Value: v.Tree}}
}

// commit brings the instance's directory to the version: on the branch that runs, or
// on the one that the instance wants pull requests from.
func (f *Follower) commit(ctx context.Context, rev desired.Revision, in *desired.Instance, v packages.Version, all []packages.Version) error {
	made := false
	w := desired.Write{
		Instance: rev.Instance,
		Dir:      rev.Dir,
		Subject:  fmt.Sprintf("Follow %s: %s to %s", in.Follow.Versions, cmp.Or(in.Name, path.Base(rev.Dir)), v.Semver),
		Body:     fmt.Sprintf("Package repository %s, %s", v.Repository, v.Ref),
		Trailers: []desired.Trailer{{Key: desired.TrailerRequestedBy, Value: "follow"}},
	}
	edit := func(old desired.Files) (desired.Files, error) {
		text, err := desired.Edit(rev.Dir+"/"+desired.InstanceFile, old[desired.InstanceFile], editsTo(v)...)
		if err != nil {
			return nil, err
		}
		next := desired.Files{}
		maps.Copy(next, old)
		next[desired.InstanceFile] = text
		made = true
		return next, nil
	}
	branch := cmp.Or(in.Follow.Branch, f.Branch)
	var err error
	if branch == f.Branch {
		w.Change = func(at desired.Revision, old desired.Files) (desired.Files, error) {
			if made = false; at.Tree != rev.Tree {
				return old, nil // another commit was faster, which brings the instance back here
			}
			return edit(old)
		}
		_, err = f.Repo.Write(ctx, w)
	} else {
		w.Change = func(_ desired.Revision, old desired.Files) (desired.Files, error) {
			if made = false; proposes(rev.Dir, old, v, all) {
				return old, nil
			}
			return edit(old)
		}
		if _, err = f.Repo.Propose(ctx, branch, w); err == nil {
			f.settle(rev, v, true)
		}
	}
	if err != nil {
		return fmt.Errorf("bring %s to version %s: %w", rev.Dir, v.Semver, err)
	}
	if made {
		f.Log.InfoContext(ctx, "a newer version of the package is followed", "instance", rev.Instance, "version", v.Semver.String(), "branch", branch)
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
