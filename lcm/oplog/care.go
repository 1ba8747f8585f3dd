package oplog

import (
	"context"
	"fmt"

	"github.com/jibe-vnfm/jibe/lcm"
)

// Tend begins a repair beside an operation that waits and has begun nothing. The instance stays the
// waiting one's: the repair leads from what was operated on before to the same, and its end changes nothing
// of the instance's record but [lcm.Instance.Care]. It returns [ErrBusy] where another operation has the
// instance by now, or another repair is under way. If the operation exists, it is returned unchanged.
func (l *Log) Tend(ctx context.Context, op lcm.Operation, waiting string) (*lcm.Operation, error) {
	if !op.Automatic || op.Before.Tree != op.After.Tree {
		return nil, fmt.Errorf("begin operation %s on instance %s: beside one that waits only what runs is repaired", op.ID, op.Instance)
	}
	return l.give(ctx, op, func(b *batch, op *lcm.Operation, inst *lcm.Instance, _ bool) error {
		if inst.Open != waiting || inst.Care != "" || inst.Prepared != "" {
			return ErrBusy{inst.ID, inst.Open, lcm.Starting}
		}
		op.VNF = vnf(op.VNF, inst.VNF)
		if err := op.Advance(lcm.Committed, l.now(), nil); err != nil {
			return err
		}
		inst.Care = op.ID
		inst.Seq++
		b.transition(op, lcm.Prepared)
		return nil
	})
}

// EndCare ends the repair that [Log.Tend] has begun on an instance, where one is under way, as an operation goes on
// that waited: what differs is that one's to put right.
func (l *Log) EndCare(ctx context.Context, instance string) error {
	inst, err := l.Instance(ctx, instance)
	if err != nil || inst.Care == "" {
		return err
	}
	_, err = l.Record(ctx, inst.Care, func(op *lcm.Operation, inst *lcm.Instance) error {
		if op.State.Ended() {
			inst.Care = ""
			return nil
		}
		why := &lcm.ProblemDetails{Status: 409, Title: string(op.Type) + " failed", Detail: "gives way to the operation that waited"}
		if op.State == lcm.Starting {
			return op.Advance(lcm.Refused, l.now(), why)
		}
		if op.State != lcm.FailedTemp {
			if err := op.Advance(lcm.Broke, l.now(), why); err != nil {
				return err
			}
		}
		op.SupersededBy = inst.Last
		return op.Advance(lcm.Superseded, l.now(), nil)
	})
	return err
}
