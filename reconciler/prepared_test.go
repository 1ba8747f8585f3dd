package reconciler

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// oneHead is a repository with one instance.
type oneHead struct {
	desired.Repo
	head desired.Revision
}

func (r *oneHead) Lookup(string) (desired.Revision, bool) { return r.head, true }

func TestAnInstanceIsLeftToTheRequestThatIsAtIt(t *testing.T) {
	t.Parallel()

	ctx := t.Context()
	db, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	log, err := oplog.Open(ctx, db, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	before, after := desired.Revision{Instance: "a", Tree: "t0"}, desired.Revision{Instance: "a", Tree: "t1"}
	repo := &oneHead{head: before}
	looks := 0
	var due []func()
	r := requests{oplog: log, repo: repo, enqueue: func(string) { looks++ }, after: func(_ time.Duration, f func()) { due = append(due, f) }}
	pass := func(want int, what string) {
		t.Helper()
		for _, f := range due {
			f()
		}
		if due = nil; looks != want {
			t.Errorf("%s: looked at %d times, want %d", what, looks, want)
		}
		looks = 0
	}
	if err := log.Created(ctx, "a", lcm.VNF{}, before); err != nil {
		t.Fatal(err)
	}
	if r.leave("a") {
		t.Error("an instance at which no request is is left alone")
	}
	op := lcm.Operation{ID: "op", Instance: "a", Type: lcm.Scale, Before: before, VNF: lcm.VNF{VnfdID: "v"}}
	if err := log.Prepare(ctx, op); err != nil {
		t.Fatal(err)
	}
	repo.head = after
	if !r.leave("a") {
		t.Error("an instance at which a request is isn't left alone")
	}
	pass(1, "the request hasn't got on")
	r.leave("a")
	if _, err := log.Commit(ctx, "op", after); err != nil {
		t.Fatal(err)
	}
	pass(0, "the request has begun its operation, and asks for the look itself")

	r.later("a")
	repo.head = desired.Revision{Instance: "a", Tree: "t2"}
	pass(1, "somebody else has committed meanwhile")
}
