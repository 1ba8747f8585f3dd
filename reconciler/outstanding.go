package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// outstanding makes the commit that git is still to get of an operation that has ended. It
// asks no VIM and begins no operation.
type outstanding struct {
	id    string
	log   *slog.Logger
	oplog *oplog.Log
	repo  desired.Repo
	// revisions reads what the operation's record names.
	revisions revisions
	// commits makes the commits.
	commits committer
}

// outcomeCommit is the commit of an outcome; settled says that git has what it was made for.
type outcomeCommit struct {
	rev     desired.Revision
	settled bool
}

// write makes the commit. change says whether git has then what it is made for.
func (o outstanding) write(ctx context.Context, op *lcm.Operation, w desired.Write, change func(at desired.Revision, now desired.Files) (files desired.Files, settled bool, err error)) (outcomeCommit, error) {
	return commitOf(ctx, o.commits, "the outcome of operation "+op.ID, func(ctx context.Context) (c outcomeCommit, err error) {
		w.Change = func(at desired.Revision, now desired.Files) (files desired.Files, err error) {
			files, c.settled, err = change(at, now)
			return files, err
		}
		c.rev, err = o.repo.Write(ctx, w)
		return c, err
	})
}

// commit commits the outcome of an operation that ended ROLLED_BACK or FAILED:
// the directory as it was before, so that git says again what is wanted. The
// record came first, so a repository that is away never delays a rollback.
//
// It is a restore of one directory and not a revert: it can't conflict, and
// where someone has moved the directory on meanwhile, theirs stands.
func (o outstanding) commit(ctx context.Context, inst *lcm.Instance) error {
	op, err := o.oplog.Operation(ctx, inst.OutstandingCommit)
	if err != nil {
		return fmt.Errorf("operation %s, whose outcome is owed to git: %w", inst.OutstandingCommit, err)
	}
	if op.State == lcm.Completed {
		return o.keepModified(ctx, op)
	}
	var old, asked desired.Files
	if op.After.Tree != "" {
		if asked, err = o.revisions.files(ctx, op.After); err != nil {
			return fmt.Errorf("files of instance %s that operation %s was to bring about: %w", o.id, op.ID, err)
		}
	}
	if op.Before.Tree != "" {
		if old, err = o.revisions.files(ctx, op.Before); err != nil {
			return fmt.Errorf("files of instance %s before operation %s: %w", o.id, op.ID, err)
		}
	}
	subject := fmt.Sprintf("Roll back %s of %s", op.Type, op.After.Dir)
	if op.State == lcm.Failed {
		subject = fmt.Sprintf("Take back the failed %s of %s", op.Type, op.After.Dir)
	}
	body := ""
	if op.Error != nil {
		body = op.Error.Detail
	}
	dir := op.After.Dir
	if dir == "" {
		dir = op.Before.Dir
	}
	made, err := o.write(ctx, op, desired.Write{
		Instance: o.id,
		Dir:      dir,
		Subject:  subject,
		Body:     body,
		Trailers: []desired.Trailer{
			{Key: desired.TrailerOperation, Value: op.ID},
			{Key: desired.TrailerType, Value: string(op.Type)},
			{Key: desired.TrailerOutcome, Value: string(op.State)},
		},
		// What it had put into the change that waits goes again, and that waits as its author left it.
		Beside: besideOf(ctx, o.repo, op, asked, old),
	}, func(at desired.Revision, now desired.Files) (files desired.Files, settled bool, err error) {
		if at.Tree == op.After.Tree || op.Beside.Tree != "" {
			files, err = restored(op, dir, old, now)
			return files, true, err
		}
		if beside, ok := besides(dir, asked, now); ok {
			files, err = restored(op, dir, old, now, beside...)
			return files, true, err
		}
		// A push may have asked for the rollback by taking the change back itself.
		switch same, back := takenBackBy(dir, old, asked, now); {
		case same:
			return now, true, nil
		case back:
			files, err = restored(op, dir, old, now)
			return files, true, err
		}
		return now, false, nil
	})
	if err != nil {
		return fmt.Errorf("commit the outcome of operation %s: %w", op.ID, err)
	}
	return o.oplog.Adopt(ctx, o.id, func(i *lcm.Instance) error {
		if i.OutstandingCommit != op.ID {
			return nil
		}
		i.OutstandingCommit = ""
		switch {
		case made.settled:
			i.Operated = made.rev
			if op.State == lcm.RolledBack {
				i.Settled = made.rev
			}
		case op.State == lcm.RolledBack:
			i.Operated = op.Before // which stands: what the newer commit asks for is told from there
		}
		return nil
	})
}

