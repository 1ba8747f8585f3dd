package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/vnfd"
)

const (
	vnfdID  = "0a2fbf0c-5b3c-4d8e-9a55-3f2d6e1a7c11"
	pkgTree = "9f31c2aa4b7d0e5c6f8091a2b3c4d5e6f7081920"
	id      = "5b0e1d52-9a0c-4a3c-8a3f-6f1a64b1e0aa"
	dir     = "instances/site-a/amf"
	web     = "Workload/" + id + "/web"
)

// shelf is a package repository with one package.
type shelf struct{}

var errUnknown = fmt.Errorf("%w: unknown vnfdId", packages.ErrUnknown)

func (shelf) Hooks(string) bool { return true }

func (shelf) RepositoriesOf(string) []string { return []string{"shelf"} }

func (shelf) Newest(vnfd string) (string, error) {
	if vnfd != vnfdID {
		return "", errUnknown
	}
	return pkgTree, nil
}

func (shelf) Kept(context.Context, string) ([]string, error) { return nil, nil }

func (shelf) Pin(context.Context, string) error { return nil }

func (shelf) Verify(context.Context, string) error { return nil }

func (shelf) Open(_ context.Context, tree string) (*vnfd.Package, error) {
	if tree != pkgTree {
		return nil, errUnknown
	}
	return &vnfd.Package{Tree: tree, VNFD: &vnfd.VNFD{
		ID: vnfdID, Version: "1.0", Provider: "Example", ProductName: "AMF", SoftwareVersion: "7",
		Flavours: []vnfd.Flavour{{
			ID:      "simple",
			Aspects: []vnfd.Aspect{{ID: "web", MaxLevel: 5}, {ID: "db", MaxLevel: 3}},
			VDUs: []vnfd.VDU{
				{ID: "VDU1", Name: "web", Initial: 1, Deltas: map[string]int{"web": 1}, Max: -1},
				{ID: "VDU2", Name: "db", Initial: 2, Deltas: map[string]int{"db": 2}, Max: -1},
			},
		}},
	}}, nil
}

// noSecrets gives every VIM its name and type.
type noSecrets struct{}

func (noSecrets) VIM(v *desired.VIM) (drivers.VIM, error) {
	return drivers.VIM{Name: v.Name, Type: v.Type}, nil
}

func (noSecrets) Connection(name string, c desired.VIMConnection) (drivers.VIM, error) {
	return drivers.VIM{Name: name, Type: c.VimType}, nil
}

// world is a whole process but for the API, on real git and a real store.
type world struct {
	t     *testing.T
	repo  *gitrepo.Repo
	log   *oplog.Log
	cloud *sim.Cloud
	recon *reconciler.Reconciler
	stop  func()
	data  string
	conf  func(*reconciler.Config)
}

func newWorld(t *testing.T, conf func(*reconciler.Config)) *world {
	t.Helper()
	w := &world{t: t, cloud: sim.NewCloud(), data: t.TempDir(), conf: conf}
	w.start()
	t.Cleanup(func() { w.stop() })
	w.settings()
	return w
}

// start starts the process on whatever an earlier one left.
func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	repo, err := gitrepo.Open(ctx, gitrepo.Options{Dir: filepath.Join(w.data, "desired.git")})
	if err != nil {
		w.t.Fatal(err)
	}
	db, err := bolt.Open(filepath.Join(w.data, "store.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.repo, w.log = repo, oplog.New(db, time.Now)
	c := reconciler.Config{
		Repo: repo, Store: db, Log: w.log, Packages: shelf{}, Secrets: noSecrets{}, Holder: "test",
		Driver:       func(v drivers.VIM) (drivers.Driver, error) { return sim.New(w.cloud, v), nil },
		Logger:       slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		FailureGrace: 10 * time.Millisecond,
	}
	if w.conf != nil {
		w.conf(&c)
	}
	if w.recon, err = reconciler.New(c); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 2)
	go func() { done <- w.recon.Run(ctx) }()
	go func() {
		done <- repo.Watch(ctx, func(ids []string, _ bool) {
			for _, id := range ids {
				w.recon.Enqueue(id)
			}
		})
	}()
	w.stop = func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				w.t.Error(err)
			}
		}
		if err := errors.Join(repo.Close(), db.Close()); err != nil {
			w.t.Error(err)
		}
		w.stop = func() {}
	}
}

