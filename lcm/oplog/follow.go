package oplog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

const (
	// followers is how many records are read at a time while changes are followed.
	followers = 16
	// followPause is the pause after the store couldn't be read.
	followPause = time.Second
)

// storedHook is told of changes under a prefix.
type storedHook struct {
	prefix string
	f      func(store.Change)
}

// OnFollowed has f called with an operation that another process has recorded, as it is once
// it can be seen here: states may be left out, and one may be told twice. So may an operation of this process, if the
// store reports it before its Put returns: f must not count. It has no journal. f
// must not block, nor change it. It is never called unless the store is [Shared].
func (l *Log) OnFollowed(f func(*lcm.Operation)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followed = append(l.followed, f)
}

// OnStored has f called with each change of a record under prefix in a [Shared] store, whoever
// put it. f must not block.
func (l *Log) OnStored(prefix string, f func(store.Change)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored = append(l.stored, storedHook{prefix, f})
}

// OnLost has f called after everything was read anew, as the store couldn't tell what had
// changed in it or went back: what is kept of other records is to be read anew, too. f must
// not block.
func (l *Log) OnLost(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onLost = append(l.onLost, f)
}

// Sync returns once what this Log shows is as new as the store is now: whoever was answered by
// another process finds what that wrote. It returns at once where nobody else writes. It ends
// with the error of ctx, or of a store that can't say how new it is.
func (l *Log) Sync(ctx context.Context) error {
	if l.shared == nil {
		return nil
	}
	now, err := l.store.Mark(ctx)
	if err != nil {
		return fmt.Errorf("operation log: %w", err)
	}
	return l.shared.wait(ctx, now)
}

// start reads the index. What is put meanwhile is followed later.
func (l *Log) start(ctx context.Context) error {
	if l.shared != nil {
		at, err := l.store.Mark(ctx)
		if err != nil {
			return err
		}
		l.shared.at = at
	}
	return l.load(ctx, l.index)
}