// keepModified commits what the hooks of a completed operation want the instance's
// metadata and extensions to be. Where someone has moved the directory on meanwhile, the
// entries are set in theirs.
func (o outstanding) keepModified(ctx context.Context, op *lcm.Operation) error {
	if op.Unproven {
		o.log.ErrorContext(ctx, "what hooks found isn't committed: the record of the operation isn't proven to be Jibe's own", "operation", op.ID)
		return o.oplog.Adopt(ctx, o.id, func(i *lcm.Instance) error {
			if i.OutstandingCommit == op.ID {
				i.OutstandingCommit = ""
			}
			return nil
		})
	}
	var beside *desired.Beside
	if op.Beside.Tree != "" {
		done, err := o.revisions.files(ctx, op.After)
		if err != nil {
			return fmt.Errorf("files of instance %s that operation %s has brought about: %w", o.id, op.ID, err)
		}
		beside = besideOf(ctx, o.repo, op, done, nil)
	}
	made, err := o.write(ctx, op, desired.Write{
		Instance: o.id,
		Dir:      op.After.Dir,
		Subject:  fmt.Sprintf("Keep what hooks of %s of %s found", op.Type, op.After.Dir),
		Trailers: []desired.Trailer{
			{Key: desired.TrailerOperation, Value: op.ID},
			{Key: desired.TrailerType, Value: string(op.Type)},
			{Key: desired.TrailerOutcome, Value: string(op.State)},
		},
		Beside: beside,
	}, func(at desired.Revision, now desired.Files) (files desired.Files, settled bool, err error) {
		if now == nil {
			return nil, at.Tree == op.After.Tree, nil
		}
		text, err := desired.Edit(at.Dir+"/"+desired.InstanceFile, now[desired.InstanceFile], entries(op.Modified)...)
		if err != nil {
			return nil, false, err
		}
		return with(now, desired.InstanceFile, text), at.Tree == op.After.Tree || op.Beside.Tree != "", nil
	})
	if err != nil {
		return fmt.Errorf("commit what hooks of operation %s found: %w", op.ID, err)
	}
	return o.oplog.Adopt(ctx, o.id, func(i *lcm.Instance) error {
		if i.OutstandingCommit != op.ID {
			return nil
		}
		i.OutstandingCommit = ""
		if made.settled {
			i.Operated, i.Settled = made.rev, made.rev
		}
		return nil
	})
}

// entries are the edits that make the instance's file say what was modified.
func entries(m lcm.Entries) (edits []desired.KeyValue) {
	for key, values := range map[string]map[string]any{"metadata": m.Metadata, "extensions": m.Extensions} {
		for name, value := range values {
			edits = append(edits, desired.KeyValue{Path: []string{key, name}, Value: value})
		}
	}
	edits = append(edits, leaves([]string{"params"}, m.Params)...)
	slices.SortFunc(edits, func(a, b desired.KeyValue) int { return slices.Compare(a.Path, b.Path) })
	return edits
}

// leaves are the edits that a merge patch makes below a path.
func leaves(path []string, patch map[string]any) (edits []desired.KeyValue) {
	for name, value := range patch {
		at := append(slices.Clone(path), name)
		if inner, deep := value.(map[string]any); deep && len(inner) > 0 {
			edits = append(edits, leaves(at, inner)...)
			continue
		}
		edits = append(edits, desired.KeyValue{Path: at, Value: value})
	}
	return edits
}

// restored is the directory as it was before the operation. Rolling an
// instantiation back leaves the directory, with nothing running; a failed
// operation leaves a mark that the next request lifts. A failed instantiation leaves what it was asked for, too: by
// that its objects are found until they have ended. changes are made beside.
func restored(op *lcm.Operation, dir string, old, now desired.Files, changes ...desired.KeyValue) (desired.Files, error) {
	if op.Type == lcm.Instantiate && op.State == lcm.Failed && now != nil {
		old = maps.Clone(now)
		changes = append(changes, desired.KeyValue{Path: []string{"state"}, Value: desired.NotInstantiated})
	}
	if old == nil {
		if now == nil {
			return nil, nil
		}
		old = maps.Clone(now)
		delete(old, desired.GrantedFile)
		changes = append(changes, desired.KeyValue{Path: []string{"state"}, Value: desired.NotInstantiated})
	}
	if op.State == lcm.Failed {
		changes = append(changes, desired.KeyValue{Path: []string{"held"}, Value: op.ID})
	}
	if len(changes) == 0 {
		return old, nil
	}
	text, err := desired.Edit(dir+"/"+desired.InstanceFile, old[desired.InstanceFile], changes...)
	if err != nil {
		return nil, err
	}
	return with(old, desired.InstanceFile, text), nil
}

// besides are the keys in which the directory was moved on since the operation's
// commit, where none of them is of any concern to an operation: how the instance
// is looked after. Nothing would ever come of them, so that to let them stand
// would leave in git what has failed. ok is false where more was changed.
func besides(dir string, asked, now desired.Files) (changes []desired.KeyValue, ok bool) {
	if asked == nil || now == nil {
		return nil, false
	}
	file := dir + "/" + desired.InstanceFile
	was, err1 := desired.ParseInstance(file, asked[desired.InstanceFile])
	is, err2 := desired.ParseInstance(file, now[desired.InstanceFile])
	if err1 != nil || err2 != nil {
		return nil, false
	}
	for _, key := range desired.Changed(was, is) {
		switch key {
		case "drift":
			changes = append(changes, desired.KeyValue{Path: []string{key}, Value: is.Drift})
		case "hooks":
			changes = append(changes, desired.KeyValue{Path: []string{key}, Value: orNil(is.Hooks)})
		case needsField:
			var needs any // nil removes them
			if len(is.Needs) > 0 {
				needs = is.Needs
			}
			changes = append(changes, desired.KeyValue{Path: []string{key}, Value: needs})
		case "supersede":
			changes = append(changes, desired.KeyValue{Path: []string{key}, Value: orNil(is.Supersede)})
		case "suspend":
			changes = append(changes, desired.KeyValue{Path: []string{key}, Value: is.Suspend})
		default:
			return nil, false
		}
	}
	return changes, true
}

// takenBackBy says whether now has the intent of old, or has it but for what was
// filled in for asked.
func takenBackBy(dir string, old, asked, now desired.Files) (same, back bool) {
	if old == nil || asked == nil || now == nil {
		return false, false
	}
	file := dir + "/" + desired.InstanceFile
	was, err1 := desired.ParseInstance(file, old[desired.InstanceFile])
	want, err2 := desired.ParseInstance(file, asked[desired.InstanceFile])
	is, err3 := desired.ParseInstance(file, now[desired.InstanceFile])
	if err := errors.Join(err1, err2, err3); err != nil {
		return false, false
	}
	return desired.Equal(was, is), takenBack(was, want, is)
}
