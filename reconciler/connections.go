package reconciler

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/multi"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
)

// credentialAge is how long resolved credentials are used before their
// references (files, environment) are read again.
const credentialAge = time.Minute

// connections keeps one driver for each connection, however many instances and names
// share it, and runs their watches. A driver that nothing names any more is retired:
// its watch ends, and it asks its VIM nothing more.
type connections struct {
	repo    desired.Repo
	oplog   *oplog.Log
	log     *slog.Logger
	secrets Secrets
	make    func(drivers.VIM) (drivers.Driver, error)
	now     func() time.Time
	changed func(instance string)

	mu      sync.Mutex
	drivers map[string]*connected    // by fingerprint of the connection
	known   map[string]resolved      // by what names the connection
	users   map[string][]string      // by instance: the names by which it was last worked on
	spread  map[string]*multi.Driver // by names and fingerprints of the connections
	watch   chan *connected
	stale   chan struct{} // something may have lost its last user
}

// connected is a driver and its life, with which its watch ends.
type connected struct {
	drivers.Driver
	vim string // by which name it was first connected to

	identity identity
	life     context.Context
	end      context.CancelFunc
}

// resolved is what a name was found to mean.
type resolved struct {
	at          desired.Place
	fingerprint string
	settings    *desired.Settings // that it was found in; nil for an instance's own connection
	until       time.Time
}

func newConnections(c Config, changed func(string)) *connections {
	return &connections{
		repo: c.Repo, oplog: c.Oplog, log: c.Log, secrets: c.Secrets, make: c.Driver, now: c.Now,
		changed: changed,
		drivers: make(map[string]*connected),
		known:   make(map[string]resolved),
		users:   make(map[string][]string),
		spread:  make(map[string]*multi.Driver),
		// Drivers may be made before Run starts their watches.
		watch: make(chan *connected, 1024),
		stale: make(chan struct{}, 1),
	}
}

// sweepPause is the least time between two looks for drivers that nothing names.
const sweepPause = time.Second

// run runs the watches of all drivers, and retires those that nothing names, until
// ctx ends.
func (v *connections) run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error {
		v.sweepAgain(ctx)
		return nil
	})
	for {
		select {
		case <-ctx.Done():
			return g.Wait()
		case c := <-v.watch:
			g.Go(func() error {
				watching, stop := context.WithCancel(c.life)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				if err := c.Driver.(drivers.Watcher).Watch(watching, v.changed); err != nil {
					v.log.ErrorContext(ctx, "watch ended", "error", err)
				}
				return nil
			})
		}
	}
}

// sweepAgain sweeps whenever something may have lost its last user, and at least as
// often as credentials are read again, until ctx ends.
func (v *connections) sweepAgain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.stale:
		case <-time.After(credentialAge):
		}
		v.sweep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepPause):
		}
	}
}

// lookForUnused has drivers that nothing names any more retired soon.
func (v *connections) lookForUnused() {
	select {
	case v.stale <- struct{}{}:
	default:
	}
}

// close ends all drivers. It is for the end of the process.
func (v *connections) close() {
	v.mu.Lock()
	clear(v.known)
	gone := v.unnamed()
	v.mu.Unlock()
	v.retire(gone)
}

