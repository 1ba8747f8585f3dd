package reconciler

import (
	"context"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
)

// takeHooks finds the package whose hooks take part in the operation, and refuses an
// operation that begins and needs hooks that may not run.
func (h *hookSteps) takeHooks(ctx context.Context, a *attempt) error {
	a.hooks = sideOf(a.want.Source.Instance, a.want.Source.Package)
	if _, never := a.drv.(nowhere); a.want.Source.Package == nil && !never {
		pkg, err := h.revisions.packageOf(ctx, a.want.Source.Instance)
		if err != nil {
			return err
		}
		a.hooks = sideOf(a.want.Source.Instance, pkg)
	}
	before, err := h.revisions.read(ctx, a.op.Before)
	if err != nil {
		return err
	}
	after, err := h.revisions.read(ctx, a.op.After)
	if err != nil {
		return err
	}
	a.skipsHooks = hooks.Skipped(before, after)
	untouched := a.op.State == lcm.Starting || a.op.Type == lcm.ModifyInfo && a.op.State == lcm.Processing && len(a.journal.Issued)+len(a.journal.Hooks) == 0
	if !untouched {
		return nil // each hook that is left is refused when its turn comes
	}
	return h.checker.permitted(ctx, h.revisions.repo.Settings, a.op.Type, a.op.Automatic, before, after)
}

// takeParams renders again with the parameters that hooks of the operation have set so far:
// these count from then on.
func (h *hookSteps) takeParams(a *attempt) error {
	if a.journal.Rollback || a.want.Source.Package == nil || len(a.op.Modified.Params) == 0 {
		return nil
	}
	inst, src := *a.want.Source.Instance, a.want.Source
	inst.Params = a.op.Modified.Patch(inst.Params)
	src.Instance = &inst
	src.Clear, src.Secrets, src.Sealed = h.reveal.params(&inst)
	made, err := a.drv.Render(src)
	if err != nil {
		return err
	}
	p, err := h.projectOf(a)
	if err != nil {
		return err
	}
	if err := newlyOut(a.drv, a.want, made, p, h.checker.own); err != nil {
		return err
	}
	a.want = made
	return nil
}

// projectOf is the project of the operation's instance.
func (h *hookSteps) projectOf(a *attempt) (*desired.Project, error) {
	return h.revisions.whose(a.want.Source.Instance)
}
