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

// history has the operations that have changed the packages of instances, as the
// operation log has them. The log is read once, when the first question is asked;
// operations that end later are added as they do.
type history struct {
	repo  Repo
	oplog Operations

	reading sync.Mutex // one reader of the log
	read    bool

	mu sync.Mutex
	of map[string]map[string]packageChange // instance -> operation -> change
}

// packageChange is an operation that has ended.
type packageChange struct {
	before, after desired.Revision
	completed     bool
	// from and to are the packages at before and after, once known.
	from, to string
	known    bool
}

// historyPage is how many operations are read at once.
const historyPage = 500

func newHistory(repo Repo, oplog Operations) *history {
	return &history{repo: repo, oplog: oplog, of: map[string]map[string]packageChange{}}
}

// add notes an operation that has ended, if it may have changed the package. To add one
// twice is the same as once.
func (h *history) add(op *lcm.Operation) {
	changes := op.Type == lcm.ChangePackage || op.Type == lcm.ModifyInfo
	if !changes || !op.State.Ended() || op.Before.Tree == "" || op.After.Tree == "" || op.Before.Tree == op.After.Tree {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of[op.Instance] == nil {
		h.of[op.Instance] = map[string]packageChange{}
	}
	if _, known := h.of[op.Instance][op.ID]; !known {
		h.of[op.Instance][op.ID] = packageChange{before: op.Before, after: op.After, completed: op.State == lcm.Completed}
	}
}

// load reads the log, once.
func (h *history) load(ctx context.Context) error {
	h.reading.Lock()
	defer h.reading.Unlock()
	for after := ""; !h.read; {
		page, err := h.oplog.Operations(ctx, after, historyPage)
		if err != nil {
			return err
		}
		for _, op := range page {
			h.add(op)
			after = op.ID
		}
		h.read = len(page) < historyPage
	}
	return nil
}

// inVain are the packages, by their trees, that the instance must not be brought to
// again: those to which an operation failed or was rolled back, and those that it has
// left for an earlier version.
func (h *history) inVain(ctx context.Context, instance string, all []packages.Version) (map[string]bool, error) {
	if err := h.load(ctx); err != nil {
		return nil, fmt.Errorf("operations of instance %s: %w", instance, err)
	}
	version := make(map[string]*semver.Version, len(all))
	for _, v := range all {
		version[v.Tree] = v.Semver
	}
	inVain := map[string]bool{}
	for id, x := range h.list(instance) {
		if !x.known {
			var err error
			if x.from, err = h.packageAt(ctx, x.before); err != nil {
				return nil, err
			}
			if x.to, err = h.packageAt(ctx, x.after); err != nil {
				return nil, err
			}
			x.known = true
			h.keep(instance, id, x)
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

func (h *history) list(instance string) map[string]packageChange {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.of[instance])
}

func (h *history) keep(instance, id string, x packageChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[instance][id] = x
}

// packageAt is the pin at a revision, "" where the repository has that revision no more.
func (h *history) packageAt(ctx context.Context, rev desired.Revision) (string, error) {
	in, err := h.repo.Read(ctx, rev)
	if errors.Is(err, desired.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("instance %s at %s: %w", rev.Instance, rev.Commit, err)
	}
	return in.Package, nil
}
