package chaos_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/load"
	"github.com/jibe-vnfm/jibe/test/process"
)

// upgradePart is how many of a hundred changes are of the package.
const upgradePart = 35

// another is a version that the instance doesn't run; now and then the one that gets stuck.
func another(rng *rand.Rand, now *desired.Instance) string {
	stuck := rng.IntN(8) == 0
	switch {
	case stuck && now.VnfdID != trioStuck:
		return trioStuck
	case now.VnfdID == trio:
		return trioNext
	}
	return trio
}

// revert pushes the vnfdId that the API shows: that of before the operation that failed.
func (u *user) revert(ctx context.Context, s *process.Server, v *vnf) error {
	var in shown
	if err := s.Get(ctx, process.Instances+"/"+v.id, &in); err != nil {
		return u.unanswered(ctx, v, "look for what ran", err)
	}
	return u.Edit(ctx, s, v.dir, "Revert "+v.name, desired.KeyValue{Path: []string{"vnfdId"}, Value: in.Vnfd})
}

// changeCalmly asks for a change that may not interrupt the traffic.
func (u *user) changeCalmly(ctx context.Context, s *process.Server, v *vnf, now *desired.Instance, broken *load.Occurrence) error {
	dice := u.Rng.IntN(100)
	switch {
	case broken != nil && dice < 25:
		return u.revert(ctx, s, v)
	case broken != nil:
		return u.resolve(ctx, s, v, broken, []string{"retry", "rollback"}[u.Rng.IntN(2)])
	case dice < 45:
		return u.Change(ctx, s, v.dir, another(u.Rng, now), "Blue-Green")
	case dice < 90:
		return u.Edit(ctx, s, v.dir, "Upgrade "+v.name, desired.KeyValue{Path: []string{"vnfdId"}, Value: another(u.Rng, now)})
	case now.Levels["front"] < maxLevel:
		return u.Scale(ctx, s, v.dir, 0, maxLevel) // out
	}
	return nil
}

// unstick brings an instance that is to run the version that gets stuck back to the first.
func (u *user) unstick(ctx context.Context, s *process.Server, v *vnf) error {
	strategy := desired.Rolling
	if v.calm {
		strategy = desired.BlueGreen
	}
	return u.Edit(ctx, s, v.dir, "Give up the new version of "+v.name, desired.KeyValue{Path: []string{"vnfdId"}, Value: trio},
		desired.KeyValue{Path: []string{"update", "strategy"}, Value: strategy})
}

// byJibe says whether Jibe made the commit: for a request, as an outcome, or to fill in
// what a push left to it.
func byJibe(h *process.History, commit string) bool {
	at := h.At[commit]
	for _, of := range h.Trailers {
		if slices.Contains(of, at) {
			return true
		}
	}
	return load.Outcome(h.Lines[at]) || strings.HasPrefix(h.Lines[at], "Pin the package of ") || strings.HasPrefix(h.Lines[at], "Lift the hold on ")
}

// wentBack says whether somebody pushed what an operation had found, which is its
// rollback: nothing but what Jibe fills in is another. A push may have been accepted
// without anybody's knowing, so that the history is asked and not the pushers.
func (w *world) wentBack(ctx context.Context, h *process.History, op process.Operation, commits []string) (bool, error) {
	if len(commits) == 0 {
		return false, nil
	}
	dir := w.vnf(op.Instance).dir
	var was []*desired.Instance
	last := h.At[commits[0]]
	// The operation found the directory of some earlier commit: of the last one
	// that isn't a part of the same change.
	for at := last - 1; at >= 0 && len(was) < 6; at-- {
		touched, err := process.Git(ctx, w.repository, "diff-tree", "--no-commit-id", "--name-only", "-r", h.Commits[at], "--", dir)
		if err != nil {
			return false, err
		}
		if touched == "" {
			continue
		}
		in, err := process.Intent(ctx, w.repository, h.Commits[at], dir)
		if err != nil {
			return false, err
		}
		was = append(was, in)
	}
	after, err := process.Git(ctx, w.repository, "log", "--format=%H", h.Commits[last]+"..main", "--", dir)
	if err != nil {
		return false, err
	}
	for commit := range strings.FieldsSeq(after) {
		if byJibe(h, commit) {
			continue
		}
		now, err := process.Intent(ctx, w.repository, commit, dir)
		if err != nil {
			return false, err
		}
		for _, before := range was {
			others := slices.DeleteFunc(desired.Changed(before, now), func(key string) bool {
				return slices.Contains([]string{"package", "base", "overlays", "generation", "levels", "condemned"}, key) // spent tombstones go
			})
			if len(others) == 0 {
				return true, nil
			}
		}
	}
	return false, nil
}
