package ui

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/changed"
	"github.com/jibe-vnfm/jibe/internal/natural"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/access"
)

// Health is what matters of an instance, the worst first. Each has a letter and a colour.
type Health string

// The states of health, the worst first.
const (
	HealthFailed    Health = "failed"    // its operation is in FAILED_TEMP
	HealthProblem   Health = "problem"   // its file at head isn't obeyed
	HealthDrifting  Health = "drifting"  // it differs from what git says
	HealthHeld      Health = "held"      // a person failed its operation
	HealthOperating Health = "operating" // an operation is under way
	HealthSuspended Health = "suspended" // Jibe leaves it alone
	HealthStopped   Health = "stopped"
	HealthAbsent    Health = "absent" // not instantiated
	HealthRunning   Health = "running"
)

// healths are all, the worst first, as legends and filters show them.
func healths() []Health {
	return []Health{HealthFailed, HealthProblem, HealthDrifting, HealthHeld, HealthOperating, HealthSuspended, HealthStopped, HealthAbsent, HealthRunning}
}

// Letter marks the health where colours can't be told apart.
func (h Health) Letter() string {
	switch h {
	case HealthFailed:
		return "F"
	case HealthProblem:
		return "P"
	case HealthDrifting:
		return "D"
	case HealthHeld:
		return "H"
	case HealthOperating:
		return "O"
	case HealthSuspended:
		return "S"
	case HealthStopped:
		return "–"
	case HealthAbsent:
		return "○"
	}
	return "✓"
}

// Words say what the health means.
func (h Health) Words() string {
	switch h {
	case HealthFailed:
		return "an operation failed"
	case HealthProblem:
		return "its file isn't obeyed"
	case HealthDrifting:
		return "differs from git"
	case HealthHeld:
		return "held after a failure"
	case HealthOperating:
		return "an operation is under way"
	case HealthSuspended:
		return "suspended"
	case HealthStopped:
		return "stopped"
	case HealthAbsent:
		return "not instantiated"
	}
	return "runs as git says"
}

// cell is an instance of the fleet. It is never changed.
type cell struct {
	ID, Name, Description string
	// Dir is its directory in git, and Site the folder above it, without "instances/".
	Dir, Site string
	Health    Health
	// Why says more of the health, "" for nothing: the drift, the problem, the operation.
	Why string
	// Package is the product's name, else the vnfdId; Version the version of its software.
	Package, Version, VnfdID, VIM string
	// Operation is the one that is open, "" for none.
	Operation string
	em        string
	text      string // what a search looks in, in small letters
}

func (c *cell) place() access.Instance { return access.Instance{Dir: c.Dir, EM: c.em} }

// fleet holds a cell for each instance, made of the indexes of git and of the operation log and
// of what the reconciler knows of drift and problems. It holds nothing of its own, and catches
// up with all of them before each answer.
type fleet struct {
	repo           desired.Repo
	operations     *oplog.Log
	view           View
	heads, records changed.Take
	// moved tells of operations whose state has changed, which records may not.
	moved     changed.Feed
	moves     changed.Take
	watchers  changed.Feed // of those who want to know which cells changed
	gone      map[string]access.Instance
	mu        sync.Mutex
	cells     map[string]*cell
	ordered   []*cell // by site, name and id; nil where it must be made anew. Never altered: pages read it
	drift     map[string]string
	problems  map[string]string
	others    []desired.Problem // those of no instance
	forgotten []string          // the oldest of gone first
	viewed    time.Time
}

// viewEvery is for how long what the reconciler knows of drift and problems is believed.
const viewEvery = 200 * time.Millisecond

// mostGone is of how many instances that are gone it is remembered where they were, so that who
// saw them can be told.
const mostGone = 1000

func newFleet(repo desired.Repo, operations *oplog.Log, view View) *fleet {
	f := &fleet{repo: repo, operations: operations, view: view, heads: repo.WatchHeads(), records: operations.WatchInstances(),
		cells: map[string]*cell{}, gone: map[string]access.Instance{}}
	f.moves = f.moved.Watch()
	return f
}

// now returns the cells by site, name and id. The caller doesn't alter them.
func (f *fleet) now() []*cell {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.catchUp()
	if f.ordered == nil {
		f.ordered = make([]*cell, 0, len(f.cells))
		for _, c := range f.cells {
			f.ordered = append(f.ordered, c)
		}
		slices.SortFunc(f.ordered, byPlace)
	}
	return f.ordered
}

// ofNone are the problems that are of no instance, as of the last catching up: of files beside the instances', and of VIMs
// with objects of no VNF.
func (f *fleet) ofNone() []desired.Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.others)
}

