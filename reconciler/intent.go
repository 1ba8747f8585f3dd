package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// intentReader compares what git asks of one instance with what was last operated on, gives
// birth to the operation that leads from one to the other, and completes by commits what an
// author left open. It asks no VIM for anything but which tombstones are spent.
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

// next compares git's head with what was last operated on, and gives birth to
// the operation that leads from one to the other. failed is the open operation in
// FAILED_TEMP, or nil. It returns the operation to carry on with, or nil where
// there is none: nothing is wanted, or the instance is held or suspended. heldBack says
// that head isn't obeyed, and that what was operated on last stands.
func (r *intentReader) next(ctx context.Context, inst *lcm.Instance, failed *lcm.Operation) (op *lcm.Operation, heldBack bool, err error) {
	head, exists := r.repo.Lookup(r.id)
	if !exists {
		head = desired.Revision{Instance: r.id, Dir: inst.Operated.Dir, Commit: r.repo.Head()}
		r.problems.obeyed()
	}
	if head.Tree == inst.Operated.Tree {
		r.waits.clear(r.id)
		if !exists && failed == nil {
			return nil, false, r.forget(ctx, inst)
		}
		if exists && failed == nil {
			r.settled(ctx, inst, head)
		}
		return failed, false, nil
	}
	op, err = r.change(ctx, inst, failed, head, exists)
	var closed *closedError
	if errors.As(err, &closed) {
		r.problems.obeyed() // there is nothing to repair in it
		return failed, true, nil
	}
	r.waits.clear(r.id)
	if err == nil {
		r.problems.obeyed()
		return op, false, nil
	}
	if !r.problems.stuck(ctx, head, err) {
		return nil, false, err
	}
	// The revision that was operated on last stands, and is looked after. The obstacle may go
	// without a commit, so head is checked again.
	return failed, true, nil
}

// change gives birth to the operation that leads to head, which differs from what was
// last operated on. It returns the operation as [intentReader.next] does.
func (r *intentReader) change(ctx context.Context, inst *lcm.Instance, failed *lcm.Operation, head desired.Revision, exists bool) (*lcm.Operation, error) {
	before, err := r.revisions.read(ctx, inst.Operated)
	if err != nil {
		return nil, err
	}
	after, err := r.revisions.read(ctx, head)
	if err != nil {
		return nil, err
	}
	if after != nil && after.Suspend {
		return failed, nil
	}
	if problem := desired.ForeignGrant(path.Join(head.Dir, desired.GrantedFile), before, after); problem != nil {
		return nil, problem
	}
	if failed != nil {
		if back, err := r.pushedBack(ctx, failed, after); back != nil || err != nil {
			return back, err
		}
	}
	if err := r.judge(before, after); err != nil {
		return nil, err
	}
	if err := r.stillWaits(ctx, head); err != nil {
		return nil, err
	}
	free, err := r.overridden(ctx, head)
	if err != nil {
		return nil, err
	}
	if after != nil && desired.IsInstantiated(after.State) {
		if err := r.feasible(ctx, before, after); err != nil {
			return nil, err
		}
		if pinned, err := r.pin(ctx, inst, head, before, after, free); pinned || err != nil {
			return nil, err // the pin is a commit, which brings the instance back here
		}
	} else if after != nil {
		if unpinned, err := r.unpin(ctx, inst, head, before, after, free); unpinned || err != nil {
			return nil, err
		}
	}
	var op lcm.Operation
	var due bool
	if failed != nil {
		op, due, err = r.successor(ctx, inst, head, before, after)
	} else {
		op, due, err = r.birth(ctx, inst, inst.Operated, head, before, after)
	}
	if err != nil {
		return nil, err
	}
	if err := r.introduce(ctx, inst, after, op.VNF); err != nil {
		return nil, err
	}
	if !due {
		return failed, r.adopt(ctx, inst, head, exists)
	}
	asked, err := r.requested(ctx, &op, head)
	if err != nil {
		return nil, err
	}
	passes := false
	if asked { // it was let in when it was accepted
		old, err := r.oplog.Operation(ctx, op.ID)
		if err == nil && !old.State.Ended() {
			return nil, nil // its request has just begun it, and has the instance looked at
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("operation %s of instance %s: %w", op.ID, r.id, err)
		}
	} else if err := r.waitFor(ctx, head, op.Type); err != nil {
		if passes = free.reason != "" && errors.As(err, new(*closedError)); !passes {
			return nil, err
		}
		op.AddToStory(r.now(), free.story())
	}
	if op.RequestedBy == "" {
		op.RequestedBy = r.author(ctx, head)
	}
	born, err := r.oplog.Born(ctx, op)
	var busy oplog.ErrBusy
	if errors.As(err, &busy) {
		return nil, nil // an API request was first; its commit brings the instance back here
	}
	if err != nil {
		return nil, fmt.Errorf("record the operation of commit %s on instance %s: %w", head.Commit, r.id, err)
	}
	if born.State.Ended() {
		// This very commit had its operation already, and is head again.
		return nil, r.adopt(ctx, inst, head, exists)
	}
	if passes {
		r.log.WarnContext(ctx, "windows are overridden", "operation", born.ID, "by", free.by, "reason", free.reason)
		r.audit(ctx, born, free.by, free.reason)
	}
	if asked {
		r.log.WarnContext(ctx, "the record of a request was lost, its operation begins by what git says", "operation", born.ID, "revision", head.Commit)
	}
	r.log.InfoContext(ctx, "operation begins", "operation", born.ID, "type", born.Type, "revision", head.Commit)
	return born, nil
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

// pushedBack sees whether a push on an instance in FAILED_TEMP wants what was
// before the operation: that is its rollback.
func (r *intentReader) pushedBack(ctx context.Context, failed *lcm.Operation, after *desired.Instance) (*lcm.Operation, error) {
	was, err := r.revisions.read(ctx, failed.Before)
	if err != nil {
		return nil, err
	}
	asked, err := r.revisions.read(ctx, failed.After)
	if err != nil {
		return nil, err
	}
	if !takenBack(was, asked, after) || failed.CanRollback() != nil {
		return nil, nil
	}
	if failed.Journal.Rollback {
		return failed, nil // it was tried and failed: from here on a person decides
	}
	op, err := r.oplog.Rollback(ctx, failed.ID)
	if err != nil {
		return nil, fmt.Errorf("roll operation %s back: %w", failed.ID, err)
	}
	return op, nil
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
