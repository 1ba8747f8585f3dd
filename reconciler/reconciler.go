// Package reconciler makes what runs jibe with what git says.
//
// It owns the one pipeline: queue -> lease -> read desired -> observe -> plan ->
// grant -> do -> record. It is the only caller of drivers, and the only one who
// decides that an operation has ended. Package plan decides what to do next, and lcm how an
// operation's state may move; all writes go through lcm/oplog and desired.Repo. It holds no
// state of its own that a restart would miss.
//
// One look at one instance is a pass: it reads a [Situation], asks [Next], carries out one [Action] and looks again.
// Next is pure and decides what is done and in which order; testdata/*.txt has scenarios of it. What a pass reads and
// does is for members whose fields are all that each may touch: outstanding, intentReader, driftRepair, attempts and
// others. Two kinds of detail are still decided where they are done: what an error makes of an attempt ([outcomes]), and
// how far a grant, a hook or a proposal is (grantSteps, hookSteps, proposalGate).
package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/grant"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Packages finds VNF packages and keeps those that are pinned.
type Packages interface {
	// Newest returns the tree hash of the newest package with this vnfdId. One whose
	// checksums don't hold is refused with a [*drivers.RefusedError].
	Newest(vnfdID string) (tree string, err error)
	// Open returns the package, whether its checksums hold or not: instances that run it
	// must be looked after.
	Open(ctx context.Context, tree string) (*vnfd.Package, error)
	// Verify is a [*drivers.RefusedError] where the files of the package aren't those
	// that it lists itself. The second answer for a tree costs nothing.
	Verify(ctx context.Context, tree string) error
	// Pin keeps the tree for ever; it is idempotent.
	Pin(ctx context.Context, tree string) error
	// Kept returns the pinned trees that are packages with this vnfdId, whether a
	// repository has them still or not.
	Kept(ctx context.Context, vnfdID string) ([]string, error)
	// RepositoriesOf names the repositories that have the tree, each once, in the order of
	// repositories.yaml.
	RepositoriesOf(tree string) []string
	// Repositories says which packages' hooks may run.
	hooks.Repositories
}

// HookRunner runs hooks of packages; [hooks.Runner] is one.
type HookRunner interface {
	Run(ctx context.Context, c hooks.Call) (hooks.Output, error)
}

// Secrets resolves the references that instances and VIMs carry. A connection that is
// never to be used, as what it refers to is forbidden, is a [*drivers.RefusedError].
type Secrets interface {
	VIM(v *desired.VIM) (drivers.VIM, error)
	Connection(name string, c desired.VIMConnection) (drivers.VIM, error)
}

// Seals encrypt secrets, each for where it may be used. A nil one leaves what it is given as it is.
type Seals struct {
	// Hook is for what a hook hands over to the next one: Reveal gives it back.
	Hook func(clear string) (string, error)
	// VIM is for the files of VIMs that instances provide.
	VIM func(clear string) (string, error)
	// Connection is for connections of instances of the project that an NFVO gives.
	Connection func(project, endpoint, clear string) (string, error)
}

// complete fills in what leaves all as it is.
func (s Seals) complete() Seals {
	asIs := func(clear string) (string, error) { return clear, nil }
	if s.Hook == nil {
		s.Hook = asIs
	}
	if s.VIM == nil {
		s.VIM = asIs
	}
	if s.Connection == nil {
		s.Connection = func(_, _, clear string) (string, error) { return clear, nil }
	}
	return s
}

// NFVO asks an NFVO for grants (SOL003 v3.3.1 clause 9). Its methods are called beside the
// pipeline and may take their time. Errors are those of [grant.Client]; one that the settings
// don't have gives no answer ([grant.ErrAway]).
type NFVO interface {
	// Ask puts a request to the NFVO of the settings.
	Ask(ctx context.Context, settings *desired.Settings, r *grant.Request) (grant.Answer, error)
	// Poll asks what became of a request, at the location that the NFVO named.
	Poll(ctx context.Context, settings *desired.Settings, location string) (grant.Answer, error)
}

