package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
)

// Looking at an instance at rest must not keep anyone waiting whose VIM answers.
const (
	// lookPatience is how long a look waits for a VIM whose cache isn't there yet.
	lookPatience = time.Second
	// awayPause is for how long nobody else looks then, and awayAgain after how long
	// this instance does if the VIM doesn't report that it is back.
	awayPause = 2 * time.Second
	awayAgain = 15 * time.Second
)

// repairPause is how long an automatic operation that failed rests before it is tried again
// for the first time; each attempt doubles it.
type repairPause time.Duration

// maxRepairPause bounds the pause between two tries of the same repair.
const maxRepairPause = 5 * time.Minute

// of is how long the automatic operation rests in FAILED_TEMP before its next attempt. A contended
// one rests for twice the time in which its repairs were undone, so that it sees whether this one is.
func (p repairPause) of(op *lcm.Operation) time.Duration {
	most := max(maxRepairPause, 2*op.Period)
	pause := max(time.Duration(p), 2*op.Period)
	for range max(op.Attempt, 1) - 1 {
		if pause *= 2; pause >= most {
			return most
		}
	}
	return pause
}

// lackPause bounds the pause while something that should be there is absent, although it is deleted again and again:
// a VNF that lacks a unit half of the time serves better than one that lacks it until the contention has ended.
const lackPause = 30 * time.Second

// lacks reports whether a step that is due makes an object, or the successor of a unit that never runs again.
func lacks(seen plan.Observed, due []plan.Step) bool {
	there := map[string]bool{}
	for _, o := range seen.Objects {
		there[o.Key] = !o.Deleting
	}
	return slices.ContainsFunc(due, func(s plan.Step) bool {
		return s.Action == plan.Apply && !there[s.Object] || s.Action == plan.DeleteUnit
	})
}

// driftRepair looks at one instance on which nothing is under way, notes what of it has
// drifted, and begins the operations that repair it. It never changes git. What is to be done is for [Next] to say.
type driftRepair struct {
	id       string
	log      *slog.Logger
	oplog    *oplog.Log
	repo     desired.Repo
	packages Packages
	resolver resolver
	identity vimIdentity
	problems headProblems
	drifts   *drifts
	away     *absences
	unseen   *unseenVIMs
	clocks   clocks
	pause    repairPause
	metrics  *Metrics
	checker  *Checker
	outside  *outside
	unlisted *unlisted
	inUse    *vimsInUse
	gate     gate
	// mayRun refuses an operation that needs hooks which may not run.
	mayRun func(ctx context.Context, t lcm.Type, automatic bool, before, after *desired.Instance) error
}

// judge holds what runs against the rules of its project.
func (r *driftRepair) judge(l sight, head desired.Revision) error {
	if l.want.Source.Package == nil {
		r.outside.clear(r.id)
		return nil
	}
	settings, err := r.repo.Settings()
	if err != nil {
		return err
	}
	r.outside.judge(r.checker, settings, head, l.drv, l.want, r.clocks.now())
	return nil
}

// sight is what a look at an instance at rest saw.
type sight struct {
	drv  drivers.Driver
	want drivers.Rendering
	seen plan.Observed
}

