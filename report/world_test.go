package report

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// world is a repository, an operation log and a forge, all in memory, where time passes at once while
// everybody waits. Trees of instances are words.
type world struct {
	t     *testing.T
	store store.Store

	mu       sync.Mutex
	number   int
	parents  map[string]string
	changes  map[string]map[string]string // by commit and instance: the trees in which it differs from its parent
	trees    map[string]map[string]string // by commit and instance: all of them, of commits that were asked for
	head     string
	branches map[string]string
	ops      map[string][]*lcm.Operation // by instance, the oldest first
	operated map[string]desired.Revision
	refused  map[string]bool
	own      map[string]bool     // commits of Jibe's
	fillsIn  map[string]bool     // those of them that complete others
	defines  map[string][]string // the rollouts that a commit defines
	rollouts map[string]Rollout
	would    []Target // what plans have beside instances
	plans    int
	full     bool // the store takes nothing

	// The forge.
	fails    func() error
	slow     time.Duration             // of each status
	statuses map[string][]forge.Status // by commit
	comments map[int64]string
	edits    map[int64]int
	calls    int
	opened   []forge.PullRequest
	became   map[int64]forge.Outcome

	reporter *Reporter
	end      func()
}

// inWorld runs f in one, with a reporter that runs.
func inWorld(t *testing.T, f func(w *world)) {
	path := filepath.Join(t.TempDir(), "store.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := bolt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w := &world{t: t, store: s, parents: map[string]string{}, changes: map[string]map[string]string{}, trees: map[string]map[string]string{"": {}}, branches: map[string]string{},
			ops: map[string][]*lcm.Operation{}, operated: map[string]desired.Revision{}, refused: map[string]bool{}, own: map[string]bool{}, fillsIn: map[string]bool{}, defines: map[string][]string{}, rollouts: map[string]Rollout{},
			statuses: map[string][]forge.Status{}, comments: map[int64]string{}, edits: map[int64]int{}, became: map[int64]forge.Outcome{}}
		w.commit(nil) // what was there before
		w.start()
		w.pass(time.Second)
		f(w)
		w.end()
	})
}

// start begins to report, as a process does that knows nothing.
func (w *world) start() {
	w.reporter = New(Config{
		Client: w, Repo: w, Oplog: w, Store: filling{w.store, w}, Branch: "main", Log: slog.New(slog.DiscardHandler), Poll: time.Hour,
		Refused:       func(id string) bool { w.mu.Lock(); defer w.mu.Unlock(); return w.refused[id] },
		Plan:          w.plan,
		Rollout:       w.rollout,
		RolloutLink:   func(name string) string { return "https://jibe/rollout/" + name },
		OperationLink: func(id string) string { return "https://jibe/op/" + id },
		CommitLink:    func(id string) string { return "https://jibe/commit/" + id },
	})
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.reporter.Run(ctx) }()
	w.end = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the reporter ended with %v", err)
		}
	}
}

// filling is the world's store, which may be full.
type filling struct {
	store.Store
	w *world
}

// Put implements [Store].
func (f filling) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	f.w.mu.Lock()
	full := f.w.full
	f.w.mu.Unlock()
	if full {
		return nil, store.ErrUnavailable
	}
	return f.Store.Put(ctx, recs...)
}

// restart ends the reporter and begins another one.
func (w *world) restart() {
	w.end()
	w.start()
	w.pass(10 * time.Second)
}

// pass lets the bubble's time pass, which takes none of the machine's.
func (w *world) pass(d time.Duration) {
	// The race detector doesn't know that what the test read before comes before what happens from now on.
	w.mu.Lock()
	w.mu.Unlock() //nolint:staticcheck // it orders

	kit.Pass(d)
}

// commit gives instances other trees on main, "" takes one away.
func (w *world) commit(trees map[string]string) string {
	w.mu.Lock()
	commit := w.make(w.head, trees)
	w.head = commit
	w.mu.Unlock()
	w.moved(slices.Collect(maps.Keys(trees))...)
	return commit
}

func (w *world) moved(ids ...string) {
	if w.reporter != nil {
		w.reporter.Moved(ids...)
	}
}

// make makes a commit; w.mu is held.
func (w *world) make(parent string, trees map[string]string) string {
	w.number++
	commit := fmt.Sprintf("%040d", w.number)
	w.parents[commit], w.changes[commit] = parent, maps.Clone(trees)
	return commit
}

