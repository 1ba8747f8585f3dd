package rest

import (
	"context"

	"github.com/jibe-vnfm/jibe/auth"
)

// Inside returns the context of a request that a part of this process makes in a caller's name: the
// caller was let in by another door, and role is what the request needs in the project of what it
// concerns. Who uses it has asked [access.Need.Denied] before.
func Inside(ctx context.Context, caller auth.Identity, role auth.Role) context.Context {
	return context.WithValue(ctx, askedKey{}, asked{caller: caller, role: role})
}

// Status is the HTTP status by which the interface answers with the error.
func (a *API) Status(err error) int { return a.status(err) }
