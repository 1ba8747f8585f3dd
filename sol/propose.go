package sol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// Proposals are the branches on which requests are proposed. Their pull requests are the reconciler's.
type Proposals interface {
	// Propose makes a commit on a branch of its own, and returns the directory there when the forge has it.
	Propose(ctx context.Context, branch string, w desired.Write) (desired.Revision, error)
	// Proposed returns the directory of an instance on a branch that Propose has made, or [desired.ErrNotFound].
	Proposed(ctx context.Context, branch, instance string) (desired.Revision, error)
}

// proposes says whether operations of a type are proposed on the instance, as its project wants. It refuses what
// nobody could propose.
func (a *api) proposes(k known, typ lcm.Type) (bool, error) {
	settings, err := a.Repo.Settings()
	if err != nil {
		return false, err
	}
	project := settings.ProjectOf(k.head.Dir)
	if !project.Write.Proposes(string(typ)) {
		return false, nil
	}
	if a.Proposals == nil {
		return false, rest.Problem(http.StatusConflict, "%s of VNF instance %s is to be proposed as a pull request (write in %s), and this process tells no forge: start it with --remote and --forge-token, or write %q there",
			typ, k.id, desired.ProjectFile(project.Name), desired.WriteDirect)
	}
	return true, nil
}

// together refuses a request that would be proposed while head waits for its window: whoever merges it merges it into what
// waits, so that nothing of it would be done before that.
func (a *api) together(k known, typ lcm.Type) error {
	settings, err := a.Repo.Settings()
	if err != nil {
		return err
	}
	return rest.Problem(http.StatusConflict,
		"commit %s changed VNF instance %s, and its %s waits: %s; a %s that is proposed as a pull request (write in %s) would be merged into that, and wait with it: "+
			"leave %s out of write there to have it done now beside what waits, revert the commit, or ask again when its %s has ended",
		k.head.Commit, k.id, k.waits.typ, k.waits.why, typ, desired.ProjectFile(settings.ProjectOf(k.head.Dir).Name), typ, k.waits.typ)
}

func sameFiles(a, b desired.Files) bool { return maps.EqualFunc(a, b, bytes.Equal) }

// propose commits the draft on a branch for the operation. The error is that of [api.write].
func (a *api) propose(ctx context.Context, k known, op lcm.Operation, d *Draft) (desired.Revision, error) {
	w := d.Write()
	w.Trailers = begins(op)
	if d.override != "" {
		w.Trailers = append(w.Trailers, desired.Trailer{Key: desired.TrailerOverride, Value: d.override})
	}
	branch := lcm.ProposalBranch(op.ID)
	rev, err := a.Proposals.Propose(ctx, branch, w)
	if err == nil {
		return rev, nil
	}
	if !errors.Is(err, ErrMoved) {
		// The error may have come after the push: ask the forge before forgetting.
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		rev, lerr := a.Proposals.Proposed(look, branch, k.id)
		switch {
		case lerr == nil:
			return rev, nil
		case !errors.Is(lerr, desired.ErrNotFound):
			return rev, fmt.Errorf("%w: it isn't known whether branch %s was pushed; that shows when the server is restarted: %w", desired.ErrUnavailable, branch, errors.Join(err, lerr))
		}
	}
	return rev, a.abandon(ctx, k, op, err)
}

// abandon forgets an operation of which nothing was committed because of err, and returns what its client is told.
func (a *api) abandon(ctx context.Context, k known, op lcm.Operation, err error) error {
	if aerr := a.Operations.Abandon(context.WithoutCancel(ctx), op.ID); aerr != nil {
		a.Log.ErrorContext(ctx, "prepared operation could not be abandoned", "instance", k.id, "operation", op.ID, "error", aerr)
	}
	if errors.Is(err, ErrMoved) {
		return moved("VNF instance %s was changed by a commit while the request was checked: read it again and repeat the request", k.id)
	}
	return fmt.Errorf("commit the change of instance %s: %w", k.id, err)
}
