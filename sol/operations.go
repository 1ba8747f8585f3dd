package sol

import (
	"context"
	"errors"
	"net/http"

	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store"
)

// showOperation is GET vnf_lcm_op_occs/{id} (SOL003 clause 5.4.13.3.2).
func (a *api) showOperation(w http.ResponseWriter, r *http.Request) error {
	op, err := a.operation(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	w.Header().Set("ETag", a.operationTag(op))
	return rest.Reply(w, r, http.StatusOK, a.shownOperation(r.Context(), op))
}

func (a *api) operation(ctx context.Context, id string) (*lcm.Operation, error) {
	op, err := a.Operations.Operation(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, rest.Problem(http.StatusNotFound, "VNF LCM operation occurrence %s does not exist", id)
	}
	if err != nil {
		return nil, err
	}
	if err := a.check(ctx, PlaceOf(a.Repo, op)); err != nil {
		return nil, notFound(err, "VNF LCM operation occurrence %s does not exist", id)
	}
	return op, nil
}

// ask does something to the operation that the request names.
func (a *api) ask(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, id string) (*lcm.Operation, error)) (*lcm.Operation, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), writeTimeout)
	defer cancel()
	op, err := a.operation(ctx, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if err := match(r, a.operationTag(op)); err != nil {
		return nil, err
	}
	if op, err = do(ctx, op.ID); err != nil {
		return nil, err
	}
	a.Poke(op.Instance)
	a.Log.InfoContext(ctx, "operation asked", "route", r.Pattern, "instance", op.Instance, "operation", op.ID, "state", op.State, "by", rest.Caller(r.Context()).String())
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
	op, err := a.ask(w, r, func(ctx context.Context, id string) (*lcm.Operation, error) {
		return a.Operations.FailLeaving(ctx, id, a.leaves(ctx, id))
	})
	if err != nil {
		return err
	}
	return rest.Reply(w, r, http.StatusOK, a.shownOperation(r.Context(), op))
}

// remainsWithin bounds the look at a VIM for what a failed operation leaves: one that hangs must not keep the operation from
// being set to FAILED.
const remainsWithin = 5 * time.Second

// leaves returns what an operation leaves at its VIM if it is set to FAILED now, and what to do about it; "" if git says
// afterwards that the VNF runs.
func (a *api) leaves(ctx context.Context, id string) string {
	op, err := a.Operations.Operation(ctx, id)
	if err != nil || op.State != lcm.FailedTemp || op.Type != lcm.Instantiate {
		return ""
	}
	looking, cancel := context.WithTimeout(ctx, remainsWithin)
	defer cancel()
	left, err := a.View.Remains(looking, op.Instance)
	switch {
	case err != nil:
		a.Log.WarnContext(ctx, "what a failed instantiation leaves can't be seen", "instance", op.Instance, "operation", id, "error", err)
		return "what it leaves at its VIM can't be seen now: terminate the VNF instance to end that"
	case len(left) == 0:
		return ""
	}

	return "it leaves " + some(left) + ": terminate the VNF instance to end that, or instantiate it again"
}

// cancel is POST vnf_lcm_op_occs/{id}/cancel (clause 5.4.17).
func (a *api) cancel(w http.ResponseWriter, r *http.Request) error {
	var req cancelMode
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	if req.CancelMode != lcm.Forceful && req.CancelMode != lcm.Graceful {
		return rest.Problem(http.StatusBadRequest, "attribute \"cancelMode\" must be %s or %s, not %q", lcm.Graceful, lcm.Forceful, req.CancelMode)
	}
	return a.accept(w, r, func(ctx context.Context, id string) (*lcm.Operation, error) {
		return a.Operations.Cancel(ctx, id, req.CancelMode)
	})
}

// operationBody returns the operation as clients see it.
func (a *api) operationBody(op *lcm.Operation) *VnfLcmOpOcc {
	v := &VnfLcmOpOcc{
		ID: op.ID, OperationState: op.State, StateEnteredTime: rest.Stamp(op.StateEntered), StartTime: rest.Stamp(op.Started),
		VnfInstanceID: op.Instance, Operation: op.Type, IsAutomaticInvocation: op.Automatic,
		GrantID: grantID(op), OperationParams: op.Params, IsCancelPending: op.CancelMode != "", CancelMode: op.CancelMode, Error: op.Error,
	}
	if op.State == lcm.Completed {
		v.ChangedInfo, v.PkgChange = op.ChangedInfo, op.PkgChange
	}
	v.ResourceChanges, v.ChangedExtConn = notify.Affected(op), notify.ChangedExtConnectivity(op)
	v.Links = map[string]Link{
		"self":        {Href: a.Link("vnf_lcm_op_occs", op.ID)},
		"vnfInstance": {Href: a.Link("vnf_instances", op.Instance)},
	}
	status := OperationStatus{RequestedBy: op.RequestedBy}
	if w, waits := op.Waiting(); waits {
		status.Waiting = &Waiting{For: w.For, Since: rest.Stamp(w.Since)}
	}
	if p := op.Proposal; p != nil && p.Number != 0 {
		status.PullRequest = &PullRequest{Number: p.Number, Link: p.Link}
	}
	if status != (OperationStatus{}) {
		v.Jibe = &status
	}
	if op.Grant != nil && op.Grant.Href != "" {
		v.Links["grant"] = Link{Href: op.Grant.Href}
	}
	for task, event := range map[string]lcm.Event{"retry": lcm.RetryAsked, "rollback": lcm.RollbackAsked, "fail": lcm.FailAsked, "cancel": lcm.CancelAsked} {
		_, err := lcm.Next(op.State, event)
		if err == nil && event == lcm.RollbackAsked {
			err = op.CanRollback()
		}
		if err == nil {
			v.Links[task] = Link{Href: a.Link("vnf_lcm_op_occs", op.ID, task)}
		}
	}
	return v
}

// grantID is the id of the NFVO's grant, "" where there is none.
func grantID(op *lcm.Operation) string {
	if op.Grant == nil {
		return ""
	}
	return op.Grant.ID
}

// operationTag returns the ETag of an operation, for all versions. It changes with every change
// of the body.
func (a *api) operationTag(op *lcm.Operation) string {
	b, _ := json.Marshal(a.operationBody(op).newer(op))
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}
