package reconciler_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/store"
)

// leased is a store that fails the test where the reconciler puts something under no lease of
// the instance that it belongs to. Requests of the API, which the tests make themselves, need none.
type leased struct {
	store.Store
	t testing.TB
}

func (l leased) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	if by := reconcilers(); by != "" {
		lease, under := store.LeaseOf(ctx)
		for _, r := range recs {
			if kind, id, _ := strings.Cut(r.Key, "/"); !under || kind == "instance" && lease.Name != r.Key {
				l.t.Errorf("%s puts %s %s under the lease %q", by, kind, id, lease.Name)
			}
		}
	}
	return l.Store.Put(ctx, recs...)
}

// reconcilers is the function of the reconciler that the call comes from, "" where it comes from none.
func reconcilers() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "github.com/jibe-vnfm/jibe/reconciler.") {
			return f.Function
		}
		if !more {
			return ""
		}
	}
}
