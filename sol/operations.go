package sol

import (
	"context"
	"errors"
	"net/http"

	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
)

// showOperation is GET vnf_lcm_op_occs/{id} (SOL003 clause 5.4.13.3.2).
func (a *api) showOperation(w http.ResponseWriter, r *http.Request) error {
	op, err := a.operation(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	body := a.operationBody(op)
	w.Header().Set("ETag", operationTag(body))
	return reply(w, http.StatusOK, body)
}

func (a *api) operation(ctx context.Context, id string) (*lcm.Operation, error) {
	op, err := a.Operations.Operation(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, problem(http.StatusNotFound, "VNF LCM operation occurrence %s does not exist", id)
	}
	return op, err
}

// ask does something to the operation that the request names.
func (a *api) ask(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, id string) (*lcm.Operation, error)) (*lcm.Operation, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), writeTimeout)
	defer cancel()
	op, err := a.operation(ctx, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if err := match(r, operationTag(a.operationBody(op))); err != nil {
		return nil, err
	}
	if op, err = do(ctx, op.ID); err != nil {
		return nil, err
	}
	a.Poke(op.Instance)
	a.Log.InfoContext(ctx, "operation asked", "route", r.Pattern, "instance", op.Instance, "operation", op.ID, "state", op.State, "by", callerOf(r.Context()))
	return op, nil
}

// retry is POST vnf_lcm_op_occs/{id}/retry (clause 5.4.14).
func (a *api) retry(w http.ResponseWriter, r *http.Request) error {
	return a.accept(w, r, a.Operations.Retry)
}

// rollback is POST vnf_lcm_op_occs/{id}/rollback (clause 5.4.15).
func (a *api) rollback(w http.ResponseWriter, r *http.Request) error {
	return a.accept(w, r, a.Operations.Rollback)
}

// accept answers 202 without a body: clients follow the operation's state.
func (a *api) accept(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, id string) (*lcm.Operation, error)) error {
	if _, err := a.ask(w, r, do); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// fail is POST vnf_lcm_op_occs/{id}/fail (clause 5.4.16): it answers with the
// operation, as failing it is done at once.
func (a *api) fail(w http.ResponseWriter, r *http.Request) error {
	op, err := a.ask(w, r, a.Operations.Fail)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, a.operationBody(op))
}

// cancel is POST vnf_lcm_op_occs/{id}/cancel (clause 5.4.17).
func (a *api) cancel(w http.ResponseWriter, r *http.Request) error {
	var req cancelMode
	if err := read(w, r, &req); err != nil {
		return err
	}
	if req.CancelMode != lcm.Forceful && req.CancelMode != lcm.Graceful {
		return problem(http.StatusBadRequest, "attribute \"cancelMode\" must be %s or %s, not %q", lcm.Graceful, lcm.Forceful, req.CancelMode)
	}
	return a.accept(w, r, func(ctx context.Context, id string) (*lcm.Operation, error) {
		return a.Operations.Cancel(ctx, id, req.CancelMode)
	})
}

// operationBody returns the operation as clients see it.
func (a *api) operationBody(op *lcm.Operation) *VnfLcmOpOcc {
	v := &VnfLcmOpOcc{
		ID: op.ID, OperationState: op.State, StateEnteredTime: stamp(op.StateEntered), StartTime: stamp(op.Started),
		VnfInstanceID: op.Instance, Operation: op.Type, IsAutomaticInvocation: op.Automatic,
		OperationParams: op.Params, IsCancelPending: op.CancelMode != "", CancelMode: op.CancelMode, Error: op.Error,
	}
	if op.State == lcm.Completed {
		v.ChangedInfo, v.PkgChange = op.ChangedInfo, op.PkgChange
	}
	v.ResourceChanges, v.ChangedExtConn = notify.Affected(op), notify.ChangedExtConnectivity(op)
	v.Links = map[string]Link{
		"self":        {Href: a.link("vnf_lcm_op_occs", op.ID)},
		"vnfInstance": {Href: a.link("vnf_instances", op.Instance)},
	}
	// Existing clients expect these three in every state.
	for _, task := range []string{"retry", "rollback", "fail"} {
		v.Links[task] = Link{Href: a.link("vnf_lcm_op_occs", op.ID, task)}
	}
	if _, err := lcm.Next(op.State, lcm.CancelAsked); err == nil {
		v.Links["cancel"] = Link{Href: a.link("vnf_lcm_op_occs", op.ID, "cancel")}
	}
	return v
}

// operationTag returns the ETag of an operation. It changes with every change of the body.
func operationTag(body *VnfLcmOpOcc) string {
	b, _ := json.Marshal(body)
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}
