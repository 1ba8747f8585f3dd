package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/lab"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// metricsShare and tracesShare are what metrics, and traces beside them, may add to the CPU time of
	// an operation.
	metricsShare, tracesShare = 0.03, 0.10
	// costInstances and costOperations bound how many instances each server has, and on how many of
	// them there is an operation in each round.
	costInstances, costOperations = 1000, 300
	// resyncs is how often all instances are looked at in each round.
	resyncs = 3
	// lookPause is that between two questions for the looks so far, and looksOver how long there is
	// none where all is done.
	lookPause, looksOver = 50 * time.Millisecond, 300 * time.Millisecond
)

// observed is a server that is observed in some way.
type observed struct {
	*jibe
	name  string
	args  []string
	looks func(context.Context) (int, error)
	// operations and resyncs are the CPU time that each took, by round.
	operations, resyncs times
}

// cost measures what metrics and traces add to the CPU time of operations and of looks at what
// is at rest: three servers of this tree do the same in turns, round by round, so that whatever else
// the machine does is the same for all.
func (b *bench) cost(ctx context.Context) (err error) {
	var spans atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err == nil {
			spans.Add(n)
		}
	}))
	defer collector.Close()
	all := []*observed{
		{name: "off", args: []string{"--unmeasured"}},
		{name: "metrics"},
		{name: "traces", args: []string{"--otlp-endpoint", collector.URL}},
	}
	n := min(b.instances, costInstances)
	var begun []*observed
	defer func() {
		for _, o := range begun {
			o.Kill()
		}
	}()
	for _, o := range all {
		if err := b.observe(ctx, o, n); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		begun = append(begun, o)
	}
	for round := range b.samples {
		b.progress("round %d of %d", round+1, b.samples)
		for i := range all {
			o := all[(round+i)%len(all)]
			if err := errors.Join(o.operate(ctx, round, min(n, costOperations)), o.resync(ctx, n)); err != nil {
				return fmt.Errorf("%s: %w; the server's log:\n%s", o.name, err, o.Log())
			}
		}
	}
	for _, o := range all {
		c, err := o.counts(ctx)
		if err == nil && (c.passes == 0) != (o.name == "off") {
			err = fmt.Errorf("%s: the metrics tell of %d looks", o.name, c.passes)
		}
		if err != nil {
			return err
		}
	}
	if spans.Load() == 0 {
		return errors.New("the collector has got nothing")
	}
	b.note("CPU time of the server, without that of git and the clients, of %d rounds together, in each of which three servers do the same, one after the other", b.samples)
	b.note("in brackets: what the first and the second half of the rounds say by themselves; what they differ by is no more than noise")
	of := func(operations bool) func(*observed) times {
		return func(o *observed) times {
			if operations {
				return o.operations
			}
			return o.resyncs
		}
	}
	off, metrics, traces := all[0], all[1], all[2]
	for i, name := range []string{fmt.Sprintf("an operation (SCALE), %d at once", min(n, costOperations)), fmt.Sprintf("a look at an instance at rest, %d at once", n)} {
		of := of(i == 0)
		b.value(name+": nothing measured", fine(of(off).mean()), true, "", "")
		b.added("  with metrics", of(off), of(metrics), metricsShare)
		b.added("  with metrics and traces of all", of(metrics), of(traces), tracesShare)
	}
	return nil
}

// mean is the sum of the samples by their number.
func (t times) mean() (sum time.Duration) {
	for _, x := range t {
		sum += x
	}
	return sum / time.Duration(max(1, len(t)))
}

// fine is a short time.
func fine(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }

// added prints what is taken with something more than without it.
func (b *bench) added(name string, without, with times, limit float64) {
	more := func(from, to int) float64 { return float64(with[from:to].mean())/float64(without[from:to].mean()) - 1 }
	n := len(with)
	all := more(0, n)
	b.value(name, fine(with.mean()), all <= limit, fmt.Sprintf("<= %.0f%% more", 100*limit),
		fmt.Sprintf("%+.1f%% (%+.1f%%, %+.1f%%)", 100*all, 100*more(0, n/2), 100*more(n/2, n)))
}

