package entrance

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/lcm"
)

// Overridden records that an administrator's commit has an operation begin outside of its windows. A request
// that does so has a record of its own.
func (a *Recorder) Overridden(ctx context.Context, op *lcm.Operation, by, reason string) {
	r := audit.Record{Identity: by, Action: "override", Object: fmt.Sprintf("%s of VNF instance %s", op.Type, op.Instance), Outcome: audit.Done,
		Reason: "overrides maintenance windows: " + reason, Commit: op.After.Commit, Result: "/vnflcm/v2/vnf_lcm_op_occs/" + op.ID}
	if err := a.Record(ctx, r); err != nil {
		a.log.ErrorContext(ctx, "override not recorded", "operation", op.ID, "error", err)
	}
}

// Merged records that a request was let go on, by the person who merged its pull request.
func (a *Recorder) Merged(ctx context.Context, op *lcm.Operation, by string) {
	r := audit.Record{Identity: by, Action: "merge", Object: fmt.Sprintf("%s of VNF instance %s", op.Type, op.Instance), Outcome: audit.Done,
		Reason: fmt.Sprintf("merges what %s asked for", cmp.Or(op.RequestedBy, "somebody")), Commit: op.After.Commit, Result: "/vnflcm/v2/vnf_lcm_op_occs/" + op.ID}
	if err := a.Record(ctx, r); err != nil {
		a.log.ErrorContext(ctx, "the merge of a request is not recorded", "operation", op.ID, "error", err)
	}
}
