// Package oplog is the only writer of operation records. It keeps them, the
// instances' records and the outbox of notifications in the store, and changes
// them together: every change of an operation's state is one Put that also
// holds the instance's record and the event for subscribers, so that no state
// can be reached without its notification, nor a notification sent for a state
// that a crash took back.
//
// It never decides what an operation does (that is plan's and the
// reconciler's), never reads git and never calls a subscriber.
//
// Keys in the store:
//
//	instance/<id>   lcm.Instance
//	operation/<id>  lcm.Operation, once its commit is durable
//	prepared/<id>   lcm.Operation whose commit isn't known to be durable
//	history/<id>    OperationEntry of an operation, as a line: written at its birth and
//	                at its end, so that a start doesn't read all operations
//	outbox/<n>      Event, in the order in which they happened
package oplog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// The prefixes of keys.
const (
	instancePrefix  = "instance/"
	operationPrefix = "operation/"
	preparedPrefix  = "prepared/"
	historyPrefix   = "history/"
	outboxPrefix    = "outbox/"
)

// ErrBusy is returned where another operation has the instance; the API answers
// 409. It is used with [errors.As]; errors.Is(err, ErrBusy{}) holds for each.
type ErrBusy struct {
	Instance  string
	Operation string
	// State is the operation's state: Prepared while its commit isn't durable, and an
	// ended one while its commit is outstanding.
	State lcm.State
}

func (e ErrBusy) Error() string {
	s := fmt.Sprintf("instance %s: operation %s is in state %s", e.Instance, e.Operation, e.State)
	switch {
	case e.State == lcm.FailedTemp:
		return s + ": retry it, roll it back or fail it first"
	case e.State.Ended():
		return s + " and its outcome is not yet committed: ask again in a moment"
	}
	return s + ": wait until it has ended"
}

// Is makes every ErrBusy match the zero value.
func (e ErrBusy) Is(target error) bool { return target == ErrBusy{} }

// Log is safe for concurrent use.
type Log struct {
	store store.Store
	now   func() time.Time
	log   *slog.Logger
	cache instanceCache
	index *index
	locks locks

	mu       sync.Mutex
	onChange []func(*lcm.Operation)
	signals  map[chan struct{}]bool
	end      uint64 // the newest event known
}

// Option changes how a Log works.
type Option func(*Log)

// WithLog makes the Log say what takes long at its start.
func WithLog(log *slog.Logger) Option { return func(l *Log) { l.log = log } }

// Open makes a Log over s, whose only writer of the Log's keys it is from now on. It reads
// what lists need of all records. now is the clock of all records.
func Open(ctx context.Context, s store.Store, now func() time.Time, options ...Option) (*Log, error) {
	l := &Log{store: s, now: now, log: slog.New(slog.DiscardHandler), cache: newInstanceCache(), index: newIndex(), signals: map[chan struct{}]bool{}}
	for _, o := range options {
		o(l)
	}
	if err := l.load(ctx); err != nil {
		return nil, fmt.Errorf("operation log: %w", err)
	}
	return l, nil
}

// OnChange has f called after each state that an operation entered, once the
// record is durable, in the goroutine that recorded it. f gets a copy without the
// journal; it must not block, nor change a record.
func (l *Log) OnChange(f func(*lcm.Operation)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onChange = append(l.onChange, f)
}

// Operation returns an operation, or [store.ErrNotFound]. One that is only
// prepared isn't found.
func (l *Log) Operation(ctx context.Context, id string) (*lcm.Operation, error) {
	op, _, err := l.operation(ctx, id)
	return op, err
}

// Prepared returns an operation whose commit isn't known to be durable, or
// [store.ErrNotFound].
func (l *Log) Prepared(ctx context.Context, id string) (*lcm.Operation, error) {
	op, _, err := load[lcm.Operation](ctx, l.store, preparedPrefix, id)
	return op, err
}

