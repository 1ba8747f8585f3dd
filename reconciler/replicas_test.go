package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func TestReplicasShareTheFleetAndTakeOverFromOneThatWasKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, two := f.start(nil), f.start(nil)
	kit.Until(t, "they know each other", func() bool { return len(one.member.Living()) == 2 && len(two.member.Living()) == 2 })
	ids := instances(12)
	for _, id := range ids {
		f.want(id, "", one, two)
	}
	f.settled(ids)
	f.puts.mu.Lock()
	did := map[string]int{}
	for op, by := range f.puts.by {
		if len(by) != 1 {
			t.Errorf("operation %s was done by %v", op, by)
		}
		did[by[0]]++
	}
	if len(f.puts.by) != len(ids) || len(did) != 2 {
		t.Errorf("%d operations on %d instances, done by %v", len(f.puts.by), len(ids), did)
	}
	f.puts.mu.Unlock()

	two.kill()
	for n, id := range ids {
		f.want(id, fmt.Sprintf("levels: {web: %d}\n", 1+n%2), one)
	}
	f.settled(ids)
	f.inOrder()
	if n := f.log.Counts().Operations; n != 2*len(ids) {
		t.Errorf("%d operations, want one instantiation and one scaling of each of %d instances", n, len(ids))
	}
}

func TestAnInstanceIsHandedOverToOneThatJoinsAndBackFromOneThatLeaves(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.start(nil)
	ids := instances(12)
	for _, id := range ids {
		f.want(id, "", one)
	}
	f.settled(ids)
	two := f.start(nil)
	mine := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !two.member.Mine(id) })
	kit.Until(t, "what is dealt to it is its own", func() bool {
		for _, id := range mine {
			if _, err := f.puts.Attach(t.Context(), "instance/"+id, two.member.Session().Lease()); err != nil {
				return false
			}
		}
		return len(one.member.Living()) == 2
	})
	for _, id := range ids {
		f.want(id, "levels: {web: 1}\n", one, two)
	}
	f.settled(ids)
	f.inOrder()
}

// blocked is a package's program that runs until it is let go, at one replica, and ends at once at others.
type blocked struct {
	runs chan struct{}
	free chan struct{}
}

func (b *blocked) Run(ctx context.Context, c hooks.Call) (hooks.Output, error) {
	if err := c.Started(hooks.Process{PID: 1 << 30, Start: 7, Boot: "none"}); err != nil {
		return hooks.Output{}, err
	}
	select {
	case b.runs <- struct{}{}:
	default:
	}
	select {
	case <-b.free:
		return hooks.Output{Message: "of a sleeper"}, nil
	case <-ctx.Done():
		return hooks.Output{}, ctx.Err()
	}
}