func (w *world) settings() {
	w.t.Helper()
	if err := w.repo.Seed(w.t.Context(), map[string][]byte{"vims/lab.yaml": []byte("type: sim\ndefault: true\n")}, "A VIM"); err != nil {
		w.t.Fatal(err)
	}
}

// commit writes the instance's vnf.yaml as a person's push would; "" removes it.
func (w *world) commit(text string) desired.Revision {
	w.t.Helper()
	rev, err := w.repo.Write(w.t.Context(), desired.Write{
		Instance: id, Dir: dir, Subject: "change", By: "Ann <ann@example.com>",
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			if text == "" {
				return nil, nil
			}
			return desired.Files{desired.InstanceFile: []byte(text)}, nil
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return rev
}

func file(state, extra string) string {
	if !strings.Contains(extra, "vim:") && !strings.Contains(extra, "vimConnectionInfo:") {
		extra = "vim: lab\n" + extra // nothing is left to be filled in
	}
	return fmt.Sprintf("id: %s\nname: amf\nvnfdId: %s\nstate: %s\nflavour: simple\npackage: %s\n%s", id, vnfdID, state, pkgTree, extra)
}

// last waits until the instance's last operation is of this type and state.
func (w *world) last(typ lcm.Type, state lcm.State) *lcm.Operation {
	w.t.Helper()
	var op *lcm.Operation
	w.until(fmt.Sprintf("%s is %s", typ, state), func() bool {
		op = nil
		inst, err := w.log.Instance(w.t.Context(), id)
		if err != nil || inst.Open == "" && inst.Last == "" {
			return false
		}
		name := inst.Open
		if name == "" {
			name = inst.Last
		}
		op, err = w.log.Operation(w.t.Context(), name)
		return err == nil && op.Type == typ && op.State == state && inst.Owed == ""
	})
	return op
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			ops, _ := w.log.Operations(w.t.Context(), "", 0)
			for _, op := range ops {
				w.t.Logf("%s %s %s %+v", op.ID, op.Type, op.State, op.Error)
			}
			w.t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// live are the units that run and don't go; fresh is false where none can be seen.
func (w *world) live() (units []plan.Unit, fresh bool) {
	seen, fresh := w.recon.View().Running(w.t.Context(), id)
	return slices.DeleteFunc(seen.Units, func(u plan.Unit) bool { return u.Deleting }), fresh
}

func (w *world) units(vdu string) int {
	units, fresh := w.live()
	if !fresh {
		return -1
	}
	return len(slices.DeleteFunc(units, func(u plan.Unit) bool { return u.VDU != vdu }))
}

func (w *world) head() *desired.Instance {
	w.t.Helper()
	rev, ok := w.repo.Lookup(id)
	if !ok {
		return nil
	}
	in, err := w.repo.Read(w.t.Context(), rev)
	if err != nil {
		w.t.Fatal(err)
	}
	return in
}

// failToScale instantiates, and commits a scale-out that can't succeed.
func (w *world) failToScale(why string) (before desired.Revision) {
	w.t.Helper()
	before = w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.cloud.Fail(web, why)
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	return before
}

func TestCommitsInstantiateScaleAndTerminate(t *testing.T) {
	w := newWorld(t, nil)
	rev := w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.Completed)
	if op.ID != reconciler.OperationID(rev.Commit, id) {
		t.Errorf("operation %s isn't that of commit %s", op.ID, rev.Commit)
	}
	if n, db := w.units("VDU1"), w.units("VDU2"); n != 1 || db != 2 {
		t.Errorf("got %d and %d units, want 1 and 2", n, db)
	}
	w.commit(file("instantiated", "levels: {web: 3}\n"))
	op = w.last(lcm.Scale, lcm.Completed)
	if n := w.units("VDU1"); n != 4 {
		t.Errorf("got %d units, want 4", n)
	}
	if n := len(lcm.Difference(op.UnitsBefore, op.UnitsAfter, op.ResourcesBefore, op.ResourcesAfter)); n != 3 {
		t.Errorf("the operation tells of %d changed units, want 3", n)
	}
	w.commit(file("instantiated", "levels: {web: 1}\n"))
	w.until("scaled in", func() bool { return w.units("VDU1") == 2 })
	w.last(lcm.Scale, lcm.Completed)
	w.commit("")
	w.until("forgotten", func() bool {
		inst, err := w.log.Instance(t.Context(), id)
		return err == nil && inst.Last == "" && inst.Seq == 0
	})
	if n, db := w.units("VDU1"), w.units("VDU2"); n > 0 || db > 0 {
		t.Errorf("%d and %d units are left", n, db)
	}
}

func TestACommentCausesNoOperation(t *testing.T) {
	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	rev := w.commit(file("instantiated", "# a remark\n"))
	w.until("adopted", func() bool {
		inst, err := w.log.Instance(t.Context(), id)
		return err == nil && inst.Operated.Tree == rev.Tree && inst.Settled.Tree == rev.Tree
	})
	ops, err := w.log.Operations(t.Context(), "", 0)
	if err != nil || len(ops) != 1 {
		t.Errorf("got %d operations (%v), want the instantiation alone", len(ops), err)
	}
}

func TestAnUnpinnedInstanceIsPinnedBeforeItRuns(t *testing.T) {
	w := newWorld(t, nil)
	w.commit(strings.Replace(file("instantiated", "# mine\n"), "package: "+pkgTree+"\n", "", 1))
	op := w.last(lcm.Instantiate, lcm.Completed)
	if got := w.head().Package; got != pkgTree {
		t.Errorf("package is %q", got)
	}
	rev, _ := w.repo.Lookup(id)
	if op.After.Tree != rev.Tree {
		t.Error("the operation ran on a revision without a pin")
	}
	if op.RequestedBy != "Ann <ann@example.com>" {
		t.Errorf("requested by %q, not by who pushed", op.RequestedBy)
	}
}

func TestAFailureHoldsTheInstanceAndRollbackRestoresIt(t *testing.T) {
	w := newWorld(t, nil)
	before := w.failToScale("image can't be pulled")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	if op.Error == nil || !strings.Contains(op.Error.Detail, "image can't be pulled") {
		t.Errorf("the error is %+v", op.Error)
	}
	w.cloud.Fail(web, "")
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.RolledBack)
	if n := w.units("VDU1"); n != 1 {
		t.Errorf("%d units after the rollback, want 1", n)
	}
	if rev, _ := w.repo.Lookup(id); rev.Tree != before.Tree {
		t.Error("git doesn't say what it said before")
	}
}

func TestFailTakesTheCommitBackAndMarksTheInstance(t *testing.T) {
	w := newWorld(t, nil)
	w.failToScale("no memory")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	if _, err := w.log.Fail(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.Failed)
	if in := w.head(); in.Held != op.ID || in.Levels["web"] != 0 {
		t.Errorf("held %q, levels %v", in.Held, in.Levels)
	}
}

func TestFailTakesTheCommitBackFromBeneathAChangeThatNoOperationCarriesOut(t *testing.T) {
	w := newWorld(t, nil)
	w.failToScale("no memory")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	asked := w.head()
	w.commit(file("instantiated", fmt.Sprintf("levels: {web: %d}\ndrift: report\n", asked.Levels["web"])))
	if _, err := w.log.Fail(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.Failed)
	w.until("the outcome is in git", func() bool { return w.head().Held == op.ID })
	if in := w.head(); in.Levels["web"] != 0 || in.Drift != desired.DriftReport {
		t.Errorf("levels %v, drift %q", in.Levels, in.Drift)
	}
}

func TestRetrySucceedsOnceTheCauseIsGone(t *testing.T) {
	w := newWorld(t, nil)
	w.cloud.Fail(web, "no memory")
	w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.FailedTemp)
	w.cloud.Fail(web, "")
	if _, err := w.log.Retry(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Instantiate, lcm.Completed)
}

