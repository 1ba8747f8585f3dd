package audit

import (
	"context"
	"sync"
)

// Entry is the record of a request that is being served: what is found out of it on its way is
// added, and whoever answers the request records it. It is safe for concurrent use.
type Entry struct {
	mu sync.Mutex
	r  Record
}

type entryKey struct{}

// With returns a context whose request is recorded as an entry that begins as r.
func With(ctx context.Context, r Record) (context.Context, *Entry) {
	e := &Entry{r: r}
	return context.WithValue(ctx, entryKey{}, e), e
}

// Note changes the entry of the context's request; without one it does nothing.
func Note(ctx context.Context, change func(*Record)) {
	if e, ok := ctx.Value(entryKey{}).(*Entry); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		change(&e.r)
	}
}

// Record returns the entry as it is now.
func (e *Entry) Record() Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.r
}

// Source returns the address that the context's request came from, "" where that isn't known.
func Source(ctx context.Context) (address string) {
	Note(ctx, func(r *Record) { address = r.Source })
	return address
}
