package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/test/process"
)

// resyncLimit is what a look at every instance, with nothing to do, may take.
const resyncLimit = 10 * time.Second

// rest runs the whole server in this process, as only then the calls that reach the
// simulated VIM can be counted.
func (b *bench) rest(ctx context.Context) error {
	cloud := sim.NewCloud()
	data := filepath.Join(b.tmp, "rest")
	j, stop, err := inProcess(ctx, data, cloud)
	if err != nil {
		return err
	}
	if err := errors.Join(b.resting(ctx, j, cloud), stop()); err != nil {
		return err
	}
	// A restart looks at all of them too, after reading the whole repository anew.
	calls, start := cloud.Calls().VIM(), time.Now()
	if j, stop, err = inProcess(ctx, data, cloud); err != nil {
		return err
	}
	served := time.Since(start)
	if err := errors.Join(j.passed(ctx, b.instances, time.Minute), stop()); err != nil {
		return err
	}
	b.value("restart: all instances read and looked at", short(time.Since(start)), true, "",
		fmt.Sprintf("serving after %s, %d VIM calls", short(served), cloud.Calls().VIM()-calls))
	return nil
}

func (b *bench) resting(ctx context.Context, j *jibe, cloud *sim.Cloud) error {
	if err := j.provision(ctx, map[string]string{"sim": simVIM}); err != nil {
		return err
	}
	start := time.Now()
	if err := j.fill(ctx, 0, b.instances, "instantiated"); err != nil {
		return err
	}
	if err := j.completed(ctx, b.instances, 10*time.Minute); err != nil {
		return err
	}
	took := time.Since(start)
	if err := j.quiet(ctx, time.Minute); err != nil {
		return err
	}
	b.value(fmt.Sprintf("%d instances instantiated, from one commit", b.instances), short(took), true, "",
		fmt.Sprintf("%.0f operations/s", float64(b.instances)/took.Seconds()))
	debug.FreeOSMemory()
	c, err := j.counts(ctx)
	if err != nil {
		return err
	}
	b.value("resident memory of the process, simulator included", fmt.Sprintf("%d MiB", c.resident>>20), true, "",
		fmt.Sprintf("%.1f KiB an instance", float64(c.resident)/1024/float64(b.instances)))

	// A change of the settings makes the server look at every instance.
	before := cloud.Calls()
	if err := j.write("vims/other.yaml", "type: sim\n"); err != nil {
		return err
	}
	if err := commit(ctx, j.clone, "Add a VIM that nobody uses"); err != nil {
		return err
	}
	start = time.Now()
	if _, err := j.push(ctx); err != nil {
		return err
	}
	if err := j.passed(ctx, c.passes+b.instances, time.Minute); err != nil {
		return err
	}
	took = time.Since(start)
	after := cloud.Calls()
	b.value(fmt.Sprintf("resync of all %d with nothing to do, push included", b.instances), short(took), took <= resyncLimit, "<= "+short(resyncLimit), "")
	calls := after.VIM() - before.VIM()
	b.value("VIM calls of that resync", fmt.Sprint(calls), calls == 0, "= 0", fmt.Sprintf("%d looks at the driver's cache", after.Observes-before.Observes))
	return b.planned(ctx, j)
}

// passed waits until the instances were looked at n times since the start.
func (j *jibe) passed(ctx context.Context, n int, limit time.Duration) error {
	return j.scrape(ctx, limit, func(c counts) error {
		if c.passes < n || c.queue > 0 {
			return fmt.Errorf("%d of %d looks, %d instances wait", c.passes, n, c.queue)
		}
		return nil
	})
}

// inProcess runs the server on data in this process.
func inProcess(ctx context.Context, data string, cloud *sim.Cloud) (j *jibe, stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	ready, done := make(chan *app.Server, 1), make(chan error, 1)
	go func() {
		done <- app.Run(ctx, app.Options{
			Data: data, Listen: "127.0.0.1:0", Egress: egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, Branch: "main", Cloud: cloud,
			Log:   slog.New(slog.DiscardHandler),
			Ready: func(s *app.Server) { ready <- s },
		})
	}()
	stop = func() error { cancel(); return <-done }
	select {
	case err := <-done:
		cancel()
		return nil, nil, err
	case s := <-ready:
		token, err := app.LocalToken(data)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		j := &jibe{Server: &process.Server{URL: s.BaseURL, Data: data, Token: token}, clone: data + "-clone"}
		return j, stop, nil
	}
}
