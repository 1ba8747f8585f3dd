package auth

import "context"

type callerKey struct{}

// With returns a context of a request that the caller has sent.
func With(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// From is who sent the context's request: nobody, who may do nothing, where that wasn't said.
func From(ctx context.Context) Identity {
	who, _ := ctx.Value(callerKey{}).(Identity)
	return who
}