// Config is what a Reconciler needs. All fields but the durations, Workers and
// Metrics are required.
type Config struct {
	Repo     desired.Repo
	Store    store.Store
	Oplog    *oplog.Log
	Packages Packages
	Secrets  Secrets
	// NFVO asks the NFVO that the desired repository names; nil refuses what one is to grant.
	NFVO NFVO
	// Hooks runs the hooks of packages; nil runs none.
	Hooks HookRunner
	// Reveal resolves references to secrets in what a hook is given; nil leaves
	// them as they are.
	Reveal func(params map[string]any) (map[string]any, error)
	// Permit refuses, with a [*drivers.RefusedError], a change of an instance that brings
	// references to secrets which may not be followed there; before may be nil. admin says that
	// an administrator makes it. nil permits all.
	Permit func(settings *desired.Settings, before, after *desired.Instance, admin bool) error
	// Doors says that whatever reaches head has passed a door that knew who brings it, and held it
	// against their role. Where a forge has the repository, the pusher is not known.
	Doors bool
	// Prove says that other clients may write to the store: what a record names as a revision is used only where git proves
	// that it was in effect.
	Prove bool
	// Seals encrypt what Jibe itself writes down.
	Seals Seals
	// Peers resolves how element managers and VNFs are called that coordinate; nil calls none.
	Peers Peers
	// BaseURL is where clients reach the API, without a slash at the end: for the links that an
	// NFVO, an element manager or a VNF is given.
	BaseURL func() string
	// HookTimeout bounds one run of a hook (default 10 minutes).
	HookTimeout time.Duration
	// Driver makes the driver of a VIM. It MUST NOT connect yet: a driver that
	// only renders is made for a VIM that doesn't exist.
	Driver func(drivers.VIM) (drivers.Driver, error)
	// Namespace is the one in which Jibe itself runs, "" where it runs in none: no package
	// writes there.
	Namespace string
	// InCluster are the namespaces in which the service account of Jibe's own pod has rights, which a VIM that says
	// inCluster is used in where its file names none; none means all.
	InCluster []string
	Log       *slog.Logger
	Metrics   *Metrics // nil measures nothing
	// Trace follows operations; nil follows none.
	Trace *trace.Tracer
	Now   func() time.Time // the clock
	// Member is this process as one of those that serve the fleet: it says which instances are
	// dealt to it, and its session is what leases last with. It must not leave before [Reconciler.Run]
	// has returned.
	Member *members.Member
	// Resolve finds out whether the commit of a request that was only prepared has been made, and
	// has its operation begin or abandons it. It is called for requests of members that are gone; nil
	// leaves them.
	Resolve func(ctx context.Context, prepared *lcm.Operation) error
	// Whole says whether the store has what git says was done: nothing is looked at while it doesn't, as all that
	// runs would look new. Whoever makes it whole calls [Reconciler.EnqueueAll] then. nil is always.
	Whole func() bool
	// Proposals are the pull requests that propose what requests ask for; nil where no forge is told.
	Proposals Proposals
	// ProposalMerged is told of an operation whose change was merged, and by whom, "" where that isn't known.
	ProposalMerged func(ctx context.Context, op *lcm.Operation, by string)
	// Overridden is told of an operation that begins outside of its windows, as an administrator has
	// written: who that was, "" where the commit is Jibe's own, and why. nil tells nobody.
	Overridden func(ctx context.Context, op *lcm.Operation, by, reason string)
	// Workers is how many instances are worked on at once (default 64). A worker mostly waits,
	// for the store's disk or the VIM's answer, so that there are far more than CPUs.
	Workers int
	// Timeout bounds one attempt of an operation (default 500 s), StartTimeout
	// its STARTING, in which nothing is touched yet (default 60 s).
	Timeout, StartTimeout time.Duration
	// FailureGrace is how long a failure must stand before it is believed
	// (default 3 s): an image that could not be pulled once may be pulled next.
	FailureGrace time.Duration
	// Timeouts replace Timeout for the types of operation that they name.
	Timeouts map[lcm.Type]time.Duration
	// RepairPause is how long an automatic operation that failed rests before it is
	// tried again for the first time (default 10 s); it doubles up to five minutes.
	RepairPause time.Duration
}

// Reconciler runs the pipeline. Make one with [New], then call [Reconciler.Run].
type Reconciler struct {
	Config
	resolver
	line *line
	// requests leave alone what API requests are at.
	requests requests
	checker  *Checker
	owned    *ownership
	dealt    chan struct{} // has one where members have changed
	drifts   *drifts

	unobeyed *unobeyed
	// formerVIMs are the instances at VIMs that others have taken the place of.
	formerVIMs *formerVIMs
	// inUse has the VIMs that instances need.
	inUse    *vimsInUse
	waits    *waits
	reasons  *reasons
	outside  *outside
	unlisted *unlisted
	pins     pause
	away     *absences
	unseen   *unseenVIMs
	orphans  *orphans
	erasures *erasures
	memory   *memory
	underway *hooks.Registry // set by Run
	asking   *grantCalls
	commits  *commits
	// dependents and awaited are of instances that need each other.
	dependents *dependents
	awaited    *awaited
	proposed   *proposed
	phases     *phases
	traces     *traces
}