// look compares what git says with what the VIM's cache has. pause says when to
// look again where nothing can be seen now.
func (r *driftRepair) observe(ctx context.Context, inst *lcm.Instance) (l sight, pause time.Duration, err error) {
	err = r.resolver.ofInstance(r.id, inst.Operated, inst.Settled)
	var at *desired.Instance
	if err == nil {
		at, err = r.resolver.read(ctx, inst.Operated)
	}
	if refused := new(drivers.RefusedError); errors.As(err, &refused) {
		r.problems.stuck(ctx, inst.Operated, err)
		return l, r.lookLater(), r.quietly(ctx, err)
	}
	if err != nil {
		return l, 0, err
	}
	if !desired.MayHaveObjects(at) {
		r.inUse.clear(r.id)
		return l, r.missing(ctx, inst.Operated, at), nil
	}
	r.inUse.note(r.repo, at)
	drv, err := r.resolver.vims.driver(ctx, at)
	if err != nil {
		r.problems.stuck(ctx, inst.Operated, err)
		return l, r.lookLater(), r.quietly(ctx, err)
	}
	if left := r.away.left(drv, r.clocks.now()); left > 0 {
		return l, left + rand.N(awayAgain), nil
	}
	if l.want, l.drv, err = r.resolver.resolve(ctx, inst.Operated, inst.Settled); err != nil {
		r.problems.stuck(ctx, inst.Operated, err)
		return l, r.lookLater(), r.quietly(ctx, err)
	}
	l.want.Condemned = at.Condemned
	looking, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	l.seen, err = drv.Observe(looking, l.want)
	r.unlisted.note(r.id, inst.Operated.Dir, err, l.want.Source.Secrets, r.clocks.now())
	if _, alone := unlistedKind(err); alone {
		r.log.DebugContext(ctx, "instance at rest can't be looked at", "error", err)
		return l, r.lookLater(), nil // the VIM is there for all others
	}
	if errors.Is(err, drivers.ErrUnavailable) {
		r.away.mark(drv, r.clocks.now().Add(awayPause))
		r.unseen.mark(r.onlyVIM(at), hooks.Redact(sentence(err), l.want.Source.Secrets), r.clocks.now())
		return l, r.lookLater(), nil
	}
	r.away.mark(drv, time.Time{})
	r.unseen.seen(r.onlyVIM(at))
	return l, 0, err
}

// missing notes that no repository has a package for an instance that isn't to run yet.
// It returns after how long to look again, 0 where there is one.
func (r *driftRepair) missing(ctx context.Context, rev desired.Revision, at *desired.Instance) time.Duration {
	if at.Package != "" {
		return 0
	}
	if _, err := r.packages.Newest(at.VnfdID); err != nil {
		r.problems.stuck(ctx, rev, err)
		return r.lookLater()
	}
	return 0
}

// lookLater spreads the next looks at a VIM that is away.
func (r *driftRepair) lookLater() time.Duration { return awayAgain + rand.N(awayAgain) }

// quietly is nil for what doesn't pass by trying again: a VIM that git no longer
// names, a package that can't be rendered. It is tried again all the same, as
// seldom as a VIM that is away.
func (r *driftRepair) quietly(ctx context.Context, err error) error {
	var refused *drivers.RefusedError
	if errors.Is(err, drivers.ErrUnavailable) || errors.As(err, &refused) {
		r.log.DebugContext(ctx, "instance at rest can't be looked at", "error", err)
		return nil
	}
	return err
}

// drifting are the steps that would repair what differs while no operation is open, and
// waits for desired objects that somebody is deleting. An object that had done its work
// when the last operation completed may be tidied away.
func drifting(want plan.Desired, seen plan.Observed) []plan.Step {
	want.Objects = slices.DeleteFunc(slices.Clone(want.Objects), func(w plan.Object) bool {
		return w.Once && !slices.ContainsFunc(seen.Objects, func(x plan.ObservedObject) bool { return x.Key == w.Key })
	})
	leaving := make(map[string]bool)
	for _, x := range seen.Objects {
		if x.Deleting && slices.ContainsFunc(want.Objects, func(w plan.Object) bool { return w.Key == x.Key }) {
			leaving[x.Key] = true
		}
	}
	behind := make(map[string]bool) // doomed objects are deleted and then waited for
	return slices.DeleteFunc(plan.Compute(want, seen, plan.Journal{}), func(s plan.Step) bool {
		again := behind[s.Object]
		behind[s.Object] = true
		return again || s.Action == plan.Wait && !leaving[s.Object]
	})
}

// signature distinguishes one drift from another without asking the VIM.
func signature(seen plan.Observed, due []plan.Step) uint64 {
	h := fnv.New64a()
	for _, s := range due {
		fmt.Fprintln(h, s.Key())
		for _, x := range seen.Objects {
			if x.Key == s.Object {
				fmt.Fprintln(h, x.Incarnation, x.Digest, x.Count, x.Counts, x.Deleting, x.Dead, x.Stalled)
			}
		}
		for _, u := range seen.Units {
			if u.Key == s.Object {
				fmt.Fprintln(h, u.ID, u.Deleting, u.Dead, u.Outdated)
			}
		}
	}
	return h.Sum64()
}

