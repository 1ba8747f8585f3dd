package notify

import (
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// of says whether the subscription is the caller's: they made it, or may do everything. One
// without an owner is for who may do everything.
func (r *record) of(who auth.Identity) bool {
	return who.May(auth.Admin, "") || r.Owner != nil && r.Owner.Is(who)
}

// seen says whether the subscription's owner may be told of the event. A subscription without an
// owner is told of everything, as it was by the version that made it.
func (w *worker) seen(e oplog.Event) bool {
	if w.rec.Owner == nil {
		return true
	}
	return w.Sees != nil && w.Sees(*w.rec.Owner, e)
}

// trimmed is the body without what the interface of the subscription's owner hasn't.
func (w *worker) trimmed(body any) any {
	if w.rec.Owner == nil {
		return body
	}
	return rest.Trimmed(*w.rec.Owner, body)
}