// Operations returns at most limit operations whose id is greater than after, by
// id. limit <= 0 means all. Prepared ones are left out.
func (l *Log) Operations(ctx context.Context, after string, limit int) ([]*lcm.Operation, error) {
	return list[lcm.Operation](ctx, l.store, operationPrefix, after, limit)
}

// Unresolved returns the prepared operations: at start, each is either committed
// (its trailer is found) or abandoned.
func (l *Log) Unresolved(ctx context.Context) ([]*lcm.Operation, error) {
	return list[lcm.Operation](ctx, l.store, preparedPrefix, "", 0)
}

// Instance returns the record of an instance, or one with only the ID where there is
// none.
func (l *Log) Instance(ctx context.Context, id string) (*lcm.Instance, error) {
	inst, _, err := l.instance(ctx, id)
	return inst, err
}

// Instances returns at most limit instance records whose id is greater than
// after, by id. limit <= 0 means all.
func (l *Log) Instances(ctx context.Context, after string, limit int) ([]*lcm.Instance, error) {
	return list[lcm.Instance](ctx, l.store, instancePrefix, after, limit)
}

func (l *Log) operation(ctx context.Context, id string) (*lcm.Operation, uint64, error) {
	return load[lcm.Operation](ctx, l.store, operationPrefix, id)
}

// instance returns version 0 where there is no record.
func (l *Log) instance(ctx context.Context, id string) (*lcm.Instance, uint64, error) {
	if err := checkID("instance", id); err != nil {
		return &lcm.Instance{ID: id}, 0, nil
	}
	rec, err := l.store.Get(ctx, instancePrefix+id)
	if errors.Is(err, store.ErrNotFound) {
		return &lcm.Instance{ID: id}, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("instance %s: %w", id, err)
	}
	inst, err := l.cache.instance(rec)
	return inst, rec.Version, err
}

func load[T any](ctx context.Context, s store.Store, prefix, id string) (*T, uint64, error) {
	noun := strings.TrimSuffix(prefix, "/")
	if err := checkID(noun, id); err != nil {
		return nil, 0, err
	}
	rec, err := s.Get(ctx, prefix+id)
	if err != nil {
		return nil, 0, fmt.Errorf("%s %s: %w", noun, id, err)
	}
	v := new(T)
	if err := json.Unmarshal(rec.Value, v); err != nil {
		return nil, 0, fmt.Errorf("%s %s: the record in the store can't be read: %w", noun, id, err)
	}
	return v, rec.Version, nil
}

func list[T any](ctx context.Context, s store.Store, prefix, after string, limit int) ([]*T, error) {
	noun := strings.TrimSuffix(prefix, "/")
	if after != "" {
		after = prefix + after
	}
	recs, err := s.List(ctx, prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", noun, err)
	}
	out := make([]*T, 0, len(recs))
	for _, rec := range recs {
		v := new(T)
		if err := json.Unmarshal(rec.Value, v); err != nil {
			return nil, fmt.Errorf("%s %s: the record in the store can't be read: %w", noun, strings.TrimPrefix(rec.Key, prefix), err)
		}
		out = append(out, v)
	}
	return out, nil
}

// checkID returns [store.ErrNotFound] for a text that can't be an id, as nothing has it.
func checkID(noun, id string) error {
	if id == "" || len(id) > 256 || strings.ContainsAny(id, "/\x00") {
		return fmt.Errorf("%s %.64q: not an id: %w", noun, id, store.ErrNotFound)
	}
	return nil
}

// batch gathers the records of one Put, what it means for the index, and whom to notify
// once they are durable.
type batch struct {
	recs       []store.Record
	instances  []*lcm.Instance
	forgotten  []string
	operations []*lcm.Operation
	states     []*lcm.Operation
	events     bool
	err        error
}

func (b *batch) put(key string, version uint64, v any) {
	value, err := json.Marshal(v)
	if err != nil {
		b.err = errors.Join(b.err, fmt.Errorf("%s: %w", key, err))
	}
	b.recs = append(b.recs, store.Record{Key: key, Version: version, Value: value})
}

