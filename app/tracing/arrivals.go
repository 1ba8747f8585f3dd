package tracing

import (
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// How much is remembered of how changes came. What is forgotten costs the first span of a trace.
const (
	mostPushes   = 1024
	mostArrivals = 16384
)

// arrivals remember how changes came that nobody asked for by the API, so that the traces of
// their operations begin there. What a restart loses is the first span of operations that begin
// after it.
type arrivals struct {
	tracer *trace.Tracer
	pushes *lru.Cache[string, trace.Span] // by commit
	// ours are the commits that this process made, and the operations that it made them for.
	ours *lru.Cache[string, bool]
	// pending is how the newest change of an instance came, until an operation is made of it.
	pending *lru.Cache[string, trace.Span]
}

// newArrivals is nil where nothing is traced.
func newArrivals(t *trace.Tracer) (*arrivals, error) {
	if !t.On() {
		return nil, nil
	}
	a := &arrivals{tracer: t}
	var errs [3]error
	a.pushes, errs[0] = lru.New[string, trace.Span](mostPushes)
	a.ours, errs[1] = lru.New[string, bool](mostArrivals)
	a.pending, errs[2] = lru.New[string, trace.Span](mostArrivals)
	return a, errors.Join(errs[:]...)
}

// Follow has the operations that are made of commits begin their traces there.
func (t *Tracing) Follow(log *oplog.Log) {
	if t.arrivals != nil {
		log.OnChange(t.arrivals.operation)
	}
}

// Pushed notes that a push was taken which began at a time.
func (t *Tracing) Pushed(branch string, updates []check.RefUpdate, began time.Time) {
	t.arrivals.pushed(branch, updates, began)
}

// Seen notes that the branch was seen to have moved to a commit, which changes instances.
func (t *Tracing) Seen(commit string, instances []string) { t.arrivals.seen(commit, instances) }

// pushed notes that a push was taken which began at a time.
func (a *arrivals) pushed(branch string, updates []check.RefUpdate, began time.Time) {
	if a == nil {
		return
	}
	for _, u := range updates {
		if u.Ref == branch {
			a.pushes.Add(u.New, trace.Span{Name: "push", Kind: trace.Server, Start: began, End: time.Now(),
				Attributes: []trace.Attribute{{Key: "jibe.commit", Value: u.New}}})
		}
	}
}

// own notes a commit that this process made, for an operation where that isn't "".
func (a *arrivals) own(commit, operation string) {
	if a == nil || commit == "" {
		return
	}
	a.ours.Add(commit, true)
	if operation != "" {
		a.ours.Add(operation, true)
	}
}

// seen notes that the branch was seen to have moved to a commit, which changes instances.
func (a *arrivals) seen(commit string, instances []string) {
	if a == nil || a.ours.Contains(commit) {
		return // what this process fills in isn't how the change came
	}
	now := time.Now()
	arrival, pushed := a.pushes.Get(commit)
	if !pushed {
		arrival = trace.Span{Name: "commit", Kind: trace.Internal, Start: now, End: now, Attributes: []trace.Attribute{{Key: "jibe.commit", Value: commit}}}
	}
	for _, id := range instances[:min(len(instances), mostArrivals)] {
		if was, ok := a.pending.Get(id); pushed || !ok || was.Name != "push" {
			a.pending.Add(id, arrival)
		}
	}
}

// operation records how the change came of which an operation was made.
func (a *arrivals) operation(op *lcm.Operation) {
	s, ok := a.pending.Get(op.Instance)
	if !ok || op.State != lcm.Starting && op.State != lcm.Processing {
		return
	}
	a.pending.Remove(op.Instance)
	root := a.tracer.Operation(op.ID)
	if !root.Valid() || op.Automatic || a.ours.Contains(op.ID) {
		return
	}
	s.Context, s.Parent = trace.Context{Trace: root.Trace, Span: trace.SpanOf(op.ID, s.Name)}, root.Span
	a.tracer.Record(s)
}