func TestASleeperIsFencedAndItsHookRunsAgainElsewhere(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFleet(t)
	sleeps := &blocked{runs: make(chan struct{}, 1), free: make(chan struct{})}
	with := func(h reconciler.HookRunner) func(*reconciler.Config) {
		return func(c *reconciler.Config) { c.Packages, c.Hooks = scripted{}, h }
	}
	one := f.start(with(sleeps))
	f.want(id, "", one)
	f.settled([]string{id})
	f.want(id, "levels: {web: 1}\n", one)
	<-sleeps.runs
	again := &stage{}
	two := f.start(with(again))
	kit.Until(t, "they know each other", func() bool { return len(one.member.Living()) == 2 })
	one.recon.Enqueue(id)
	two.recon.Enqueue(id)
	if told := again.told(); len(told) > 0 {
		t.Errorf("%v ran at another replica while its own lives", told)
	}

	one.stop()
	f.clock.hurry() // so that its session ends
	f.settled([]string{id})
	if told := again.told(); len(told) == 0 || told[0] != "scale_start again" {
		t.Errorf("the one that took over ran %v", told)
	}
	two.recon.Enqueue(id)
	// The sleeper still takes itself for the owner: its clock says that no time has passed.
	close(sleeps.free)
	kit.Until(t, "what it writes is refused", func() bool {
		f.puts.mu.Lock()
		defer f.puts.mu.Unlock()
		return f.puts.fenced[one.member.Holder()] > 0
	})
	ops, err := f.log.Operations(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	one.wake()
	f.want(id, "levels: {web: 2}\n", one, two)
	f.settled([]string{id})
	f.inOrder()
	for _, op := range ops { // a later one may be the former sleeper's with good reason
		if op, err = f.log.Operation(t.Context(), op.ID); err != nil {
			t.Fatal(err)
		}
		for _, line := range op.Story {
			if strings.Contains(line.Text, "of a sleeper") {
				t.Errorf("operation %s tells what the sleeper wrote: %s", op.ID, line.Text)
			}
		}
	}
}

// scripted is the shelf with a management driver for scaling.
type scripted struct{ shelf }

// Open returns the shelf's package with the hook.
func (s scripted) Open(ctx context.Context, tree string) (*vnfd.Package, error) {
	pkg, err := s.shelf.Open(ctx, tree)
	if err == nil {
		pkg.Files = fstest.MapFS{"Scripts/new.sh": {Data: []byte("#!/bin/sh\n")}}
		pkg.VNFD.Flavours[0].Hooks = map[string]string{"scale_start": "Scripts/new.sh"}
	}
	return pkg, err
}

func TestWhatReplicasWriteStaysInOrderHoweverTheyAreStopped(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	const seed = 40
	rnd := rand.New(rand.NewPCG(seed, seed))
	f := newFleet(t)
	f.clock.hurry()
	all := []*replica{f.start(nil), f.start(nil), f.start(nil)}
	ids := instances(6)
	for _, id := range ids {
		f.want(id, "", all...)
	}
	for range 40 {
		switch r := all[rnd.IntN(len(all))]; rnd.IntN(4) {
		case 0:
			r.wake()
			r.stop()
		case 1:
			r.wake()
		default:
			f.want(ids[rnd.IntN(len(ids))], fmt.Sprintf("levels: {web: %d}\n", rnd.IntN(4)), all...)
		}
		kit.Pause(t.Context(), time.Duration(rnd.IntN(400))*time.Millisecond)
	}
	for _, r := range all {
		r.wake()
	}
	kit.Until(t, "all are back", func() bool {
		return !slices.ContainsFunc(all, func(r *replica) bool { return r.member.Session() == nil || len(r.member.Living()) < 3 })
	})
	for _, id := range ids {
		f.want(id, "levels: {web: 5}\n", all...)
	}
	f.settled(ids)
	f.inOrder()
}

func TestARequestThatWasOnlyPreparedIsResolvedOnceItsMemberIsGone(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var mu sync.Mutex
	var resolved []string
	resolve := func(c *reconciler.Config) {
		c.Resolve = func(ctx context.Context, op *lcm.Operation) error {
			mu.Lock()
			resolved = append(resolved, op.ID)
			mu.Unlock()
			return f.log.Abandon(ctx, op.ID)
		}
	}
	one := f.start(resolve)
	f.want(id, "", one)
	f.settled([]string{id})
	two := f.start(resolve)
	theirs, err := oplog.Open(t.Context(), f.puts, time.Now, oplog.WithMember(two.member.Holder()))
	if err != nil {
		t.Fatal(err)
	}
	head, _ := f.repo.Lookup(id)
	if err := theirs.Prepare(t.Context(), lcm.Operation{ID: "asked", Instance: id, Type: lcm.Scale, Before: head}); err != nil {
		t.Fatal(err)
	}
	// What one process has of another's write is not what this test is about.
	if f.log, err = oplog.Open(t.Context(), f.puts, time.Now); err != nil {
		t.Fatal(err)
	}
	three := f.start(resolve)
	kit.Until(t, "they know each other", func() bool { return len(three.member.Living()) == 3 })
	one.kill()
	kit.Until(t, "one of them is gone", func() bool { return len(three.member.Living()) == 2 })
	mu.Lock()
	if len(resolved) > 0 {
		t.Errorf("%v was resolved while its member lives", resolved)
	}
	mu.Unlock()
	two.kill()
	kit.Until(t, "it is resolved", func() bool {
		mu.Lock()
		defer mu.Unlock()
		inst, err := f.log.Instance(t.Context(), id)
		return err == nil && inst.Prepared == "" && len(resolved) > 0
	})
}

func TestARequestWhoseRecordIsLostAfterItsCommitBeginsUnderItsID(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one := f.start(nil)
	f.want(id, "", one)
	f.settled([]string{id})
	asked := uuid.NewString()
	rev, err := f.repo.Write(t.Context(), desired.Write{
		Instance: id, Dir: "instances/" + id, Subject: "SCALE", By: "Bob <bob@example.com>",
		Trailers: []desired.Trailer{
			{Key: desired.TrailerOperation, Value: asked}, {Key: desired.TrailerType, Value: string(lcm.Scale)},
			{Key: desired.TrailerRequestedBy, Value: "bob"}, {Key: desired.TrailerParams, Value: `{"type":"SCALE_OUT"}`},
		},
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			return desired.Files{desired.InstanceFile: []byte(file("instantiated", "levels: {web: 1}\n"))}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	one.recon.Moved(id)
	f.settled([]string{id})
	op, err := f.log.Operation(t.Context(), asked)
	if err != nil || op.State != lcm.Completed || op.RequestedBy != "bob" || string(op.Params) != `{"type":"SCALE_OUT"}` || op.After.Commit != rev.Commit {
		t.Errorf("the operation of the request: %+v, %v", op, err)
	}
	if op, err := f.log.Operation(t.Context(), lcm.OperationID(rev.Commit, id)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the commit has another operation: %+v, %v", op, err)
	}
}

// attested is a repository that takes down which operations git is to keep, and in which state.
type attested struct {
	desired.Repo
	mu    sync.Mutex
	lines []string
}

func (a *attested) Attest(_, line string, _ []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, line)
}

func (a *attested) has(words string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.lines, func(line string) bool { return strings.Contains(line, words) })
}

func TestWhoeverTakesAnInstanceOverAttestsItsLatestOperationsAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dies := &attested{Repo: f.repo} // its notes go with it
	one := f.start(func(c *reconciler.Config) { c.Repo = dies })
	f.want(id, "", one)
	f.settled([]string{id})
	one.kill()

	takes := &attested{Repo: f.repo}
	log, err := oplog.Open(t.Context(), f.puts, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	f.start(func(c *reconciler.Config) { c.Repo, c.Oplog = takes, log })
	kit.Until(t, "the instantiation is attested by the other one", func() bool { return takes.has("INSTANTIATE COMPLETED") })
}
