package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
)

// What an operation waits for begins with one of these, in its record.
const (
	waitsForNeeded = "what it needs: "
	waitsForNeedy  = "the end of those that need it: "
)

// neededAgain is after how long an operation that waits for other instances looks at them at the latest. It is
// woken when one of them changes; this is for what nobody tells of.
const neededAgain = 15 * time.Second

// mostNamed bounds how many instances the record of an operation names that it waits for.
const mostNamed = 4

// needing finds out what an operation has to wait for because instances need each other. It asks VIMs through
// their caches alone, and changes nothing.
type needing struct {
	repo       desired.Repo
	oplog      *oplog.Log
	resolver   resolver
	dependents *dependents
	// proposed are directories as somebody considers to have them, for a preview; nil is one that would go.
	proposed map[string]*desired.Instance
}

// waitsForOthers says in which way operations of a type wait for other instances: for those that the instance
// needs, and for those that need it. Repairs, heals, scaling and whatever leaves what runs as it is
// wait for nobody. before and after may be nil.
func waitsForOthers(t lcm.Type, before, after *desired.Instance) (needed, needy bool) {
	switch t {
	case lcm.Instantiate, lcm.ChangePackage, lcm.ChangeFlavour:
		return true, false
	case lcm.Operate:
		return after != nil && after.State == desired.Instantiated, false
	case lcm.ModifyInfo: // a container update is one
		return before != nil && after != nil && len(after.Overlays) > len(before.Overlays), false
	case lcm.Terminate:
		return false, true
	}
	return false, false
}

// needed says what keeps the instance in a directory from beginning that has these needs, "" where nothing does.
func (x needing) needed(ctx context.Context, dir string, needs []desired.Need) (string, error) {
	if len(needs) == 0 {
		return "", nil
	}
	settings, err := x.repo.Settings()
	if err != nil {
		return "", err
	}
	project := settings.ProjectNameOf(dir)
	var all []string
	for _, n := range needs {
		if settings.ProjectNameOf(n.Instance) != project { // folders have changed hands since
			all = append(all, n.Instance+", which is another project's")
			continue
		}
		why, err := x.lacking(ctx, n)
		if err != nil {
			return "", fmt.Errorf("instance %s, which is needed: %w", n.Instance, err)
		}
		if why != "" {
			all = append(all, n.Instance+", "+why)
		}
	}
	return named(waitsForNeeded, all), nil
}

// lacking says why a need isn't met, "" where it is.
func (x needing) lacking(ctx context.Context, n desired.Need) (string, error) {
	head, there := x.repo.InDir(n.Instance)
	shall := head.State
	if in, changes := x.proposed[n.Instance]; changes {
		if there = in != nil; there {
			shall = in.State
		}
	}
	if !there {
		return "which isn't in git", nil
	}
	record, known := x.oplog.InstanceEntry(head.Instance)
	if !known {
		record = &oplog.InstanceEntry{}
	}
	runs, err := x.resolver.read(ctx, record.Settled)
	if err != nil {
		return "", err
	}
	switch {
	case !desired.IsInstantiated(shall):
		return "which git doesn't ask to be instantiated", nil
	case shall == desired.Stopped:
		return "which is stopped", nil
	}
	if record.Open != "" {
		op, err := x.oplog.Operation(ctx, record.Open)
		switch {
		case err != nil:
			return "", err
		case op.State == lcm.FailedTemp && !op.Automatic:
			return fmt.Sprintf("whose %s failed and waits for a person", op.Type), nil
		case !op.State.Ended() && !op.Automatic: // of a repair, what runs tells
			return fmt.Sprintf("whose %s is under way", op.Type), nil
		}
	}
	switch {
	case runs == nil || !desired.IsInstantiated(runs.State):
		return "which isn't instantiated", nil
	case runs.State == desired.Stopped:
		return "which is stopped", nil
	case record.LastState == lcm.Failed:
		return "whose last operation failed", nil
	}
	pkg, err := x.resolver.packageOf(ctx, runs)
	if err != nil {
		return "", err
	}
	if pkg != nil && !n.Satisfied(pkg.VNFD.Version) {
		return fmt.Sprintf("which runs version %s and not %s", pkg.VNFD.Version, n.Version), nil
	}
	return x.unready(ctx, record.Settled)
}

