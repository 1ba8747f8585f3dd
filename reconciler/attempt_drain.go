package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// drained waits until connections had their time: before a generation goes, or before
// the whole VNF does.
func (h *hookSteps) drained(ctx context.Context, a *attempt, name string) (time.Duration, error) {
	if done, err := h.outcomes.cancelled(ctx, a, false); done || err != nil {
		return time.Second, err
	}
	if a.op.DrainFrom.IsZero() {
		op, err := h.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
			op.Journal, op.DrainFrom = a.journal, h.clocks.now()
			op.AddToStory(h.clocks.now(), fmt.Sprintf("connections drain for %s", a.drain))
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("record the drain of operation %s: %w", a.op.ID, err)
		}
		a.op = op
		h.log.InfoContext(ctx, "connections drain", "operation", op.ID, "drain", name, "for", a.drain)
	}
	left := a.op.DrainFrom.Add(a.drain).Sub(h.clocks.now())
	if left <= 0 {
		h.clocks.resume()
		return 0, nil
	}
	h.clocks.halt()
	return left, nil
}