func byPlace(a, b *cell) int {
	if c := natural.Compare(a.Site, b.Site); c != 0 {
		return c
	}
	return cmp.Or(natural.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
}

// place returns where an instance is, or was if it is gone, as of the last catching up.
func (f *fleet) place(id string) (at access.Instance, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.cells[id]; c != nil {
		return c.place(), true
	}
	at, known = f.gone[id]
	return at, known
}

// catchUp makes those cells anew that may have changed. The caller has mu.
func (f *fleet) catchUp() {
	// What changes meanwhile is told of once more at the next call.
	heads, manyHeads := f.heads()
	records, manyRecords := f.records()
	moves, manyMoves := f.moves()
	drift, problems := f.drift, f.problems
	if time.Since(f.viewed) > viewEvery {
		f.viewed = time.Now()
		drift, problems = f.view.Drifting(), map[string]string{}
		f.others = nil
		for _, p := range f.view.Problems() {
			if p.Instance == "" {
				f.others = append(f.others, p)
			} else if problems[p.Instance] == "" {
				problems[p.Instance] = p.Message
			}
		}
	}
	ids := map[string]bool{}
	for _, list := range [][]string{heads, records, moves, differing(f.drift, drift), differing(f.problems, problems)} {
		for _, id := range list {
			ids[id] = true
		}
	}
	f.drift, f.problems = drift, problems
	if manyHeads || manyRecords || manyMoves {
		f.fill()
		return
	}
	if len(ids) == 0 {
		return
	}
	open := f.open()
	var told []string
	for id := range ids {
		if f.update(id, open) {
			told = append(told, id)
		}
	}
	if len(told) > 0 {
		f.reorder(told)
		f.watchers.Note(told...)
	}
}

// mostPlaced is how many cells are put in their places one by one; from more on, all are sorted.
const mostPlaced = 200

// reorder brings the order up to date with the cells of these instances.
func (f *fleet) reorder(ids []string) {
	if f.ordered == nil || len(ids) > mostPlaced {
		f.ordered = nil
		return
	}
	stale := map[string]bool{}
	for _, id := range ids {
		stale[id] = true
	}
	next := make([]*cell, 0, len(f.cells))
	for _, c := range f.ordered {
		if !stale[c.ID] {
			next = append(next, c)
		}
	}
	for _, id := range ids {
		if c := f.cells[id]; c != nil {
			at, _ := slices.BinarySearchFunc(next, c, byPlace)
			next = slices.Insert(next, at, c)
		}
	}
	f.ordered = next
}

// differing are the keys whose values differ.
func differing(a, b map[string]string) (ids []string) {
	for id, v := range a {
		if b[id] != v {
			ids = append(ids, id)
		}
	}
	for id := range b {
		if _, both := a[id]; !both {
			ids = append(ids, id)
		}
	}
	return ids
}

func (f *fleet) open() map[string]oplog.OperationEntry {
	all := map[string]oplog.OperationEntry{}
	for _, e := range f.operations.OpenOperations() {
		all[e.ID] = e
	}
	return all
}

// update makes one cell anew, and says whether it changed.
func (f *fleet) update(id string, open map[string]oplog.OperationEntry) bool {
	old := f.cells[id]
	c := f.make(id, open)
	switch {
	case c == nil && old == nil:
		return false
	case c == nil:
		delete(f.cells, id)
		if _, known := f.gone[id]; !known {
			f.forgotten = append(f.forgotten, id)
		}
		f.gone[id] = old.place()
		for len(f.forgotten) > mostGone {
			delete(f.gone, f.forgotten[0])
			f.forgotten = f.forgotten[1:]
		}
		return true
	case old != nil && *old == *c:
		return false
	}
	f.cells[id] = c
	return true
}

// fill makes all cells anew.
func (f *fleet) fill() {
	open := f.open()
	f.cells, f.ordered = map[string]*cell{}, nil
	for head := range f.repo.Heads("") {
		f.update(head.Instance, open)
	}
	for e := range f.operations.InstanceEntries("") {
		if f.cells[e.ID] == nil {
			f.update(e.ID, open)
		}
	}
	f.watchers.NoteAll()
}

// make returns the cell of an instance, nil where there is nothing to see.
func (f *fleet) make(id string, open map[string]oplog.OperationEntry) *cell {
	head, inHead := f.repo.LookupHead(id)
	entry, recorded := f.operations.InstanceEntry(id)
	if !recorded {
		entry = &oplog.InstanceEntry{ID: id}
	}
	if !inHead && entry.Open == "" && entry.OutstandingCommit == "" {
		return nil
	}
	c := &cell{ID: id, Name: cmp.Or(head.Name, entry.VNF.Name), Description: head.Description, Dir: cmp.Or(head.Dir, entry.Operated.Dir), em: head.EM,
		Package: entry.VNF.ProductName, Version: cmp.Or(entry.VNF.SoftwareVersion, entry.VNF.VnfdVersion),
		VnfdID: cmp.Or(head.VnfdID, entry.VNF.VnfdID), VIM: head.VIM, Operation: cmp.Or(entry.Open, entry.Proposed)}
	c.Name = cmp.Or(c.Name, path.Base(c.Dir), id)
	c.Package = cmp.Or(c.Package, c.VnfdID)
	if c.Site = strings.TrimPrefix(path.Dir(c.Dir), "instances"); c.Site == "" || c.Site == "." {
		c.Site = "/"
	} else {
		c.Site = strings.TrimPrefix(c.Site, "/")
	}
	c.Health, c.Why = f.healthOf(&head, open[entry.Open])
	c.text = strings.ToLower(strings.Join([]string{c.Name, c.Description, c.Dir, c.ID, c.Package, c.Version, c.VnfdID, c.VIM, string(c.Health), c.Why}, "\x00"))
	return c
}

// healthOf is what matters of an instance; op is the operation that is open, if one is.
func (f *fleet) healthOf(head *desired.Head, op oplog.OperationEntry) (Health, string) {
	id := head.Instance
	if id == "" {
		id = op.Instance
	}
	switch {
	case op.State == lcm.FailedTemp:
		return HealthFailed, string(op.Type) + " failed"
	case f.problems[id] != "":
		return HealthProblem, f.problems[id]
	case f.drift[id] != "":
		return HealthDrifting, f.drift[id]
	case head.Held != "":
		return HealthHeld, "held by operation " + short(head.Held)
	case op.ID != "":
		return HealthOperating, string(op.Type) + " " + string(op.State)
	case head.Suspend:
		return HealthSuspended, ""
	case head.State == desired.Stopped:
		return HealthStopped, ""
	case !desired.IsInstantiated(head.State):
		return HealthAbsent, ""
	}
	return HealthRunning, ""
}
