package sol

import (
	"context"

	"github.com/jibe-vnfm/jibe/sol/auth"
)

type callerKey struct{}

func withCaller(ctx context.Context, id auth.Identity) context.Context {
	return context.WithValue(ctx, callerKey{}, id)
}

// callerOf is the authenticated caller's name.
func callerOf(ctx context.Context) string {
	id, _ := ctx.Value(callerKey{}).(auth.Identity)
	return id.Name
}
