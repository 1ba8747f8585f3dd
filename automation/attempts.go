package automation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/Masterminds/semver/v3"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/lcm"
)

// attempts are the operations that have changed the packages of instances, as the
// operation log has them. The log is read once, when the first question is asked;
// operations that end later are added as they do.
type attempts struct {
	repo  Repo
	oplog Operations

	reading sync.Mutex // one reader of the log
	read    bool

	mu sync.Mutex
	of map[string]map[string]attempt // instance -> operation -> attempt
}

// attempt is an operation that has ended.
type attempt struct {
	before, after desired.Revision
	completed     bool
	// from and to are the packages at before and after, once known.
	from, to string
	known    bool
}

// attemptsPage is how many operations are read at once.
const attemptsPage = 500

func newAttempts(repo Repo, oplog Operations) *attempts {
	return &attempts{repo: repo, oplog: oplog, of: map[string]map[string]attempt{}}
}

// add notes an operation that has ended, if it may have changed the package. To add one
// twice is the same as once.
func (a *attempts) add(op *lcm.Operation) {
	changes := op.Type == lcm.ChangePackage || op.Type == lcm.ModifyInfo
	if !changes || !op.State.Ended() || op.Before.Tree == "" || op.After.Tree == "" || op.Before.Tree == op.After.Tree {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[op.Instance] == nil {
		a.of[op.Instance] = map[string]attempt{}
	}
	if _, known := a.of[op.Instance][op.ID]; !known {
		a.of[op.Instance][op.ID] = attempt{before: op.Before, after: op.After, completed: op.State == lcm.Completed}
	}
}

// load reads the log, once.
func (a *attempts) load(ctx context.Context) error {
	a.reading.Lock()
	defer a.reading.Unlock()
	for after := ""; !a.read; {
		page, err := a.oplog.Operations(ctx, after, attemptsPage)
		if err != nil {
			return err
		}
		for _, op := range page {
			a.add(op)
			after = op.ID
		}
		a.read = len(page) < attemptsPage
	}
	return nil
}

// inVain are the packages, by their trees, that the instance must not be brought to
// again: those to which an operation failed or was rolled back, and those that it has
// left for an earlier version.
func (a *attempts) inVain(ctx context.Context, instance string, all []packages.Version) (map[string]bool, error) {
	if err := a.load(ctx); err != nil {
		return nil, fmt.Errorf("operations of instance %s: %w", instance, err)
	}
	version := make(map[string]*semver.Version, len(all))
	for _, v := range all {
		version[v.Tree] = v.Semver
	}
	inVain := map[string]bool{}
	for id, x := range a.list(instance) {
		if !x.known {
			var err error
			if x.from, err = a.packageAt(ctx, x.before); err != nil {
				return nil, err
			}
			if x.to, err = a.packageAt(ctx, x.after); err != nil {
				return nil, err
			}
			x.known = true
			a.keep(instance, id, x)
		}
		from, to := version[x.from], version[x.to]
		switch {
		case x.from == x.to:
		case !x.completed:
			inVain[x.to] = true
		case from != nil && to != nil && from.GreaterThan(to):
			inVain[x.from] = true
		}
	}
	return inVain, nil
}

func (a *attempts) list(instance string) map[string]attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.of[instance])
}

func (a *attempts) keep(instance, id string, x attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[instance][id] = x
}

// packageAt is the pin at a revision, "" where the repository has that revision no more.
func (a *attempts) packageAt(ctx context.Context, rev desired.Revision) (string, error) {
	in, err := a.repo.Read(ctx, rev)
	if errors.Is(err, desired.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("instance %s at %s: %w", rev.Instance, rev.Commit, err)
	}
	return in.Package, nil
}
