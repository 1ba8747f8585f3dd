package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// preparedPause is how long to leave an instance to the API request whose
// commit is under way, should the request never say how it ended.
const preparedPause = time.Second

// requests leave alone what API requests are at: the commit of a request moves its instance
// before its operation begins, and the request itself asks for the look when it has.
type requests struct {
	oplog   *oplog.Log
	repo    desired.Repo
	enqueue func(instance string)
	after   func(d time.Duration, f func())
	// gone says whether a member can't say any more what became of its requests.
	gone func(ctx context.Context, member string) (bool, error)
	find func(ctx context.Context, prepared *lcm.Operation) error // [Config.Resolve]
}

func newRequests(c Config, enqueue func(string)) requests {
	return requests{c.Oplog, c.Repo, enqueue, func(d time.Duration, f func()) { time.AfterFunc(d, f) }, c.Member.Gone, c.Resolve}
}

// resolve ends the wait for a request whose member is gone: its operation begins, or is
// abandoned. resolved is false while the member lives, as it alone knows how far it is.
func (r requests) resolve(ctx context.Context, operation string) (resolved bool, err error) {
	op, err := r.oplog.Prepared(ctx, operation)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil // it has just got on
	}
	if err != nil {
		return false, fmt.Errorf("request of operation %s: %w", operation, err)
	}
	if r.find == nil {
		return false, nil
	}
	if gone, err := r.gone(ctx, op.Member); err != nil || !gone {
		return false, err
	}
	if err := r.find(ctx, op); err != nil {
		return false, fmt.Errorf("request of operation %s, whose member is gone: %w", operation, err)
	}
	return true, nil
}

// leave says whether a request is at the instance. Then nobody needs to look now but later.
func (r requests) leave(id string) bool {
	e, ok := r.oplog.InstanceEntry(id)
	if !ok || e.Prepared == "" {
		return false
	}
	r.later(id)
	return true
}

// later has the instance looked at after a pause, but only if the request hasn't got on by then,
// or something else was committed.
func (r requests) later(id string) {
	r.after(preparedPause, func() {
		e, known := r.oplog.InstanceEntry(id)
		head, exists := r.repo.Lookup(id)
		if !known || e.Prepared != "" || !exists || head.Tree != e.Operated.Tree {
			r.enqueue(id)
		}
	})
}