// examine finds out what exactly differs, and notes it. It returns the steps that
// are still due: what differs in nothing that matters is not.
func (r *driftRepair) examine(ctx context.Context, l sight, due []plan.Step, head desired.Revision) ([]plan.Step, error) {
	found, err := l.drv.Examine(ctx, l.want, due...)
	if err != nil {
		return nil, fmt.Errorf("examine the drift: %w", err)
	}
	for i := range found {
		redact(&found[i], declared(l.want.Source.Package), l.want.Source.Secrets)
	}
	due = slices.DeleteFunc(due, func(s plan.Step) bool {
		return !slices.ContainsFunc(found, func(d drivers.Deviation) bool { return d.Object == s.Object })
	})
	if len(due) > 0 {
		r.drifts.note(Drift{Instance: r.id, Dir: head.Dir, Deviations: found, State: DriftRepairing}, signature(l.seen, due), r.clocks.now())
	}
	return due, nil
}

// begin begins the operation that repairs what is due, beside the one that waits where that isn't "".
func (r *driftRepair) begin(ctx context.Context, inst *lcm.Instance, waiting string, l sight, due []plan.Step) (*lcm.Operation, error) {
	cause := "drift: " + r.drifts.story(r.id)
	params, err := json.Marshal(map[string]string{"cause": cause})
	if err != nil {
		return nil, err
	}
	now := r.clocks.now()
	past, err := pastRepairsOf(ctx, r.oplog, r.id, now)
	if err != nil {
		return nil, fmt.Errorf("former repairs: %w", err)
	}

	contention := contentionOf(past, objects(due), now)
	op := lcm.Operation{
		ID: uuid.NewString(), Instance: r.id, Type: lcm.Heal, Automatic: true,
		Before: inst.Operated, After: inst.Operated, Params: params, UnitsBefore: live(l.seen), ResourcesBefore: inUse(l.seen),
		Repairs: objects(due), Contended: contention.contended, Period: contention.period,
	}
	var born *lcm.Operation
	if waiting != "" {
		born, err = r.oplog.Tend(ctx, op, waiting)
	} else {
		born, err = r.oplog.Born(ctx, op)
	}
	if err != nil {
		return nil, err
	}

	r.log.InfoContext(ctx, "drift is put right", "operation", born.ID, "cause", cause, "fight", born.Contended)
	for _, key := range objects(due) {
		r.metrics.Repaired(plan.KindOf(key))
	}

	return born, nil
}

// freedPause is the least time between two questions whether a repair would be refused
// now.
const freedPause = time.Second

// freed says whether the VIM would take a repair again that it refused a moment ago: it is
// asked without changing anything when something has moved. Only an obstacle that was met in
// this very pause can be seen to end: what fails although the VIM would take it, and what
// somebody undoes, waits as ever. look is when to ask again, if that is known; 0 is when
// something moves.
func (r *driftRepair) freed(ctx context.Context, failed *lcm.Operation, l sight, due []plan.Step) (freed bool, look time.Duration) {
	due = slices.DeleteFunc(slices.Clone(due), func(s plan.Step) bool { return s.Action != plan.Apply && s.Action != plan.Scale })
	if failed.Contended || len(due) == 0 {
		return false, 0
	}
	stands := r.clocks.now().Sub(r.clocks.rests(failed))
	was, asked := r.clocks.refusedBefore(failed)
	if left := asked.Add(freedPause).Sub(r.clocks.now()); left > 0 {
		return false, left
	}
	err := l.drv.Verify(ctx, l.want, due...)
	var refused *drivers.RefusedError
	r.clocks.asked(failed, err != nil && !(errors.As(err, &refused) && refused.MayPass)) // what is refused now and then hasn't gone
	if errors.Is(err, drivers.ErrUnavailable) {
		return false, max(freedPause, stands/2) // it passes without a word (a namespace that is being terminated)
	}
	return err == nil && was, 0
}

func objects(steps []plan.Step) []string {
	keys := make([]string, 0, len(steps))
	for _, s := range steps {
		keys = append(keys, s.Object)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
