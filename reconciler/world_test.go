package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/sealed"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
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

func (shelf) WaysToHooks(string) []string {
	return []string{"hooks: true at repository shelf in repositories.yaml"}
}

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
		}, {
			ID:      "large",
			Aspects: []vnfd.Aspect{{ID: "web", MaxLevel: 5}},
			VDUs: []vnfd.VDU{
				{ID: "VDU1", Name: "web", Initial: 3, Deltas: map[string]int{"web": 2}, Max: -1},
				{ID: "VDU3", Name: "cache", Initial: 1, Max: -1},
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
	t     testing.TB
	repo  *gitrepo.Repo
	log   *oplog.Log
	cloud *sim.Cloud
	recon *reconciler.Reconciler
	stop  func()
	data  string
	conf  func(*reconciler.Config)
	// git changes how the desired repository is opened, where it isn't nil.
	git func(*gitrepo.Options)
	// passed is the time that the reconciler takes to have passed beyond what did, and metrics
	// are those of the process.
	passed  atomic.Int64
	elapsed atomic.Int64 // what the test lets elapse for all of the process
	metrics *reconciler.Metrics
}

func newWorld(t testing.TB, conf func(*reconciler.Config)) *world {
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
	opt := gitrepo.Options{Dir: filepath.Join(w.data, "desired.git")}
	if w.git != nil {
		w.git(&opt)
	}
	repo, err := gitrepo.Open(ctx, opt)
	if err != nil {
		w.t.Fatal(err)
	}
	db, err := bolt.Open(filepath.Join(w.data, "store.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.repo = repo
	store := leased{db, w.t}
	member, err := members.Join(ctx, members.Config{Store: store, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.log, err = oplog.Open(ctx, store, w.now, oplog.WithMember(member.Holder()), oplog.WithSealer(sealed.Sealer{Key: []byte("the installation's key")})); err != nil {
		w.t.Fatal(err)
	}
	c := reconciler.Config{
		Repo: repo, Store: store, Oplog: w.log, Packages: shelf{}, Secrets: noSecrets{}, Member: member,
		Driver:       func(v drivers.VIM) (drivers.Driver, error) { return sim.New(w.cloud, v), nil },
		Log:          slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		FailureGrace: 10 * time.Millisecond,
		Prove:        true,
		Metrics:      reconciler.NewMetrics(nil),
		Now:          func() time.Time { return w.now().Add(time.Duration(w.passed.Load())) },
	}
	if w.conf != nil {
		w.conf(&c)
	}
	w.metrics = c.Metrics
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
		if err := errors.Join(member.Leave(context.WithoutCancel(ctx)), repo.Close(), db.Close()); err != nil {
			w.t.Error(err)
		}
		w.stop = func() {}
	}
}

// now is the time by the machine's clock, and what the test lets elapse.
func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.elapsed.Load())) }

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
		if op, err = w.log.Operation(w.t.Context(), name); err != nil {
			return false
		}
		inst, err = w.log.Instance(w.t.Context(), id) // it may have ended meanwhile
		return err == nil && op.Type == typ && op.State == state && inst.OutstandingCommit == ""
	})
	return op
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	came := false
	defer func() {
		if came {
			return
		}
		ops, _ := w.log.Operations(context.WithoutCancel(w.t.Context()), "", 0)
		for _, op := range ops {
			w.t.Logf("%s %s %s %+v", op.ID, op.Type, op.State, op.Error)
		}
	}()
	kit.Until(w.t, what, ok)
	came = true
}

// looks waits until the reconciler has looked at the instance from now on, and knows
// whatever git and the VIM had before.
func (w *world) looks() {
	w.t.Helper()
	enough := w.passes() + 2 // one may be under way
	w.until("the reconciler has looked", func() bool {
		w.recon.Enqueue(id)
		return w.passes() >= enough
	})
}

// wait lets time pass for the reconciler: it looks before and after.
func (w *world) wait(d time.Duration) {
	w.t.Helper()
	w.looks()
	w.passed.Add(int64(d))
	w.looks()
}

// passes is how many passes the process has made.
func (w *world) passes() uint64 {
	w.t.Helper()
	return passes(w.t, w.metrics)
}

// passes is how many passes the metrics have counted.
func passes(t testing.TB, m *reconciler.Metrics) (n uint64) {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(m.Collectors()...)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "jibe_reconcile_duration_seconds" {
				n += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
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
