package reconciler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/multi"
	"github.com/jibe-vnfm/jibe/reconciler/plan"
)

// credentialAge is how long resolved credentials are used before their
// references (files, environment) are read again.
const credentialAge = time.Minute

// vims keeps one driver for each connection, however many instances and names
// share it, and runs their watches.
type vims struct {
	Config
	changed func(instance string)

	mu      sync.Mutex
	drivers map[string]drivers.Driver // by fingerprint of the connection
	known   map[string]resolved       // by what names the connection
	spread  map[string]*multi.Driver  // by names and fingerprints of the connections
	watch   chan drivers.Watcher
}

type resolved struct {
	fingerprint string
	settings    *desired.Settings
	until       time.Time
}

func newVIMs(c Config, changed func(string)) *vims {
	return &vims{
		Config:  c,
		changed: changed,
		drivers: make(map[string]drivers.Driver),
		known:   make(map[string]resolved),
		spread:  make(map[string]*multi.Driver),
		// Drivers may be made before Run starts their watches.
		watch: make(chan drivers.Watcher, 1024),
	}
}

// run runs the watches of all drivers until ctx ends.
func (v *vims) run(ctx context.Context) error {
	var g errgroup.Group
	for {
		select {
		case <-ctx.Done():
			return g.Wait()
		case w := <-v.watch:
			g.Go(func() error {
				if err := w.Watch(ctx, v.changed); err != nil {
					v.Logger.ErrorContext(ctx, "watch ended", "error", err)
				}
				return nil
			})
		}
	}
}

// driver finds the driver of the instance's VIM: the one that it names, else its
// own connection, else the default. One whose VDUs are spread over several has a driver
// made of theirs.
func (v *vims) driver(inst *desired.Instance) (drivers.Driver, error) {
	settings, err := v.Repo.Settings()
	if err != nil {
		return nil, fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	list, err := places(settings, inst)
	if err != nil {
		return nil, err
	}
	parts := make([]multi.Part, len(list))
	key := ""
	for i, at := range list {
		name, under := "file "+at.name, settings
		resolve := func() (drivers.VIM, error) { return v.Secrets.VIM(at.file) }
		if at.conn != nil {
			name, under = "connection "+fingerprint(at.conn), nil
			resolve = func() (drivers.VIM, error) { return v.Secrets.Connection(at.name, *at.conn) }
		}
		drv, fp, err := v.open(name, under, resolve)
		if err != nil {
			return nil, err
		}
		parts[i] = multi.Part{Name: at.name, Driver: drv}
		key += at.name + "=" + fp + " "
	}
	if len(parts) == 1 {
		return parts[0].Driver, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	drv := v.spread[key]
	if drv == nil {
		drv = multi.New(parts[0], parts[1:]...)
		v.spread[key] = drv
	}
	return drv, nil
}

func (v *vims) open(name string, settings *desired.Settings, resolve func() (drivers.VIM, error)) (drv drivers.Driver, fp string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if k, ok := v.known[name]; ok && k.settings == settings && v.Now().Before(k.until) {
		return v.drivers[k.fingerprint], k.fingerprint, nil
	}
	vim, err := resolve()
	if err != nil {
		return nil, "", fmt.Errorf("VIM %s: %w: %w", name, drivers.ErrUnavailable, err)
	}
	fp = fingerprint(vim)
	drv, ok := v.drivers[fp]
	if !ok {
		if drv, err = v.Driver(vim); err != nil {
			return nil, "", fmt.Errorf("VIM %s: %w", name, err)
		}
		v.drivers[fp] = drv
		if w, ok := drv.(drivers.Watcher); ok {
			v.watch <- w
		}
	}
	was := v.known[name].fingerprint
	v.known[name] = resolved{fingerprint: fp, settings: settings, until: v.Now().Add(credentialAge)}
	if was != "" && was != fp {
		v.retire(was)
	}
	return drv, fp, nil
}

// retire ends the driver of a connection that nothing names any more: its
// credentials were changed. Passes that still use it fail and are made again.
func (v *vims) retire(fp string) {
	for _, k := range v.known {
		if k.fingerprint == fp {
			return
		}
	}
	drv := v.drivers[fp]
	delete(v.drivers, fp)
	maps.DeleteFunc(v.spread, func(key string, _ *multi.Driver) bool { return strings.Contains(key, fp) })
	if c, ok := drv.(io.Closer); ok {
		if err := c.Close(); err != nil {
			v.Logger.Warn("driver of a former connection not closed", "error", err)
		}
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
type nowhere struct{}

func (nowhere) Render(drivers.Source) (plan.Desired, error) { return plan.Desired{}, nil }
func (nowhere) Observe(context.Context, drivers.Source, plan.Desired) (plan.Observed, error) {
	return plan.Observed{}, nil
}
func (nowhere) Verify(context.Context, drivers.Source, ...plan.Step) error { return nil }
func (nowhere) Do(context.Context, drivers.Source, ...plan.Step) error     { return nil }