// unready says what of an instance doesn't run as it should, "" where all does.
func (x needing) unready(ctx context.Context, at desired.Revision) (string, error) {
	want, drv, err := x.resolver.resolve(ctx, at, at)
	if err == nil {
		var seen plan.Observed
		looking, cancel := context.WithTimeout(ctx, lookPatience)
		defer cancel()
		if seen, err = drv.Observe(looking, want); err == nil {
			if waits := plan.Unready(want.Desired, seen); len(waits) > 0 {
				return "of which not all runs: " + waits[0].Object, nil
			}
			return "", nil
		}
	}
	if _, _, refused := Refused(err); refused || errors.Is(err, drivers.ErrUnavailable) {
		return "which can't be looked at now", nil
	}
	return "", err
}

// needy says which instances must have ended before the one in a directory ends, and their ids, "" where none
// must.
func (x needing) needy(ctx context.Context, id, dir string) (what string, ids []string, err error) {
	all, err := x.dependents.needing(ctx, dir)
	if err != nil {
		return "", nil, err
	}
	settings, err := x.repo.Settings()
	if err != nil {
		return "", nil, err
	}
	var stand []string
	for _, other := range all {
		if other == id {
			continue
		}
		record, known := x.oplog.InstanceEntry(other)
		if !known {
			continue
		}
		ids = append(ids, other)
		head, exists := x.repo.LookupHead(other)
		if !exists {
			head.Revision = record.Settled
		}
		if settings.ProjectNameOf(head.Dir) != settings.ProjectNameOf(dir) {
			continue // who may change one project rules over no other
		}
		stays := exists && desired.IsInstantiated(head.State)
		if in, changes := x.proposed[head.Dir]; changes {
			if in != nil && !desired.NeedsInstance(in.Needs, dir) {
				continue
			}
			stays = in != nil && desired.IsInstantiated(in.State)
		}
		there, err := x.stands(ctx, record)
		switch {
		case err != nil:
			return "", nil, fmt.Errorf("instance %s, which needs %s: %w", other, dir, err)
		case there && stays:
			stand = append(stand, head.Dir+", which nobody has asked to end")
		case there:
			stand = append(stand, head.Dir)
		}
	}
	return named(waitsForNeedy, stand), ids, nil
}

// stands says whether anything of an instance runs, or is about to. One that only waits for what it needs hasn't
// begun.
func (x needing) stands(ctx context.Context, record *oplog.InstanceEntry) (bool, error) {
	settled, err := x.resolver.read(ctx, record.Settled)
	if err != nil || settled != nil && desired.IsInstantiated(settled.State) {
		return err == nil, err
	}
	if record.Open == "" {
		return false, nil
	}
	op, err := x.oplog.Operation(ctx, record.Open)
	if err != nil {
		return false, err
	}
	return !op.State.Ended() && !(op.State == lcm.Starting && waitsForInstances(op)), nil
}

// waitsForInstances says whether an operation waits for other instances, as its record has it.
func waitsForInstances(op *lcm.Operation) bool {
	w, waits := op.Waiting()
	return waits && (strings.HasPrefix(w.For, waitsForNeeded) || strings.HasPrefix(w.For, waitsForNeedy))
}

// named is what is waited for, in one line; "" where that is nothing.
func named(what string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	more := ""
	if n := len(list) - mostNamed; n > 0 {
		list, more = list[:mostNamed], fmt.Sprintf("; and %d more", n)
	}
	return what + strings.Join(list, "; ") + more
}

// needsGate finds what the operation of one instance has to wait for before anything of it begins: until what the
// instance needs is there and ready, or until those have gone that need it. The record names what is waited
// for, and no deadline counts meanwhile. It changes no VIM.
type needsGate struct {
	id      string
	log     *slog.Logger
	needing needing
	awaited *awaited
	clocks  clocks
}

// endCare ends a repair under way, as the operation goes on.
func (g *needsGate) endCare(ctx context.Context) error {
	if err := g.needing.oplog.EndCare(ctx, g.id); err != nil {
		return fmt.Errorf("end the repair of instance %s, as its operation goes on: %w", g.id, err)
	}

	return nil
}

