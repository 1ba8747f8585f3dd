package reconciler

import (
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
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
}

func newRequests(log *oplog.Log, repo desired.Repo, enqueue func(string)) requests {
	return requests{log, repo, enqueue, func(d time.Duration, f func()) { time.AfterFunc(d, f) }}
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
