package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	podsEach      = 5
	callsLimit    = 0    // but for watches, over the whole rest
	restCPU       = 0.02 // of one core
	brokenShare   = 10   // one of so many instances is broken
	callsShown    = 5
	progressPause = 10 * time.Second
)

// atRest measures many instances on the cluster to which nothing happens, and then
// breaks some of them at once.
func (b *bench) atRest(ctx context.Context) error {
	if err := b.cluster.room(ctx, b.standing*podsEach); err != nil {
		return err
	}
	b.progress("%d namespaces", b.standing)
	spaces, err := b.spaces(ctx, "rest", b.standing)
	if err != nil {
		return err
	}
	between, err := newCounter(b.cluster.kubeconfig)
	if err != nil {
		return err
	}
	defer between.close()
	j, err := b.start(ctx, "atrest", map[string]string{"kube": between.vim()})
	if err != nil {
		return err
	}
	defer j.Kill()
	start := time.Now()
	if err := b.onEach(ctx, j, "rest", spaces, podsEach-1); err != nil {
		return err
	}
	took := time.Since(start)
	calls, _ := between.take()
	b.value(fmt.Sprintf("%d instances with %d pods each instantiated, from one commit", b.standing, podsEach), short(took), true, "",
		fmt.Sprintf("%.1f operations/s, %.1f calls an instance", float64(b.standing)/took.Seconds(), float64(sum(calls))/float64(b.standing)))
	if err := j.quiet(ctx, 5*time.Minute); err != nil {
		return err
	}
	if err := b.idle(ctx, j, between); err != nil {
		return err
	}
	if err := b.sweep(ctx, j, between, spaces); err != nil {
		return err
	}
	return j.Stop()
}

// idle leaves the server alone and measures what it does nevertheless.
func (b *bench) idle(ctx context.Context, j *jibe, between *counter) error {
	before, err := j.counts(ctx)
	if err != nil {
		return err
	}
	used, err := cpuTime(j.Pid())
	if err != nil {
		return err
	}
	start := time.Now()
	between.take()
	for left := b.idleFor; left > 0; left = b.idleFor - time.Since(start) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(left, time.Minute)):
		}
		b.progress("at rest for %s of %s", time.Since(start).Round(time.Second), b.idleFor)
	}
	calls, watches := between.take()
	now, err := cpuTime(j.Pid())
	if err != nil {
		return err
	}
	took := time.Since(start)
	after, err := j.counts(ctx)
	if err != nil {
		return err
	}
	n := sum(calls)
	b.value(fmt.Sprintf("API calls but watches in %s at rest", short(took)), strconv.Itoa(n), n <= callsLimit, fmt.Sprintf("= %d", callsLimit),
		fmt.Sprintf("%d watches begun anew, %d looks at instances", watches, after.passes-before.passes))
	for i, call := range slices.Sorted(maps.Keys(calls)) {
		if i == callsShown {
			b.note("and %d others", len(calls)-i)
			break
		}
		b.note("%d x %s", calls[call], call)
	}
	load := (now - used).Seconds() / took.Seconds()
	b.value("CPU of the process, mean of that time", fmt.Sprintf("%.2f%% of a core", 100*load), load < restCPU, fmt.Sprintf("< %g%%", 100*restCPU),
		fmt.Sprintf("%s of CPU time", short(now-used)))
	b.headline(headline{"at rest", fmt.Sprintf("%d instances with %d pods each for %s: API calls, CPU", b.standing, podsEach, short(took)), fmt.Sprintf("%d, %.2f%% of a core", n, 100*load),
		"watches tell what changes: no calls", "-"})
	b.memory(j, after, "resident memory at rest")
	return nil
}

// memory prints what the process has and the most that it ever had.
func (b *bench) memory(j *jibe, c counts, name string) {
	most, err := peak(j.Pid())
	more := fmt.Sprintf("most so far %d MiB", most>>20)
	if err != nil {
		more = err.Error()
	}
	b.value(name, fmt.Sprintf("%d MiB", c.resident>>20), true, "",
		fmt.Sprintf("%.1f KiB an instance; %s", float64(c.resident)/1024/float64(b.standing), more))
}

// peak is the most memory that a process ever had resident, in bytes.
func peak(pid int) (int, error) {
	const name = "VmHWM:"

	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			n, err := strconv.Atoi(f[1])
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("process %d: no %s in its status", pid, name)
}

// sweep breaks a part of the instances at once, spread over all, one half of them by
// scaling and the other by deleting Services.
func (b *bench) sweep(ctx context.Context, j *jibe, between *counter, spaces []string) error {
	var all []*meddling
	for i := 0; i < len(spaces); i += brokenShare {
		all = append(all, &meddling{id: instanceID("rest", i), ns: spaces[i], service: len(all)%2 == 1})
	}
	used, err := cpuTime(j.Pid())
	if err != nil {
		return err
	}
	between.take()
	start := time.Now()
	if err := b.cluster.meddle(ctx, podsEach, all); err != nil {
		return fmt.Errorf("%w; the server's log:\n%s", err, j.Log())
	}
	repairs, err := j.repairs(ctx, "", len(all))
	if err != nil {
		return err
	}
	calls, _ := between.take()
	now, err := cpuTime(j.Pid())
	if err != nil {
		return err
	}
	var put times
	var broken, back time.Time
	for _, m := range all {
		put = append(put, m.put())
		broken, back = later(broken, m.answered), later(back, m.back)
	}
	n := len(all)
	b.value(fmt.Sprintf("%d of them broken at once: first change -> all put back", n), short(back.Sub(start)), true, "",
		fmt.Sprintf("the breaking itself took %s", short(broken.Sub(start))))
	b.latency("  each: answered -> put back", put, 0, "")
	b.value("  first change -> all automatic operations COMPLETED", short(latest(repairs).Sub(start)), true, "", "")
	b.value("automatic operations for them", strconv.Itoa(len(repairs)), len(repairs) == n, fmt.Sprintf("= %d, one each", n),
		fmt.Sprintf("%d API calls (%s), %s of CPU time", sum(calls), methods(calls), short(now-used)))
	after, err := j.counts(ctx)
	if err != nil {
		return err
	}
	b.memory(j, after, "resident memory after it")
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
