// Package changed hands on which of many things have changed, by id, to those who keep
// something that is made of them.
package changed

import (
	"slices"
	"sync"
)

// most is how many ids are kept for one who doesn't take them.
const most = 1 << 16

// Take returns the ids of what may have changed since it was called last; all says that
// they are too many to be named, or that it is called for the first time.
type Take func() (ids []string, all bool)

// Feed gathers ids for each of its watchers. The zero value has none. It is safe for
// concurrent use.
type Feed struct {
	mu       sync.Mutex
	watchers []*watcher
}

type watcher struct {
	ids map[string]struct{}
	all bool
}

// Watch adds a watcher, for as long as the feed lives.
func (f *Feed) Watch() Take {
	w := &watcher{all: true}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers = append(f.watchers, w)
	return func() ([]string, bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		ids, all := w.ids, w.all
		w.ids, w.all = nil, false
		list := make([]string, 0, len(ids))
		for id := range ids {
			list = append(list, id)
		}
		slices.Sort(list)
		return list, all
	}
}

// Note tells the watchers that something has changed. Whoever notes a change MUST have made
// it visible before a watcher can take its id.
func (f *Feed) Note(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.watchers {
		w.note(ids)
	}
}

// NoteAll tells the watchers that so much has changed that it isn't worth naming. The rule of
// [Feed.Note] holds.
func (f *Feed) NoteAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.watchers {
		w.ids, w.all = nil, true
	}
}

func (w *watcher) note(ids []string) {
	for _, id := range ids {
		if w.all {
			return
		}
		if w.ids == nil {
			w.ids = map[string]struct{}{}
		}
		if w.ids[id] = struct{}{}; len(w.ids) > most {
			w.ids, w.all = nil, true
		}
	}
}
