package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// intentReader reads what git asks of one instance beyond what was last operated on, describes
// the operation that leads from one to the other, and completes by commits what an
// author left open. It asks no VIM for anything but which tombstones are spent, and decides nothing: [Next] does.
type intentReader struct {
	id        string
	log       *slog.Logger
	oplog     *oplog.Log
	repo      desired.Repo
	revisions revisions
	checker   *Checker
	problems  headProblems
	// judge refuses references to secrets that may not stand where a change brings them.
	judge   func(before, after *desired.Instance) error
	pins    *pause
	commits committer
	now     func() time.Time
	gate    gate
	waits   *waits
	// audit records that windows were overridden.
	audit func(ctx context.Context, op *lcm.Operation, by, reason string)
	// running is what the VIM has of the instance.
	running func(ctx context.Context, record *lcm.Instance) (plan.Observed, error)
	enqueue func(instance string)
}

// feasible says whether what head asks for could be done at all. A commit that was
// pushed to a remote repository has met no push hook of ours: no operation begins for a
// change that would be refused, so that the file stays as its author left it, and is shown.
func (r *intentReader) feasible(ctx context.Context, before, after *desired.Instance) error {
	settings, err := r.repo.Settings()
	if err != nil {
		return fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	return r.checker.Check(ctx, settings, before, r.checker.unpinned(ctx, before, after))
}

// birth describes the operation between two revisions, whose intents are before and after; due is
// false where nothing that matters has changed.
func (r *intentReader) birth(ctx context.Context, record *lcm.Instance, from, to desired.Revision, before, after *desired.Instance) (op lcm.Operation, due bool, err error) {
	op = lcm.Operation{
		ID:       lcm.OperationID(to.Commit, r.id),
		Instance: r.id,
		Before:   from,
		After:    to,
	}
	named := after
	if named == nil {
		named = before
	}
	if named == nil {
		return op, false, nil
	}
	pkg, err := r.revisions.packageOf(ctx, named)
	if err != nil {
		return op, false, err
	}
	op.VNF = VNFOf(named, pkg)
	was := pkg
	if before != nil && before.Package != named.Package {
		if was, err = r.revisions.packageOf(ctx, before); err != nil {
			return op, false, err
		}
	}
	levels, next := effectiveLevels(before, was), effectiveLevels(after, pkg)
	op.Type, op.Params, due = lcm.ClassifyLevels(before, after, levels, next)
	op.NoRollback = lcm.NoRollbackLevels(before, after, levels, next)
	op.ExtLinks = lcm.ChangedLinks(before, after)
	switch {
	case op.Type == lcm.Instantiate && after.VIM == record.PinnedVIM:
		op.PinnedVIM = record.PinnedVIM
	case op.Type == lcm.ChangePackage:
		op.PkgChange = lcm.TriggeredByPackage(before, after, op.VNF)
	case op.Type == lcm.ModifyInfo && before != nil && after != nil:
		op.ChangedInfo = lcm.ChangedInfo(before, after, op.VNF)
	}
	names := declared(pkg, was)
	op.Params, op.PkgChange, op.ChangedInfo = names.StripJSON(op.Params), names.StripJSON(op.PkgChange), names.StripJSON(op.ChangedInfo)
	return op, due, nil
}

// newest describes the operation that leads from what was operated on last to head.
func (r *intentReader) newest(ctx context.Context, record *lcm.Instance, head desired.Revision, before, after *desired.Instance) (op lcm.Operation, due bool, err error) {
	return r.birth(ctx, record, record.Operated, head, before, after)
}

// requested has the operation be the one that a request began whose commit this is, if it is one's.
// Such an operation is born here only where its record was lost with the store, after git was read for
// what the store had lost. The client, and git, know it by that id.
func (r *intentReader) requested(ctx context.Context, op *lcm.Operation, head desired.Revision) (asked bool, err error) {
	said, err := r.repo.Requested(ctx, head)
	if err != nil {
		return false, fmt.Errorf("commit %s of instance %s: %w", head.Commit, r.id, err)
	}
	if said == nil || said[desired.TrailerType] != string(op.Type) {
		return false, nil
	}
	was, err := r.oplog.Operation(ctx, said[desired.TrailerOperation])
	switch {
	case err == nil && was.State.Ended() && was.Proposed():
		return false, nil // its pull request was refused; whoever brings the change nevertheless begins an operation of their own
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return false, fmt.Errorf("operation %s of instance %s: %w", said[desired.TrailerOperation], r.id, err)
	}
	op.ID, op.RequestedBy = said[desired.TrailerOperation], said[desired.TrailerRequestedBy]
	if params := said[desired.TrailerParams]; params != "" {
		op.Params = json.RawMessage(params)
	}
	if pinned := said[desired.TrailerPinned]; pinned != "" {
		op.PinnedVIM = pinned
	}
	return true, nil
}

// author is who made the change; "" where that isn't known, which is no reason
// to leave the commit undone.
func (r *intentReader) author(ctx context.Context, rev desired.Revision) string {
	who, err := r.repo.Author(ctx, rev)
	if err != nil {
		r.log.WarnContext(ctx, "author of a commit unknown", "revision", rev.Commit, "error", err)
	}
	return who
}

// VNFOf is what notifications say of an instance. pkg may be nil.
func VNFOf(inst *desired.Instance, pkg *vnfd.Package) lcm.VNF {
	v := lcm.VNF{Name: inst.Name, VnfdID: inst.VnfdID}
	if pkg != nil && pkg.VNFD != nil {
		v.Provider = pkg.VNFD.Provider
		v.ProductName = pkg.VNFD.ProductName
		v.SoftwareVersion = pkg.VNFD.SoftwareVersion
		v.VnfdVersion = pkg.VNFD.Version
	}
	return v
}

// effectiveLevels are the scale levels that the instance has with its VNFD;
// those that it names itself where the two don't fit.
func effectiveLevels(inst *desired.Instance, pkg *vnfd.Package) map[string]int {
	if inst == nil {
		return nil
	}
	if pkg != nil {
		if f, ok := pkg.VNFD.Flavour(inst.Flavour); ok {
			if levels, err := f.ScaleLevels(inst.InstantiationLevel, inst.Levels); err == nil {
				return levels
			}
		}
	}
	return inst.Levels
}

// introduce makes the record of an instance that a push brought.
func (r *intentReader) introduce(ctx context.Context, inst *lcm.Instance, after *desired.Instance, vnf lcm.VNF) error {
	if after == nil || inst.Seq > 0 || inst.Operated.Tree != "" {
		return nil
	}
	if err := r.oplog.Created(ctx, r.id, vnf, desired.Revision{}); err != nil {
		return fmt.Errorf("record instance %s: %w", r.id, err)
	}
	return nil
}

// adopt moves the record to head without an operation: only text has changed
// that means nothing to the VNF. A directory that went without having been
// instantiated takes its record along.
func (r *intentReader) adopt(ctx context.Context, inst *lcm.Instance, head desired.Revision, exists bool) error {
	if !exists && inst.Open == "" {
		return r.forget(ctx, inst)
	}
	err := r.oplog.Adopt(ctx, r.id, func(i *lcm.Instance) error {
		if i.Settled.Tree == i.Operated.Tree {
			i.Settled = head
		}
		i.Operated = head
		return nil
	})
	if err != nil {
		return fmt.Errorf("record instance %s: %w", r.id, err)
	}
	return nil
}

// forget drops the record of an instance that git no longer has.
func (r *intentReader) forget(ctx context.Context, inst *lcm.Instance) error {
	if inst.Seq == 0 && inst.Operated.Tree == "" && inst.Last == "" {
		return nil
	}
	if err := r.oplog.Forget(ctx, r.id); err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("forget instance %s: %w", r.id, err)
	}
	return nil
}
