package sol

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/filter"
	"github.com/jibe-vnfm/jibe/store"
)

// operationShape returns the attributes that selectors may leave out (SOL003 clause
// 5.4.12.3.2).
func operationShape() filter.Shape {
	def := []string{"operationParams", "error", "resourceChanges", "changedInfo", "changedExtConnectivity"}
	return filter.Shape{Default: def, Optional: append([]string{"grantId", "cancelMode", triggered, "vnfSnapshotInfoId"}, def...)}
}

const triggered = "modificationsTriggeredByVnfPkgChange"

// inOperationEntry are the attributes that an [oplog.OperationEntry] has.
func inOperationEntry(path []string) int {
	if _, ok := operationValue(&oplog.OperationEntry{}, path[0]); ok {
		return 1
	}
	return 0
}

func operationValue(e *oplog.OperationEntry, attr string) (filter.Value, bool) {
	switch attr {
	case "id":
		return filter.Text(e.ID), true
	case "vnfInstanceId":
		return filter.Text(e.Instance), true
	case "operation":
		return filter.Text(string(e.Type)), true
	case "operationState":
		return filter.Text(string(e.State)), true
	case "startTime":
		return filter.Time(e.Started), true
	case "stateEnteredTime":
		return filter.Time(e.StateEntered), true
	case "isAutomaticInvocation":
		return filter.Bool(e.Automatic), true
	}
	return filter.Value{}, false
}

// operationValues returns the attributes of what e points to.
func operationValues(e *oplog.OperationEntry) func(attr string) filter.Value {
	return func(attr string) filter.Value {
		v, _ := operationValue(e, attr)
		return v
	}
}

// listOperations is GET vnf_lcm_op_occs (clause 5.4.12.3.2), by start time, then by id.
func (a *api) listOperations(w http.ResponseWriter, r *http.Request) error {
	shape := operationShape()
	q, err := parseQuery(r, &shape, inOperationEntry)
	if err != nil {
		return err
	}
	if q.after != "" && !oplog.ValidPosition(q.after) {
		return problem(http.StatusBadRequest, "the URI parameter %q is none that this list has named", marker)
	}
	return respond(a, w, r, &q, listing[oplog.OperationEntry]{
		all:      a.operations(r.Context(), &q),
		position: oplog.OperationEntry.Position,
		body:     func(e oplog.OperationEntry) (any, error) { return a.entryBody(r.Context(), &e, &q) },
	})
}

// operations yields the operations that pass what is decided of q's filter. It takes the
// narrowest way to them that the filter allows.
func (a *api) operations(ctx context.Context, q *query) iter.Seq2[oplog.OperationEntry, error] {
	return func(yield func(oplog.OperationEntry, error) bool) {
		var e oplog.OperationEntry
		of := operationValues(&e)
		for candidate, err := range a.candidates(ctx, q) {
			if err != nil {
				yield(e, err)
				return
			}
			e = candidate
			ok, err := q.decided.Match(of)
			if err != nil {
				yield(e, err)
				return
			}
			if ok && !yield(e, nil) {
				return
			}
		}
	}
}

// candidates are the operations among which those are that the filter matches.
func (a *api) candidates(ctx context.Context, q *query) iter.Seq2[oplog.OperationEntry, error] {
	if ids, ok := q.filter.OneOf("id"); ok && q.after == "" && (a.PageSize < 0 || len(ids) <= a.PageSize) {
		return a.operationsByID(ctx, ids)
	}
	want := oplog.OperationQuery{After: q.after}
	want.From, want.Before = q.decided.Between("startTime")
	want.Types = oneOf[lcm.Type](q, "operation")
	want.States = oneOf[lcm.State](q, "operationState")
	if ids := oneOf[string](q, "vnfInstanceId"); len(ids) == 1 {
		want.Instance = ids[0]
	}
	return func(yield func(oplog.OperationEntry, error) bool) {
		for e := range a.Operations.OperationEntries(want) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// oneOf returns the values of which an attribute must have one, nil where it may have any.
func oneOf[T ~string](q *query, attr string) []T {
	values, _ := q.filter.OneOf(attr)
	var out []T
	for _, v := range values {
		out = append(out, T(v))
	}
	return out
}

// operationsByID yields those of the operations that there are, in the order of lists.
func (a *api) operationsByID(ctx context.Context, ids []string) iter.Seq2[oplog.OperationEntry, error] {
	return func(yield func(oplog.OperationEntry, error) bool) {
		var found []oplog.OperationEntry
		for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
			op, err := a.Operations.Operation(ctx, id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				yield(oplog.OperationEntry{}, err)
				return
			}
			found = append(found, entryOf(op))
		}
		slices.SortStableFunc(found, func(x, y oplog.OperationEntry) int { return x.Started.Compare(y.Started) })
		for _, e := range found {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// entryOf returns what the index has of an operation.
func entryOf(op *lcm.Operation) oplog.OperationEntry {
	return oplog.OperationEntry{ID: op.ID, Instance: op.Instance, Type: op.Type, State: op.State, Automatic: op.Automatic,
		Contended: op.Contended, Started: op.Started.UTC(), StateEntered: op.StateEntered.UTC()}
}

// entryBody makes an entry of the list. The record of an operation that has ended is read
// only for what the entry lacks.
func (a *api) entryBody(ctx context.Context, e *oplog.OperationEntry, q *query) (any, error) {
	if !e.State.Ended() || slices.ContainsFunc(operationShape().Default, q.wants) ||
		e.Type == lcm.ChangePackage && q.wants(triggered) {
		op, err := a.Operations.Operation(ctx, e.ID)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil // pruned meanwhile
		}
		if err != nil {
			return nil, err
		}
		if now := entryOf(op); now != *e {
			// It went on since the index was asked.
			if ok, err := q.decided.Match(operationValues(&now)); err != nil || !ok {
				return nil, err
			}
		}
		return a.operationBody(op), nil
	}
	return a.operationBody(&lcm.Operation{ID: e.ID, Instance: e.Instance, Type: e.Type, State: e.State,
		Started: e.Started, StateEntered: e.StateEntered, Automatic: e.Automatic}), nil
}

// drop implements droppable.
func (v *VnfLcmOpOcc) drop(attr string) {
	switch attr {
	case "operationParams":
		v.OperationParams = nil
	case "cancelMode":
		v.CancelMode = ""
	case "error":
		v.Error = nil
	case "resourceChanges":
		v.ResourceChanges = nil
	case "changedInfo":
		v.ChangedInfo = nil
	case "changedExtConnectivity":
		v.ChangedExtConn = nil
	case triggered:
		v.PkgChange = nil
	}
}
