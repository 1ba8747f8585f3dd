package automation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// pinned is a desired repository whose directories' trees are "<package>/<anything>".
type pinned struct {
	Repo
	away error
}

func (p *pinned) Read(_ context.Context, rev desired.Revision) (*desired.Instance, error) {
	if p.away != nil {
		return nil, p.away
	}
	pkg, _, _ := strings.Cut(rev.Tree, "/")
	if pkg == "lost" {
		return nil, fmt.Errorf("%w: %s", desired.ErrNotFound, rev.Commit)
	}
	return &desired.Instance{Package: pkg}, nil
}

// past is a log of the operations that an instance "amf" has had, and a repository.
type past struct {
	*testing.T
	repo  *pinned
	oplog *oplog.Log
	ops   int
}

func newPast(t *testing.T) *past {
	t.Helper()
	db, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	log, err := oplog.Open(t.Context(), db, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return &past{T: t, repo: &pinned{}, oplog: log}
}

// operate has an operation between two packages end in a state.
func (h *past) operate(typ lcm.Type, from, to string, events ...lcm.Event) {
	h.Helper()
	h.ops++
	rev := func(pkg string, n int) desired.Revision {
		return desired.Revision{Instance: "amf", Dir: "instances/amf", Commit: fmt.Sprint("c", n), Tree: fmt.Sprintf("%s/%d", pkg, n)}
	}
	op, err := h.oplog.Born(h.Context(), lcm.Operation{ID: fmt.Sprintf("%c-%d", "az"[h.ops%2], h.ops), Instance: "amf", Type: typ,
		Before: rev(from, h.ops), After: rev(to, h.ops+1)})
	if err != nil {
		h.Fatal(err)
	}
	for _, e := range events {
		if op, err = h.oplog.Record(h.Context(), op.ID, func(op *lcm.Operation, inst *lcm.Instance) error {
			return op.Advance(e, time.Now(), nil)
		}); err != nil {
			h.Fatal(err)
		}
	}
	if err := h.oplog.Adopt(h.Context(), "amf", func(inst *lcm.Instance) error { inst.OutstandingCommit = ""; return nil }); err != nil {
		h.Fatal(err)
	}
}

// inVain are the packages that a process which starts now wouldn't try again.
func (h *past) inVain(known *history) string {
	h.Helper()
	var all []packages.Version
	for i, tree := range []string{"p0", "p1", "p2", "p3"} {
		all = append(all, packages.Version{Entry: packages.Entry{Tree: tree}, Semver: semver.New(1, 4, uint64(i), "", "")})
	}
	got, err := known.inVain(h.Context(), "amf", all)
	if err != nil {
		h.Fatal(err)
	}
	return strings.Join(slices.Sorted(maps.Keys(got)), " ")
}

func TestTheOperationLogTellsWhichPackagesWereTriedInVain(t *testing.T) {
	t.Parallel()

	done := []lcm.Event{lcm.Granted, lcm.Converged}
	back := []lcm.Event{lcm.Granted, lcm.Broke, lcm.RollbackAsked, lcm.Converged}
	for name, c := range map[string]struct {
		happen func(h *past)
		want   string
	}{
		"nothing":               {func(*past) {}, ""},
		"an upgrade":            {func(h *past) { h.operate(lcm.ChangePackage, "p0", "p1", done...) }, ""},
		"one that was refused":  {func(h *past) { h.operate(lcm.ChangePackage, "p0", "p1", lcm.Refused) }, "p1"},
		"one that failed":       {func(h *past) { h.operate(lcm.ChangePackage, "p0", "p1", lcm.Granted, lcm.Broke, lcm.FailAsked) }, "p1"},
		"one that runs":         {func(h *past) { h.operate(lcm.ChangePackage, "p0", "p1", lcm.Granted) }, ""},
		"one that is undecided": {func(h *past) { h.operate(lcm.ChangePackage, "p0", "p1", lcm.Granted, lcm.Broke) }, ""},
		"two that were rolled back": {func(h *past) {
			h.operate(lcm.ChangePackage, "p0", "p1", back...)
			h.operate(lcm.ChangePackage, "p0", "p2", back...)
		}, "p1 p2"},
		"a container update that was rolled back": {func(h *past) {
			h.operate(lcm.ModifyInfo, "p0", "p1", lcm.Broke, lcm.RollbackAsked, lcm.Converged)
		}, "p1"},
		"one after which much has happened": {func(h *past) {
			h.operate(lcm.ChangePackage, "p0", "p1", back...)
			h.operate(lcm.Heal, "p0", "p0", done...)
			h.operate(lcm.Scale, "p0", "p0", done...)
		}, "p1"},
		"a change of other things that failed": {func(h *past) {
			h.operate(lcm.ChangePackage, "p1", "p1", back...)
			h.operate(lcm.Scale, "p1", "p1", lcm.Granted, lcm.Broke, lcm.FailAsked)
		}, ""},
		"a way back": {func(h *past) {
			h.operate(lcm.ChangePackage, "p0", "p2", done...)
			h.operate(lcm.ChangePackage, "p2", "p0", done...)
		}, "p2"},
		"a way back that failed": {func(h *past) {
			h.operate(lcm.ChangePackage, "p2", "p0", back...)
		}, "p0"},
		"packages that nobody has any more": {func(h *past) {
			h.operate(lcm.ChangePackage, "gone", "p1", done...)
			h.operate(lcm.ChangePackage, "p1", "gone", done...)
			h.operate(lcm.ChangePackage, "p1", "lost", done...)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newPast(t)
			running := newHistory(h.repo, h.oplog) // a process that saw all of it
			if got := h.inVain(running); got != "" {
				t.Fatalf("at first: %s", got)
			}
			c.happen(h)
			if got := h.inVain(running); got != c.want {
				t.Errorf("the process that saw it says %q, want %q", got, c.want)
			}
			for range 2 {
				if got := h.inVain(newHistory(h.repo, h.oplog)); got != c.want {
					t.Errorf("the next process says %q, want %q", got, c.want)
				}
			}
		})
	}
}

func TestOnlyTheOperationsOfTheInstanceAreRead(t *testing.T) {
	t.Parallel()

	h := newPast(t)
	h.operate(lcm.ChangePackage, "p0", "p1", lcm.Refused) // z-1
	h.operate(lcm.ChangePackage, "p0", "p2", lcm.Refused) // a-2
	h.operate(lcm.Heal, "p0", "p0", lcm.Granted, lcm.Converged)
	for i := range 50 {
		if _, err := h.oplog.Born(t.Context(), lcm.Operation{ID: fmt.Sprintf("m-%d", i), Instance: fmt.Sprint("other", i), Type: lcm.ChangePackage}); err != nil {
			t.Fatal(err)
		}
	}
	log := &reads{Log: h.oplog}
	if got := h.inVain(newHistory(h.repo, log)); got != "p1 p2" || log.n != 2 {
		t.Errorf("%q, read %d operations, want 2", got, log.n)
	}
}

// reads counts the operations that are read.
type reads struct {
	*oplog.Log
	n int
}

func (r *reads) Operation(ctx context.Context, id string) (*lcm.Operation, error) {
	r.n++
	return r.Log.Operation(ctx, id)
}

func TestARepositoryThatIsAwayIsNoReasonToTryAgain(t *testing.T) {
	t.Parallel()

	h := newPast(t)
	h.operate(lcm.ChangePackage, "p0", "p1", lcm.Refused)
	h.repo.away = desired.ErrUnavailable
	known := newHistory(h.repo, h.oplog)
	if got, err := known.inVain(t.Context(), "amf", nil); !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("%v, %v", got, err)
	}
	h.repo.away = nil
	if got := h.inVain(known); got != "p1" {
		t.Errorf("%q once it is back", got)
	}
}
