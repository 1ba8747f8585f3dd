package sol

import (
	"cmp"
	"iter"
	"strings"
	"sync"

	"github.com/tidwall/btree"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/changed"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/filter"
)

// roster holds what lists of instances show and filter by: a row for each instance that
// clients see, by id and by what most filters ask for. It is made of the indexes of git and
// of the operation log, and catches up with both before each answer. So whoever got an
// answer to a write finds it in the next list.
type roster struct {
	repo       desired.Repo
	operations *oplog.Log
	// heads and records tell what has changed in each.
	heads, records changed.Take

	mu   sync.Mutex
	rows rows
	// shared says that readers have rows, which mustn't be changed any more.
	shared bool
}

// rows are the instances at one moment.
type rows struct {
	byID *btree.BTreeG[*row]
	// by has, for each attribute of rosterKeys, the rows in the order of its values, then of
	// ids.
	by map[string]*btree.BTreeG[*row]
	// unread are the rows whose values of these attributes aren't known.
	unread *btree.BTreeG[*row]
}

// rosterKey is an attribute by which rows are found.
type rosterKey struct {
	attr  string
	value func(*brief) string
}

// rosterKeys returns the attributes by which rows are found, the one that picks the fewest
// first.
func rosterKeys() []rosterKey {
	return []rosterKey{
		{"vnfInstanceName", func(b *brief) string { return b.name }},
		{"vnfdId", func(b *brief) string { return b.vnfdID }},
		{"instantiationState", func(b *brief) string { return instantiationState(desired.IsInstantiated(b.state)) }},
	}
}

func newRoster(repo desired.Repo, operations *oplog.Log) *roster {
	return &roster{repo: repo, operations: operations, heads: repo.WatchHeads(), records: operations.WatchInstances(), rows: newRows()}
}

func newRows() rows {
	tree := func(less func(a, b *row) bool) *btree.BTreeG[*row] {
		return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
	}
	byID := func(a, b *row) bool { return a.id < b.id }
	r := rows{byID: tree(byID), by: map[string]*btree.BTreeG[*row]{}, unread: tree(byID)}
	for _, k := range rosterKeys() {
		r.by[k.attr] = tree(func(a, b *row) bool {
			return cmp.Or(strings.Compare(k.value(&a.brief), k.value(&b.brief)), strings.Compare(a.id, b.id)) < 0
		})
	}
	return r
}

// copy returns rows that share what neither changes later.
func (r *rows) copy() rows {
	c := rows{byID: r.byID.IsoCopy(), by: map[string]*btree.BTreeG[*row]{}, unread: r.unread.IsoCopy()}
	for attr, tree := range r.by {
		c.by[attr] = tree.IsoCopy()
	}
	return c
}

// put sets the row of an instance.
func (r *rows) put(x *row) {
	r.byID.Set(x)
	if !x.read {
		r.unread.Set(x)
		return
	}
	for _, tree := range r.by {
		tree.Set(x)
	}
}

// remove takes a row out.
func (r *rows) remove(x *row) {
	r.byID.Delete(x)
	r.unread.Delete(x)
	if x.read {
		for _, tree := range r.by {
			tree.Delete(x)
		}
	}
}

// now returns the instances as they are now. The caller doesn't alter them.
func (r *roster) now() rows {
	r.mu.Lock()
	defer r.mu.Unlock()
	// What changes while the rows are made is told of once more at the next call.
	heads, manyHeads := r.heads()
	records, manyRecords := r.records()
	switch {
	case manyHeads || manyRecords:
		r.fill()
	case len(heads)+len(records) > 0:
		if r.shared {
			r.rows, r.shared = r.rows.copy(), false
		}
		for _, id := range heads {
			r.update(id)
		}
		for _, id := range records {
			r.update(id)
		}
	}
	r.shared = true
	return r.rows
}

// update makes the row of one instance anew.
func (r *roster) update(id string) {
	old, listed := r.rows.byID.Get(&row{id: id})
	if listed {
		r.rows.remove(old)
	}
	if x := r.row(id); x.visible() {
		x.describe(old)
		r.rows.put(x)
	}
}

// row returns one instance as it is now.
func (r *roster) row(id string) *row {
	x := &row{id: id}
	var recorded bool
	if x.entry, recorded = r.operations.InstanceEntry(id); !recorded {
		x.entry = &oplog.InstanceEntry{ID: id}
	}
	x.head, x.inHead = r.repo.LookupHead(id)
	return x
}

// fill makes all rows anew.
func (r *roster) fill() {
	was := r.rows
	r.rows, r.shared = newRows(), false
	add := func(x *row) {
		if x.visible() {
			old, _ := was.byID.Get(x)
			x.describe(old)
			r.rows.put(x)
		}
	}
	records := map[string]*oplog.InstanceEntry{}
	for e := range r.operations.InstanceEntries("") {
		records[e.ID] = e
	}
	for head := range r.repo.Heads("") {
		x := &row{id: head.Instance, head: head, inHead: true, entry: records[head.Instance]}
		if x.entry == nil {
			x.entry = &oplog.InstanceEntry{ID: head.Instance}
		}
		delete(records, head.Instance)
		add(x)
	}
	for id := range records {
		add(r.row(id))
	}
}

// find returns the instances behind after among which those are that the filter matches, by
// id.
func (r *rows) find(f filter.Filter, after string) iter.Seq[*row] {
	for _, k := range rosterKeys() {
		// A value that is absent matches nothing, and isn't listed as such.
		if values, ok := f.OneOf(k.attr); ok && len(values) == 1 && values[0] != "" && !filter.MaybeTime(values[0]) {
			return r.valued(k, values[0], after)
		}
	}
	return func(yield func(*row) bool) {
		r.byID.Ascend(&row{id: after}, func(x *row) bool { return x.id == after || yield(x) })
	}
}

// having returns those of the instances, in the order of ids, that are listed behind after.
func (r *rows) having(ids []string, after string) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		for _, id := range ids {
			if x, listed := r.byID.Get(&row{id: id}); listed && id > after && !yield(x) {
				return
			}
		}
	}
}

// valued returns the rows with one value of an attribute, and those of which it isn't known,
// by id.
func (r *rows) valued(k rosterKey, value, after string) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		unread := r.unread.Iter()
		more := unread.Seek(&row{id: after})
		// before yields the unread rows whose ids are less than id, all of them for "".
		before := func(id string) bool {
			for ; more && (id == "" || unread.Item().id < id); more = unread.Next() {
				if unread.Item().id != after && !yield(unread.Item()) {
					return false
				}
			}
			return true
		}
		going := true
		r.by[k.attr].Ascend(pivot(k.attr, value, after), func(x *row) bool {
			if k.value(&x.brief) != value {
				return false
			}
			if x.id != after {
				going = before(x.id) && yield(x)
			}
			return going
		})
		if going {
			before("")
		}
	}
}

// pivot is a row that stands where one with the value and the id would.
func pivot(attr, value, id string) *row {
	x := &row{id: id}
	switch attr {
	case "vnfInstanceName":
		x.brief.name = value
	case "vnfdId":
		x.brief.vnfdID = value
	case "instantiationState":
		if value == stateInstantiated {
			x.brief.state = desired.Instantiated
		}
	}
	return x
}
