package reconciler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
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
// own connection, else the default.
func (v *vims) driver(inst *desired.Instance) (drivers.Driver, error) {
	settings, err := v.Repo.Settings()
	if err != nil {
		return nil, fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	if inst.VIM == "" && len(inst.VIMConnections) > 0 {
		// Only one VIM is used: the first by key, as clients know it.
		key := slices.Min(slices.Collect(maps.Keys(inst.VIMConnections)))
		conn := inst.VIMConnections[key]
		return v.open("connection "+fingerprint(conn), nil, func() (drivers.VIM, error) {
			return v.Secrets.Connection(key, conn)
		})
	}
	named, err := NamedVIM(settings, inst)
	if err != nil {
		return nil, err
	}
	return v.open("file "+named.Name, settings, func() (drivers.VIM, error) { return v.Secrets.VIM(named) })
}

// NamedVIM is the VIM file that the instance uses.
func NamedVIM(settings *desired.Settings, inst *desired.Instance) (*desired.VIM, error) {
	if inst.VIM != "" {
		if vim, ok := settings.VIMs[inst.VIM]; ok {
			return vim, nil
		}
		return nil, &drivers.RefusedError{Object: "vim", Reason: fmt.Sprintf(
			"VIM %q is unknown: there is no vims/%s.yaml; known are %v", inst.VIM, inst.VIM, slices.Sorted(maps.Keys(settings.VIMs)))}
	}
	for _, name := range slices.Sorted(maps.Keys(settings.VIMs)) {
		if settings.VIMs[name].Default {
			return settings.VIMs[name], nil
		}
	}
	return nil, &drivers.RefusedError{Object: "vim", Reason: "the instance names no VIM, and no file under vims/ says default: true"}
}

func (v *vims) open(name string, settings *desired.Settings, resolve func() (drivers.VIM, error)) (drivers.Driver, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if k, ok := v.known[name]; ok && k.settings == settings && v.Now().Before(k.until) {
		return v.drivers[k.fingerprint], nil
	}
	vim, err := resolve()
	if err != nil {
		return nil, fmt.Errorf("VIM %s: %w: %w", name, drivers.ErrUnavailable, err)
	}
	fp := fingerprint(vim)
	drv, ok := v.drivers[fp]
	if !ok {
		if drv, err = v.Driver(vim); err != nil {
			return nil, fmt.Errorf("VIM %s: %w", name, err)
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
	return drv, nil
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
