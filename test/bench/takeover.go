package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/test/ha"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// takeovers is how many kills are measured, at most one for so many samples of a latency.
	takeovers, samplesEach = 3, 8
	// sessionLasts is how long a replica's session lasts beyond its last renewal, before which nobody may
	// take anything over, and takeoverLimit what the rest may take, to the look at the last instance.
	sessionLasts, takeoverLimit = 4 * time.Second, 5 * time.Second
	// takeoverPause is that between two looks at the replicas' metrics.
	takeoverPause = 100 * time.Millisecond
	// takeoverWait bounds the wait for all instances to be looked after, and stillFor is how long nothing
	// happens where nothing is left to do.
	takeoverWait, stillFor = 15 * time.Minute, 3 * time.Second
)

// taking is a fleet of three replicas, of which one is killed.
type taking struct {
	*bench
	rig       *ha.Rig
	survivors []*jibe
	lost      *jibe
	doomed    *ha.Replica
}

// tookOver is how long after the kill of a replica its instances were another's.
type tookOver struct {
	instances           int // that it looked after
	first, owned, looks time.Duration
	cpu                 time.Duration // of the others
}

// takeover measures how soon the instances of a replica that is killed are looked after by the
// others. Each replica has a simulator of its own. So that a takeover finds what is wanted, as it
// would at a VIM that all share, each of the survivors has looked before after what is dealt to it
// while the third one is away: whatever its name, it takes from each what goes back there.
func (b *bench) takeover(ctx context.Context) error {
	if err := ha.Missing(); err != nil {
		b.note("left out: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil
	}
	dir := filepath.Join(b.tmp, "takeover")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	r, err := ha.Start(ctx, ha.Options{Dir: dir, Binary: b.binary, Replicas: 3, Redis: 1, RedisArgs: []string{"--appendfsync", "always"}})
	if err != nil {
		return err
	}
	defer r.Close()
	t := &taking{bench: b, rig: r, doomed: r.Replicas[2]}
	for i, s := range r.Direct() {
		if i == 2 {
			t.lost = &jibe{Server: s}
		} else {
			t.survivors = append(t.survivors, &jibe{Server: s})
		}
	}
	if err := t.fill(ctx); err != nil {
		return err
	}
	var all []tookOver
	for range min(takeovers, max(1, b.samples/samplesEach)) {
		if len(all) > 0 {
			if err := t.doomed.Start(ctx); err != nil {
				return err
			}
			if err := t.still(ctx, t.all()); err != nil {
				return err
			}
		}
		one, err := t.kill(ctx)
		if err != nil {
			return err
		}
		t.progress("killed: %d instances looked at by others after %s", one.instances, short(one.looks))
		all = append(all, one)
	}
	t.print(all)
	return nil
}

// fill has each replica's instances run in its simulator, and those of the third one in the
// simulators of the others too.
func (t *taking) fill(ctx context.Context) error {
	tree, err := process.Git(ctx, t.rig.Forge.Repository("packages.git"), "rev-parse", "main:small")
	if err != nil {
		return err
	}
	forge := &jibe{Server: &process.Server{Data: t.rig.Forge.Dir}}
	if err := forge.addUnseen(ctx, "fill", 0, t.instances, func(_ int, id string) string {
		return fmt.Sprintf("id: %s\nname: bench\nvnfdId: %s\npackage: %s\nstate: instantiated\nflavour: simple\nparams: {lcm-kubernetes-def-files: [%s]}\n",
			id, process.SmallVnfd, tree, strings.Join(process.SmallManifests(), ", "))
	}); err != nil {
		return err
	}
	t.progress("%d instances at three replicas", t.instances)
	if err := t.still(ctx, t.all()); err != nil {
		return err
	}
	t.progress("%d instances at two of them", t.instances)
	if err := t.doomed.Pause(); err != nil {
		return err
	}
	if err := t.still(ctx, t.survivors); err != nil {
		return err
	}
	if err := t.doomed.Continue(); err != nil {
		return err
	}
	return t.still(ctx, t.all())
}

func (t *taking) all() []*jibe { return append(slices.Clone(t.survivors), t.lost) }

// together are the metrics of several replicas, added up.
func together(ctx context.Context, replicas []*jibe) (sum counts, err error) {
	for _, j := range replicas {
		c, err := j.counts(ctx)
		if err != nil {
			return sum, err
		}
		sum.failed += c.failed
		sum.passes += c.passes
		sum.looks += c.looks
		sum.queue += c.queue
		sum.owned += c.owned
	}
	return sum, nil
}

// still waits until each of these replicas looks after its share, the last among them, and nothing
// is left to do.
func (t *taking) still(ctx context.Context, replicas []*jibe) error {
	last, since := -1, time.Now()
	for deadline := time.Now().Add(takeoverWait); ; {
		c, err := together(ctx, replicas)
		if err != nil {
			return err
		}
		own, err := replicas[len(replicas)-1].counts(ctx)
		if err != nil {
			return err
		}
		if c.passes != last || c.queue > 0 || c.owned != t.instances || own.owned < t.instances/len(replicas)/2 {
			last, since = c.passes, time.Now()
		}
		switch {
		case c.failed > 0:
			return fmt.Errorf("%d operations failed", c.failed)
		case time.Since(since) > stillFor:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("after %s the replicas look after %d of %d instances, and %d wait", takeoverWait, c.owned, t.instances, c.queue)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(scrapePause):
		}
	}
}

// kill kills the third replica, and waits until the others have looked at what was its own.
func (t *taking) kill(ctx context.Context) (x tookOver, err error) {
	was, err := together(ctx, t.survivors)
	if err != nil {
		return x, err
	}
	own, err := t.lost.counts(ctx)
	if err != nil {
		return x, err
	}
	x.instances = own.owned
	used, err := t.used()
	if err != nil {
		return x, err
	}
	start := time.Now()
	t.doomed.Kill()
	for x.looks == 0 {
		asked := time.Now()
		c, err := together(ctx, t.survivors)
		if err != nil {
			return x, err
		}
		now := time.Since(start)
		if x.first == 0 && c.owned > was.owned {
			x.first = now
		}
		if x.owned == 0 && c.owned == t.instances {
			x.owned = now
		}
		if x.owned > 0 && c.queue == 0 && c.looks >= was.looks+x.instances {
			x.looks = now
		}
		if c.failed > 0 || now > takeoverWait {
			return x, fmt.Errorf("%s after a replica was killed the others look after %d of %d instances, have looked at %d of its %d, and %d operations failed",
				now, c.owned, t.instances, c.looks-was.looks, x.instances, c.failed)
		}
		select {
		case <-ctx.Done():
			return x, ctx.Err()
		case <-time.After(takeoverPause - min(takeoverPause, time.Since(asked))):
		}
	}
	after, err := t.used()
	if err != nil {
		return x, err
	}
	x.cpu = after - used
	// What the replicas say of themselves is held against what Redis has.
	holders, err := t.rig.Holders(ctx)
	if err == nil && len(holders) != t.instances {
		err = fmt.Errorf("there are the leases of %d of %d instances", len(holders), t.instances)
	}
	return x, err
}

// used is the CPU time of the survivors so far.
func (t *taking) used() (sum time.Duration, err error) {
	for _, x := range t.rig.Replicas[:2] {
		used, err := cpuTime(x.Pid())
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

func (t *taking) print(all []tookOver) {
	var first, owned, looks, beyond times
	var cpu time.Duration
	for _, x := range all {
		first, owned, looks, beyond = append(first, x.first), append(owned, x.owned), append(looks, x.looks), append(beyond, x.looks-x.first)
		cpu += x.cpu / time.Duration(len(all))
	}
	limit := sessionLasts + takeoverLimit
	worst := slices.Max(looks)
	t.value(fmt.Sprintf("%d instances, three replicas, kill -9 of one: until all are owned and looked at", t.instances), short(worst), worst <= limit,
		fmt.Sprintf("<= %s, %s of them for the session to end", short(limit), short(sessionLasts)), fmt.Sprintf("the longest of %d kills; %d instances were the killed one's", len(all), all[0].instances))
	t.value("  kill -> the first is another's", short(slices.Max(first)), true, "", fmt.Sprintf("shortest %s", short(slices.Min(first))))
	t.value("  kill -> the last is another's", short(slices.Max(owned)), true, "", fmt.Sprintf("shortest %s", short(slices.Min(owned))))
	t.value("  the first is another's -> the last is looked at", short(slices.Max(beyond)), true, "",
		fmt.Sprintf("shortest %s; %s of CPU time of both survivors from the kill on", short(slices.Min(beyond)), short(cpu)))
}
