package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// pass is one look at one instance, from reading git to handing steps to the
// driver. Whatever interrupts it, the next pass begins from facts.
type pass struct {
	*Reconciler
	id  string
	log *slog.Logger
	// heldBack says that head isn't obeyed, and that what was operated on last stands.
	heldBack bool
}

// headAgain is after how long a head that isn't obeyed is held against the rules again.
const headAgain = 15 * time.Second

// preparedPause is how long to leave an instance to the API request whose
// commit is under way, should the request never say how it ended.
const preparedPause = time.Second

// staleBatches bounds the batches of one pass; a plan that still has something
// to do then is looked at again after a pause, as the cache may be behind.
const (
	staleBatches = 16
	stalePause   = 200 * time.Millisecond
)

// run makes the pass and returns after how long to look again (0: when
// something moves).
func (p *pass) run(ctx context.Context) (time.Duration, error) {
	inst, err := p.Log.Instance(ctx, p.id)
	if err != nil {
		return 0, fmt.Errorf("record of instance %s: %w", p.id, err)
	}
	if inst.Prepared != "" {
		return preparedPause, nil
	}
	if inst.Owed != "" {
		if err := p.payDebt(ctx, inst); err != nil {
			p.owing(inst, err)
			return 0, err
		}
		p.obeyed()
		if inst, err = p.Log.Instance(ctx, p.id); err != nil {
			return 0, err
		}
	}
	var op *lcm.Operation
	if inst.Open != "" {
		if op, err = p.Log.Operation(ctx, inst.Open); err != nil {
			return 0, fmt.Errorf("operation %s: %w", inst.Open, err)
		}
	}
	if op == nil || op.State == lcm.FailedTemp {
		if op, err = p.intent(ctx, inst, op); err != nil {
			return 0, err
		}
		if op == nil || op.State == lcm.FailedTemp {
			again, err := p.rest(ctx, op)
			if p.heldBack && (again == 0 || again > headAgain) {
				again = headAgain
			}
			return again, err
		}
	}
	if !op.Automatic {
		p.drifts.clear(p.id)
	}
	if p.suspended(ctx) {
		return 0, nil // its end is a commit, which brings the instance back here
	}
	return p.operate(ctx, op)
}

// suspended says whether a person has stopped everything for the instance. The
// clock of the operation under way stands still meanwhile.
func (p *pass) suspended(ctx context.Context) bool {
	head, exists := p.Repo.Lookup(p.id)
	if !exists {
		return false
	}
	now, err := p.read(ctx, head)
	if err != nil || !now.Suspend {
		return false // what can't be read is not obeyed; the operation has a tree of its own
	}
	p.halt()
	return true
}

// attempt is the state of an operation while a pass works on it.
type attempt struct {
	op *lcm.Operation
	// hooks has the package whose hooks take part, also where nothing shall run any more
	// and want has none. skipsHooks says that they are left out, and skipped what has to be
	// recorded of that.
	hooks      hooks.Side
	skipsHooks bool
	skipped    []string
	drv        drivers.Driver
	want       drivers.Rendering
	seen       plan.Observed
	// journal runs ahead of the record by what needs no record of its own.
	journal plan.Journal
	// last is the batch that was started last.
	last []plan.Step
	// stale says that want was made of other params than those that count by now.
	stale bool
	// fight says that somebody undoes what is done.
	fight bool
	// drain is how long connections get after traffic was led elsewhere, or before a
	// graceful termination.
	drain time.Duration
}

