package reconciler

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
)

// mostStepSpans is how many steps of one batch have a span.
const mostStepSpans = 100

// traces makes the spans of operations: one for each operation, one for each state that it was
// in and worked on, and below these what was done meanwhile.
type traces struct {
	*trace.Tracer

	mu sync.Mutex
	of map[string]stay // by operation
}

// stay is the time that an operation spends in a state.
type stay struct {
	state   lcm.State
	since   time.Time
	attempt int
}

func newTraces(t *trace.Tracer) *traces { return &traces{Tracer: t, of: map[string]stay{}} }

// load takes up what a former process left open.
func (t *traces) load(open []oplog.OperationEntry) {
	if !t.On() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range open {
		t.of[e.ID] = stay{state: e.State, since: e.StateEntered}
	}
}

// stateSpan is the span of the operation's time in a state. A state that is entered again is
// another one; its time in UTC is the same in every process.
func stateSpan(operation string, state lcm.State, since time.Time) trace.SpanID {
	return trace.SpanOf(operation, string(state), strconv.FormatInt(since.UnixMicro(), 10))
}

// span is the span of the operation's present state, the zero value where it isn't traced.
func (t *traces) span(op *lcm.Operation) trace.SpanID {
	if !t.On() {
		return trace.SpanID{}
	}
	return stateSpan(op.ID, op.State, op.StateEntered)
}

// at has what is done for the operation belong to its present state.
func (t *traces) at(ctx context.Context, op *lcm.Operation) context.Context {
	if !t.On() {
		return ctx
	}
	c := t.Operation(op.ID)
	if !c.Valid() {
		return ctx
	}
	c.Span = t.span(op)
	return trace.With(ctx, c)
}

// spanOfState is how the span of a state is called.
func spanOfState(s lcm.State) string {
	switch s {
	case lcm.Starting:
		return "starting"
	case lcm.Processing:
		return "attempt"
	case lcm.RollingBack:
		return "rollback"
	}
	return "rest"
}

// changed records the state that the operation has left, and the operation where it has ended.
func (t *traces) changed(op *lcm.Operation) {
	if !t.On() {
		return
	}
	root := t.Operation(op.ID)
	if !root.Valid() {
		return
	}
	t.mu.Lock()
	was, known := t.of[op.ID]
	if op.State.Ended() {
		delete(t.of, op.ID)
	} else {
		t.of[op.ID] = stay{op.State, op.StateEntered, op.Attempt}
	}
	t.mu.Unlock()
	if known && was.state != lcm.FailedTemp {
		s := trace.Span{Context: root, Parent: root.Span, Name: spanOfState(was.state), Kind: trace.Internal, Start: was.since, End: op.StateEntered,
			Failed: op.State == lcm.FailedTemp || op.State == lcm.Failed || op.State == lcm.RolledBack && was.state == lcm.Starting}
		s.Span = stateSpan(op.ID, was.state, was.since)
		if was.attempt > 0 {
			s.Attributes = []trace.Attribute{{Key: "jibe.attempt", Value: strconv.Itoa(was.attempt)}}
		}
		t.Record(s)
	}
	if !op.State.Ended() {
		return
	}
	t.Record(trace.Span{Context: root, Name: "operation " + string(op.Type), Kind: trace.Internal, Start: op.Started, End: op.StateEntered,
		Failed: op.State != lcm.Completed, Attributes: []trace.Attribute{
			{Key: "jibe.operation", Value: op.ID}, {Key: "jibe.operation.type", Value: string(op.Type)}, {Key: "jibe.operation.state", Value: string(op.State)},
			{Key: "jibe.operation.automatic", Value: strconv.FormatBool(op.Automatic)},
			{Key: "jibe.instance", Value: op.Instance}, {Key: "jibe.folder", Value: op.After.Dir}, {Key: "jibe.commit", Value: op.After.Commit},
		}})
}

// phase records a phase that the operation has left, as part of the state that it was in.
func (t *traces) phase(op *lcm.Operation, was phaseSince, until time.Time) {
	if !t.On() {
		return
	}
	c := t.Operation(op.ID)
	if !c.Valid() {
		return
	}
	c.Span = trace.SpanID{}
	t.Record(trace.Span{Context: c, Parent: was.span, Name: "phase " + string(was.phase), Kind: trace.Internal, Start: was.since, End: until})
}

// steps records the steps of a batch that was handed to the driver, below the span of that.
func (t *traces) steps(batch []plan.Step, done *trace.Active, began time.Time, failed bool) {
	at := done.Context()
	if !at.Valid() {
		return
	}
	for _, s := range batch[:min(len(batch), mostStepSpans)] {
		if s.Action == plan.Wait {
			continue
		}
		t.Record(trace.Span{Context: trace.Context{Trace: at.Trace}, Parent: at.Span, Name: "step " + string(s.Action), Kind: trace.Internal,
			Start: began, End: time.Now(), Failed: failed, Attributes: []trace.Attribute{{Key: "jibe.step.object", Value: s.Object}}})
	}
}