// Follow takes over what other processes put into a [Shared] store, until ctx ends. It returns
// an error only where the store is closed. It must not run twice at a time.
func (l *Log) Follow(ctx context.Context) error {
	if l.shared == nil {
		return errors.New("operation log: nobody else writes the store, so that there is nothing to follow")
	}
	l.shared.mu.Lock()
	at := l.shared.at
	l.shared.mu.Unlock()
	for ctx.Err() == nil {
		next, err := l.follow(ctx, at)
		switch {
		case err == nil:
			at = next
			l.shared.move(at)
		case ctx.Err() != nil:
		case errors.Is(err, store.ErrClosed):
			return fmt.Errorf("follow the operation log: %w", err)
		default:
			l.log.WarnContext(ctx, "what other replicas record can't be seen now; it is tried again", "error", err)
			wait(ctx, followPause)
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// follow waits for changes and takes them over. It may be repeated after an error.
func (l *Log) follow(ctx context.Context, at store.Mark) (store.Mark, error) {
	changes, next, err := l.store.Changes(ctx, at)
	if errors.Is(err, store.ErrLost) {
		return l.reload(ctx)
	}
	if err != nil {
		return at, err
	}
	return next, l.take(ctx, changes)
}

// look is what is to be read again of an instance.
type look struct {
	record     bool
	operations map[string]bool
}

func newLook() *look { return &look{operations: map[string]bool{}} }

// news is what a list of changes means.
type news struct {
	looks map[string]*look
	// unknown are operations of which it isn't known whose they are.
	unknown map[string]bool
	// events are those that others have put.
	events []store.Record
}

func (n *news) of(instance string) *look {
	k := n.looks[instance]
	if k == nil {
		k = newLook()
		n.looks[instance] = k
	}
	return k
}

// take takes changes over into the index, and tells of them.
func (l *Log) take(ctx context.Context, changes []store.Change) error {
	n := news{looks: map[string]*look{}, unknown: map[string]bool{}}
	for _, c := range changes {
		l.sort(&n, c)
	}
	if err := l.identify(ctx, &n); err != nil {
		return err
	}
	if err := l.lookAt(ctx, n.looks); err != nil {
		return err
	}
	l.seen(n.events)
	l.mu.Lock()
	stored := l.stored
	if len(n.events) > 0 {
		l.wake()
	}
	l.mu.Unlock()
	for _, c := range changes {
		for _, h := range stored {
			if strings.HasPrefix(c.Key, h.prefix) {
				h.f(c)
			}
		}
	}
	return nil
}

// sort says what a change means.
func (l *Log) sort(n *news, c store.Change) {
	if id, ok := strings.CutPrefix(c.Key, instancePrefix); ok {
		n.of(id).record = true
		return
	}
	id, operation := strings.CutPrefix(c.Key, operationPrefix)
	if !operation && !strings.HasPrefix(c.Key, outboxPrefix) || l.shared.isOwn(c) {
		return
	}
	switch instance, known := l.ownerOf(id); {
	case !operation && c.Version > 0:
		n.events = append(n.events, store.Record{Key: c.Key})
	case !operation:
	case known:
		n.of(instance).operations[id] = true
	case c.Version == 0:
		l.operations.drop(id)
	default:
		n.unknown[id] = true
	}
}

// ownerOf returns whose operation it is, if that is known. Whoever puts an operation has the index show it first, and
// then isn't writing it any more: to ask in the other order could miss both.
func (l *Log) ownerOf(id string) (instance string, known bool) {
	if instance, known = l.shared.writes(id); known {
		return instance, true
	}
	e, known := l.index.find(id)
	return e.Instance, known
}

// identify finds out whose operations are that aren't known yet.
func (l *Log) identify(ctx context.Context, n *news) error {
	found := make(chan OperationEntry, len(n.unknown))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(followers)
	for id := range n.unknown {
		g.Go(func() error {
			e, err := l.readEntry(gctx, id)
			switch {
			case err == nil:
				found <- e
			case unreadable(err):
				l.log.WarnContext(ctx, "an operation is left out of lists", "operation", id, "error", err)
			case !errors.Is(err, store.ErrNotFound):
				return err
			}
			return nil
		})
	}
	err := g.Wait()
	close(found)
	for e := range found {
		n.of(e.Instance).operations[e.ID] = true
	}
	return err
}

// unreadable says that the error is that of a record which can't be decoded.
func unreadable(err error) bool {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &typ)
}

// lookAt reads instances again.
func (l *Log) lookAt(ctx context.Context, looks map[string]*look) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(followers)
	for id, k := range looks {
		g.Go(func() error { return l.renew(gctx, id, k) })
	}
	return g.Wait()
}

// renew has the index show what the store has of an instance now, and tells of its operations.
// As nobody here writes the instance meanwhile, what is read is never older than what is shown.
func (l *Log) renew(ctx context.Context, id string, k *look) error {
	operations, err := l.renewed(ctx, id, k)
	if err != nil {
		return fmt.Errorf("instance %s: %w", id, err)
	}
	l.mu.Lock()
	followed, recorded := l.followed, l.onRecord
	l.mu.Unlock()
	for _, op := range operations {
		snap := *op
		snap.Journal.Hooks, snap.Journal.Issued = nil, nil
		for _, f := range recorded {
			f(op.ID, op.Instance)
		}
		for _, f := range followed {
			f(&snap)
		}
	}
	return nil
}

func (l *Log) renewed(ctx context.Context, id string, k *look) (operations []*lcm.Operation, err error) {
	defer l.locks.lock(id)()
	type found[T any] struct {
		id  string
		rec *record[T] // nil for one that is gone
	}
	var ops []found[lcm.Operation]
	for opID := range k.operations {
		rec, op, err := stored(ctx, l, l.operations, opID)
		if err != nil {
			return nil, err
		}
		ops = append(ops, found[lcm.Operation]{opID, rec})
		if op != nil {
			operations = append(operations, op)
		}
	}
	var inst found[lcm.Instance]
	var value *lcm.Instance
	if k.record {
		if inst.rec, value, err = stored(ctx, l, l.instances, id); err != nil {
			return nil, err
		}
	}
	x := l.index
	x.mu.Lock()
	defer x.mu.Unlock()
	l.shown.Lock()
	defer l.shown.Unlock()

	for _, op := range operations {
		x.putOperation(entryOfOperation(op))
	}
	for _, f := range ops {
		if e, known := x.byID.find(f.id); known && f.rec == nil {
			x.removeOperation(e)
		}
		l.operations.renew(f.id, f.rec)
	}
	if k.record {
		l.instances.renew(id, inst.rec)
		x.renewInstance(id, value)
	}
	return operations, nil
}

// stored reads a record and what it says, nil for one that is gone. One that can't be decoded
// is logged, and as if it were gone: it must not be in the way of all others.
func stored[T any](ctx context.Context, l *Log, r *records[T], id string) (*record[T], *T, error) {
	rec, err := r.readStored(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	v, err := rec.decode()
	if err != nil {
		l.log.WarnContext(ctx, "a record is left out of lists", r.noun(), id, "error", err)
		return nil, nil, nil
	}
	return rec, v, nil
}

// renewInstance takes over an instance's record, nil where it is gone. Whoever watches isn't
// told of what stays as it was. The caller has mu.
func (x *index) renewInstance(id string, i *lcm.Instance) {
	was, known := x.instances.Get(id)
	switch {
	case i != nil:
		if e := entryOfInstance(i); !known || *was != *e {
			x.putInstance(i)
		}
	case known:
		x.removeInstance(id)
	}
}

// lookAtWrites adds the instances that this Log is writing. Such a write may be in the store since before it was read, with
// another Log's on top of it: the index, which shows it only now, would be behind, and no change tells of that any more.
func (l *Log) lookAtWrites(looks map[string]*look) {
	writing := l.shared.instances()
	for _, id := range l.locks.used() {
		k := looks[id]
		if k == nil {
			k = newLook()
			looks[id] = k
		}
		k.record = true
		for _, operation := range l.index.operationsOf(id) {
			k.operations[operation] = true
		}
		for _, operation := range writing[id] {
			k.operations[operation] = true
		}
	}
}

// reload reads everything anew, in place of what the index and the caches hold.
func (l *Log) reload(ctx context.Context) (store.Mark, error) {
	l.log.WarnContext(ctx, "the store can't tell what has changed in it: everything is read anew")
	at, err := l.store.Mark(ctx)
	if err != nil {
		return at, err
	}
	l.index.setTouched(map[string]bool{})
	fresh := newIndex()
	fresh.byID = newByID()
	if err := l.load(ctx, fresh); err != nil {
		l.index.setTouched(nil)
		return at, err
	}
	l.shared.forget()
	looks := l.index.replace(fresh)
	l.lookAtWrites(looks)
	l.instances.kept.Clear()
	l.operations.kept.Clear()
	if err := l.lookAt(ctx, looks); err != nil {
		return at, err
	}
	l.mu.Lock()
	l.end = 0
	l.mu.Unlock()
	if _, err := l.End(ctx); err != nil {
		return at, err
	}
	l.mu.Lock()
	lost := l.onLost
	l.wake()
	l.mu.Unlock()
	for _, f := range lost {
		f()
	}
	l.log.InfoContext(ctx, "everything was read anew from the store", "instances", l.Counts().Instances, "operations", l.Counts().Operations)
	return at, nil
}
