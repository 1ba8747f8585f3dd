// Package report tells the forge what becomes of what stands on it: a status on each commit that
// changes instances or defines rollouts, and one comment on each pull request with its plan and, once it is merged, its
// outcome.
//
// It decides nothing, changes nothing, and holds up nobody: what it says is made of git and the
// operation log each time anew, by whoever of the replicas has the job. The store has only what
// couldn't be found again: which commits aren't done with, and what was planned for a pull request. What
// was said is asked of the forge, so that nothing is said twice.
package report

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// Repo is what a reporter needs of the desired repository.
type Repo interface {
	Head() string
	Lookup(instance string) (desired.Revision, bool)
	// Diff returns the instances that differ between two commits; beside an *desired.InvalidError
	// it returns those that can be read.
	Diff(ctx context.Context, before, after string) (changes []read.Change, settings bool, err error)
	// Since returns the commits that tip has and since lacks, the newest first.
	Since(ctx context.Context, since, tip string, most int) (list []gitrepo.Step, more bool, err error)
	// RolloutsChanged returns the names of the rollouts whose files a commit has otherwise than another.
	RolloutsChanged(ctx context.Context, before, after string) ([]string, error)
	// Reaches says whether the history that ends at tip has the commit.
	Reaches(ctx context.Context, tip, commit string) (bool, error)
}

// Operations is what a reporter needs of the operation log.
type Operations interface {
	InstanceEntry(id string) (*oplog.InstanceEntry, bool)
	// Operation returns an operation, or [store.ErrNotFound].
	Operation(ctx context.Context, id string) (*lcm.Operation, error)
	OperationEntries(q oplog.OperationQuery) iter.Seq[oplog.OperationEntry]
}

// Store is what a reporter needs of the store. Its keys begin with "report/".
type Store interface {
	Get(ctx context.Context, key string) (store.Record, error)
	List(ctx context.Context, prefix, after string, limit int) ([]store.Record, error)
	Put(ctx context.Context, recs ...store.Record) ([]store.Record, error)
}

// Plan is what a pull request would do.
type Plan struct {
	// Commit is what was planned: where the branch was.
	Commit string
	// Base is the commit of the branch that it would be merged into.
	Base string
	// Anything says that whatever moves there may make another plan: it isn't known what the pull request
	// touches, or it touches what looks at other instances.
	Anything bool
	// Text says it, in Markdown.
	Text string
	// Targets are the instances and rollouts that would change.
	Targets []Target
}

// Config is what a [Reporter] works with. All but the links is required.
type Config struct {
	Client forge.Client
	Repo   Repo
	Oplog  Operations
	Store  Store
	// Branch is the one that Jibe runs.
	Branch string
	// Refused says whether the file of an instance at head isn't obeyed.
	Refused func(instance string) bool
	// Plan plans a branch of the forge's as it would be once merged. What can't be planned is in its
	// text; an error is one that may pass.
	Plan func(ctx context.Context, branch string) (Plan, error)
	// Rollout says where the rollout with the name stands, or returns [ErrNoRollout].
	Rollout func(ctx context.Context, name string) (Rollout, error)
	// OperationLink, CommitLink and RolloutLink are the URLs of pages about them, "" for none.
	OperationLink, CommitLink, RolloutLink func(id string) string
	// Poll is how often the forge is asked for pull requests although no delivery told of any.
	Poll time.Duration
	Log  *slog.Logger
	Now  func() time.Time
}

// Reporter says what becomes of commits and pull requests. Its methods are safe for concurrent
// use, and return at once but for [Reporter.Run].
type Reporter struct {
	Config
	courier *courier

	mu      sync.Mutex
	running bool
	// commits and pulls have what changed since each of them looked last.
	commits, pulls *news
}

// news is what one of the loops is told: the instances of which something changed.
type news struct {
	instances map[string]bool
	delivered bool // the forge has told something
	wake      chan struct{}
}

func newNews() *news { return &news{instances: map[string]bool{}, wake: make(chan struct{}, 1)} }

// New makes a reporter, which says nothing until [Reporter.Run].
func New(c Config) *Reporter {
	none := func(string) string { return "" }
	if c.OperationLink == nil {
		c.OperationLink = none
	}
	if c.CommitLink == nil {
		c.CommitLink = none
	}
	if c.RolloutLink == nil {
		c.RolloutLink = none
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Reporter{Config: c, courier: newCourier(c.Log, c.Now), commits: newNews(), pulls: newNews()}
}

// OperationChanged notifies the reporter of an operation's new state.
func (r *Reporter) OperationChanged(op *lcm.Operation) {
	r.tell(func(n *news) { n.instances[op.Instance] = true })
}

// Moved notifies the reporter that head moved, and that something of these instances differs there. Maybe
// a pull request was merged: of several replicas, another one may be who was told so.
func (r *Reporter) Moved(ids ...string) {
	r.tell(func(n *news) {
		n.delivered = true
		for _, id := range ids {
			n.instances[id] = true
		}
	})
}

// Delivered notifies the reporter that the forge's webhook has told something: of a pull request,
// maybe.
func (r *Reporter) Delivered() { r.tell(func(n *news) { n.delivered = true }) }

func (r *Reporter) tell(what func(*news)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running {
		return // whoever runs next looks at all
	}
	for _, n := range []*news{r.commits, r.pulls} {
		what(n)
		select {
		case n.wake <- struct{}{}:
		default: // it is awake already
		}
	}
}

// take returns what has changed since it was called last.
func (r *Reporter) take(n *news) (instances map[string]bool, delivered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	instances, delivered = n.instances, n.delivered
	n.instances, n.delivered = map[string]bool{}, false
	return instances, delivered
}

// Run reports until ctx ends. It may be run again, but not twice at a time.
func (r *Reporter) Run(ctx context.Context) error {
	r.run(true)
	defer r.run(false)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.runCommits(ctx) })
	g.Go(func() error { return r.runPulls(ctx) })
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (r *Reporter) run(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = is
	for _, n := range []*news{r.commits, r.pulls} {
		clear(n.instances)
		n.delivered = false
	}
	r.courier.reset()
}

// pause waits until something changed, or the time is over.
func (n *news) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-n.wake:
	case <-t.C:
	}
	return nil
}

// Counts are what a reporter has done, and has still to do.
type Counts struct {
	// Sent, Failed and Dropped are by what was to be said.
	Sent, Failed, Dropped map[Kind]uint64
	// Outstanding are the commits and pull requests of which the forge doesn't know the newest yet, and
	// Since is when the oldest of them began to wait, zero where there is none.
	Outstanding int
	Since       time.Time
}

// Counts returns them. Those who don't have the job have nothing outstanding.
func (r *Reporter) Counts() Counts { return r.courier.counts() }
