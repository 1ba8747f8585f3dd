package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// fleet is several replicas on one store, one repository and one VIM.
type fleet struct {
	t     *testing.T
	repo  *gitrepo.Repo
	puts  *puts
	log   *oplog.Log
	cloud *sim.Cloud
	clock *clock
	// replicas is how many were started.
	replicas int
}

// clock is that of the store and of all replicas. It goes slowly, so that no session ends because the machine stood
// still, until it is to hurry.
type clock struct {
	mu          sync.Mutex
	from, since time.Time // what it showed when it began to go as it does, and when that was
	hurries     bool
}

func newClock() *clock {
	now := time.Now()
	return &clock{from: now, since: now}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shows()
}

// shows is now. c.mu is held.
func (c *clock) shows() time.Time {
	passed := time.Since(c.since)
	if !c.hurries {
		passed /= 30
	}
	return c.from.Add(passed)
}

// hurry has it go as other clocks do from now on.
func (c *clock) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from, c.since, c.hurries = c.shows(), time.Now(), true
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	dir := t.TempDir()
	repo, err := gitrepo.Open(t.Context(), gitrepo.Options{Dir: filepath.Join(dir, "desired.git"), Key: []byte("the installation's")})
	if err != nil {
		t.Fatal(err)
	}
	clock := newClock()
	db, err := bolt.Open(filepath.Join(dir, "store.db"), bolt.WithClock(clock.now))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(repo.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	f := &fleet{t: t, repo: repo, cloud: sim.NewCloud(), clock: clock, puts: &puts{Store: leased{db, t}, tokens: map[string]uint64{}, by: map[string][]string{}, fenced: map[string]int{}}}
	if f.log, err = oplog.Open(t.Context(), f.puts, time.Now); err != nil {
		t.Fatal(err)
	}
	if err := repo.Seed(t.Context(), map[string][]byte{"vims/lab.yaml": []byte("type: sim\ndefault: true\n")}, "A VIM"); err != nil {
		t.Fatal(err)
	}
	return f
}

// puts is a store that knows who has put what, in the order of the Puts.
type puts struct {
	store.Store
	mu sync.Mutex
	// tokens are the last with which each instance was written, and by are the holders that wrote each
	// operation; older are writes of a lease that another one had followed.
	tokens map[string]uint64
	by     map[string][]string
	older  []string
	// fenced counts the refused Puts of each holder.
	fenced map[string]int
}

func (p *puts) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stored, err := p.Store.Put(ctx, recs...)
	lease, under := store.LeaseOf(ctx)
	switch {
	case !under:
	case errors.Is(err, store.ErrFenced):
		p.fenced[lease.Holder]++
	case err == nil:
		if last := p.tokens[lease.Name]; lease.Token < last {
			p.older = append(p.older, fmt.Sprintf("%s with token %d after %d", lease.Name, lease.Token, last))
		}
		p.tokens[lease.Name] = lease.Token
		for _, r := range recs {
			if op, ok := strings.CutPrefix(r.Key, "operation/"); ok && !slices.Contains(p.by[op], lease.Holder) {
				p.by[op] = append(p.by[op], lease.Holder)
			}
		}
	}
	return stored, err
}

// gate holds back whatever a process does while it is stopped.
type gate struct {
	clock   *clock
	renews  sync.RWMutex // held for reading while a lease is on its way to the store
	mu      sync.Mutex
	stopped chan struct{} // nil while it runs
	at      time.Time     // when its clock was stopped
}

// stop returns when nothing that the process renews is on its way any more.
func (g *gate) stop() {
	g.mu.Lock()
	g.stopped, g.at = make(chan struct{}), g.clock.now()
	g.mu.Unlock()
	g.renews.Lock()
	defer g.renews.Unlock()
}

func (g *gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped != nil {
		close(g.stopped)
		g.stopped = nil
	}
}

func (g *gate) pass() {
	if stopped := g.waits(); stopped != nil {
		<-stopped
	}
}

// waits is closed when the process runs again; it is nil while it runs.
func (g *gate) waits() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped
}

// now is a clock that stands still while the process is stopped: it believes that no time has passed.
func (g *gate) now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped != nil {
		return g.at
	}
	return g.clock.now()
}

// gated is a replica's way to the store.
type gated struct {
	store.Store
	*gate
}

func (g gated) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	for g.renews.RLock(); g.waits() != nil; g.renews.RLock() {
		g.renews.RUnlock()
		g.pass()
	}
	defer g.renews.RUnlock()
	return g.Store.Acquire(ctx, name, holder, ttl)
}

