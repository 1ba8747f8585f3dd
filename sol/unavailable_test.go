package sol_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// distant is a store that is away where the test says so.
type distant struct {
	store.Store
	away atomic.Bool
}

func (d *distant) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	if d.away.Load() {
		return nil, store.ErrUnavailable
	}
	return d.Store.Put(ctx, recs...)
}

func TestARequestIsRefusedWhileTheStoreIsAwayAndGoesOnWhereItsCommitIsMade(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	far := &distant{Store: db}
	e := setup(t, func(c *sol.Config) {
		log, err := oplog.Open(t.Context(), far, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		c.Operations = log
	})
	e.oplog = e.config.Operations
	id := e.create()
	instantiate := func() answer {
		return e.want(http.StatusServiceUnavailable, http.MethodPost, api+"/vnf_instances/"+id+"/instantiate", instantiateBody)
	}
	commits := len(e.repo.commits)
	far.away.Store(true)
	if a := instantiate(); a.Header.Get("Retry-After") == "" {
		t.Errorf("the answer has no Retry-After: %s", a.body)
	}
	if len(e.repo.commits) != commits {
		t.Error("what isn't prepared was committed")
	}
	// It goes away between the commit and its record.
	far.away.Store(false)
	e.repo.before = func() { far.away.Store(true) }
	if a := instantiate(); a.Header.Get("Retry-After") == "" {
		t.Errorf("the answer has no Retry-After: %s", a.body)
	}
	if len(e.repo.commits) != commits+1 {
		t.Fatalf("%d commits, want one more than %d", len(e.repo.commits), commits)
	}
	e.repo.before = nil
	far.away.Store(false)
	kit.Eventually(t, func() error {
		if n := len(e.oplog.OpenOperations()); n != 1 {
			return fmt.Errorf("%d operations are open, want the one that was committed", n)
		}
		return nil
	})
}

func TestAnInstanceThatWasMadeIsNotAnswered503(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	far := &distant{Store: db}
	e := setup(t, func(c *sol.Config) {
		log, err := oplog.Open(t.Context(), far, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		c.Operations = log
	})
	e.oplog = e.config.Operations
	commits := len(e.repo.commits)

	far.away.Store(true)
	id := e.create()

	if len(e.repo.commits) != commits+1 {
		t.Errorf("%d commits for one request", len(e.repo.commits)-commits)
	}
	if in := show(e, id); in.ID != id || in.InstantiationState != "NOT_INSTANTIATED" {
		t.Errorf("the instance is shown as %+v", in)
	}
}
