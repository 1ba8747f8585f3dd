package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// OrphanRef names one incarnation of an object as a person was shown it.
type OrphanRef struct {
	VIM         string `json:"vim"`
	Instance    string `json:"instance"`
	Object      string `json:"object"`
	Incarnation string `json:"incarnation"`
}

// Ref names the orphan.
func (o Orphan) Ref() OrphanRef { return OrphanRef{o.VIM, o.Instance, o.Object, o.Incarnation} }

// OrphanDeletion is what a person was shown and wants deleted.
type OrphanDeletion struct {
	Objects []OrphanRef `json:"objects"`
	// DeleteData permits the deletion of objects with which data are lost.
	DeleteData bool `json:"deleteData,omitempty"`
}

// OrphansDeleted is what came of a deletion.
type OrphansDeleted struct {
	// Deleted are the objects whose deletion the VIM was asked for.
	Deleted []OrphanRef `json:"deleted"`
	// Gone are those that weren't there any more, or were being deleted already.
	Gone []OrphanRef `json:"gone"`
	// Unsure are those whose deletion began and failed: some may be gone.
	Unsure []OrphanRef `json:"unsure"`
	// Refused are those that are left alone, and why.
	Refused []RefusedOrphan `json:"refused"`
}

// RefusedOrphan is an object that isn't deleted.
type RefusedOrphan struct {
	OrphanRef
	Reason string `json:"reason"`
}

// erasureTime bounds the wait for the turn of an instance of which objects are to be deleted.
const erasureTime = 20 * time.Second

// DeleteOrphans deletes exactly those objects that were shown, as the end of their instance would, each instance in its
// turn and under its lease. What isn't an orphan any more, or was made again, is refused: before the first deletion, the
// request as a whole with a [*drivers.RefusedError]; later, the objects of that instance. It may be interrupted and repeated.
// An error wraps [desired.ErrUnavailable] or [drivers.ErrUnavailable] where it can be tried again; what was done nevertheless
// comes with it.
func (r *Reconciler) DeleteOrphans(ctx context.Context, d OrphanDeletion) (*OrphansDeleted, error) {
	s, err := r.newSurveyor(ctx, everyVIM)
	if err != nil {
		return nil, err
	}
	due, err := s.check(ctx, d)
	if err != nil {
		return nil, err
	}
	defer r.orphans.wake()

	ctx, cancel := context.WithTimeout(ctx, erasureTime)
	defer cancel()
	for _, e := range due {
		e.ctx = ctx
		r.erasures.add(e)
		r.line.add(e.instance, atWork)
	}
	done := &OrphansDeleted{Deleted: []OrphanRef{}, Gone: []OrphanRef{}, Unsure: []OrphanRef{}, Refused: []RefusedOrphan{}}
	for _, e := range due {
		if wrong := r.await(ctx, e, done); err == nil {
			err = wrong
		}
	}
	return done, err
}

// await adds to done what comes of the erasure, once it has ended or ctx has, before its turn came.
func (r *Reconciler) await(ctx context.Context, e *erasure, done *OrphansDeleted) error {
	var o erased
	select {
	case o = <-e.done:
	case <-ctx.Done():
		if r.erasures.drop(e) {
			return fmt.Errorf("%w: instance %s isn't free now%s; `jibe get orphans` shows what is left", desired.ErrUnavailable, e.instance, r.ownedBy(e.instance))
		}
		o = <-e.done // what has begun must be told of
	}

	var err error
	if refused, ok := errors.AsType[*drivers.RefusedError](o.err); ok {
		o.refuse(refused.Error(), e.refs...)
	} else if o.err != nil {
		err = fmt.Errorf("instance %s at VIM %s: %w", e.instance, e.site.name, o.err)
	}
	done.Deleted, done.Gone = append(done.Deleted, o.deleted...), append(done.Gone, o.gone...)
	done.Unsure, done.Refused = append(done.Unsure, o.unsure...), append(done.Refused, o.refused...)
	return err
}

// ownedBy says which other replica owns the instance, "" where this one does.
func (r *Reconciler) ownedBy(instance string) string {
	if r.Member.Mine(instance) {
		return ""
	}
	return ": replica " + r.Member.OwnerOf(instance) + " owns it, so ask that one (`jibe get members`)"
}

// check holds all that is to be deleted against a survey of now, and returns it by instance and VIM.
func (s *surveyor) check(ctx context.Context, d OrphanDeletion) ([]*erasure, error) {
	now := s.all(ctx)
	var due []*erasure
	for _, ref := range d.Objects {
		for _, u := range now.Unseen {
			if u.VIM == ref.VIM {
				return nil, fmt.Errorf("%w: VIM %s: %s", drivers.ErrUnavailable, u.VIM, u.Why)
			}
		}
		at := slices.IndexFunc(s.sites, func(x *site) bool { return x.name == ref.VIM })
		if at < 0 {
			return nil, refusedOrphan(ref, "there is no VIM "+ref.VIM)
		}
		if err := s.stillOrphan(ctx, now, s.sites[at], ref, d.DeleteData); err != nil {
			return nil, err
		}

		n := slices.IndexFunc(due, func(e *erasure) bool { return e.site == s.sites[at] && e.instance == ref.Instance })
		if n < 0 {
			n = len(due)
			due = append(due, &erasure{site: s.sites[at], instance: ref.Instance, data: d.DeleteData, done: make(chan erased, 1)})
		}
		due[n].refs = append(due[n].refs, ref)
	}
	return due, nil
}

