package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// CheckRollouts refuses files of rollouts that can't be obeyed, two rollouts of one id, and two
// that haven't ended and may select the same instances, where the push changes one of them.
func (r *Checker) CheckRollouts(ctx context.Context, u RefUpdate) ([]*desired.Problem, error) {
	oldRoot, err := r.RootOf(ctx, u.Old)
	if err != nil {
		return nil, err
	}
	newRoot, err := r.RootOf(ctx, u.New)
	if err != nil {
		return nil, err
	}
	was, _, err := r.LookupPath(ctx, oldRoot, desired.RolloutDir)
	if err != nil {
		return nil, err
	}
	now, found, err := r.LookupPath(ctx, newRoot, desired.RolloutDir)
	if err != nil || was == now || !found {
		return nil, err
	}
	if !now.IsDir() {
		return []*desired.Problem{read.NotAFolder(desired.RolloutDir)}, nil
	}
	before, err := r.RolloutFiles(ctx, oldRoot)
	if err != nil {
		return nil, err
	}
	after, err := r.RolloutFiles(ctx, newRoot)
	if err != nil {
		return nil, err
	}
	var out []*desired.Problem
	add := func(err error) error {
		if invalid, ok := errors.AsType[*desired.InvalidError](err); ok {
			out = append(out, invalid.Problems...)
			return nil
		}
		return err
	}
	var open []openRollout
	for _, file := range slices.Sorted(maps.Keys(after)) {
		changed := before[file] != after[file]
		if path.Ext(file) != ".yaml" {
			continue
		}
		data, err := r.Content(ctx, after[file])
		if err != nil {
			return nil, err
		}
		if path.Dir(file) == desired.RolloutStateDir {
			if changed {
				_, err = desired.ParseLedger(file, data)
			}
			if err := add(err); err != nil {
				return nil, err
			}
			continue
		}
		ro, err := desired.ParseRollout(file, data)
		if err != nil {
			if changed {
				err = add(err)
			} else {
				err = nil // it was so before
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		o := openRollout{ro, file, changed, false}
		if hash := after[desired.LedgerFile(ro.ID)]; ro.ID != "" && hash != "" {
			text, err := r.Content(ctx, hash)
			if err != nil {
				return nil, err
			}
			l, err := desired.ParseLedger(desired.LedgerFile(ro.ID), text)
			o.ended = err == nil && l.Ended != nil
			if err == nil && changed {
				if problem := l.NewTarget(file, ro); problem != nil {
					out = append(out, problem)
				}
			}
		}
		for _, other := range open {
			if problem := o.clash(other); problem != nil {
				out = append(out, problem)
			}
		}
		open = append(open, o)
	}
	return out, nil
}

// openRollout is a rollout as a push leaves it.
type openRollout struct {
	*desired.Rollout
	file           string
	changed, ended bool
}

// clash is why two rollouts can't stand beside each other, nil where they can or did before.
func (o openRollout) clash(other openRollout) *desired.Problem {
	switch {
	case !o.changed && !other.changed:
		return nil
	case o.ID != "" && o.ID == other.ID:
		return &desired.Problem{File: o.file, Message: "it has the id of " + other.file, Remedy: "remove the id and to.package: Jibe fills them in"}
	case o.ended || other.ended || o.State == desired.RolloutAborted || other.State == desired.RolloutAborted || !o.Meets(other.Rollout):
		return nil
	}
	return &desired.Problem{File: o.file, Message: fmt.Sprintf("it may select instances that %s selects, which hasn't ended", other.file),
		Remedy: "wait for its end, abort it, or select other folders"}
}
