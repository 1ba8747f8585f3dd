package audit_test

import (
	"testing"

	"github.com/jibe-vnfm/jibe/audit"
)

func TestWhatIsNotedOnTheWayIsInTheRequestsRecord(t *testing.T) {
	ctx, entry := audit.With(t.Context(), audit.Record{Action: "POST", Source: "192.0.2.1"})
	audit.Note(ctx, func(r *audit.Record) { r.Commit = "abc" })
	audit.Note(t.Context(), func(*audit.Record) { t.Error("a request that isn't recorded has an entry") })
	if got := entry.Record(); got.Commit != "abc" || got.Action != "POST" || audit.Source(ctx) != "192.0.2.1" {
		t.Errorf("%+v", got)
	}
}
