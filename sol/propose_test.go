package sol_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/store"
)

// branches are those that were pushed for operations.
type branches struct {
	of   map[string]desired.Revision
	away error
}

// Propose implements [sol.Proposals].
func (b branches) Propose(context.Context, string, desired.Write) (desired.Revision, error) {
	return desired.Revision{}, errors.New("nothing is proposed at a start")
}

// Proposed implements [sol.Proposals].
func (b branches) Proposed(_ context.Context, branch, _ string) (desired.Revision, error) {
	if b.away != nil {
		return desired.Revision{}, b.away
	}
	rev, ok := b.of[branch]
	if !ok {
		return rev, fmt.Errorf("%w: branch %s", desired.ErrNotFound, branch)
	}
	return rev, nil
}

func TestWhatARequestThatWasCutOffProposedIsToldByItsBranchAlone(t *testing.T) {
	for name, c := range map[string]struct {
		at   sol.Proposals
		want lcm.State
	}{
		"its branch was pushed":     {branches{of: map[string]desired.Revision{"jibe/op/op-1": {Commit: "c9", Tree: "t9"}}}, lcm.Starting},
		"its branch was not pushed": {branches{}, ""},
		"the forge is away":         {branches{away: desired.ErrUnavailable}, lcm.Prepared},
		"no forge is told any more": {nil, lcm.Prepared},
	} {
		e, repo, _ := onGit(t)
		id := e.instantiated()
		head, _ := repo.Lookup(id)
		if err := e.oplog.Prepare(t.Context(), lcm.Operation{ID: "op-1", Instance: id, Type: lcm.Scale, Before: head, Proposal: &lcm.Proposal{}}); err != nil {
			t.Fatal(err)
		}
		if _, err := sol.Recover(t.Context(), repo, c.at, nil, e.oplog, e.config.Log); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		op, err := e.oplog.Operation(t.Context(), "op-1")
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		state := lcm.State("")
		if err == nil {
			state = op.State
		} else if _, err := e.oplog.Prepared(t.Context(), "op-1"); err == nil {
			state = lcm.Prepared
		}
		if state != c.want {
			t.Errorf("%s: it is %q, want %q", name, state, c.want)
		}
		if state == lcm.Starting && op.After.Tree != "t9" {
			t.Errorf("%s: it is to bring about %+v", name, op.After)
		}
	}
}