// operate carries an open operation on until nothing is left but waiting.
func (p *pass) operate(ctx context.Context, op *lcm.Operation) (time.Duration, error) {
	log := p.log.With("operation", op.ID, "revision", op.After.Commit)
	a, err := p.begin(ctx, op)
	if err != nil {
		return 0, p.blind(ctx, &attempt{op: op, journal: op.Journal}, err)
	}
	if record, err := p.Log.Instance(ctx, p.id); err != nil {
		return 0, fmt.Errorf("record of instance %s: %w", p.id, err)
	} else if err := p.home(ctx, record, a.want.Source.Instance); err != nil {
		return 0, p.blind(ctx, a, err)
	}
	for range staleBatches {
		if a.seen, err = a.drv.Observe(ctx, a.want); err != nil {
			return 0, p.blind(ctx, a, err)
		}
		p.resume()
		if a.op.Automatic {
			// A repair isn't the heal that a spent tombstone once asked for: it must not
			// run again the Job that this took down.
			a.want.Condemned = a.seen.Unspent(a.want.Condemned)
		}
		if a.op.State == lcm.Starting {
			a.journal = a.journal.Aim(a.want.Desired, a.seen)
		}
		steps := plan.Compute(a.want.Desired, a.seen, a.journal)
		if len(steps) > 0 && steps[0].Action == plan.Grant {
			if steps, err = p.grant(ctx, a, steps); err != nil {
				return 0, p.giveUp(ctx, a, err)
			}
			if steps == nil {
				return 0, nil // refused, and recorded so
			}
		}
		steps, ready, again, err := p.unobservable(ctx, a, steps)
		if err != nil || !ready {
			return again, err
		}
		if len(steps) == 0 {
			return 0, p.converged(ctx, a)
		}
		if a.op.Type == lcm.ModifyInfo && len(a.op.Journal.Issued) == 0 {
			if err := p.admit(ctx, a, steps); err != nil {
				return 0, p.giveUp(ctx, a, err)
			}
		}
		batch := plan.Next(steps)
		waiting := !slices.ContainsFunc(batch, func(s plan.Step) bool { return s.Action != plan.Wait })
		if done, err := p.cancelled(ctx, a, waiting); done || err != nil {
			return 0, err
		}
		if waiting {
			return p.wait(ctx, a, batch)
		}
		if p.timeLeft(a.op) <= 0 {
			return 0, p.broke(ctx, a, p.overdue(a.op, batch, nil))
		}
		fresh, err := p.issue(ctx, a, batch)
		if err != nil {
			return 0, err
		}
		a.last = batch
		switch times, wait := p.pace(fresh); {
		case wait > 0:
			return wait, nil
		case a.fight && times > 0, a.op.Automatic && times > patientRepeats:
			a.fight = true
			return 0, p.broke(ctx, a, p.fought(a))
		}
		log.InfoContext(ctx, "steps started", "steps", describe(batch))
		err = a.drv.Do(ctx, a.want, batch...)
		p.begun(err == nil)
		if err != nil {
			return 0, p.giveUp(ctx, a, err)
		}
	}
	return stalePause, nil
}

// begin finds what the operation should bring about and who can do it.
func (p *pass) begin(ctx context.Context, op *lcm.Operation) (*attempt, error) {
	target, other := op.After, op.Before
	if op.State == lcm.RollingBack {
		target, other = other, target
	}
	a := &attempt{op: op, journal: op.Journal, fight: op.Fight}
	a.journal.Known = op.UnitsBefore
	a.journal.Operation = string(op.Type)
	a.journal.Rollback = op.State == lcm.RollingBack
	if op.Type == lcm.ModifyInfo || op.State != lcm.Starting {
		a.journal.Granted = true
	}
	var err error
	if a.want, a.drv, err = p.resolve(ctx, target, other); err != nil {
		return nil, err
	}
	if err := p.takeHooks(ctx, a); err != nil {
		return nil, err
	}
	if err := p.takeParams(a); err != nil {
		return nil, err
	}
	if op.Type == lcm.ChangePackage {
		asked, err := p.read(ctx, op.After) // in both directions: what goes wrong is taken back by the same scripts
		if err != nil {
			return nil, err
		}
		if err := coordinate(&a.want.Desired, asked.Update); err != nil {
			return nil, err
		}
		a.drain = asked.Update.DrainTime()
	}
	if op.Type == lcm.Terminate {
		a.want.Source.Instance = graceful(a.want.Source.Instance, op.Params)
		a.want.Grace, a.drain = grace(op.Params)
	}
	return a, nil
}