// all returns the trees of a commit by instance; w.mu is held. A history of thousands of commits has
// them of the few that are asked for.
func (w *world) all(commit string) map[string]string {
	var since []string
	at := commit
	for ; w.trees[at] == nil; at = w.parents[at] {
		since = append(since, at)
	}
	if at == commit {
		return w.trees[commit]
	}

	all := maps.Clone(w.trees[at])
	for _, c := range slices.Backward(since) {
		for id, tree := range w.changes[c] {
			all[id] = tree
			if tree == "" {
				delete(all, id)
			}
		}
	}

	w.trees[commit] = all
	return all
}

// tree returns that of an instance at a commit, "" where it has none; w.mu is held.
func (w *world) tree(commit, id string) string {
	for at := commit; ; at = w.parents[at] {
		if all := w.trees[at]; all != nil {
			return all[id]
		}
		if tree, ok := w.changes[at][id]; ok {
			return tree
		}
	}
}

// begin begins the operation that leads an instance to head.
func (w *world) begin(typ lcm.Type, id string) *lcm.Operation {
	w.mu.Lock()
	to := desired.Revision{Instance: id, Dir: "instances/" + id, Commit: w.head, Tree: w.all(w.head)[id]}
	op := &lcm.Operation{ID: fmt.Sprintf("op-%s-%d", id, len(w.ops[id])), Instance: id, Type: typ, State: lcm.Starting, Before: w.operated[id], After: to}
	w.operated[id] = to
	w.ops[id] = append(w.ops[id], op)
	w.mu.Unlock()
	w.reporter.OperationChanged(op)
	return op
}

// enter has an operation enter a state.
func (w *world) enter(op *lcm.Operation, s lcm.State) {
	w.mu.Lock()
	op.State = s
	if s == lcm.FailedTemp {
		op.Error = &lcm.ProblemDetails{Status: 500, Detail: "the VIM says hunter2"}
	}
	w.mu.Unlock()
	w.reporter.OperationChanged(op)
}

// refuse has the file of an instance at head not be obeyed.
func (w *world) refuse(id string, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[id] = is
}

// last compares what was said of a commit last.
func (w *world) last(commit, want string) {
	w.t.Helper()
	if said := w.said(commit); len(said) == 0 || said[len(said)-1] != want {
		w.t.Errorf("said were\n%s\nwant at last\n%s", strings.Join(said, "\n"), want)
	}
}

// said are the states and words of a commit's statuses.
func (w *world) said(commit string) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.statuses[commit] {
		all = append(all, string(s.State)+": "+s.Description)
	}
	return all
}

