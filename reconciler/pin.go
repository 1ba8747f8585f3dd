package reconciler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// unfilled is what the author left to Jibe: the package's tree hash, the id, the VIM, and whatever else a change of
// package needs ([Checker.Complete]). full is the intent with that. A mark of an earlier failure goes with it: what
// brought us here is the change that lifts it. There are no edits where nothing is left.
func (r *intentReader) unfilled(ctx context.Context, before, inst *desired.Instance) (full *desired.Instance, edits []desired.KeyValue, err error) {
	settings, err := r.repo.Settings()
	if err != nil {
		return nil, nil, fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	full, err = r.checker.Complete(ctx, settings, before, r.checker.unpinned(ctx, before, inst))
	if err != nil {
		return nil, nil, fmt.Errorf("what is left to be filled in: %w", err)
	}
	filled := filledIn(inst, full)
	if len(filled) == 0 && inst.Held == "" && !inst.Derived {
		return full, nil, nil
	}

	return full, append(filled, desired.KeyValue{Path: []string{"held"}}), nil
}

// unpinned are the edits that take out of the file of a VNF which is to be terminated the VIM, where that was
// Jibe's to say, and a mark of an earlier failure. The commit of the first takes along what was granted: the next
// instantiation finds its own.
func unpinned(record *lcm.Instance, before, after *desired.Instance) (edits []desired.KeyValue) {
	if !desired.MayHaveObjects(before) || desired.HasRemains(before) && desired.HasRemains(after) {
		return nil
	}

	if record.PinnedVIM != "" && after.VIM == record.PinnedVIM {
		edits = append(edits, desired.KeyValue{Path: []string{"vim"}})
	}
	if after.Held != "" { // of an operation before: it would say that this termination failed
		edits = append(edits, desired.KeyValue{Path: []string{"held"}})
	}
	if len(edits) == 0 && after.Granted != nil {
		edits = append(edits, desired.KeyValue{Path: []string{"held"}}) // there is none: the commit is for what was granted
	}

	return edits
}

// pinPause is how long to leave it after pins of instances that run couldn't be committed.
const pinPause = time.Minute

// pause is until when something isn't tried again.
type pause struct{ until atomic.Int64 }

func (x *pause) rest(until time.Time)       { x.until.Store(until.UnixNano()) }
func (x *pause) resting(now time.Time) bool { return now.UnixNano() < x.until.Load() }

// unpinnedAtRest is what of an instance that runs isn't pinned, as it ran before pins were written, or lost them by an
// edit that meant nothing: the id and the VIM. full is the intent with that.
func (r *intentReader) unpinnedAtRest(ctx context.Context, head desired.Revision) (inst, full *desired.Instance, edits []desired.KeyValue) {
	if r.pins.resting(r.now()) {
		return nil, nil, nil
	}
	inst, err := r.revisions.read(ctx, head)
	if err != nil || !desired.IsInstantiated(inst.State) || inst.Suspend || inst.Held != "" || !inst.Derived && (inst.VIM != "" || len(inst.VIMConnections) > 0) {
		return nil, nil, nil
	}
	settings, err := r.repo.Settings()
	if err != nil {
		r.notPinned(ctx, err)

		return nil, nil, nil
	}

	filled := *inst
	pinVIM(settings, nil, &filled)
	if filled.VIM == inst.VIM && !inst.Derived {
		return nil, nil, nil // there is no default VIM, which is reported where it is looked for
	}

	return inst, &filled, append(filledIn(inst, &filled), desired.KeyValue{Path: []string{"id"}, Value: r.id})
}

// pinAtRest commits the edits. Care of the instance doesn't depend on it, so an error is only logged.
func (r *intentReader) pinAtRest(ctx context.Context, record *lcm.Instance, head desired.Revision, inst, full *desired.Instance, edits []desired.KeyValue) {
	err := r.notePinned(ctx, record, inst, full)
	if err == nil {
		err = r.fillIn(ctx, head, "Pin the id and the VIM of "+head.Dir, edits[:len(edits)-1], override{})
	}
	if err != nil && !errors.Is(err, errCommitting) {
		r.notPinned(ctx, err)
	}
}

func (r *intentReader) notPinned(ctx context.Context, err error) {
	r.pins.rest(r.now().Add(pinPause))
	r.log.WarnContext(ctx, "an instance that runs was not pinned to its id and VIM", "error", err)
}

// notePinned remembers that the VIM is filled in, and wasn't named by anybody. It comes
// before the commit: a commit that isn't remembered would pin the VIM for ever.
func (r *intentReader) notePinned(ctx context.Context, record *lcm.Instance, inst, full *desired.Instance) error {
	if full.VIM == inst.VIM {
		return nil
	}
	err := r.oplog.Adopt(ctx, r.id, func(i *lcm.Instance) error {
		i.PinnedVIM = full.VIM
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		pkg, err := r.revisions.packageOf(ctx, full)
		if err != nil {
			return err
		}
		if err := r.introduce(ctx, record, full, VNFOf(full, pkg)); err != nil {
			return err
		}
		return r.notePinned(ctx, record, inst, full)
	}
	if err != nil {
		return fmt.Errorf("record instance %s: %w", r.id, err)
	}
	return nil
}

// fillIn commits edits that complete what the author of head asked for. What lets that begin outside of its
// windows is handed on.
func (r *intentReader) fillIn(ctx context.Context, head desired.Revision, subject string, edits []desired.KeyValue, free override) error {
	edits = append([]desired.KeyValue{{Path: []string{"id"}, Value: r.id}}, edits...)
	w := desired.Write{
		Instance: r.id,
		Dir:      head.Dir,
		By:       r.author(ctx, head),
		Subject:  subject,
		Change: func(at desired.Revision, old desired.Files) (desired.Files, error) {
			if at.Tree != head.Tree {
				return old, nil // someone was faster; the next pass looks at theirs
			}
			file := head.Dir + "/" + desired.InstanceFile
			text, err := desired.Edit(file, old[desired.InstanceFile], edits...)
			if err != nil {
				return nil, err
			}
			next := with(old, desired.InstanceFile, text)
			if in, err := desired.ParseInstance(file, text); err == nil && !desired.MayHaveObjects(in) {
				delete(next, desired.GrantedFile) // it was granted to what ends
			}
			return next, nil
		},
	}
	if free.reason != "" {
		w.Trailers = append(w.Trailers, desired.Trailer{Key: desired.TrailerOverride, Value: free.reason})
	}
	_, err := commitOf(ctx, r.commits, subject+" at "+head.Tree, func(ctx context.Context) (desired.Revision, error) { return r.repo.Write(ctx, w) })
	if err != nil {
		return fmt.Errorf("commit what is filled in for instance %s: %w", r.id, err)
	}
	r.enqueue(r.id)
	return nil
}

// spent are the edits that take out tombstones whose incarnation is gone. Where
// nothing can be seen now, the next commit does it.
func (r *intentReader) spent(ctx context.Context, record *lcm.Instance, inst *desired.Instance) []desired.KeyValue {
	if len(inst.Condemned) == 0 {
		return nil
	}
	seen, err := r.running(ctx, record)
	if err != nil {
		return nil
	}
	left := seen.Unspent(inst.Condemned)
	if len(left) == 0 {
		return []desired.KeyValue{{Path: []string{"condemned"}}}
	}
	var edits []desired.KeyValue
	for key := range inst.Condemned {
		if left[key] == "" {
			edits = append(edits, desired.KeyValue{Path: []string{"condemned", key}})
		}
	}
	return edits
}

func tidySubject(filled []desired.KeyValue, dir string) string {
	if len(filled) > 0 {
		return fmt.Sprintf("Pin the package of %s", dir)
	}
	return fmt.Sprintf("Lift the hold on %s, which was changed", dir)
}

// with is files with one of them replaced.
func with(files desired.Files, name string, content []byte) desired.Files {
	changed := make(desired.Files, len(files)+1)
	for k, v := range files {
		changed[k] = v
	}
	changed[name] = content
	return changed
}
