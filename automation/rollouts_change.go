package automation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
)

// changes are the changes of instances, made by change, and why others would be refused. Their error is
// that it can't be told now.
func (r *Rollouts) changes(ctx context.Context, s *seen, ids []string, change func(context.Context, *seen, string) (desired.Change, error)) (list []desired.InstanceChange, refused map[string]string, err error) {
	refused = map[string]string{}
	for _, id := range ids {
		c, err := change(ctx, s, id)
		switch {
		case err == nil:
			list = append(list, desired.InstanceChange{Instance: id, Change: c})
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case r.Refused(err), len(s.decision.Back) > 0 && errors.Is(err, desired.ErrNotFound):
			refused[id] = clipped(err.Error())
			r.Log.WarnContext(ctx, "an instance of a rollout would be refused", "rollout", s.r.Name, "instance", id, "error", err)
		default:
			return nil, nil, fmt.Errorf("prepare instance %s: %w", id, err)
		}
	}
	return list, refused, nil
}

// dropped says which instances weren't written, and will be looked at again.
func (r *Rollouts) dropped(ctx context.Context, s *seen, w desired.Written) {
	for id, err := range w.Refused {
		if !errors.Is(err, errMoved) {
			r.Log.WarnContext(ctx, "an instance of a rollout wasn't written", "rollout", s.r.Name, "instance", id, "error", err)
		}
	}
}

// changeOf is the change that brings the instance to the target, with all that Jibe would fill in.
func (r *Rollouts) changeOf(ctx context.Context, s *seen, id string) (desired.Change, error) {
	h := s.heads[id]
	file := h.Dir + "/" + desired.InstanceFile
	in, text, after, err := r.edited(ctx, s.r.To, h)
	if err != nil {
		return nil, err
	}
	fills, err := r.Prepare(ctx, in, after)
	if err != nil {
		return nil, err
	}
	if text, err = desired.Edit(file, text, fills...); err != nil {
		return nil, err
	}
	return func(at desired.Revision, now desired.Files) (desired.Files, error) {
		if at.Tree != h.Tree {
			return nil, errMoved
		}
		if e, known := r.Oplog.InstanceEntry(h.Instance); !known || busy(h, e) != "" {
			return nil, errMoved
		}
		next := maps.Clone(now)
		next[desired.InstanceFile] = text
		return next, nil
	}, nil
}

// edited is the instance as it is, and as the target makes it.
func (r *Rollouts) edited(ctx context.Context, to desired.RolloutTarget, h desired.Head) (in *desired.Instance, text []byte, after *desired.Instance, err error) {
	if in, err = r.Repo.Read(ctx, h.Revision); err != nil {
		return nil, nil, nil, err
	}
	old, err := r.Repo.Files(ctx, h.Revision)
	if err != nil {
		return nil, nil, nil, err
	}
	edits := to.Edits()
	if in.Derived {
		edits = append(edits, desired.KeyValue{Path: []string{"id"}, Value: h.Instance})
	}
	text, after, err = desired.EditInstance(h.Dir+"/"+desired.InstanceFile, old[desired.InstanceFile], edits...)
	if err != nil {
		return nil, nil, nil, err
	}
	after.Granted = in.Granted
	return in, text, after, nil
}

// backOf is the change that takes the instance back to where it was before the attempt. What an NFVO
// has granted meanwhile stays: only a new grant changes that.
func (r *Rollouts) backOf(ctx context.Context, s *seen, id string) (desired.Change, error) {
	h, a := s.heads[id], s.decision.Ledger.Of(id, s.decision.Ledger.Target)
	prior := desired.Revision{Instance: id, Dir: h.Dir, Tree: a.Prior}
	old, err := r.Repo.Files(ctx, prior)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(s.facts, func(f rollout.Fact) bool { return f.Instance == id })
	failed := at >= 0 && s.facts[at].Found == rollout.FailedTemp // then the commit is the rollback of its operation
	unbegun := at >= 0 && s.facts[at].Unbegun                    // then it is as if there had been none
	if !failed && !unbegun {
		now, err := r.Repo.Read(ctx, h.Revision)
		if err != nil {
			return nil, err
		}
		then, err := r.Repo.Read(ctx, prior)
		if err != nil {
			return nil, err
		}
		if _, err := r.Prepare(ctx, now, then); err != nil {
			return nil, err
		}
	}
	return func(at desired.Revision, now desired.Files) (desired.Files, error) {
		if at.Tree != h.Tree {
			return nil, errMoved
		}
		e, known := r.Oplog.InstanceEntry(id)
		if !known || requested(e) || !failed && !unbegun && busy(h, e) != "" {
			return nil, errMoved
		}
		if unbegun && e.Open == "" && e.Operated.Tree == h.Tree {
			return nil, errMoved // it has begun and ended meanwhile
		}
		if unbegun && e.Open != "" {
			if op, err := r.Oplog.Operation(ctx, e.Open); err != nil || op.State != lcm.Starting {
				return nil, errMoved // it has begun meanwhile, and comes to its end
			}
		}
		next := maps.Clone(old)
		delete(next, desired.GrantedFile)
		if granted, ok := now[desired.GrantedFile]; ok {
			next[desired.GrantedFile] = granted
		}
		return next, nil
	}, nil
}
