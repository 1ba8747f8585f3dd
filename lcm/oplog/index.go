package oplog

import (
	"iter"
	"slices"
	"sync"
	"unique"

	"github.com/tidwall/btree"

	"github.com/jibe-vnfm/jibe/internal/changed"
	"github.com/jibe-vnfm/jibe/lcm"
)

// index holds, in memory, what lists and metrics ask of all records. The Log changes it where
// a Put of its own has succeeded, before it answers, and where it learns of another's. An operation's entry is in two places: with its instance, and in the tree of
// its type and state, so that no question passes over more than it picks, but for times.
type index struct {
	mu        sync.Mutex
	instances *btree.Map[string, *InstanceEntry]
	owners    map[string]*owner
	kinds     map[kindKey]*kind
	total     int
	open      map[OperationKind]int
	contended int
	changes   changed.Feed // of instances
	// byID finds operations, where others may remove them; else nil.
	byID *byID
	// touched are the instances that were changed while another index is made; else nil.
	touched map[string]bool
}

// owner holds the operations of one instance, by position. The instance itself may be gone.
type owner struct {
	id         string
	operations []*compact
}

type kindKey struct {
	typ   lcm.Type
	state lcm.State
}

// kind holds the operations of one type in one state, by position.
type kind struct {
	typ   lcm.Type
	state lcm.State
	tree  *btree.BTreeG[*compact]
}

func newIndex() *index {
	return &index{instances: new(btree.Map[string, *InstanceEntry]), owners: map[string]*owner{}, kinds: map[kindKey]*kind{}, open: map[OperationKind]int{}}
}

func (x *index) snapshotInstances() *btree.Map[string, *InstanceEntry] {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.instances.Copy()
}

// putInstance takes over an instance's record. The caller has mu.
func (x *index) putInstance(i *lcm.Instance) {
	id := i.ID
	if o := x.owners[id]; o != nil {
		id = o.id
	}
	e := entryOfInstance(i)
	e.ID = id
	// Most texts are those of many instances, or come twice.
	for _, s := range []*string{&e.VNF.VnfdID, &e.VNF.Provider, &e.VNF.ProductName, &e.VNF.SoftwareVersion, &e.VNF.VnfdVersion, &e.Operated.Commit} {
		*s = unique.Make(*s).Value()
	}
	e.Operated.Instance, e.Settled.Instance = share(e.Operated.Instance, id), share(e.Settled.Instance, id)
	e.Settled.Dir, e.Settled.Tree = share(e.Settled.Dir, e.Operated.Dir), share(e.Settled.Tree, e.Operated.Tree)
	e.Settled.Commit = share(e.Settled.Commit, e.Operated.Commit)
	e.Open, e.OutstandingCommit = share(e.Open, e.Last), share(e.OutstandingCommit, e.Last)
	x.instances.Set(id, e)
	x.noted(id)
}

func entryOfInstance(i *lcm.Instance) *InstanceEntry {
	return &InstanceEntry{ID: i.ID, VNF: i.VNF, Operated: i.Operated, Settled: i.Settled,
		Open: i.Open, Prepared: i.Prepared, Proposed: i.Proposed, Withdraws: len(i.Withdraw) > 0, OutstandingCommit: i.OutstandingCommit, Last: i.Last, LastState: i.LastState, Seq: i.Seq}
}

// noted has watchers know of a changed instance. The caller has mu.
func (x *index) noted(id string) {
	x.touch(id)
	x.changes.Note(id)
}

// removeInstance forgets an instance. The caller has mu.
func (x *index) removeInstance(id string) {
	x.instances.Delete(id)
	x.noted(id)
}

// share returns s in the memory of other, if they are equal.
func share(s, other string) string {
	if s == other {
		return other
	}
	return s
}

// kindOf returns the tree of a type and state. The caller has mu.
func (x *index) kindOf(typ lcm.Type, state lcm.State) *kind {
	k := x.kinds[kindKey{typ, state}]
	if k == nil {
		k = &kind{typ, state, btree.NewBTreeGOptions(func(a, b *compact) bool { return position(a, b) < 0 }, btree.Options{NoLocks: true})}
		x.kinds[kindKey{typ, state}] = k
	}
	return k
}

// ownerOf returns the operations of an instance. The caller has mu.
func (x *index) ownerOf(id string) *owner {
	o := x.owners[id]
	if o == nil {
		if e, ok := x.instances.Get(id); ok {
			id = e.ID
		}
		o = &owner{id: id}
		x.owners[id] = o
	}
	return o
}

// compact makes the entry as it is held. The caller has mu.
func (x *index) compact(e OperationEntry) *compact {
	c := newCompact(e.ID, stamp(e.Started))
	c.owner, c.kind = x.ownerOf(e.Instance), x.kindOf(e.Type, e.State)
	c.entered, c.automatic, c.contended = stamp(e.StateEntered), e.Automatic, e.Contended
	return c
}

