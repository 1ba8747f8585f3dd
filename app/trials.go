package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/Masterminds/semver/v3"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// trials are the operations that have changed the packages of instances, as the
// operation log tells of them. The log is read once, when the first question is
// asked; what ends later is added as it does.
type trials struct {
	repo desired.Repo
	log  *oplog.Log

	reading sync.Mutex // one reader of the log
	read    bool

	mu sync.Mutex
	of map[string]map[string]trial // instance -> operation -> trial
}

// trial is an operation that has ended.
type trial struct {
	before, after desired.Revision
	completed     bool
	// from and to are the packages at before and after, once known.
	from, to string
	known    bool
}

// trialPage is how many operations are read at once.
const trialPage = 500

func newTrials(repo desired.Repo, log *oplog.Log) *trials {
	return &trials{repo: repo, log: log, of: map[string]map[string]trial{}}
}

// add notes an operation that has ended; others than changes of a package are of no
// interest. Twice is the same as once.
func (t *trials) add(op *lcm.Operation) {
	changes := op.Type == lcm.ChangePackage || op.Type == lcm.ModifyInfo
	if !changes || !op.State.Ended() || op.Before.Tree == "" || op.After.Tree == "" || op.Before.Tree == op.After.Tree {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[op.Instance] == nil {
		t.of[op.Instance] = map[string]trial{}
	}
	if _, known := t.of[op.Instance][op.ID]; !known {
		t.of[op.Instance][op.ID] = trial{before: op.Before, after: op.After, completed: op.State == lcm.Completed}
	}
}

// load reads the log, once.
func (t *trials) load(ctx context.Context) error {
	t.reading.Lock()
	defer t.reading.Unlock()
	for after := ""; !t.read; {
		page, err := t.log.Operations(ctx, after, trialPage)
		if err != nil {
			return err
		}
		for _, op := range page {
			t.add(op)
			after = op.ID
		}
		t.read = len(page) < trialPage
	}
	return nil
}

// inVain are the packages that the instance isn't to be brought to again: those to
// which an operation failed or was rolled back, and those that it has left for an
// earlier version.
func (t *trials) inVain(ctx context.Context, instance string, all []packages.Version) (map[string]bool, error) {
	if err := t.load(ctx); err != nil {
		return nil, fmt.Errorf("operations of instance %s: %w", instance, err)
	}
	version := make(map[string]*semver.Version, len(all))
	for _, v := range all {
		version[v.Tree] = v.Semver
	}
	vain := map[string]bool{}
	for id, x := range t.trials(instance) {
		if !x.known {
			var err error
			if x.from, err = t.packageAt(ctx, x.before); err != nil {
				return nil, err
			}
			if x.to, err = t.packageAt(ctx, x.after); err != nil {
				return nil, err
			}
			x.known = true
			t.keep(instance, id, x)
		}
		from, to := version[x.from], version[x.to]
		switch {
		case x.from == x.to:
		case !x.completed:
			vain[x.to] = true
		case from != nil && to != nil && from.GreaterThan(to):
			vain[x.from] = true
		}
	}
	return vain, nil
}

func (t *trials) trials(instance string) map[string]trial {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make(map[string]trial, len(t.of[instance]))
	for id, x := range t.of[instance] {
		list[id] = x
	}
	return list
}

func (t *trials) keep(instance, id string, x trial) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[instance][id] = x
}

// packageAt is the pin at a revision, "" where that isn't to be had any more.
func (t *trials) packageAt(ctx context.Context, rev desired.Revision) (string, error) {
	in, err := t.repo.Read(ctx, rev)
	if errors.Is(err, desired.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("instance %s at %s: %w", rev.Instance, rev.Commit, err)
	}
	return in.Package, nil
}