// stillOrphan refuses what isn't an orphan, or not the one that was shown. What is gone is none, and isn't refused.
func (s *surveyor) stillOrphan(ctx context.Context, now *Orphans, x *site, ref OrphanRef, data bool) error {
	there := slices.DeleteFunc(slices.Clone(now.Orphans), func(o Orphan) bool {
		return o.VIM != ref.VIM || o.Instance != ref.Instance || o.Object != ref.Object
	})
	is := slices.IndexFunc(there, func(o Orphan) bool { return o.Incarnation == ref.Incarnation })
	switch {
	case is >= 0 && there[is].Data && !data:
		return refusedOrphan(ref, "data would be lost with it, which only --delete-data permits")
	case is >= 0:
		return nil
	case len(there) > 0:
		return refusedOrphan(ref, madeAgain)
	}
	why, _, err := s.ownerless(ctx, ref.Instance, x)
	if err != nil {
		return err
	}
	if why == "" {
		return refusedOrphan(ref, notOrphaned)
	}
	return nil
}

// Why an object is left alone.
const (
	madeAgain   = "it was made again since it was shown: look again"
	notOrphaned = "it belongs to a VNF instance by now, or may: look again"
)

func refusedOrphan(ref OrphanRef, why string) error {
	return &drivers.RefusedError{Object: ref.Object, Conflict: true, Reason: "of instance " + ref.Instance + " at VIM " + ref.VIM + ": " + why}
}

// erasure is what of one instance at one VIM is to be deleted, in the instance's turn.
type erasure struct {
	ctx      context.Context // of the caller that waits for it: no deletion begins after its end
	site     *site
	instance string
	refs     []OrphanRef
	data     bool
	done     chan erased // gets one result, once it is taken
	taken    bool        // its turn has come
}

// erased is what came of it.
type erased struct {
	deleted, gone, unsure []OrphanRef

	refused []RefusedOrphan
	err     error
}

// refuse leaves the objects alone.
func (d *erased) refuse(why string, refs ...OrphanRef) {
	for _, ref := range refs {
		d.refused = append(d.refused, RefusedOrphan{ref, why})
	}
}

// erasures are those that wait for their instance's turn.
type erasures struct {
	mu sync.Mutex
	of map[string][]*erasure
}

func newErasures() *erasures { return &erasures{of: map[string][]*erasure{}} }

func (w *erasures) add(e *erasure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[e.instance] = append(w.of[e.instance], e)
}

// has reports whether a caller waits for one of the instance.
func (w *erasures) has(instance string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[instance] = slices.DeleteFunc(w.of[instance], func(e *erasure) bool { return e.ctx.Err() != nil })
	if len(w.of[instance]) == 0 {
		delete(w.of, instance)
	}
	return len(w.of[instance]) > 0
}

// take returns those of the instance, which wait no longer.
func (w *erasures) take(instance string) []*erasure {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.of[instance]
	delete(w.of, instance)
	for _, e := range list {
		e.taken = true
	}
	return list
}

// drop has the erasure wait no longer, and reports whether its turn hadn't come.
func (w *erasures) drop(e *erasure) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[e.instance] = slices.DeleteFunc(w.of[e.instance], func(x *erasure) bool { return x == e })
	if len(w.of[e.instance]) == 0 {
		delete(w.of, e.instance)
	}
	return !e.taken
}

// erase carries out what is to be deleted of the instance, whose lease is held.
func (r *Reconciler) erase(ctx context.Context, id string) {
	for _, e := range r.erasures.take(id) {
		e.done <- r.eraseAt(ctx, e)
	}
}

// eraseAt looks at the instance at one VIM again, and has what was shown of it deleted as its end would.
func (r *Reconciler) eraseAt(ctx context.Context, e *erasure) (done erased) {
	looks, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(e.ctx, stop)()
	s, err := r.newSurveyor(looks, everyVIM)
	if err != nil {
		return erased{err: err}
	}
	at := slices.IndexFunc(s.sites, func(x *site) bool { return x.name == e.site.name && x.driver == e.site.driver })
	if at < 0 {
		return erased{err: fmt.Errorf("%w: it can't be seen, or has another connection by now", drivers.ErrUnavailable)}
	}
	why, in, err := s.ownerless(looks, e.instance, s.sites[at])
	if err != nil {
		return erased{err: err}
	}
	if why == "" {
		done.refuse(notOrphaned, e.refs...)
		return done
	}
	l, err := s.look(looks, s.sites[at], in)
	if err != nil {
		return erased{err: err}
	}

	var chosen []plan.Step
	var due []OrphanRef
	deletions := l.deletions()
	for _, ref := range e.refs {
		n := slices.IndexFunc(deletions, func(s plan.Step) bool { return s.Object == ref.Object })
		now := l.object(ref.Object)
		switch {
		case n < 0:
			done.gone = append(done.gone, ref)
		case deletions[n].Incarnation != ref.Incarnation:
			done.refuse(madeAgain, ref)
		case now != nil && now.Data && !e.data:
			done.refuse("data would be lost with it by now", ref)
		default:
			chosen, due = append(chosen, deletions[n]), append(due, ref)
		}
	}
	if len(chosen) == 0 {
		return done
	}
	if e.ctx.Err() != nil {
		done.err = fmt.Errorf("%w: its turn came too late; try again", desired.ErrUnavailable)
		return done
	}
	err = l.drv.Do(ctx, l.want, chosen...)
	r.Metrics.did(err, chosen...)
	if err != nil {
		done.unsure, done.err = due, err
		return done
	}
	done.deleted = due
	r.Log.WarnContext(ctx, "objects that belong to no VNF are deleted", "instance", e.instance, "vim", e.site.name, "objects", some(objects(chosen)), "why", why)
	return done
}
