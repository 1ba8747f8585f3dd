package reconciler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/store"
)

// errNoSession is returned where this process is no member now. When it is again, all its
// instances are looked at.
var errNoSession = errors.New("this process has no session in the store")

// tenure is the time for which this process owns an instance without a break: it holds the
// instance's lease, which lasts with its session.
type tenure struct {
	lease   store.Lease
	session *members.Session
	// shared says that another process may take the instance once the session has ended.
	shared bool
	// since is when it began. What the instance waits for is waited for anew from then on.
	since time.Time
}

// under returns a context that ends with the session, and whose Puts the store refuses once the
// lease is lost. All that is done for the instance is done in one. Where others may take the instance,
// drivers are told how much of the session is left.
func (t tenure) under(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.shared {
		ctx = drivers.Leased(ctx, t.session.Left)
	}
	return t.session.Within(store.Under(ctx, t.lease))
}

// held is nil while the session is held; it asks the clock. Who was stopped a moment ago learns of
// it here, before any timer has fired.
func (t tenure) held() error {
	if !t.session.Held() {
		return members.ErrEnded
	}
	return nil
}

// ownership is which instances this process owns. An instance's entry is changed by the worker that looks
// at the instance alone; the queue lets only one.
type ownership struct {
	store  store.Store
	member *members.Member
	now    func() time.Time

	mu sync.Mutex
	of map[string]owned
}

// owned is a tenure without what all have in common: there is one for each instance.
type owned struct {
	session *members.Session
	token   uint64
	since   time.Time
}

func newOwnership(c Config) *ownership {
	return &ownership{store: c.Store, member: c.Member, now: c.Now, of: map[string]owned{}}
}

func leaseName(id string) string { return "instance/" + id }

func (o *ownership) tenure(id string, x owned) tenure {
	own := x.session.Lease()
	return tenure{since: x.since, session: x.session, shared: o.member.Shared(),
		lease: store.Lease{Name: leaseName(id), Holder: own.Holder, Token: x.token, Expires: own.Expires, Session: own.Name}}
}

// get returns the tenure, also one whose session has ended.
func (o *ownership) get(id string) (owned, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	x, ok := o.of[id]
	return x, ok
}

// holds says whether the process owns the instance now.
func (o *ownership) holds(id string) bool {
	x, ok := o.get(id)
	return ok && x.session.Held()
}

// Owned is how many instances this process owns.
func (r *Reconciler) Owned() int { return len(r.owned.list()) }

// list returns the instances that are owned.
func (o *ownership) list() (ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.of {
		ids = append(ids, id)
	}
	return ids
}

// take returns the tenure of the instance, and begins one where there is none: the store is asked
// only then. It returns [store.ErrHeld] while another member holds the instance's lease.
func (o *ownership) take(ctx context.Context, id string) (tenure, error) {
	session := o.member.Session()
	if session == nil {
		return tenure{}, errNoSession
	}
	if x, ok := o.get(id); ok && x.session == session {
		return o.tenure(id, x), nil
	}
	lease, err := o.store.Attach(ctx, leaseName(id), session.Lease())
	if err != nil {
		return tenure{}, fmt.Errorf("lease of instance %s: %w", id, err)
	}
	x := owned{session, lease.Token, o.now()}
	o.mu.Lock()
	o.of[id] = x
	o.mu.Unlock()
	return o.tenure(id, x), nil
}

// forget ends the tenure without a word to the store: it is lost.
func (o *ownership) forget(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, id)
}

// release ends the tenure, so that another member can take the instance at once.
func (o *ownership) release(ctx context.Context, id string) error {
	x, ok := o.get(id)
	if !ok {
		return nil
	}
	o.forget(id)
	if !x.session.Held() {
		return nil
	}
	if err := o.store.Release(ctx, o.tenure(id, x).lease); err != nil {
		return fmt.Errorf("give the lease of instance %s back: %w", id, err)
	}
	return nil
}

// mayLook says whether this process is to look at the instance: it is dealt to it, has something
// under way at this process that has to come to its end here, or has objects that are to be erased. What is dealt to
// another member is given back.
func (r *Reconciler) mayLook(ctx context.Context, id string) bool {
	if r.Member.Mine(id) || r.owned.holds(id) && r.hasWork(id) || r.erasures.has(id) {
		return true
	}
	r.handOver(ctx, id)
	return false
}

// hasWork reports whether something is under way at this process for the instance.
func (r *Reconciler) hasWork(id string) bool { return r.underway.Has(id) || r.commits.has(id) }

// handOver gives an instance back.
func (r *Reconciler) handOver(ctx context.Context, id string) {
	if _, ok := r.owned.get(id); !ok {
		return
	}
	r.forget(id)
	// It is given back even while the process is stopping.
	if err := r.owned.release(context.WithoutCancel(ctx), id); err != nil {
		r.Log.WarnContext(ctx, "an instance is given to another member when this one's session ends", "instance", id, "error", err)
	}
}

// lost ends the tenure of an instance whose lease is no longer this process's.
func (r *Reconciler) lost(id string) {
	r.forget(id)
	r.owned.forget(id)
}

// forget drops all that is remembered of an instance, and ends what is under way for it. Whoever looks at it
// next sees it anew.
func (r *Reconciler) forget(id string) {
	r.underway.Drop(id)
	r.commits.drop(id)
	if e, ok := r.Oplog.InstanceEntry(id); ok && e.Open != "" {
		r.asking.drop(e.Open)
	}
	if e, ok := r.Oplog.InstanceEntry(id); ok && e.Proposed != "" && r.Proposals != nil {
		r.Proposals.Forget(e.Proposed)
	}
	r.proposed.done(id)
	r.memory.forget(id)
	r.drifts.clear(id)
	r.unobeyed.clear(id)
	r.formerVIMs.clear(id)
	r.inUse.clear(id)
	r.waits.clear(id)
	r.reasons.note(id, "", r.Now())
	r.awaited.done(id)
	r.outside.clear(id)
	r.unlisted.clear(id)
}

// followed has the owner of an instance look at what another member has recorded of an operation:
// a request that it took, or what it did before the instance came here.
func (r *Reconciler) followed(op *lcm.Operation) {
	r.line.operationChanged(oplog.OperationEntry{ID: op.ID, Instance: op.Instance, State: op.State, Automatic: op.Automatic})
	if op.State != lcm.Starting {
		r.asking.drop(op.ID)
	}
	if r.Member.Mine(op.Instance) {
		r.line.add(op.Instance, r.line.urgency(op.Instance, wanted))
	}
	r.operationMoved(op)
}

// deal has this process look at the instances that are dealt to it and that it doesn't own yet,
// those first on which most is to be done, and give back those that are another's.
func (r *Reconciler) deal() {
	if r.Member.Session() == nil {
		return
	}
	for _, e := range r.Oplog.OpenOperations() {
		r.line.operationChanged(e)
	}
	r.enqueue(func(id string) bool {
		if !r.Member.Mine(id) {
			return false
		}
		// The member whose request is prepared may be the one that has gone.
		e, known := r.Oplog.InstanceEntry(id)
		return !r.owned.holds(id) || known && e.Prepared != ""
	})
	for _, id := range r.owned.list() {
		if !r.Member.Mine(id) {
			r.line.add(id, idle)
		}
	}
}
