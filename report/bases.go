package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/jibe-vnfm/jibe/desired"
)

// A plan is made anew where the branch that it would be merged into has moved on in what the pull request
// touches. Jibe's own commits move it many times a minute, and a plan asks VIMs.
const (
	// quietFor is how long nothing of it has to move, and atLatest how long that is waited for at most.
	quietFor, atLatest = 10 * time.Second, time.Minute
	// plansPerMinute bounds how many plans are made anew; those that wait longest go first. A branch that
	// is pushed is planned at once.
	plansPerMinute = 10
	// plansPerSecond bounds all of them: each fetches its branch, and a forge may have a hundred when Jibe first
	// looks (GitHub asks for 15 reads a second at most).
	plansPerSecond = 2
)

// bases finds out which plans the branch has left behind. It is used by one goroutine.
type bases struct {
	repo  Repo
	limit *rate.Limiter
	all   *rate.Limiter
}

func newBases(repo Repo) *bases {
	return &bases{repo, rate.NewLimiter(rate.Every(time.Minute/plansPerMinute), plansPerMinute), rate.NewLimiter(plansPerSecond, 2*plansPerSecond)}
}

// moved is what differs between two commits of the branch.
type moved struct {
	all  bool            // anything may
	what map[string]bool // ids and directories of instances
}

// touches says whether the plan of a pull request may have become another one.
func (m moved) touches(x *pull) bool {
	return m.all || x.Anything && len(m.what) > 0 || slices.ContainsFunc(x.Would, func(t Target) bool { return m.what[t.Instance] || m.what[t.Dir] })
}

// between is what differs between two commits of the branch.
func (b *bases) between(ctx context.Context, before, after string) (moved, error) {
	m := moved{what: map[string]bool{}}
	if before == "" { // a plan of an earlier version, which didn't keep that
		m.all = true
		return m, nil
	}
	changes, settings, err := b.repo.Diff(ctx, before, after)
	switch invalid := new(desired.InvalidError); {
	case errors.As(err, &invalid):
		for _, p := range invalid.Problems {
			m.what[path.Dir(p.File)] = true
		}
	case errors.Is(err, desired.ErrNotFound): // the history was cut, or written anew
		m.all = true
		return m, nil
	case err != nil:
		return m, fmt.Errorf("what has moved since %.12s: %w", before, err)
	}
	m.all = settings
	for _, c := range changes {
		for _, rev := range []desired.Revision{c.Before, c.After} {
			m.what[rev.Instance], m.what[rev.Dir] = true, true
		}
	}
	delete(m.what, "")
	return m, nil
}

// look notes which plans head has left behind. Pull requests that were looked at last at the same commit, as
// all are but those that are new, take one comparison together.
func (b *bases) look(ctx context.Context, all map[int64]*pull, now time.Time) error {
	head := b.repo.Head()
	since := map[string]moved{}
	for _, x := range all {
		if x.Merged != "" || x.Commit == "" || x.unplanned() {
			continue
		}
		from := cmp.Or(x.seen, x.Base)
		if from == head {
			continue
		}
		m, known := since[from]
		if !known {
			var err error
			if m, err = b.between(ctx, from, head); err != nil {
				return err
			}
			since[from] = m
		}
		if x.seen = head; !m.touches(x) {
			continue
		}
		if x.movedAt = now; x.behind.IsZero() {
			x.behind = now
		}
	}
	return nil
}

// due are those of the pull requests that may be planned anew now.
func (b *bases) due(all map[int64]*pull, now time.Time) map[int64]bool {
	var list []*pull
	for _, x := range all {
		ripe := now.Sub(x.movedAt) >= quietFor || now.Sub(x.behind) >= atLatest
		if x.Merged == "" && !x.behind.IsZero() && !x.unplanned() && ripe && x.planning.due(now) {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(x, y *pull) int { return cmp.Or(x.behind.Compare(y.behind), cmp.Compare(x.Number, y.Number)) })
	due := map[int64]bool{}
	for _, x := range list {
		if !b.limit.AllowN(now, 1) {
			break
		}
		due[x.Number] = true
	}
	return due
}