// coordinate tells the planner how a change of package is coordinated with the VNF.
func coordinate(want *plan.Desired, update desired.UpdatePolicy) error {
	known, err := hooks.ContactsOf(update.Coordinate.Params)
	if err != nil {
		return asRefused(err)
	}
	want.CoordinateNew = update.Coordinate.New != ""
	want.CoordinateOld = update.Coordinate.Old != ""
	want.CoordinateVDUs = known.VDUs
	want.Drain = update.DrainTime() > 0
	return nil
}

// admit is what comes before anything moves: the package is kept for as long as
// anyone may need it, and the VIM has a look at the steps.
func (p *pass) admit(ctx context.Context, a *attempt, steps []plan.Step) error {
	// A rollback leads back to what was accepted before.
	if a.want.Source.Package != nil && !a.op.Automatic && a.op.Type != lcm.Terminate && a.op.State != lcm.RollingBack {
		if err := p.checker.sound(ctx, a.want.Source.Instance); err != nil {
			return err
		}
	}
	if a.want.Source.Package != nil {
		if err := p.Packages.Pin(ctx, a.want.Source.Package.Tree); err != nil {
			return fmt.Errorf("keep package %s: %w", a.want.Source.Package.Tree, err)
		}
	}
	if a.op.Automatic {
		return nil // it only restores what was admitted before
	}
	if err := p.allowed(ctx, a); err != nil {
		return err
	}
	return a.drv.Verify(ctx, a.want, slices.DeleteFunc(slices.Clone(steps), func(s plan.Step) bool {
		return s.Action != plan.Apply && s.Action != plan.Scale
	})...)
}

// graceTimeout is the attribute of a termination request that says how many seconds the
// VNF is left (SOL003 clause 5.5.2.11).
const graceTimeout = "gracefulTerminationTimeout"

// graceDefault is the time of a graceful termination that names none, as clients know it.
const graceDefault = 10 * time.Second

// graceful is the instance with the time that a termination request leaves it, where the
// driver looks for it.
func graceful(inst *desired.Instance, params json.RawMessage) *desired.Instance {
	var req map[string]any
	if json.Unmarshal(params, &req) != nil || req[graceTimeout] == nil {
		return inst
	}
	changed := *inst
	changed.Params = maps.Clone(inst.Params)
	if changed.Params == nil {
		changed.Params = map[string]any{}
	}
	changed.Params[graceTimeout] = req[graceTimeout]
	return &changed
}

// grace says whether a termination is graceful, and how long units have then where
// their owner gives them no time by itself.
func grace(params json.RawMessage) (bool, time.Duration) {
	var req struct {
		Type    string   `json:"terminationType"`
		Seconds *float64 `json:"gracefulTerminationTimeout"`
	}
	if json.Unmarshal(params, &req) != nil || req.Type != lcm.Graceful {
		return false, 0
	}
	if req.Seconds == nil {
		return true, graceDefault
	}
	return *req.Seconds > 0, time.Duration(*req.Seconds * float64(time.Second))
}

// resolve renders the instance at target. Where nothing should exist there,
// what must go is found with the help of other.
func (r *Reconciler) resolve(ctx context.Context, target, other desired.Revision) (want drivers.Rendering, drv drivers.Driver, err error) {
	inst, err := r.read(ctx, target)
	if err != nil {
		return want, nil, err
	}
	present := inst != nil && inst.State == desired.Instantiated
	if !present {
		gone, err := r.read(ctx, other)
		if err != nil {
			return want, nil, err
		}
		if gone != nil {
			inst = gone
		}
	}
	if inst == nil {
		return want, nil, &drivers.RefusedError{Reason: "neither the desired revision nor the one before it has a " + desired.InstanceFile}
	}
	want = drivers.Absent(inst)
	if inst.State != desired.Instantiated {
		return want, nowhere{}, nil // it runs neither before nor after
	}
	if drv, err = r.vims.driver(ctx, inst); err != nil {
		return want, nil, err
	}
	if !present {
		return want, drv, nil
	}
	src, err := sourceOf(ctx, r.Packages, r.Reveal, inst)
	if err != nil {
		return want, nil, err
	}
	if want, err = r.renderings.of(drv, target, src); err != nil {
		return want, nil, err
	}
	want.Condemned = inst.Condemned
	return want, drv, nil
}

