package automation

import (
	"context"
	"errors"
	"fmt"

	"github.com/Masterminds/semver/v3"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// history tells what the operations that changed the package of an instance came to, as
// the operation log has them. It reads only those of the instance that is asked for.
type history struct {
	repo  Repo
	oplog Operations
	// pins are the packages of revisions, by their trees.
	pins *lru.Cache[string, string]
}

// pinsKept is how many revisions' packages are remembered.
const pinsKept = 4096

func newHistory(repo Repo, oplog Operations) *history {
	pins, err := lru.New[string, string](pinsKept)
	if err != nil {
		panic(err) // only for a size that isn't positive
	}
	return &history{repo: repo, oplog: oplog, pins: pins}
}

// inVain are the packages, by their trees, that the instance must not be brought to
// again: those to which an operation failed or was rolled back, and those that it has
// left for an earlier version.
func (h *history) inVain(ctx context.Context, instance string, all []packages.Version) (map[string]bool, error) {
	version := make(map[string]*semver.Version, len(all))
	for _, v := range all {
		version[v.Tree] = v.Semver
	}
	inVain := map[string]bool{}
	for e := range h.oplog.OperationEntries(oplog.OperationQuery{
		Instance: instance, Types: []lcm.Type{lcm.ChangePackage, lcm.ModifyInfo},
		States: []lcm.State{lcm.Completed, lcm.RolledBack, lcm.Failed},
	}) {
		op, err := h.oplog.Operation(ctx, e.ID)
		if errors.Is(err, store.ErrNotFound) {
			continue // it has just been removed, as it is old
		}
		if err != nil {
			return nil, fmt.Errorf("operations of instance %s: %w", instance, err)
		}
		if op.Before.Tree == "" || op.After.Tree == "" || op.Before.Tree == op.After.Tree {
			continue
		}
		left, err := h.packageAt(ctx, op.Before)
		if err != nil {
			return nil, err
		}
		reached, err := h.packageAt(ctx, op.After)
		if err != nil {
			return nil, err
		}
		from, to := version[left], version[reached]
		switch {
		case left == reached:
		case op.State != lcm.Completed:
			inVain[reached] = true
		case from != nil && to != nil && from.GreaterThan(to):
			inVain[left] = true
		}
	}
	return inVain, nil
}

// packageAt is the pin at a revision, "" where the repository has that revision no more.
func (h *history) packageAt(ctx context.Context, rev desired.Revision) (string, error) {
	if pin, known := h.pins.Get(rev.Tree); known {
		return pin, nil
	}
	pin := ""
	switch in, err := h.repo.Read(ctx, rev); {
	case err == nil:
		pin = in.Package
	case !errors.Is(err, desired.ErrNotFound):
		return "", fmt.Errorf("instance %s at %s: %w", rev.Instance, rev.Commit, err)
	}
	h.pins.Add(rev.Tree, pin)
	return pin, nil
}