// want compares what was said of a commit.
func (w *world) want(commit string, want ...string) {
	w.t.Helper()
	if got := w.said(commit); !slices.Equal(got, want) {
		w.t.Errorf("said were\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Head implements [Repo].
func (w *world) Head() string { w.mu.Lock(); defer w.mu.Unlock(); return w.head }

// Lookup implements [Repo].
func (w *world) Lookup(id string) (desired.Revision, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tree, ok := w.all(w.head)[id]
	return desired.Revision{Instance: id, Dir: "instances/" + id, Commit: w.head, Tree: tree}, ok
}

// Diff implements [Repo]. What is called vims stands for the settings.
func (w *world) Diff(_ context.Context, before, after string) (changes []read.Change, settings bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	touched := w.changes[after]
	if w.parents[after] != before {
		touched = maps.Clone(w.all(before))
		maps.Copy(touched, w.all(after))
	}

	for _, id := range slices.Sorted(maps.Keys(touched)) {
		was, is := w.tree(before, id), desired.Revision{Instance: id, Dir: "instances/" + id, Tree: w.tree(after, id)}
		if id == "vims" {
			settings = settings || was != is.Tree
		} else if is.Tree == "broken" {
			err = &desired.InvalidError{Problems: []*desired.Problem{{File: is.Dir}}}
		} else if was != is.Tree {
			changes = append(changes, read.Change{After: is})
		}
	}

	return changes, settings, err
}

// Since implements [Repo].
func (w *world) Since(_ context.Context, since, tip string, most int) (list []gitrepo.Step, more bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at := tip; at != since && at != ""; at = w.parents[at] {
		if len(list) == most {
			return list, true, nil
		}
		list = append(list, gitrepo.Step{Commit: at, Parent: w.parents[at], Own: w.own[at], FillsIn: w.fillsIn[at]})
	}
	return list, false, nil
}

// RolloutsChanged implements [Repo].
func (w *world) RolloutsChanged(_ context.Context, _, after string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.defines[after], nil
}

func (w *world) rollout(_ context.Context, name string) (Rollout, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st, is := w.rollouts[name]
	if !is {
		return st, ErrNoRollout
	}
	return st, nil
}

// Reaches implements [Repo].
func (w *world) Reaches(_ context.Context, tip, commit string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at := tip; at != ""; at = w.parents[at] {
		if at == commit {
			return true, nil
		}
	}
	return false, nil
}

// InstanceEntry implements [Operations].
func (w *world) InstanceEntry(id string) (*oplog.InstanceEntry, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rev, ok := w.operated[id]
	return &oplog.InstanceEntry{ID: id, Operated: rev}, ok
}

// Operation implements [Operations].
func (w *world) Operation(_ context.Context, id string) (*lcm.Operation, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range w.ops {
		for _, op := range list {
			if op.ID == id {
				is := *op
				return &is, nil
			}
		}
	}
	return nil, store.ErrNotFound
}

// OperationEntries implements [Operations].
func (w *world) OperationEntries(q oplog.OperationQuery) iter.Seq[oplog.OperationEntry] {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []oplog.OperationEntry
	for _, op := range w.ops[q.Instance] {
		list = append(list, oplog.OperationEntry{ID: op.ID, Instance: op.Instance, State: op.State})
	}
	return slices.Values(list)
}

// plan is [Config.Plan]: it names what differs.
func (w *world) plan(ctx context.Context, branch string) (Plan, error) {
	w.mu.Lock()
	w.plans++
	p := Plan{Commit: w.branches[branch], Text: fmt.Sprintf("plan %d of %s", w.plans, branch)}
	head := w.head
	p.Base, p.Targets = head, slices.Clone(w.would)
	w.mu.Unlock()
	changes, _, err := w.Diff(ctx, head, p.Commit)
	for _, c := range changes {
		p.Targets = append(p.Targets, Target{Instance: c.After.Instance, Dir: c.After.Dir})
	}
	return p, err
}

// propose makes a branch with other trees, and a pull request where there is none.
func (w *world) propose(branch string, trees map[string]string) (number int64) {
	w.mu.Lock()
	w.branches[branch] = w.make(w.head, trees)
	i := slices.IndexFunc(w.opened, func(p forge.PullRequest) bool { return p.Branch == branch })
	if i < 0 {
		i = len(w.opened)
		w.opened = append(w.opened, forge.PullRequest{Number: int64(i + 1), Branch: branch, Base: "main"})
	}
	w.opened[i].Commit = w.branches[branch]
	number = w.opened[i].Number
	w.mu.Unlock()
	w.reporter.Delivered()
	return number
}

// merge merges a pull request as one new commit, as a squash does.
func (w *world) merge(number int64) string {
	w.mu.Lock()
	i := slices.IndexFunc(w.opened, func(p forge.PullRequest) bool { return p.Number == number })
	trees := w.all(w.branches[w.opened[i].Branch])
	w.opened = slices.Delete(w.opened, i, i+1)
	w.mu.Unlock()
	commit := w.commit(trees)
	w.mu.Lock()
	w.became[number] = forge.Outcome{Merged: commit}
	w.mu.Unlock()
	w.reporter.Delivered()
	return commit
}

// call counts a call of the forge, and says whether it fails.
func (w *world) call() error {
	w.calls++
	if w.fails != nil {
		return w.fails()
	}
	return nil
}

// Check implements [forge.Client].
func (w *world) Check(context.Context) error { return nil }

// SetStatus implements [forge.Client].
func (w *world) SetStatus(_ context.Context, commit string, s forge.Status) error {
	w.mu.Lock()
	slow := w.slow
	w.mu.Unlock()
	time.Sleep(slow) // of the bubble's time
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.call(); err != nil {
		return err
	}
	if all := w.statuses[commit]; len(all) == 0 || all[len(all)-1] != s {
		w.statuses[commit] = append(all, s)
	}
	return nil
}

// SetComment implements [forge.Client].
func (w *world) SetComment(_ context.Context, number int64, _, text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.call(); err != nil {
		return err
	}
	w.comments[number] = text
	w.edits[number]++
	return nil
}

// Opened implements [forge.Client].
func (w *world) Opened(context.Context, string) ([]forge.PullRequest, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.opened), w.call()
}

// Outcome implements [forge.Client].
func (w *world) Outcome(_ context.Context, number int64) (forge.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.became[number], w.call()
}

// Proposed implements [forge.Client].
func (w *world) Proposed(context.Context, string, string) (forge.PullRequest, bool, error) {
	panic("a reporter looks for no pull request by its branch")
}

// Open implements [forge.Client].
func (w *world) Open(context.Context, forge.Proposal) (forge.PullRequest, error) {
	panic("a reporter opens no pull request")
}

// Close implements [forge.Client].
func (w *world) Close(context.Context, string, string) error {
	panic("a reporter closes no pull request")
}
