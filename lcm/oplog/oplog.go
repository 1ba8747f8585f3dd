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
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/internal/lru"
	"github.com/jibe-vnfm/jibe/internal/sealed"
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
	index *index
	locks locks
	// shared is nil where nobody else writes the store.
	shared *shared
	// member is the member whose requests are prepared.
	member string

	instances            *records[lcm.Instance]
	operations, prepared *records[lcm.Operation]
	shown                *sync.RWMutex // of all three
	// histories are the versions of the histories of operations that began here, 0 where it isn't known.
	histories *lru.Cache[uint64]

	// recording is held for reading from the decision whether a change gets its events until it
	// is durable, and for writing while that decision changes.
	recording    sync.RWMutex
	unsubscribed bool

	mu       sync.Mutex
	onChange []func(*lcm.Operation)
	onRecord []func(operation, instance string)
	followed []func(*lcm.Operation)
	stored   []storedHook
	onLost   []func()
	signals  map[chan struct{}]bool
	end      uint64 // the newest event known
}

// Option changes how a Log works.
type Option func(*Log)

// WithLog makes the Log say what takes long at its start.
func WithLog(log *slog.Logger) Option { return func(l *Log) { l.log = log } }

// WithMember names the member whose requests are prepared here: see [lcm.Operation.Member].
func WithMember(holder string) Option { return func(l *Log) { l.member = holder } }

// WithSealer has records of operations proven that could say where credentials go: see
// [lcm.Operation.NeedsProof]. Without it none is.
func WithSealer(s sealed.Sealer) Option {
	return func(l *Log) {
		for _, r := range []*records[lcm.Operation]{l.operations, l.prepared} {
			r.sealer, r.needs, r.distrust = s, (*lcm.Operation).NeedsProof, (*lcm.Operation).Distrust
		}
	}
}

// Open makes a Log over s, whose only writer of the Log's keys it is from now on, unless they
// are [Shared]. It reads what lists need of all records. now is the clock of all records.
func Open(ctx context.Context, s store.Store, now func() time.Time, options ...Option) (*Log, error) {
	shown := new(sync.RWMutex)
	l := &Log{store: s, now: now, log: slog.New(slog.DiscardHandler), index: newIndex(), signals: map[chan struct{}]bool{},
		instances:  newRecords(s, instancePrefix, shown, cloneInstance),
		operations: newRecords(s, operationPrefix, shown, cloneOperation),
		prepared:   newRecords(s, preparedPrefix, shown, cloneOperation),
		shown:      shown,
		histories:  lru.New[uint64](historiesKept, historiesKept),
	}
	for _, o := range options {
		o(l)
	}
	if err := l.start(ctx); err != nil {
		return nil, fmt.Errorf("operation log: %w", err)
	}
	return l, nil
}

// OnChange has f called after each state that an operation entered by this Log, once the
// record is durable, in the goroutine that recorded it. f gets a copy without the
// journal; it must not block, nor change a record. What others record of a [Shared] store is
// told by [Log.OnFollowed], so that nothing is counted twice.
func (l *Log) OnChange(f func(*lcm.Operation)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onChange = append(l.onChange, f)
}

// OnRecord has f called after each change of an operation's record, be it a line of its story and
// whoever made it, once the record is durable and can be seen here. f must not block.
func (l *Log) OnRecord(f func(operation, instance string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onRecord = append(l.onRecord, f)
}

// Operation returns an operation, or [store.ErrNotFound]. One that is only
// prepared isn't found.
func (l *Log) Operation(ctx context.Context, id string) (*lcm.Operation, error) {
	return l.operations.get(ctx, id)
}

// Prepared returns an operation whose commit isn't known to be durable, or
// [store.ErrNotFound].
func (l *Log) Prepared(ctx context.Context, id string) (*lcm.Operation, error) {
	return l.prepared.get(ctx, id)
}

// Operations returns at most limit operations whose id is greater than after, by
// id. limit <= 0 means all. Prepared ones are left out.
func (l *Log) Operations(ctx context.Context, after string, limit int) ([]*lcm.Operation, error) {
	return l.operations.list(ctx, after, limit)
}

// Unresolved returns the prepared operations: at start, each is either committed
// (its trailer is found) or abandoned.
func (l *Log) Unresolved(ctx context.Context) ([]*lcm.Operation, error) {
	return l.prepared.list(ctx, "", 0)
}

// Instance returns the record of an instance, or one with only the ID where there is
// none.
func (l *Log) Instance(ctx context.Context, id string) (*lcm.Instance, error) {
	inst, err := l.instances.get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return &lcm.Instance{ID: id}, nil
	}
	return inst, err
}

// Instances returns at most limit instance records whose id is greater than
// after, by id. limit <= 0 means all.
func (l *Log) Instances(ctx context.Context, after string, limit int) ([]*lcm.Instance, error) {
	return l.instances.list(ctx, after, limit)
}

// instance returns a record to change, nil with an instance that has only the ID where there
// is none.
func (l *Log) instance(ctx context.Context, id string) (*lcm.Instance, *record[lcm.Instance], error) {
	inst, was, err := l.instances.hold(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return &lcm.Instance{ID: id}, nil, nil
	}
	return inst, was, err
}

