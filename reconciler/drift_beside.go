package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
)

// beside looks after what runs while an operation of the instance waits for other instances, of which nothing
// has begun: what was operated on before stands until then. The repair is an operation of its own, beside the one that
// waits. It returns as [driftRepair.look] does.
func (r *driftRepair) beside(ctx context.Context, waiting *lcm.Operation) (time.Duration, error) {
	inst, err := r.oplog.Instance(ctx, r.id)
	if err != nil {
		return 0, fmt.Errorf("record of instance %s: %w", r.id, err)
	}
	if inst.Open != waiting.ID {
		return 0, nil // it was cancelled meanwhile
	}
	before, err := r.resolver.read(ctx, waiting.Before)
	if err != nil || before == nil || !desired.IsInstantiated(before.State) {
		return 0, err // nothing runs yet
	}
	stands := *inst
	stands.Operated, stands.Open = waiting.Before, inst.Care
	var failed *lcm.Operation
	if inst.Care != "" {
		if failed, err = r.oplog.Operation(ctx, inst.Care); err != nil {
			return 0, fmt.Errorf("operation %s: %w", inst.Care, err)
		}
		if failed.State != lcm.FailedTemp {
			return r.operate(ctx, failed)
		}
	}
	beside := *r
	beside.waiting = waiting.ID
	return beside.lookAt(ctx, &stands, failed, true)
}

// begin begins a repair.
func (r *driftRepair) begin(ctx context.Context, op lcm.Operation) (*lcm.Operation, error) {
	if r.waiting != "" {
		return r.oplog.Tend(ctx, op, r.waiting)
	}
	return r.oplog.Born(ctx, op)
}
