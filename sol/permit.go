package sol

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// scope is what the caller of the request may see and change.
func (a *api) scope(ctx context.Context) (*access.Scope, error) {
	return access.NewScope(rest.Caller(ctx), a.Repo.Settings)
}

// permit says whether the caller may do to the instance what the request is: its errors are
// those of [access.Scope.Check].
func (a *api) permit(ctx context.Context, k known) error {
	return a.check(ctx, k.place())
}

func (a *api) check(ctx context.Context, at access.Instance) error {
	s, err := a.scope(ctx)
	if err != nil {
		return err
	}
	audit.Note(ctx, func(r *audit.Record) { r.Project = s.Project(at.Dir) })
	return s.Check(rest.Role(ctx), at)
}

// place is what of the instance says who may see it.
func (k known) place() access.Instance {
	if k.inHead {
		return access.Instance{Dir: k.head.Dir, EM: k.head.EM}
	}
	return access.Instance{Dir: k.record.Operated.Dir}
}

func (r *row) place() access.Instance {
	return access.Instance{Dir: r.directory(), EM: r.head.EM}
}

// PlaceOf is what of an operation says who may see it. One that has ended belongs where the
// instance stood: another instance may have got its id since. One under way belongs where the
// instance stands.
func PlaceOf(repo desired.Repo, op *lcm.Operation) access.Instance {
	at := access.Instance{Dir: cmp.Or(op.After.Dir, op.Before.Dir)}
	head, inHead := repo.LookupHead(op.Instance)
	if inHead {
		at.EM = head.EM
		if !op.State.Ended() {
			at.Dir = head.Dir
		}
	}
	return at
}

// notFound answers for what is hidden from the caller as for what doesn't exist.
func notFound(err error, format string, args ...any) error {
	if errors.Is(err, access.ErrHidden) {
		return rest.Problem(http.StatusNotFound, format, args...)
	}
	return err
}
