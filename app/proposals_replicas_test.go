package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// proposingReplicas are replicas whose requests are proposed on a forge, and instances of theirs that run.
type proposingReplicas struct {
	*together
	api  *pullAPI
	list []*process.Server
	ids  []string
	ops  map[string]string // of instances, what was asked for last
}

// newProposingReplicas starts them, and has one scale-out of each instance be proposed.
func newProposingReplicas(t *testing.T, n, instances int, change func(*app.Options)) *proposingReplicas {
	t.Helper()
	p := &proposingReplicas{api: &pullAPI{t: t, notes: map[int][]string{}}, ops: map[string]string{}}
	forge := forgeOf(t, p.api)
	p.together, p.list = newReplicasWith(t, n, func(o *app.Options) {
		o.Forge = forge
		if change != nil {
			change(o)
		}
	})
	p.api.dir = p.remote
	p.members(p.list[n-1], n)
	p.ids = p.create(p.list[0], instances)
	p.work.Write("projects/default.yaml", "write: pull-request\n")
	p.work.Push("Propose requests")
	p.poke(p.list[0])
	kit.Eventually(t, func() error {
		for _, s := range p.list {
			a, err := s.Do(t.Context(), http.MethodGet, "/jibe/v1/projects", nil)
			if err != nil || !strings.Contains(string(a.Body), "pullRequest") {
				return fmt.Errorf("the project isn't known yet: %w, %s", err, a.Body)
			}
		}
		return nil
	})
	for n, id := range p.ids { // some are asked of whom the instance isn't dealt to
		p.ops[id] = p.scale(p.list[n%len(p.list)], id)
	}
	for _, id := range p.ids {
		waitsFor(t, p.list[n-1], id, "the merge of pull request")
	}
	return p
}

// gone waits until no branch is left of what was proposed.
func (p *proposingReplicas) gone() {
	p.Helper()
	for _, op := range p.ops {
		kit.Eventually(p.T, func() error {
			if at := p.api.at(branchOf(op)); at != "" {
				return fmt.Errorf("branch %s is left", branchOf(op))
			}
			return nil
		})
	}
}

func TestAReplicaCarriesOnWhatAnotherHasProposed(t *testing.T) {
	testenv.Chaos(t, "Redis")
	t.Parallel()

	p := newProposingReplicas(t, 2, 6, nil)
	p.stop[0]()
	p.members(p.list[1], 1)
	for _, id := range p.ids {
		pr := p.api.of(branchOf(p.ops[id]))
		if !pr.open {
			t.Errorf("operation %s has the pull request %+v", p.ops[id], pr)
		}
		p.api.merge(p.work, pr, "merge", nil)
	}
	p.poke(p.list[1])
	for _, id := range p.ids {
		p.list[1].Await(t, p.ops[id], "COMPLETED")
		p.runs(p.list[1], id, 2)
	}
	p.gone()
}

func TestAClosedPullRequestThatOneReplicaIsToldOfEndsTheOperationsOfTheOthers(t *testing.T) {
	// Nobody looks by himself: what isn't told isn't known.
	p := newProposingReplicas(t, 3, 6, func(o *app.Options) { o.Poll = time.Hour })
	least := p.list[0] // of whose instances there are the fewest
	of := map[*process.Server]int{}
	for _, s := range p.list {
		for _, m := range p.members(s, 3) {
			if m.Self {
				of[s] = m.Instances
			}
		}
		if of[s] < of[least] {
			least = s
		}
	}
	if of[least] == len(p.ids) {
		t.Fatalf("all instances are dealt to one: %v", of)
	}
	for _, id := range p.ids {
		p.api.became(p.api.of(branchOf(p.ops[id])).number, "")
	}
	p.poke(least)
	for _, id := range p.ids {
		if op := least.Await(t, p.ops[id], "ROLLED_BACK"); !strings.Contains(op.Error.Detail, "was closed without being merged") {
			t.Errorf("operation %s was rolled back, as %q", p.ops[id], op.Error.Detail)
		}
	}
	p.gone()
}
