package sol_test

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

func TestAListHasWhatAnotherReplicaRecordedBeforeItWasAskedFor(t *testing.T) {
	st, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var logs []*oplog.Log
	for range 2 {
		l, err := oplog.Open(t.Context(), st, time.Now, oplog.Shared())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- l.Follow(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("follow: %v", err)
			}
		})
		logs = append(logs, l)
	}
	e := build(t, func(c *sol.Config) { c.Operations = logs[0] })
	for n := range 50 {
		op := lcm.Operation{ID: uuid.NewString(), Instance: uuid.NewString(), Type: lcm.Scale}
		if _, err := logs[1].Born(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		var list []map[string]any
		e.want(http.StatusOK, http.MethodGet, api+"/vnf_lcm_op_occs?filter=(eq,vnfInstanceId,"+op.Instance+")", "").json(t, &list)
		if len(list) != 1 || list[0]["id"] != op.ID {
			t.Fatalf("after %d operations of another replica, the list has %v", n, list)
		}
	}
}
