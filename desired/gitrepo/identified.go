package gitrepo

import (
	"slices"

	"github.com/jibe-vnfm/jibe/internal/changed"
)

// identified has the obeyed slot for each id, and tells which ids have changed.
type identified struct {
	ordered[*slot]
	// changed are the ids that were set or removed since they were taken last, where somebody
	// watches. They stay with the index until it is the one that counts: nobody is told of
	// what can't be seen yet.
	changed []string
	// tooMany says that they are more than mostChanged, and no longer named.
	tooMany bool
	watched bool
}

// mostChanged bounds what a push copies where nobody takes what has changed.
const mostChanged = 4096

func (o *identified) set(id string, s *slot) {
	o.ordered.set(id, s)
	o.note(id)
}

func (o *identified) remove(id string) {
	o.ordered.remove(id)
	o.note(id)
}

func (o *identified) note(id string) {
	switch {
	case !o.watched || o.tooMany:
	case len(o.changed) == mostChanged:
		o.changed, o.tooMany = nil, true
	default:
		o.changed = append(o.changed, id)
	}
}

func (o *identified) copy() identified {
	return identified{ordered: o.ordered.copy(), changed: slices.Clip(o.changed), tooMany: o.tooMany, watched: o.watched}
}

// WatchHeads implements [desired.Repo].
func (r *Repo) WatchHeads() changed.Take {
	r.move.Lock() // no other index is on its way to be the one that counts
	defer r.move.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index.byID.watched = true
	take := r.changes.Watch()
	return func() ([]string, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		x := &r.index.byID
		if x.tooMany {
			r.changes.NoteAll()
		}
		r.changes.Note(x.changed...)
		x.changed, x.tooMany = nil, false
		return take()
	}
}