// New checks the configuration and fills in its defaults.
func New(c Config) (*Reconciler, error) {
	if c.Repo == nil || c.Store == nil || c.Oplog == nil || c.Packages == nil || c.Secrets == nil || c.Driver == nil || c.Log == nil || c.Member == nil {
		return nil, errors.New("reconciler: the configuration is incomplete")
	}
	if c.BaseURL == nil {
		c.BaseURL = func() string { return "" }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Workers == 0 {
		c.Workers = 64
	}
	if c.Timeout == 0 {
		c.Timeout = 500 * time.Second
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 60 * time.Second
	}
	if c.FailureGrace == 0 {
		c.FailureGrace = 3 * time.Second
	}
	if c.HookTimeout == 0 {
		c.HookTimeout = 10 * time.Minute
	}
	if c.Overridden == nil {
		c.Overridden = func(context.Context, *lcm.Operation, string, string) {}
	}
	if c.ProposalMerged == nil {
		c.ProposalMerged = func(context.Context, *lcm.Operation, string) {}
	}
	if c.RepairPause == 0 {
		c.RepairPause = 10 * time.Second
	}
	r := &Reconciler{
		Config:     c,
		line:       newLine(),
		drifts:     newDrifts(),
		unobeyed:   newUnobeyed(),
		formerVIMs: newFormerVIMs(),
		inUse:      newVIMsInUse(),
		waits:      newWaits(),
		reasons:    newReasons(),
		outside:    newOutside(),
		unlisted:   newUnlisted(),
		away:       newAbsences(),
		unseen:     newUnseenVIMs(),
		orphans:    newOrphans(),
		erasures:   newErasures(),
		memory:     newMemory(),
		asking:     newGrantCalls(),
		awaited:    newAwaited(),
		proposed:   newProposed(),
	}
	r.commits = newCommits(r.Enqueue)
	r.owned, r.dealt = newOwnership(c), make(chan struct{}, 1)
	r.traces = newTraces(c.Trace)
	r.traces.load(c.Oplog.OpenOperations())
	r.phases = &phases{now: c.Now, left: r.leftPhase, span: r.traces.span, of: map[string]phaseSince{}}
	r.line.order.now, r.line.order.waited = c.Now, c.Metrics.waitedInQueue
	c.Metrics.showOldest(r.line.order.oldest)
	r.requests = newRequests(c, r.Enqueue)
	r.resolver = resolver{r.provenRevisions(), c.Reveal, newConnections(c, r.stirred), newRenderings()}
	c.Oplog.OnChange(func(op *lcm.Operation) {
		r.line.operationChanged(oplog.OperationEntry{ID: op.ID, Instance: op.Instance, State: op.State, Automatic: op.Automatic})
		r.operationMoved(op)
		r.attest(op)
		r.phases.changed(op)
		r.traces.changed(op)
		if op.State != lcm.Starting {
			r.asking.drop(op.ID)
		}
		if op.State.Ended() {
			r.vims.lookForUnused() // it may have been the last that needed a VIM
		}
	})
	c.Oplog.OnFollowed(r.followed)
	c.Oplog.OnLost(r.EnqueueAll)
	r.checker = NewChecker(c.Packages, c.Driver, c.Reveal)
	r.checker.earlier = c.Repo.Earlier
	r.checker.own, r.checker.renderers.inCluster = c.Namespace, c.InCluster
	r.checker.usage = newUsage(c.Repo, r.checker.vnfcs)
	r.dependents = newDependents(c.Repo, c.Oplog)
	r.checker.needs = &needsCheck{repo: c.Repo, dependents: r.dependents}
	c.Member.OnChange(func() {
		select {
		case r.dealt <- struct{}{}:
		default: // it is still to be looked at
		}
	})
	return r, nil
}

// Enqueue asks for a look at the instance, of which somebody has just asked something. It
// never blocks, and asking twice is the same as once.
func (r *Reconciler) Enqueue(instance string) { r.line.add(instance, atWork) }

// Moved asks for a look at an instance whose directory has moved in git, as [Reconciler.Enqueue]
// does: one commit may move so many that operations under way and requests go before them.
func (r *Reconciler) Moved(instance string) {
	if !r.requests.leave(instance) {
		r.line.add(instance, wanted)
	}
	r.wake(instance)
}

// EnqueueAll asks for a look at every instance that git or the store knows, and at
// which VIMs are still named. Those on which something is to be done go first.
func (r *Reconciler) EnqueueAll() {
	r.vims.lookForUnused()
	r.orphans.wake()
	r.enqueue(func(string) bool { return true })
}

// enqueue asks for a look at those instances that git or the store knows.
func (r *Reconciler) enqueue(which func(instance string) bool) {
	for _, rev := range r.Repo.List() {
		if !which(rev.Instance) {
			continue
		}
		if e, ok := r.Oplog.InstanceEntry(rev.Instance); !ok || e.Operated.Tree != rev.Tree {
			r.line.add(rev.Instance, wanted)
		}
	}
	// One whose directory is gone may still have an operation to end.
	for e := range r.Oplog.InstanceEntries("") {
		if !which(e.ID) {
			continue
		}
		u := idle
		if e.OutstandingCommit != "" || e.Prepared != "" {
			u = atWork
		}
		r.line.add(e.ID, r.line.urgency(e.ID, u))
	}
}

// Run works until ctx ends, then finishes the passes under way and returns nil.
func (r *Reconciler) Run(ctx context.Context) error {
	r.vims.lookForUnused()
	r.deal()
	defer r.vims.close() // when no pass uses a driver any more
	g, ctx := errgroup.WithContext(ctx)
	r.underway = hooks.NewRegistry(ctx)
	defer r.underway.Wait()
	r.asking.begin(ctx)
	defer r.asking.wait()
	r.commits.begin(ctx)
	defer r.commits.wait()
	g.Go(func() error { return r.vims.run(ctx) })
	g.Go(func() error { return r.surveyAgain(ctx) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-r.dealt:
				r.deal()
			}
		}
	})
	for range r.Workers {
		g.Go(func() error {
			for r.next(ctx) {
			}
			return nil
		})
	}
	g.Go(func() error {
		<-ctx.Done()
		r.line.queue.ShutDown()
		return nil
	})
	return g.Wait()
}

