package reconciler

import (
	"context"
	"fmt"
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/changed"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// dependents knows which instances need the one in a directory: by git's head, and of those that head has no
// more, by what they were as long as the operation log knows them. It holds nothing of its own: it
// catches up with git before each answer. It is safe for concurrent use.
type dependents struct {
	repo  desired.Repo
	oplog *oplog.Log

	mu   sync.Mutex
	take changed.Take
	all  bool                           // everything is to be read again
	of   map[string][]desired.Need      // by instance, those that need any
	gone map[string]struct{}            // of these, those that head hasn't any more
	by   map[string]map[string]struct{} // by directory: the instances that need it
}

func newDependents(repo desired.Repo, log *oplog.Log) *dependents {
	return &dependents{repo: repo, oplog: log, take: repo.WatchHeads(), of: map[string][]desired.Need{}, gone: map[string]struct{}{},
		by: map[string]map[string]struct{}{}}
}

// needing are the ids of the instances that need the one in a directory, in order.
func (d *dependents) needing(ctx context.Context, dir string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.catchUp(ctx); err != nil {
		return nil, err
	}
	for id := range d.by[dir] {
		if _, gone := d.gone[id]; !gone {
			continue
		}
		if _, known := d.oplog.InstanceEntry(id); !known {
			d.put(id, nil)
		}
	}
	return sortedKeys(d.by[dir]), nil
}

// catchUp reads what has changed in git. d.mu is held.
func (d *dependents) catchUp(ctx context.Context) error {
	ids, all := d.take()
	if d.all = d.all || all; !d.all {
		for _, id := range ids {
			d.head(id)
		}
		return nil
	}
	for head := range d.repo.Heads("") {
		d.head(head.Instance)
	}
	for id := range d.of {
		d.head(id)
	}
	for e := range d.oplog.InstanceEntries("") {
		if _, exists := d.repo.Lookup(e.ID); exists || d.of[e.ID] != nil || e.Settled.Tree == "" {
			continue
		}
		in, err := d.repo.Read(ctx, e.Settled)
		if err != nil {
			return fmt.Errorf("what instance %s needs, which git hasn't any more: %w", e.ID, err)
		}
		d.put(e.ID, in.Needs)
		if len(in.Needs) > 0 {
			d.gone[e.ID] = struct{}{}
		}
	}
	d.all = false
	return nil
}

// head takes over what an instance needs at head. d.mu is held.
func (d *dependents) head(id string) {
	head, exists := d.repo.LookupHead(id)
	if exists {
		delete(d.gone, id)
		d.put(id, head.Needs)
	} else if d.of[id] != nil {
		d.gone[id] = struct{}{} // it may run still
	}
}

// put notes what an instance needs. d.mu is held.
func (d *dependents) put(id string, needs []desired.Need) {
	for _, n := range d.of[id] {
		if delete(d.by[n.Instance], id); len(d.by[n.Instance]) == 0 {
			delete(d.by, n.Instance)
		}
	}
	if len(needs) == 0 {
		delete(d.of, id)
		delete(d.gone, id)
		return
	}
	d.of[id] = needs
	for _, n := range needs {
		if d.by[n.Instance] == nil {
			d.by[n.Instance] = map[string]struct{}{}
		}
		d.by[n.Instance][id] = struct{}{}
	}
}
