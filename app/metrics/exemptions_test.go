package metrics

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// headsAt is a desired repository at one commit, which counts how often it is passed over.
type headsAt struct {
	commit string
	heads  []desired.Head
	passes int
}

func (r *headsAt) Head() string { return r.commit }

func (r *headsAt) Heads(string) iter.Seq[desired.Head] {
	r.passes++
	return slices.Values(r.heads)
}

func TestAScrapePassesOverTheInstancesOnlyWhenHeadHasMoved(t *testing.T) {
	t.Parallel()

	head := func(id string, suspend bool, held string) desired.Head {
		return desired.Head{Revision: desired.Revision{Instance: id}, Suspend: suspend, Held: held}
	}
	repo := &headsAt{}
	e := newExemptions(repo)
	now := time.Unix(1000, 0)
	e.now = func() time.Time { return now }
	scrape := func(commit string, heads ...desired.Head) exempt {
		now = now.Add(time.Second)
		repo.commit, repo.heads = commit, heads
		return e.read()
	}
	for range 3 {
		got := scrape("c1", head("a", false, ""), head("b", true, ""), head("c", false, "op1"))
		if got.instances != 3 || got.suspended != 1 || len(got.held) != 1 || got.held["c"] != (exemption{"op1", time.Unix(1001, 0)}) {
			t.Fatalf("%+v", got)
		}
	}
	if repo.passes != 1 {
		t.Errorf("%d passes over a head that never moved", repo.passes)
	}
	if got := scrape("c2", head("a", false, ""), head("c", true, "op1")); got.instances != 2 || got.suspended != 1 || got.held["c"].seen != time.Unix(1001, 0) {
		t.Errorf("%+v: the same operation holds it still", got)
	}
	if got := scrape("c3", head("c", false, "op2")); got.held["c"] != (exemption{"op2", now}) {
		t.Errorf("%+v: another operation holds it now", got)
	}
	if got := scrape("c4", head("a", true, "")); got.suspended != 1 || len(got.held) != 0 {
		t.Errorf("%+v: an instance is gone", got)
	}
	now = now.Add(exemptAge)
	if scrape("c4", head("a", true, "")); repo.passes != 5 {
		t.Errorf("%d passes: what a person accepts makes no commit", repo.passes)
	}
}