// putOperation takes over an operation's record. An operation never changes its start.
// The caller has mu.
func (x *index) putOperation(e OperationEntry) {
	x.touch(e.Instance)
	c := x.compact(e)
	n, found := slices.BinarySearchFunc(c.owner.operations, c, position)
	if found {
		x.uncount(c.owner.operations[n])
		c.owner.operations[n] = c
	} else {
		c.owner.operations = slices.Insert(c.owner.operations, n, c)
	}
	c.kind.tree.Set(c)
	x.count(c, 1)
}

// has says whether an operation has an entry. The caller has mu.
func (x *index) has(e OperationEntry) bool {
	o := x.owners[e.Instance]
	if o == nil {
		return false
	}
	_, found := slices.BinarySearchFunc(o.operations, newCompact(e.ID, stamp(e.Started)), position)
	return found
}

// removeOperation forgets an operation. The caller has mu.
func (x *index) removeOperation(e OperationEntry) {
	o := x.owners[e.Instance]
	if o == nil {
		return
	}
	n, found := slices.BinarySearchFunc(o.operations, newCompact(e.ID, stamp(e.Started)), position)
	if !found {
		return
	}
	x.touch(e.Instance)
	x.uncount(o.operations[n])
	o.operations = slices.Delete(o.operations, n, n+1)
	if len(o.operations) == 0 {
		delete(x.owners, e.Instance)
	}
}

// uncount takes an entry out of its tree and its number.
func (x *index) uncount(c *compact) {
	c.kind.tree.Delete(c)
	x.count(c, -1)
}

func (x *index) count(c *compact, n int) {
	x.total += n
	x.byID.count(c, n)
	if c.kind.state.Ended() {
		return
	}
	k := OperationKind{c.kind.typ, c.kind.state, c.automatic}
	if x.open[k] += n; x.open[k] == 0 {
		delete(x.open, k)
	}
	if c.contended {
		x.contended += n
	}
}

// fill takes over all operations of a store at once, in any order. The caller has mu.
func (x *index) fill(entries []*compact) {
	slices.SortFunc(entries, position)
	for _, c := range entries {
		c.owner.operations = append(c.owner.operations, c)
		c.kind.tree.Load(c)
		x.count(c, 1)
	}
	for _, o := range x.owners {
		o.operations = slices.Clip(o.operations)
	}
}

// operations returns the entries that q picks, in order, over a snapshot.
func (x *index) operations(q OperationQuery) iter.Seq[*compact] {
	from := newCompact("", zeroStamp) // an id that is less than any
	if !q.From.IsZero() {
		from.started = stamp(q.From)
	}
	var after *compact
	if q.After != "" {
		var ok bool
		if after, ok = atPosition(q.After); !ok {
			return func(func(*compact) bool) {}
		}
		if position(after, from) > 0 {
			from = after
		}
	}
	var all iter.Seq[*compact]
	if q.Instance != "" {
		all = x.ofInstance(q, from)
	} else {
		all = x.ofKinds(q, from)
	}
	return func(yield func(*compact) bool) {
		for c := range all {
			if !q.Before.IsZero() && c.started >= stamp(q.Before) {
				return
			}
			if after != nil && position(c, after) == 0 {
				continue
			}
			if !yield(c) {
				return
			}
		}
	}
}

// wants says whether q picks the types and states of k.
func (q OperationQuery) wants(k *kind) bool {
	return (len(q.Types) == 0 || slices.Contains(q.Types, k.typ)) && (len(q.States) == 0 || slices.Contains(q.States, k.state))
}

func (x *index) ofInstance(q OperationQuery, from *compact) iter.Seq[*compact] {
	return func(yield func(*compact) bool) {
		var list []*compact
		x.mu.Lock()
		if o := x.owners[q.Instance]; o != nil {
			n, _ := slices.BinarySearchFunc(o.operations, from, position)
			list = slices.Clone(o.operations[n:])
		}
		x.mu.Unlock()
		for _, c := range list {
			if q.wants(c.kind) && !yield(c) {
				return
			}
		}
	}
}

// ofKinds merges the trees of all types and states that q picks.
func (x *index) ofKinds(q OperationQuery, from *compact) iter.Seq[*compact] {
	return func(yield func(*compact) bool) {
		var snapshots []*btree.BTreeG[*compact]
		x.mu.Lock()
		for _, k := range x.kinds {
			if k.tree.Len() > 0 && q.wants(k) {
				snapshots = append(snapshots, k.tree.Copy())
			}
		}
		x.mu.Unlock()
		var heads []*btree.IterG[*compact]
		for _, s := range snapshots {
			if i := s.Iter(); i.Seek(from) {
				heads = append(heads, &i)
			}
		}
		for len(heads) > 0 {
			first := 0
			for n := range heads {
				if position(heads[n].Item(), heads[first].Item()) < 0 {
					first = n
				}
			}
			if !yield(heads[first].Item()) {
				return
			}
			if !heads[first].Next() {
				heads = slices.Delete(heads, first, first+1)
			}
		}
	}
}