// read is Repo.Read, with nil for a directory that doesn't exist.
func (r *Reconciler) read(ctx context.Context, rev desired.Revision) (*desired.Instance, error) {
	if rev.Tree == "" {
		return nil, nil
	}
	inst, err := r.Repo.Read(ctx, rev)
	if err != nil {
		return nil, fmt.Errorf("%s/%s at %s: %w", rev.Dir, desired.InstanceFile, rev.Commit, err)
	}
	return inst, nil
}

// grant asks for the right to do the steps. It returns those that are left, or nil
// where the answer was no.
func (p *pass) grant(ctx context.Context, a *attempt, steps []plan.Step) ([]plan.Step, error) {
	if err := p.admit(ctx, a, steps); err != nil {
		return nil, err
	}
	if !a.op.Automatic {
		if err := p.Grant.Grant(ctx, a.op); err != nil {
			return nil, err
		}
	}
	a.journal.Granted = true
	steps, err := p.skipEmptyHooks(ctx, a, plan.Compute(a.want.Desired, a.seen, a.journal))
	if err != nil {
		return nil, err
	}
	if batch := plan.Next(steps); len(batch) > 0 && batch[0].Action != plan.Hook {
		a.journal, _ = a.journal.Issue(batch)
	}
	op, err := p.Log.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal = a.journal
		if len(op.Journal.Targets) == 0 {
			op.UnitsBefore, op.ResourcesBefore = live(a.seen), inUse(a.seen)
		}
		op.UnitsAfter, op.ResourcesAfter = live(a.seen), inUse(a.seen)
		if err := op.Advance(lcm.Granted, p.Now(), nil); err != nil {
			return err
		}
		op.Tell(p.Now(), a.skipped...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.skipped = nil
	known := a.journal.Known
	a.op, a.journal = op, op.Journal
	a.journal.Known = known
	if len(steps) == 0 {
		steps = []plan.Step{}
	}
	return steps, nil
}

// issue records that the batch is about to be started, so that a failure seen
// afterwards is known to be this attempt's.
//
// fresh is false where all of it was started in this attempt before.
func (p *pass) issue(ctx context.Context, a *attempt, batch []plan.Step) (fresh bool, err error) {
	noted, fresh := a.journal.Issue(batch)
	if !fresh && len(a.journal.Hooks) == len(a.op.Journal.Hooks) {
		return false, nil
	}
	a.journal = noted
	op, err := p.Log.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal = a.journal
		if fresh {
			op.Tell(p.Now(), describe(batch)...)
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("record the steps of operation %s: %w", a.op.ID, err)
	}
	a.op = op
	return fresh, nil
}

// allowed holds a change against the rules once more: one that was pushed to a remote
// repository has met no hook of ours.
func (p *pass) allowed(ctx context.Context, a *attempt) error {
	before, err := p.read(ctx, a.op.Before)
	if err == nil && a.op.Type == lcm.Terminate {
		return p.stillUnused(ctx, before)
	}
	if err == nil && p.Permit != nil {
		err = p.Permit(before, a.want.Source.Instance)
	}
	if err != nil || before == nil || before.State != desired.Instantiated || a.want.Objects == nil {
		return err
	}
	settings, err := p.Repo.Settings()
	if err != nil {
		return fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	if a.op.Type != lcm.ChangePackage {
		return staysPlaced(settings, before, a.want.Source.Instance)
	}
	return p.checker.change(ctx, settings, a.drv, before, a.want.Source.Instance)
}

func describe(steps []plan.Step) []string {
	ds := make([]string, 0, len(steps))
	for _, s := range steps {
		ds = append(ds, s.String())
	}
	return ds
}
