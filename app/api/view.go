package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// apiView is what the API may ask of the reconciler, in the API's words.
type apiView struct {
	*reconciler.View
	problems *Problems
	rejected func(error)
}

// Problems implements sol.View.
func (v apiView) Problems(instance string) []desired.Problem { return v.problems.Of(instance) }

// Waiting implements sol.View.
func (v apiView) Waiting(instance string) (sol.StartWait, bool) {
	x, ok := v.WaitingOf(instance)
	w := sol.StartWait{Operation: x.Type, Commit: x.Commit, For: x.Why}
	if !x.Until.IsZero() {
		w.Until = rest.Stamp(x.Until)
	}
	return w, ok
}

// WaitingFor implements sol.View.
func (v apiView) WaitingFor(instance string) (string, time.Time, bool) {
	why, ok := v.View.WaitingFor(instance)

	return why.For, why.Since, ok
}

// Check implements sol.View.
func (v apiView) Check(ctx context.Context, before, after *desired.Instance) error {
	err := v.View.Check(ctx, nil, before, after)
	v.rejected(err)
	return inAPIWords(err)
}

// Complete implements sol.View.
func (v apiView) Complete(ctx context.Context, before, after *desired.Instance) (*desired.Instance, error) {
	full, err := v.View.Complete(ctx, before, after)
	return full, inAPIWords(err)
}

// Definitions implements sol.View.
func (v apiView) Definitions(ctx context.Context, before, after *desired.Instance, listed []string) ([]string, error) {
	files, err := v.View.Definitions(ctx, before, after, listed)
	return files, inAPIWords(err)
}

// Find implements sol.View.
func (v apiView) Find(ctx context.Context, vnfdID string) (*vnfd.Package, error) {
	pkg, err := v.View.Find(ctx, vnfdID)
	return pkg, inAPIWords(err)
}

// Package implements sol.View.
func (v apiView) Package(ctx context.Context, in *desired.Instance) (*vnfd.Package, error) {
	pkg, err := v.View.Package(ctx, in)
	return pkg, inAPIWords(err)
}

// inAPIWords gives a refusal the status that a client can act on.
func inAPIWords(err error) error {
	var refused *drivers.RefusedError
	switch {
	case errors.Is(err, packages.ErrUnknown):
		return fmt.Errorf("%w: %w", sol.ErrUnknownPackage, err)
	case packages.IsUnusable(err):
		return &rest.InvalidError{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	case !errors.As(err, &refused):
		return err
	case refused.Conflict:
		return &rest.InvalidError{Status: http.StatusConflict, Detail: refused.Reason}
	case refused.Field == "vim", refused.Field == "hooks", strings.HasPrefix(refused.Field, "update.coordinate"):
		return &rest.InvalidError{Status: http.StatusUnprocessableEntity, Detail: refused.Reason}
	}
	detail := refused.Reason
	if refused.Object != "" { // a client knows nothing of fields of vnf.yaml
		detail = refused.Error()
	}
	return &rest.InvalidError{Status: http.StatusBadRequest, Detail: detail}
}
