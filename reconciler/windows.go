package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// gate says when operations may begin: by the files with windows and freezes at head, and by how long such
// operations took before. It never concerns one that has begun.
type gate struct {
	repo  desired.Repo
	oplog *oplog.Log
	now   func() time.Time
}

// ask says whether an operation of a type may begin now on the instance in a directory. The second
// result tells people why not, "" where it may.
func (g gate) ask(ctx context.Context, instance, dir string, t lcm.Type) (desired.Waits, string, error) {
	files, err := g.repo.Maintenance(ctx, dir)
	if err != nil {
		return desired.Waits{}, "", fmt.Errorf("maintenance windows of instance %s: %w", instance, err)
	}
	if len(files) == 0 {
		return desired.Waits{}, "", nil
	}
	takes, err := g.expected(ctx, instance, t)
	if err != nil {
		return desired.Waits{}, "", err
	}
	w := desired.Ask(files, string(t), g.now(), takes)
	if w.Open {
		return w, "", nil
	}
	return w, w.Why(takes), nil
}

// recent is of how many operations the longest is expected again.
const recent = 5

// expected is how long an operation of a type is expected to take on an instance: as long as the longest
// of the last that were completed there, each in its last attempt; 0 where none was, as a guess would
// hold back what fits.
func (g gate) expected(ctx context.Context, instance string, t lcm.Type) (most time.Duration, err error) {
	var ids []string
	for e := range g.oplog.OperationEntries(oplog.OperationQuery{Instance: instance, Types: []lcm.Type{t}, States: []lcm.State{lcm.Completed}}) {
		if !e.Automatic {
			ids = append(ids, e.ID)
		}
	}
	for _, id := range ids[max(0, len(ids)-recent):] {
		op, err := g.oplog.Operation(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was pruned meanwhile
		}
		if err != nil {
			return 0, fmt.Errorf("operation %s: %w", id, err)
		}
		most = max(most, op.StateEntered.Sub(op.AttemptStarted))
	}
	return most, nil
}

// Waiting is an operation that isn't begun yet, since a window is closed or a freeze holds.
type Waiting struct {
	Instance string   `json:"instance"`
	Type     lcm.Type `json:"operation"`
	// Commit asks for it, "" for a repair.
	Commit string `json:"commit,omitempty"`
	// Why is for people; it names the file.
	Why string `json:"why"`
	// Until is when it may begin; zero is at no time in sight.
	Until time.Time `json:"until,omitzero"`
	// Since is when this process saw it wait first.
	Since time.Time `json:"since"`

	tree string
}

// waits holds what waits for a window. It is a view of facts: a restart sees them anew.
type waits struct {
	mu sync.Mutex
	of map[string]Waiting
}

func newWaits() *waits { return &waits{of: make(map[string]Waiting)} }

// note takes down what waits on an instance, and says whether that is news.
func (x *waits) note(w Waiting) (news bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	was, known := x.of[w.Instance]
	if known && was.tree == w.tree && was.Type == w.Type {
		w.Since = was.Since
	}
	x.of[w.Instance] = w
	return !known || was.tree != w.tree || was.Why != w.Why
}

func (x *waits) at(instance string) (Waiting, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	w, ok := x.of[instance]
	return w, ok
}

func (x *waits) clear(instance string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.of, instance)
}

// Waiting lists what waits for a window or the end of a freeze, by instance.
func (v *View) Waiting() []Waiting {
	x := v.r.waits
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]Waiting, 0, len(x.of))
	for _, w := range x.of {
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b Waiting) int { return strings.Compare(a.Instance, b.Instance) })
	return list
}

// WaitingOf says what waits on one instance for a window or the end of a freeze; false where nothing does.
func (v *View) WaitingOf(instance string) (Waiting, bool) { return v.r.waits.at(instance) }

// MayBegin says whether an operation of a type may begin now on the instance in a directory: why is
// "" where it may, and else tells people why not. until is when it may, zero for no time in sight.
func (v *View) MayBegin(ctx context.Context, instance, dir string, t lcm.Type) (why string, until time.Time, err error) {
	w, why, err := v.r.gate().ask(ctx, instance, dir, t)
	return why, w.Until, err
}

func (r *Reconciler) gate() gate { return gate{r.Repo, r.Oplog, r.Now} }

// override is what lets a commit's operation begin outside of its windows.
type override struct{ reason, by string }

// story is what the operation's record keeps of it.
func (o override) story() string {
	return fmt.Sprintf("begun outside of its maintenance windows, as %s overrides them: %s", cmp.Or(o.by, "an administrator"), o.reason)
}

// overridden is the override of head, where it is under windows at all.
func (r *intentReader) overridden(ctx context.Context, head desired.Revision) (override, error) {
	files, err := r.repo.Maintenance(ctx, head.Dir)
	if err != nil || len(files) == 0 {
		return override{}, err
	}
	var o override
	o.reason, o.by, err = r.repo.Override(ctx, head)
	return o, err
}

// window asks whether an operation of a type may begin now for head, and takes down what waits.
func (r *intentReader) window(ctx context.Context, head desired.Revision, t lcm.Type) (WindowFacts, error) {
	meets, why, err := r.gate.ask(ctx, r.id, head.Dir, t)
	if err != nil || why == "" {
		return WindowFacts{Type: t}, err
	}
	w := Waiting{Instance: r.id, Type: t, Commit: head.Commit, Why: why, Until: meets.Until, Since: r.now(), tree: head.Tree}
	if r.waits.note(w) {
		r.log.InfoContext(ctx, "operation waits for its window", "type", t, "revision", head.Commit, "why", why)
	}

	return WindowFacts{Type: t, Why: why, Until: meets.Until}, nil
}