// observe starts a server, and has n instances run at it.
func (b *bench) observe(ctx context.Context, o *observed, n int) error {
	s, err := b.spawnLab(filepath.Join(b.tmp, "cost-"+o.name), o.args...)
	if err != nil {
		return err
	}
	if o.jibe, err = furnish(ctx, s, map[string]string{"sim": simVIM}); err != nil {
		return err
	}
	o.looks = lab.At(s.Data).Observes
	b.progress("%d instances at the server %s", n, o.name)
	if err = o.addUnseen(ctx, "fill", 0, n, func(_ int, id string) string { return o.vnf(id, "instantiated", "vim: sim\n") }); err == nil {
		err = o.still(ctx, n)
	}
	if err == nil {
		err = kit.Poll(ctx, sizeWait, func() error {
			var known, idle []struct{}
			if err := o.Get(ctx, "/jibe/v1/instances", &known); err != nil {
				return err
			}
			err := o.Get(ctx, process.Instances+"?filter="+url.QueryEscape("(eq,instantiationState,NOT_INSTANTIATED)"), &idle)
			if err == nil && (len(known) < n || len(idle) > 0) {
				err = fmt.Errorf("%d of %d instances are known, %d or more of them don't run", len(known), n, len(idle))
			}
			return err
		})
	}
	if err == nil {
		err = o.still(ctx, 0)
	}
	if err != nil {
		o.Kill()
		return fmt.Errorf("%w; the server's log:\n%s", err, o.Log())
	}
	return nil
}

// still waits until the server has looked at least so often, and no longer does.
func (o *observed) still(ctx context.Context, least int) error {
	last, since := -1, time.Now()
	for deadline := time.Now().Add(endWait); ; {
		n, err := o.looks(ctx)
		if err != nil {
			return err
		}
		if n != last || n < least {
			last, since = n, time.Now()
		}
		switch {
		case time.Since(since) > looksOver:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("after %s there are %d looks, of at least %d", endWait, n, least)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookPause):
		}
	}
}

// operate scales n instances, out and in by turns.
func (o *observed) operate(ctx context.Context, round, n int) error {
	l := scaling([]string{"SCALE_OUT", "SCALE_IN"}[round%2])
	locations := make([]string, n)
	before, err := processorTime(o.Pid())
	if err != nil {
		return err
	}
	if err := o.clients(ctx, writers, n, func(w *wire, i int) error {
		a, err := l.send(w, i)
		locations[i] = a.location
		return err
	}); err != nil {
		return err
	}
	if err := o.still(ctx, 0); err != nil {
		return err
	}
	after, err := processorTime(o.Pid())
	if err != nil {
		return err
	}
	o.operations = append(o.operations, (after-before)/time.Duration(n))
	return o.clients(ctx, 1, n, func(w *wire, i int) error {
		_, err := w.completed(ctx, locations[i], askPause, endWait)
		return err
	})
}

// resync has the server look at all instances some times, by changes of the settings. They come past
// the hook, whose judgement isn't measured.
func (o *observed) resync(ctx context.Context, n int) error {
	var sum time.Duration
	for range resyncs {
		looks, err := o.looks(ctx)
		if err != nil {
			return err
		}
		before, err := processorTime(o.Pid())
		if err != nil {
			return err
		}
		vim := fmt.Sprintf("type: sim\ndescription: change %d\n", time.Now().UnixNano())
		if err := fastImport(ctx, o.Desired(), bytes.NewBufferString(fmt.Sprintf("commit refs/heads/main\ncommitter A Person <person@example.org> %d +0000\ndata 6\nchange\nfrom refs/heads/main^0\nM 100644 inline vims/other.yaml\ndata %d\n%s\n", time.Now().Unix(), len(vim), vim))); err != nil {
			return err
		}
		if err := o.still(ctx, looks+n); err != nil {
			return err
		}
		after, err := processorTime(o.Pid())
		if err != nil {
			return err
		}
		sum += after - before
	}
	o.resyncs = append(o.resyncs, sum/time.Duration(resyncs*n))
	return nil
}

// processorTime is what a process has used so far, to the nanosecond: its clock (clock_getcpuclockid).
func processorTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