func TestAPushOnAFailedOperationSupersedesIt(t *testing.T) {
	w := newWorld(t, nil)
	w.failToScale("no memory")
	failed := w.last(lcm.Scale, lcm.FailedTemp)
	w.cloud.Fail(web, "")
	w.commit(file("instantiated", "levels: {web: 3}\n"))
	w.until("superseded", func() bool {
		op, err := w.log.Operation(t.Context(), failed.ID)
		return err == nil && op.State == lcm.Failed
	})
	w.last(lcm.Scale, lcm.Completed)
	if n := w.units("VDU1"); n != 4 {
		t.Errorf("%d units, want 4", n)
	}
}

func TestPushingTheOldContentRollsAFailedOperationBack(t *testing.T) {
	w := newWorld(t, nil)
	w.failToScale("no memory")
	w.last(lcm.Scale, lcm.FailedTemp)
	w.cloud.Fail(web, "")
	w.commit(file("instantiated", ""))
	w.last(lcm.Scale, lcm.RolledBack)
	if n := w.units("VDU1"); n != 1 {
		t.Errorf("%d units after the rollback, want 1", n)
	}
}

func TestARefusalInStartingEndsRolledBackWithNothingDone(t *testing.T) {
	w := newWorld(t, nil)
	w.cloud.Refuse(web, "no room for it")
	w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.RolledBack)
	if op.Error == nil || op.Error.Status != 422 {
		t.Errorf("the error is %+v", op.Error)
	}
	if in := w.head(); in.State != desired.NotInstantiated {
		t.Errorf("state is %s", in.State)
	}
	if n := w.units("VDU1"); n > 0 {
		t.Errorf("%d units run", n)
	}
}