// driver finds the driver of the instance's VIM, as connect does, and notes that the
// instance needs it from now on.
func (v *connections) driver(ctx context.Context, inst *desired.Instance, gone ...string) (drivers.Driver, error) {
	drv, names, err := v.connect(ctx, inst, gone...)
	var refused *drivers.RefusedError
	if err != nil && names == nil && !errors.As(err, &refused) {
		return nil, err // what git names isn't known now
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, was := range v.users[inst.ID] {
		if !slices.Contains(names, was) {
			v.lookForUnused()
		}
	}
	if v.users[inst.ID] = names; len(names) == 0 {
		delete(v.users, inst.ID)
	}
	return drv, err
}

// connect finds the driver of the instance's VIM: the one that it names, else its
// own connection, else the default. One whose VDUs are spread over several has a driver
// made of theirs. names are what it is known by, also where there is no driver now. In the place of the VIMs whose names
// are in gone stands a driver that sees nothing and does nothing.
func (v *connections) connect(ctx context.Context, inst *desired.Instance, gone ...string) (drv drivers.Driver, names []string, err error) {
	settings, list, err := placesIn(ctx, v.repo, inst)
	if err != nil {
		return nil, nil, err
	}
	parts := make([]multi.Part, len(list))
	key := ""
	for i, at := range list {
		name, under := placeKey(at), settings
		if at.Connection != nil {
			under = nil
		}
		names = append(names, name)
		if slices.Contains(gone, at.Name) {
			parts[i] = multi.Part{Name: at.Name, Driver: nowhere{}}
			key += at.Name + "=gone "
			continue
		}
		part, fp, openErr := v.open(name, under, at)
		if openErr != nil {
			err = cmp.Or(err, openErr)
			continue
		}
		parts[i] = multi.Part{Name: at.Name, Driver: part.Driver}
		key += at.Name + "=" + fp + " "
	}
	if err != nil {
		return nil, names, err
	}
	if len(parts) == 1 {
		return parts[0].Driver, names, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.spread[key]
	if all == nil {
		all = multi.New(parts[0], parts[1:]...)
		v.spread[key] = all
	}
	return all, names, nil
}

// placeKey tells the place from all others in the installation.
func placeKey(p desired.Place) string {
	if p.Connection != nil {
		return "connection " + fingerprint(p.Connection)
	}
	return "file " + p.Name
}

// fresh says whether the connection was resolved not long ago. v.mu is held.
func (v *connections) fresh(name string, settings *desired.Settings) (resolved, bool) {
	k, ok := v.known[name]
	return k, ok && k.settings == settings && v.now().Before(k.until)
}

// open returns the connection of the place, which is made where there is none yet.
func (v *connections) open(name string, settings *desired.Settings, at desired.Place) (c *connected, fp string, err error) {
	v.mu.Lock()
	settings, at = v.inEffect(settings, at)
	if k, ok := v.fresh(name, settings); ok {
		defer v.mu.Unlock()
		return v.drivers[k.fingerprint], k.fingerprint, nil
	}
	c, fp, gone, err := v.renew(name, settings, at)
	v.mu.Unlock()
	v.retire(gone)
	if err != nil {
		return nil, "", err
	}
	return c, fp, nil
}

// inEffect has the place be as the settings of now say, where they have its file still: a caller may have read others
// before, and nothing is connected to by those. v.mu is held, so that what is read here is no older than what the
// last caller read.
func (v *connections) inEffect(settings *desired.Settings, at desired.Place) (*desired.Settings, desired.Place) {
	if at.File == nil {
		return settings, at
	}
	now, err := v.repo.Settings()
	if err != nil || now.VIMs[at.Name] == nil {
		return settings, at
	}
	at.File = now.VIMs[at.Name]

	return now, at
}

// renew finds out what the name means now. gone are the drivers that it meant before,
// and that nothing else names. v.mu is held.
func (v *connections) renew(name string, settings *desired.Settings, at desired.Place) (c *connected, fp string, gone []*connected, err error) {
	vim, err := v.resolve(at)
	var no *drivers.RefusedError
	if errors.As(err, &no) {
		return nil, "", nil, &unusedError{no}
	}
	if err != nil {
		return nil, "", nil, fmt.Errorf("VIM %s: %w: %w", name, drivers.ErrUnavailable, err)
	}
	fp = fingerprint(vim)
	c, ok := v.drivers[fp]
	if !ok {
		drv, err := v.make(vim)
		if err != nil {
			return nil, "", nil, fmt.Errorf("VIM %s: %w", name, err)
		}
		c = &connected{Driver: drv, vim: at.Name}
		c.life, c.end = context.WithCancel(context.Background())
		v.drivers[fp] = c
		if _, ok := drv.(drivers.Watcher); ok {
			v.watch <- c
		}
	}
	v.known[name] = resolved{at: at, fingerprint: fp, settings: settings, until: v.now().Add(credentialAge)}
	return c, fp, v.unnamed(), nil
}

func (v *connections) resolve(at desired.Place) (drivers.VIM, error) {
	if at.Connection != nil {
		return v.secrets.Connection(at.Name, *at.Connection)
	}
	return v.secrets.VIM(at.File)
}

// sweep forgets the names that neither the settings nor an instance has, and what the
// others mean no longer, and retires the drivers that are left without a name.
func (v *connections) sweep(ctx context.Context) {
	settings, err := v.repo.Settings()
	if err != nil {
		return // what git names isn't known now
	}
	v.mu.Lock()
	needed := v.needed(ctx, settings)
	var look []string
	for name, k := range v.known {
		if k.named(settings) {
			if k.settings != settings {
				k.at.File, k.settings, k.until = settings.VIMs[k.at.Name], settings, time.Time{}
			}
		} else if !needed[name] {
			delete(v.known, name)
			continue
		}
		if v.now().Before(k.until) {
			continue
		}
		if vim, err := v.resolve(k.at); err == nil && fingerprint(vim) == k.fingerprint {
			k.until = v.now().Add(credentialAge)
			v.known[name] = k
			continue
		}
		// It is connected to anew by whoever needs it.
		delete(v.known, name)
		for instance, names := range v.users {
			if slices.Contains(names, name) {
				look = append(look, instance)
			}
		}
	}
	gone := v.unnamed()
	v.mu.Unlock()
	v.retire(gone)
	for _, instance := range look {
		v.changed(instance)
	}
}

// named says whether the settings have it, so that it stays also where no instance is.
func (k resolved) named(settings *desired.Settings) bool {
	return k.at.Connection == nil && settings.VIMs[k.at.Name] != nil
}

// needed are the names of what instances run on, as far as the settings don't have them.
// Instances that have ended are forgotten. v.mu is held.
func (v *connections) needed(ctx context.Context, settings *desired.Settings) map[string]bool {
	needed := make(map[string]bool)
	for instance, names := range v.users {
		var kept []string
		for _, name := range names {
			if k, ok := v.known[name]; ok && !k.named(settings) {
				kept = append(kept, name)
			}
		}
		if len(kept) == 0 {
			continue
		}
		if !v.runs(ctx, instance) {
			delete(v.users, instance)
			continue
		}
		for _, name := range kept {
			needed[name] = true
		}
	}
	return needed
}

// runs says whether the instance has, or may have, anything at a VIM. Where that isn't
// known, it has.
func (v *connections) runs(ctx context.Context, instance string) bool {
	rec, ok := v.oplog.InstanceEntry(instance)
	if !ok {
		return false
	}
	if rec.Open != "" || rec.Prepared != "" || rec.Proposed != "" {
		return true
	}
	if rec.Operated.Tree == "" {
		return false
	}
	at, err := v.repo.Read(ctx, rec.Operated)
	return err != nil || desired.MayHaveObjects(at)
}

// unnamed takes out the drivers that no name means any more. v.mu is held.
func (v *connections) unnamed() (gone []*connected) {
	named := make(map[string]bool, len(v.known))
	for _, k := range v.known {
		named[k.fingerprint] = true
	}
	for fp, c := range v.drivers {
		if named[fp] {
			continue
		}
		delete(v.drivers, fp)
		maps.DeleteFunc(v.spread, func(key string, _ *multi.Driver) bool { return strings.Contains(key, fp) })
		gone = append(gone, c)
	}
	return gone
}

// retire ends drivers. Passes that still use them fail and are made again.
func (v *connections) retire(gone []*connected) {
	for _, c := range gone {
		c.end()
		if closer, ok := c.Driver.(io.Closer); ok {
			if err := closer.Close(); err != nil {
				v.log.Warn("driver of a former connection not closed", "vim", c.vim, "error", err)
			}
		}
		v.log.Info("a connection that nothing names any more has ended", "vim", c.vim)
	}
}

func fingerprint(x any) string {
	data, err := json.Marshal(x)
	if err != nil {
		panic(err) // plain data always encodes
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// nowhere is the driver of an instance that has nothing at any VIM: it needs
// none, and may name none.
type nowhere struct{ drivers.Defaults }

func (nowhere) Render(src drivers.Source) (drivers.Rendering, error) {
	return drivers.Absent(src.Instance), nil
}

func (nowhere) Observe(context.Context, drivers.Rendering) (plan.Observed, error) {
	return plan.Observed{}, nil
}
func (nowhere) Verify(context.Context, drivers.Rendering, ...plan.Step) error { return nil }
func (nowhere) Do(context.Context, drivers.Rendering, ...plan.Step) error     { return nil }