// begun says whether anything of the attempt may have been done.
func begun(op *lcm.Operation) bool {
	return op.Attempt > 1 || op.Rebuilt || op.Journal.Touched || len(op.Journal.Issued) > 0 || len(op.Journal.Hooks) > 0
}

// ask says what the operation has to wait for, "" where that is nothing. What it asks about wakes the
// instance from then on, so that nothing that changes meanwhile is missed.
func (g *needsGate) ask(ctx context.Context, op *lcm.Operation) (string, error) {
	x := g.needing
	before, err := x.resolver.read(ctx, op.Before)
	if err != nil {
		return "", err
	}
	after, err := x.resolver.read(ctx, op.After)
	if err != nil {
		return "", err
	}
	needed, needy := waitsForOthers(op.Type, before, after)
	head, exists := x.repo.LookupHead(g.id)
	needs := head.Needs // those of git's head, so that a wrong one can be put right
	if !exists && after != nil {
		needs = after.Needs
	}
	switch {
	case needed && len(needs) > 0:
		var keys []string
		for _, n := range needs {
			keys = append(keys, n.Instance)
			if other, ok := x.repo.InDir(n.Instance); ok {
				keys = append(keys, other.Instance)
			}
		}
		g.awaited.wakenBy(g.id, keys)
		return x.needed(ctx, op.After.Dir, needs)
	case needy:
		dir := op.Before.Dir
		if exists {
			dir = head.Dir
		}
		_, ids, err := x.needy(ctx, g.id, dir)
		if err != nil || len(ids) == 0 {
			return "", err
		}
		g.awaited.wakenBy(g.id, ids)
		what, _, err := x.needy(ctx, g.id, dir)
		return what, err
	}
	return "", nil
}

// tell adds to the operation's story, unless it was cancelled meanwhile.
func (g *needsGate) tell(ctx context.Context, op *lcm.Operation, add func(*lcm.Operation)) (*lcm.Operation, error) {
	was := op.State
	op, err := g.needing.oplog.Record(ctx, op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		if op.State == was {
			add(op)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("record what an operation of instance %s waits for: %w", g.id, err)
	}
	return op, nil
}

func (r *Reconciler) needing() needing {
	return needing{repo: r.Repo, oplog: r.Oplog, resolver: r.resolver, dependents: r.dependents}
}

// WaitsFor says which other instances an operation of a type that leads from before to after would wait for,
// "" for none. id and dir are the instance's.
func (v *View) WaitsFor(ctx context.Context, id, dir string, t lcm.Type, before, after *desired.Instance) (string, error) {
	needed, needy := waitsForOthers(t, before, after)
	x := v.r.needing()
	if v.checker.needs != nil {
		x.proposed = v.checker.needs.proposed
	}
	switch {
	case needed:
		return x.needed(ctx, dir, after.Needs)
	case needy:
		what, _, err := x.needy(ctx, id, dir)
		return what, err
	}
	return "", nil
}

// wake has those instances looked at whose operations wait for one of which something has changed.
func (r *Reconciler) wake(instance string) {
	if !r.awaited.any() {
		return
	}
	keys := []string{instance}
	if head, ok := r.Repo.Lookup(instance); ok {
		keys = append(keys, head.Dir)
	}
	for _, other := range r.awaited.waiting(keys...) {
		if other != instance {
			r.line.add(other, atWork)
		}
	}
}

// stirred is for an instance of which something has moved at its VIM. While an operation of it is under
// way, its end is what others wait for.
func (r *Reconciler) stirred(instance string) {
	r.line.moved(instance)
	switch e, ok := r.Oplog.InstanceEntry(instance); {
	case !ok:
		r.orphans.moved(instance) // nothing should be there
	case e.Open == "":
		r.wake(instance)
	}
}

// operationMoved wakes those that wait for what an operation has brought about, or for its end.
func (r *Reconciler) operationMoved(op *lcm.Operation) {
	if op.State.Ended() || op.State == lcm.Starting {
		r.wake(op.Instance)
	}
}

// sortedKeys are the keys of a set.
func sortedKeys(set map[string]struct{}) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
