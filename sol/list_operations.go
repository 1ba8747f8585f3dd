package sol

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/sol/filter"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store"
)

// operationShape returns the attributes that selectors may leave out (SOL003 clause
// 5.4.12.3.2).
func operationShape() filter.Shape {
	def := []string{"operationParams", "error", "resourceChanges", "changedInfo", "changedExtConnectivity", coordinations, warnings}
	return filter.Shape{Default: def, Optional: append([]string{"grantId", "cancelMode", triggered, "vnfSnapshotInfoId", rejectedCoordinations, "jibe"}, def...)}
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
	q, err := rest.ParseQuery(r, rest.Resource{Shape: &shape, Schema: a.schemas.operation, Indexed: inOperationEntry})
	if err != nil {
		return err
	}
	if q.After != "" && !oplog.ValidPosition(q.After) {
		return rest.Problem(http.StatusBadRequest, "the URI parameter %q is none that this list has named", rest.Marker)
	}
	scope, err := a.scope(r.Context())
	if err != nil {
		return err
	}
	all := a.operations(r.Context(), &q)
	if !scope.Everything() {
		all = a.seen(r.Context(), scope, all)
	}
	return rest.List(a.API, w, r, &q, rest.Listing[oplog.OperationEntry]{
		All:      all,
		Position: oplog.OperationEntry.Position,
		Body:     func(e oplog.OperationEntry) (any, error) { return a.entryBody(r.Context(), &e, &q) },
	})
}

// operations yields the operations that pass what is decided of q's filter. It takes the
// narrowest way to them that the filter allows.
func (a *api) operations(ctx context.Context, q *rest.Query) iter.Seq2[oplog.OperationEntry, error] {
	return func(yield func(oplog.OperationEntry, error) bool) {
		var e oplog.OperationEntry
		of := operationValues(&e)
		for candidate, err := range a.candidates(ctx, q) {
			if err != nil {
				yield(e, err)
				return
			}
			e = candidate
			ok, err := q.Decided.Match(of)
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

// seen yields those of the operations that the caller sees. The index doesn't know where an
// instance stood: that is read for those of which it counts.
func (a *api) seen(ctx context.Context, scope *access.Scope, all iter.Seq2[oplog.OperationEntry, error]) iter.Seq2[oplog.OperationEntry, error] {
	return func(yield func(oplog.OperationEntry, error) bool) {
		for e, err := range all {
			if err == nil {
				op, rerr := a.Operations.Operation(ctx, e.ID)
				if errors.Is(rerr, store.ErrNotFound) || rerr == nil && !scope.Sees(PlaceOf(a.Repo, op)) {
					continue
				}
				err = rerr
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// candidates are the operations among which those are that the filter matches.
func (a *api) candidates(ctx context.Context, q *rest.Query) iter.Seq2[oplog.OperationEntry, error] {
	if ids, ok := q.Filter.OneOf("id"); ok && q.After == "" && (a.PageSize < 0 || len(ids) <= a.PageSize) {
		return a.operationsByID(ctx, ids)
	}
	want := oplog.OperationQuery{After: q.After}
	want.From, want.Before = q.Decided.Between("startTime")
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
func oneOf[T ~string](q *rest.Query, attr string) []T {
	values, _ := q.Filter.OneOf(attr)
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
func (a *api) entryBody(ctx context.Context, e *oplog.OperationEntry, q *rest.Query) (any, error) {
	if !e.State.Ended() || slices.ContainsFunc(operationShape().Default, q.Wants) ||
		e.Type == lcm.ChangePackage && q.Wants(triggered) || since371(ctx) && q.Wants(rejectedCoordinations) {
		op, err := a.Operations.Operation(ctx, e.ID)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil // pruned meanwhile
		}
		if err != nil {
			return nil, err
		}
		if now := entryOf(op); now != *e {
			// It went on since the index was asked.
			if ok, err := q.Decided.Match(operationValues(&now)); err != nil || !ok {
				return nil, err
			}
		}
		return a.shownOperation(ctx, op), nil
	}
	return a.operationBody(&lcm.Operation{ID: e.ID, Instance: e.Instance, Type: e.Type, State: e.State,
		Started: e.Started, StateEntered: e.StateEntered, Automatic: e.Automatic}), nil
}

// Drop implements [rest.Droppable].
func (v *VnfLcmOpOcc) Drop(attr string) {
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
	case coordinations:
		v.LcmCoordinations = nil
	case rejectedCoordinations:
		v.RejectedCoordinations = nil
	case warnings:
		v.Warnings = nil
	case "jibe":
		v.Jibe = nil
	}
}