func (b *batch) putInstance(inst *lcm.Instance, version uint64) {
	b.put(instancePrefix+inst.ID, version, inst)
	b.instances = append(b.instances, inst)
}

// putOperation puts an operation that was in state from, and its history at birth and end.
func (b *batch) putOperation(op *lcm.Operation, version uint64, from lcm.State) {
	b.put(operationPrefix+op.ID, version, op)
	b.indexed(op, version, from)
}

func (b *batch) indexed(op *lcm.Operation, version uint64, from lcm.State) {
	b.operations = append(b.operations, op)
	switch {
	case version == 0:
		b.recs = append(b.recs, store.Record{Key: historyPrefix + op.ID, Value: entryOfOperation(op).line()})
	case op.State.Ended() && !from.Ended():
		b.recs = append(b.recs, store.Record{Key: historyPrefix + op.ID, Version: openHistory, Value: entryOfOperation(op).line()})
	}
}

func (b *batch) delete(key string, version uint64) {
	b.recs = append(b.recs, store.Record{Key: key, Version: version, Delete: true})
}

func (b *batch) event(e Event) {
	b.events = true
	b.put(outboxPrefix, 0, e)
}

// transition appends an event for each state that op has passed since from.
func (b *batch) transition(op *lcm.Operation, from lcm.State) {
	path := lcm.Path(from, op.State)
	if from == lcm.Prepared && op.Type == lcm.ModifyInfo {
		path = []lcm.State{lcm.Processing} // it has no STARTING
	}
	for _, s := range path {
		snap := *op
		snap.Journal.Hooks, snap.Journal.Issued = nil, nil
		snap.State = s
		if s != op.State {
			snap.Error, snap.CancelMode = nil, ""
		}
		b.states = append(b.states, &snap)
		b.event(Event{Type: OperationEvent, Time: op.StateEntered, Instance: op.Instance, VNF: op.VNF, Operation: &snap})
	}
}

// commit puts the batch and then notifies all who wait for it.
func (l *Log) commit(ctx context.Context, b *batch) error {
	if b.err != nil {
		return b.err
	}
	if len(b.recs) == 0 {
		return nil
	}
	stored, err := l.store.Put(ctx, b.recs...)
	if err != nil {
		l.reindex(context.WithoutCancel(ctx), b)
		return err
	}
	l.apply(b)
	l.seen(stored)
	l.mu.Lock()
	hooks := l.onChange
	if b.events {
		for c := range l.signals {
			select {
			case c <- struct{}{}:
			default: // an earlier signal still waits to be received
			}
		}
	}
	l.mu.Unlock()
	for _, op := range b.states {
		for _, f := range hooks {
			f(op)
		}
	}
	return nil
}

// maxTurns is far more than an instance can have writers. Each of them causes at most one
// conflict of the others, so more conflicts mean a fault.
const maxTurns = 10_000

// again runs turn, which reads everything afresh, until it meets no conflict. It doesn't
// pause: each conflict means that another writer has got on. Nobody else changes the
// instance meanwhile, so that the index follows the store in the same order.
func (l *Log) again(ctx context.Context, instance string, turn func() error) error {
	defer l.locks.lock(instance)()
	return retry(ctx, turn)
}

func retry(ctx context.Context, turn func() error) error {
	for n := 1; ; n++ {
		err := turn()
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if n == maxTurns {
			return fmt.Errorf("%d attempts in vain: %w", n, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// vnf fills what an operation doesn't say about the product from the instance's record.
func vnf(op, inst lcm.VNF) lcm.VNF {
	return lcm.VNF{
		Name:            cmp.Or(op.Name, inst.Name),
		VnfdID:          cmp.Or(op.VnfdID, inst.VnfdID),
		Provider:        cmp.Or(op.Provider, inst.Provider),
		ProductName:     cmp.Or(op.ProductName, inst.ProductName),
		SoftwareVersion: cmp.Or(op.SoftwareVersion, inst.SoftwareVersion),
		VnfdVersion:     cmp.Or(op.VnfdVersion, inst.VnfdVersion),
	}
}