func TestAnOperationThatNeverGetsReadyFailsAtItsDeadlineSayingWhatItWaitedFor(t *testing.T) {
	w := newWorld(t, func(c *reconciler.Config) { c.Timeout = 50 * time.Millisecond })
	w.cloud.SetLatency(time.Hour)
	w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.FailedTemp)
	if !strings.Contains(op.Error.Detail, "web") || !strings.Contains(op.Error.Detail, "not done within") {
		t.Errorf("the error is %q", op.Error.Detail)
	}
}

func TestARestartGoesOnWithWhatWasUnderWay(t *testing.T) {
	w := newWorld(t, nil)
	w.cloud.SetLatency(500 * time.Millisecond)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Processing)
	w.stop()
	w.start()
	w.last(lcm.Instantiate, lcm.Completed)
	ops, err := w.log.Operations(t.Context(), "", 0)
	if err != nil || len(ops) != 1 {
		t.Errorf("got %d operations (%v), want 1", len(ops), err)
	}
}

func TestACancelledOperationStopsInFailedTemp(t *testing.T) {
	w := newWorld(t, nil)
	w.cloud.SetLatency(time.Hour)
	w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.Processing)
	if _, err := w.log.Cancel(t.Context(), op.ID, lcm.Forceful); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	op = w.last(lcm.Instantiate, lcm.FailedTemp)
	if !strings.Contains(op.Error.Detail, "cancel") {
		t.Errorf("the error is %q", op.Error.Detail)
	}
}

func TestARollbackThatFailsWaitsForAPerson(t *testing.T) {
	w := newWorld(t, nil)
	w.failToScale("no memory")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	w.commit(file("instantiated", ""))
	w.until("the rollback has failed", func() bool {
		now, err := w.log.Operation(t.Context(), op.ID)
		return err == nil && now.State == lcm.FailedTemp && now.Journal.Rollback
	})
	w.cloud.Fail(web, "")
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.RolledBack)
}

func TestRenamingAnInstanceThatDoesNotRunNeedsNoVIM(t *testing.T) {
	w := newWorld(t, nil)
	w.commit(file("notInstantiated", "vim: elsewhere\n"))
	w.until("adopted", func() bool {
		inst, err := w.log.Instance(t.Context(), id)
		return err == nil && inst.Operated.Tree != ""
	})
	w.commit(strings.Replace(file("notInstantiated", "vim: elsewhere\n"), "name: amf", "name: amf-2", 1))
	w.last(lcm.ModifyInfo, lcm.Completed)
}