// gatedDriver is a replica's way to the VIM.
type gatedDriver struct {
	*sim.Driver
	*gate
	t testing.TB
}

func (g gatedDriver) Do(ctx context.Context, want drivers.Rendering, steps ...plan.Step) error {
	g.pass()
	if limit, err := drivers.MayChange(ctx); limit == 0 && err == nil {
		g.t.Error("the driver isn't told of the lease under which it changes the VIM")
	}
	return g.Driver.Do(ctx, want, steps...)
}

func (g gatedDriver) Observe(ctx context.Context, want drivers.Rendering) (plan.Observed, error) {
	g.pass()
	return g.Driver.Observe(ctx, want)
}

// replica is one process but for the API.
type replica struct {
	*gate
	member *members.Member
	recon  *reconciler.Reconciler
	// kill ends it without a word to the others, and with it its session: not later than by the clock.
	kill func()
}

func (f *fleet) start(conf func(*reconciler.Config)) *replica {
	f.t.Helper()
	r := &replica{gate: &gate{clock: f.clock}}
	f.replicas++
	log := slog.New(slog.NewTextHandler(f.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	to := gated{f.puts, r.gate}
	var err error
	kit.Eventually(f.t, func() error { // its first heartbeat has a second
		r.member, err = members.Join(f.t.Context(), members.Config{Store: to, Log: log, Shared: true, Session: 2 * time.Second, Heartbeat: 200 * time.Millisecond, Now: r.now,
			Holder: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, "replica ", f.replicas)).String()}) // instances are dealt alike in each run
		return err
	})
	c := reconciler.Config{
		Repo: f.repo, Store: to, Oplog: f.log, Packages: shelf{}, Secrets: noSecrets{}, Member: r.member, Log: log.With("replica", r.member.Holder()[:8]),
		Driver:  func(v drivers.VIM) (drivers.Driver, error) { return gatedDriver{sim.New(f.cloud, v), r.gate, f.t}, nil },
		Workers: 4, FailureGrace: 10 * time.Millisecond, Now: r.now,
	}
	if conf != nil {
		conf(&c)
	}
	if r.recon, err = reconciler.New(c); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.recon.Run(ctx) }()
	end := sync.OnceFunc(func() {
		cancel()
		r.wake()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
	r.kill = func() {
		r.stop()
		cancel()
		if s := r.member.Session(); s != nil {
			if err := f.puts.Release(f.t.Context(), s.Lease()); err != nil {
				f.t.Error(err)
			}
		}
	}
	f.t.Cleanup(func() {
		end()
		if err := r.member.Leave(context.WithoutCancel(f.t.Context())); err != nil {
			f.t.Error(err)
		}
	})
	return r
}

// instances are n ids of instances.
func instances(n int) (ids []string) {
	for i := range n {
		ids = append(ids, uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)).String())
	}
	return ids
}

// want commits what the instance is to be, and tells all replicas.
func (f *fleet) want(instance, extra string, tell ...*replica) {
	f.t.Helper()
	f.commit(instance, "instantiated", extra, tell...)
}

// commit commits what the file of the instance says, and tells these replicas.
func (f *fleet) commit(instance, state, extra string, tell ...*replica) {
	f.t.Helper()
	_, err := f.repo.Write(f.t.Context(), desired.Write{
		Instance: instance, Dir: "instances/" + instance, Subject: "change", By: "Ann <ann@example.com>",
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			return desired.Files{desired.InstanceFile: []byte(strings.ReplaceAll(file(state, extra), id, instance))}, nil
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, r := range tell {
		r.recon.Moved(instance)
	}
}

// settled waits until each instance runs what git says.
func (f *fleet) settled(ids []string) {
	f.t.Helper()
	kit.Eventually(f.t, func() error {
		for _, id := range ids {
			inst, err := f.log.Instance(f.t.Context(), id)
			if err != nil {
				return err
			}
			head, _ := f.repo.Lookup(id)
			if inst.Open != "" || inst.LastState != lcm.Completed || inst.Operated.Tree != head.Tree {
				return fmt.Errorf("instance %s: %+v, head %+v", id, inst, head)
			}
		}
		return nil
	})
}

func (f *fleet) inOrder() {
	f.t.Helper()
	f.puts.mu.Lock()
	defer f.puts.mu.Unlock()
	if len(f.puts.older) > 0 {
		f.t.Errorf("written out of order: %v", f.puts.older)
	}
}