func (r *Reconciler) next(ctx context.Context) bool {
	id, shutdown := r.line.queue.Get()
	if shutdown {
		return false
	}
	defer r.line.queue.Done(id)
	if r.Whole != nil && !r.Whole() || !r.mayLook(ctx, id) {
		r.line.again(id)
		r.line.queue.Forget(id)
		return true
	}
	start := r.Now()
	ended := r.commits.ended(id)
	after, err := r.guarded(ctx, id)
	r.commits.forget(id, ended)
	if errors.Is(err, errCommitting) {
		err = nil // after is until a deadline
	}
	r.Metrics.pass(r.Now().Sub(start), err, r.line.queue.Len())
	u := r.line.again(id)
	switch {
	case ctx.Err() != nil:
		// A pass cut short by the end of the process says nothing.
	case errors.Is(err, errNoSession):
		r.line.queue.Forget(id)
	case errors.Is(err, store.ErrFenced):
		r.Log.WarnContext(ctx, "the instance is another member's by now", "instance", id, "error", err)
		r.lost(id)
		r.line.addAfter(id, u, r.Member.Heartbeat()/2)
	case errors.Is(err, store.ErrHeld):
		r.line.addAfter(id, u, r.Member.Heartbeat()/2)
	case err != nil:
		r.Log.WarnContext(ctx, "pass failed, will be tried again", "instance", id, "error", err)
		r.line.retry(id, u, after)
	default:
		r.line.queue.Forget(id)
		if after > 0 {
			r.line.addAfter(id, u, after)
		}
	}
	gone := r.unknown(id)
	if gone {
		r.orphans.wake() // what is left of it is an orphan from now on
	}
	if !r.hasWork(id) && (!r.Member.Mine(id) || gone) {
		r.handOver(ctx, id)
	}
	return true
}

// unknown says whether nobody knows the instance any more.
func (r *Reconciler) unknown(id string) bool {
	if _, exists := r.Repo.Lookup(id); exists {
		return false
	}
	_, known := r.Oplog.InstanceEntry(id)
	return !known
}

// passTime bounds one pass, so that what never answers keeps no worker for ever.
const passTime = 24 * time.Second

// guarded makes one pass under the instance's lease, which is kept for the next.
func (r *Reconciler) guarded(ctx context.Context, id string) (time.Duration, error) {
	if x, ok := r.owned.get(id); ok && !x.session.Held() {
		r.lost(id) // what is remembered is of another tenure
	}
	_, mine := r.owned.get(id)
	t, err := r.owned.take(ctx, id)
	if err != nil {
		return 0, err
	}
	if !mine && t.shared {
		r.attestAgain(ctx, id)
	}
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	ctx, end := t.under(ctx)
	defer end()
	r.erase(ctx, id)
	if !r.Member.Mine(id) && !r.hasWork(id) {
		return 0, nil // it was looked at for what was to be erased
	}
	return r.newPass(id, t).run(ctx)
}
