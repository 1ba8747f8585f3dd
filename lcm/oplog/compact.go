package oplog

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/lcm"
)

// compact is an operation's entry as it is held in memory: 64 bytes, of which a million
// can be held. It is never changed, so that snapshots share it.
type compact struct {
	id    uuid.UUID
	named *string // an id that is no UUID; id is zero then
	owner *owner
	kind  *kind
	// started and entered are [stamp]s.
	started, entered     int64
	automatic, contended bool
}

// zeroStamp is the stamp of the zero time, which is earlier than all others.
const zeroStamp = math.MinInt64

// stamp is a time in nanoseconds since 1970.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return zeroStamp
	}
	return t.UnixNano()
}

func unstamp(n int64) time.Time {
	if n == zeroStamp {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// newCompact makes an entry that is no more than its position.
func newCompact(id string, started int64) *compact {
	c := &compact{started: started}
	if u, err := uuid.Parse(id); err == nil && u.String() == id {
		c.id = u
	} else {
		c.named = &id
	}
	return c
}

func (c *compact) name() string {
	if c.named != nil {
		return *c.named
	}
	return c.id.String()
}

// position is the order of lists: by start, then by id.
func position(a, b *compact) int {
	if n := cmp.Compare(a.started, b.started); n != 0 {
		return n
	}
	if a.named == nil && b.named == nil {
		return bytes.Compare(a.id[:], b.id[:]) // as their texts are in order
	}
	return strings.Compare(a.name(), b.name())
}

func (c *compact) entry() OperationEntry {
	return OperationEntry{ID: c.name(), Instance: c.owner.id, Type: c.kind.typ, State: c.kind.state,
		Automatic: c.automatic, Contended: c.contended, Started: unstamp(c.started), StateEntered: unstamp(c.entered)}
}

func entryOfOperation(op *lcm.Operation) OperationEntry {
	return OperationEntry{ID: op.ID, Instance: op.Instance, Type: op.Type, State: op.State,
		Automatic: op.Automatic, Contended: op.Contended, Started: op.Started, StateEntered: op.StateEntered}
}

// The marks of a line.
const (
	markAutomatic = "a"
	markContended = "c"
	markNone      = "-"
)

// line is the entry as the store has it under history/<id>: its parts with a blank between
// them, the instance at the end.
func (e OperationEntry) line() []byte {
	marks := ""
	if e.Automatic {
		marks += markAutomatic
	}
	if e.Contended {
		marks += markContended
	}
	if marks == "" {
		marks = markNone
	}
	return fmt.Appendf(nil, "%s %s %s %d %d %s", e.Type, e.State, marks, stamp(e.Started), stamp(e.StateEntered), e.Instance)
}

// lineParts is how many parts a line has.
const lineParts = 6

func parseLine(id string, line []byte) (OperationEntry, error) {
	parts := strings.SplitN(string(line), " ", lineParts)
	if len(parts) != lineParts {
		return OperationEntry{}, fmt.Errorf("history of operation %s: the record in the store can't be read: %.64q", id, line)
	}
	started, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil {
		return OperationEntry{}, fmt.Errorf("history of operation %s: start: %w", id, err)
	}
	entered, err := strconv.ParseInt(parts[4], 10, 64)
	if err != nil {
		return OperationEntry{}, fmt.Errorf("history of operation %s: state entered: %w", id, err)
	}
	return OperationEntry{ID: id, Type: lcm.Type(parts[0]), State: lcm.State(parts[1]), Instance: parts[5],
		Automatic: strings.Contains(parts[2], markAutomatic), Contended: strings.Contains(parts[2], markContended),
		Started: unstamp(started), StateEntered: unstamp(entered)}, nil
}