// instanceOf returns whose operation it is, which never changes.
func (l *Log) instanceOf(ctx context.Context, r *records[lcm.Operation], opID string) (string, error) {
	rec, err := r.read(ctx, opID)
	if err != nil {
		return "", err
	}
	op, err := rec.decode()
	if err != nil {
		return "", err
	}
	return op.Instance, nil
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
	events     []Event
	err        error
	// hidden are called before the batch is put, kept once it is durable, and dropped if that
	// isn't known.
	hidden, dropped []func()
	kept            []func(stored []store.Record)
	ends            []int // those of recs that are histories whose versions aren't known here
}

func (l *Log) putInstance(b *batch, inst *lcm.Instance, was *record[lcm.Instance]) {
	if put(b, l.instances, inst.ID, was, inst) {
		b.instances = append(b.instances, inst)
	}
}

// putOperation puts an operation that was in state from, and its history at birth and end.
func (l *Log) putOperation(b *batch, op *lcm.Operation, was *record[lcm.Operation], from lcm.State) {
	if !put(b, l.operations, op.ID, was, op) {
		return
	}
	b.operations = append(b.operations, op)
	switch {
	case was == nil:
		n := len(b.recs)
		b.recs = append(b.recs, store.Record{Key: historyPrefix + op.ID, Value: entryOfOperation(op).line()})
		b.kept = append(b.kept, func(stored []store.Record) { l.histories.Add(op.ID, stored[n].Version, 8) })
	case op.State.Ended() && !from.Ended():
		version, _ := l.histories.Get(op.ID)
		if version == 0 {
			b.ends = append(b.ends, len(b.recs))
		}
		b.recs = append(b.recs, store.Record{Key: historyPrefix + op.ID, Version: version, Value: entryOfOperation(op).line()})
	}
}

// transition appends an event for each state that op has passed since from.
func (b *batch) transition(op *lcm.Operation, from lcm.State) {
	path := lcm.Path(from, op.State)
	if from == lcm.Prepared && op.Type == lcm.ModifyInfo && op.Proposal == nil {
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
		b.events = append(b.events, Event{Type: OperationEvent, Time: op.StateEntered, Instance: op.Instance,
			Dir: cmp.Or(op.After.Dir, op.Before.Dir), VNF: op.VNF, Operation: &snap})
	}
}

// commit puts the batch and then notifies all who wait for it.
func (l *Log) commit(ctx context.Context, b *batch) error {
	if b.err != nil {
		return b.err
	}
	if len(b.recs)+len(b.events) == 0 {
		return nil
	}
	told, err := l.write(ctx, b)
	if err != nil {
		return err
	}
	l.mu.Lock()
	hooks, recorded := l.onChange, l.onRecord
	if told {
		l.wake()
	}
	l.mu.Unlock()
	for _, op := range b.operations {
		for _, f := range recorded {
			f(op.ID, op.Instance)
		}
	}
	for _, op := range b.states {
		for _, f := range hooks {
			f(op)
		}
	}
	return nil
}

// wake tells all who wait for events. The caller has mu.
func (l *Log) wake() {
	for c := range l.signals {
		select {
		case c <- struct{}{}:
		default: // an earlier signal still waits to be received
		}
	}
}

// write makes the batch durable, with its events if anybody wants them.
func (l *Log) write(ctx context.Context, b *batch) (told bool, err error) {
	l.recording.RLock()
	defer l.recording.RUnlock()
	for _, n := range b.ends {
		is, err := l.store.Get(ctx, b.recs[n].Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		b.recs[n].Version = is.Version
	}
	recs := b.recs
	if told = len(b.events) > 0 && (l.shared != nil || !l.unsubscribed); told {
		for _, e := range b.events {
			e.Replicated = l.shared != nil
			rec, err := e.record()
			if err != nil {
				return false, err
			}
			recs = append(recs, rec)
		}
	}
	for _, f := range b.hidden {
		f()
	}
	defer l.shared.begin(b.operations)()
	stored, err := l.store.Put(ctx, recs...)
	if err != nil {
		for _, op := range b.operations {
			l.histories.Add(op.ID, 0, 8) // the next turn reads them
		}
		l.reindex(context.WithoutCancel(ctx), b)
		return false, err
	}
	l.shared.own(recs, stored)
	l.apply(b, stored)
	l.seen(stored)
	return told, nil
}

// maxTurns is far more than an instance can have writers. Each of them causes at most one
// conflict of the others, so more conflicts mean a fault.
const maxTurns = 10_000

// again runs turn, which reads everything afresh, until it meets no conflict. It doesn't
// pause: each conflict means that another writer has got on. No other goroutine changes the
// instance meanwhile, so that the index follows the store in the same order. turn reads with
// the context that it is given.
func (l *Log) again(ctx context.Context, instance string, turn func(ctx context.Context) error) error {
	defer l.locks.lock(instance)()
	if l.shared != nil {
		ctx = afresh(ctx)
	}
	return retry(ctx, func() error { return turn(ctx) })
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
