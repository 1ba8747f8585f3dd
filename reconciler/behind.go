package reconciler

import (
	"context"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// behindPause is after how long an instance is looked at again whose commits are being fetched.
const behindPause = 200 * time.Millisecond

// behind says whether other processes have decided on the instance by commits that this one
// hasn't got yet. To decide by older ones would take back what they do. An instance without a
// record may be one that they have ended.
func (p *pass) behind(ctx context.Context, inst *lcm.Instance, op *lcm.Operation) (bool, error) {
	if op != nil && op.After.Commit != "" && !op.Proposed() {
		if known, err := p.repo.Knows(ctx, op.After.Commit); err != nil || !known {
			return !known, err
		}
	}
	head, exists := p.repo.Lookup(p.id)
	if head.Tree == inst.Operated.Tree {
		return false, nil
	}
	commit := inst.Operated.Commit
	if commit == "" && !exists {
		return false, nil
	}
	known, err := p.repo.Knows(ctx, commit)
	return !known, err
}
