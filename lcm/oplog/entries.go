package oplog

import (
	"iter"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/changed"
	"github.com/jibe-vnfm/jibe/lcm"
)

// InstanceEntry is what lists need of an instance's record without reading it. It is
// never changed: a newer record has a new one.
type InstanceEntry struct {
	ID                                      string
	VNF                                     lcm.VNF
	Operated, Settled                       desired.Revision
	Open, Prepared, OutstandingCommit, Last string
	Proposed                                string
	// Withdraws says that pull requests or branches of ended operations have still to go.
	Withdraws bool
	LastState lcm.State
	Seq       uint64
}

// OperationEntry is what lists need of an operation's record without reading it.
type OperationEntry struct {
	ID, Instance         string
	Type                 lcm.Type
	State                lcm.State
	Automatic, Contended bool
	// Times are UTC.
	Started, StateEntered time.Time
}

// OperationQuery picks operations. A field that is empty picks all.
type OperationQuery struct {
	Instance string
	Types    []lcm.Type
	States   []lcm.State
	// From and Before bound when the operation started: at From or later, and earlier than
	// Before.
	From, Before time.Time
	// After is the [OperationEntry.Position] of the last entry seen: the answer goes on
	// behind it. It doesn't need to be one of an operation that still exists. A text that is
	// no position ([ValidPosition]) picks nothing.
	After string
}

// OperationKind is what open operations are counted by.
type OperationKind struct {
	Type      lcm.Type
	State     lcm.State
	Automatic bool
}

// Counts are numbers of records.
type Counts struct {
	Instances, Operations int
	// Open are the operations that haven't ended.
	Open map[OperationKind]int
	// Contended are those of them that are contended.
	Contended int
}

// InstanceEntries returns the instances whose id is greater than after, by id, as they
// are when the iteration begins. Whoever got an answer of the Log sees what it told.
func (l *Log) InstanceEntries(after string) iter.Seq[*InstanceEntry] {
	return func(yield func(*InstanceEntry) bool) {
		l.index.snapshotInstances().Ascend(after, func(id string, e *InstanceEntry) bool {
			return id == after || yield(e)
		})
	}
}

// WatchInstances returns a function that tells which instances' entries may have changed.
func (l *Log) WatchInstances() changed.Take {
	l.index.mu.Lock()
	defer l.index.mu.Unlock()
	take := l.index.changes.Watch()
	return func() ([]string, bool) {
		l.index.mu.Lock()
		defer l.index.mu.Unlock()
		return take()
	}
}

// InstanceEntry returns the entry of one instance, if it has a record.
func (l *Log) InstanceEntry(id string) (*InstanceEntry, bool) {
	l.index.mu.Lock()
	defer l.index.mu.Unlock()
	return l.index.instances.Get(id)
}

// OperationEntries returns the operations that q picks, by start and then by id, as they
// are when the iteration begins. Prepared ones are left out. Only operations of the types,
// the states and the instance are looked at, from the first position that may be picked.
func (l *Log) OperationEntries(q OperationQuery) iter.Seq[OperationEntry] {
	return func(yield func(OperationEntry) bool) {
		for e := range l.index.operations(q) {
			if !yield(e.entry()) {
				return
			}
		}
	}
}

// OpenOperations returns the operations that haven't ended, by start and then by id.
func (l *Log) OpenOperations() []OperationEntry {
	var open []OperationEntry
	for e := range l.OperationEntries(OperationQuery{States: openStates()}) {
		open = append(open, e)
	}
	return open
}

// Counts returns the numbers of records. They are kept, not counted.
func (l *Log) Counts() Counts {
	l.index.mu.Lock()
	defer l.index.mu.Unlock()
	return Counts{Instances: l.index.instances.Len(), Operations: l.index.total, Open: maps.Clone(l.index.open), Contended: l.index.contended}
}

func openStates() []lcm.State {
	var open []lcm.State
	for _, s := range lcm.States() {
		if s != lcm.Prepared && !s.Ended() {
			open = append(open, s)
		}
	}
	return open
}

// Position is where the entry stands in the order of lists.
func (e OperationEntry) Position() string {
	return strconv.FormatInt(stamp(e.Started), 10) + "." + e.ID
}

// ValidPosition says whether a text is an [OperationEntry.Position].
func ValidPosition(s string) bool {
	_, ok := atPosition(s)
	return ok
}

func atPosition(s string) (*compact, bool) {
	started, id, ok := strings.Cut(s, ".")
	n, err := strconv.ParseInt(started, 10, 64)
	if !ok || err != nil || id == "" {
		return nil, false
	}
	return newCompact(id, n), true
}
