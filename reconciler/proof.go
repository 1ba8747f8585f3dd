package reconciler

import (
	"context"
	"errors"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
)

// refusedRevision is a [*drivers.RefusedError] for a revision that git doesn't prove: it is tried again only for a new reason.
type refusedRevision struct{ *desired.UnprovenError }

func (e refusedRevision) Unwrap() []error {
	return []error{&drivers.RefusedError{Reason: e.UnprovenError.Error()}, e.UnprovenError}
}

// provenRevisions reads what git proves, or all that records name where no other client writes them.
func (r *Reconciler) provenRevisions() revisions {
	read := revisions{repo: r.Repo, packages: r.Packages}
	if !r.Prove {
		return read
	}
	read.prove = func(ctx context.Context, rev desired.Revision, proposal string) error {
		return r.Repo.Prove(ctx, rev, proposal, func(in *desired.Instance) error { return r.judge(nil, in) })
	}
	return read
}

// ofInstance refuses revisions of other instances, which only a changed record names.
func (r revisions) ofInstance(id string, revs ...desired.Revision) error {
	for _, rev := range revs {
		if r.prove != nil && rev.Tree != "" && rev.Instance != id {
			return refusedRevision{&desired.UnprovenError{Revision: rev}}
		}
	}
	return nil
}

// proposing returns revisions that also read what the operation proposes, while it does.
func (r revisions) proposing(op *lcm.Operation) revisions {
	r.proposed = nil
	if op.Proposed() {
		r.proposed = op
	}
	return r
}

// proven returns a [*drivers.RefusedError] where a record names a revision that git doesn't prove.
func (r revisions) proven(ctx context.Context, rev desired.Revision) error {
	if r.prove == nil {
		return nil
	}
	proposal := ""
	if r.proposed != nil && rev == r.proposed.After {
		proposal = r.proposed.ID
	}
	err := r.prove(ctx, rev, proposal)
	if unproven := new(desired.UnprovenError); errors.As(err, &unproven) {
		return refusedRevision{unproven}
	}
	return err
}

// Prove returns a [*desired.UnprovenError] where a record of the instance names a revision that git doesn't prove, or one of
// another instance.
func (v *View) Prove(ctx context.Context, instance string, rev desired.Revision) error {
	if err := v.r.ofInstance(instance, rev); err != nil {
		return err
	}
	return v.r.proven(ctx, rev)
}

// ofOperation refuses an operation whose record names what git doesn't prove, or another instance's revisions.
func (r revisions) ofOperation(ctx context.Context, id string, op *lcm.Operation) error {
	revs := []desired.Revision{op.Before, op.After, op.Beside}
	if err := r.ofInstance(id, revs...); err != nil {
		return err
	}
	r = r.proposing(op)
	for _, rev := range revs {
		if rev.Tree == "" {
			continue
		}
		var refused *drivers.RefusedError
		if err := r.proven(ctx, rev); errors.As(err, &refused) {
			return err // any other error is met where the revision is read
		}
	}
	return nil
}
