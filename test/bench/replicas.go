package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/test/ha"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// recordSize is about that of a record, in bytes: what redis-benchmark writes.
	recordSize = 700
	// recordSets is how many it writes.
	recordSets = 20_000
	// replicaWrites is one of how many requests of the part writes is made here: what a git server
	// takes bounds the rate, and it is seen soon.
	replicaWrites = 6
	// replicaRest is how long replicas are left alone, at most.
	replicaRest = 20 * time.Second
	// At rest a replica asks twice a second for its heartbeat (renew the session, see who lives), and
	// five times in five seconds for what others have written and whether Redis can be written. What is
	// beyond atRestSlack of that is asked for something else.
	beatAsks, healthAsks, atRestSlack = 2.0, 1.0, 1.1
	// quietBefore lets what the load began come to its end.
	quietBefore = 10 * time.Second
)

// replicaSetup is one way in which requests are answered.
type replicaSetup struct {
	name     string
	replicas int
	redis    bool // has the records, with appendfsync always; else a file in the data directory
}

// replicas measures requests at one and three replicas whose records are in Redis, beside one
// whose records are in a file (bbolt), which others can't share. All have their desired repository on the same kind of git server,
// and a balancer before them.
func (b *bench) replicas(ctx context.Context) error {
	if err := ha.Missing(); err != nil {
		b.note("left out: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil
	}
	b.note("requests modify one instance each; all setups have the desired repository on a git server and a balancer before them, and share the machine's CPUs with these")
	b.note("an operation of that kind changes nothing at a VIM: 202 -> COMPLETED is Jibe's own time")
	file := 0.0
	for i, s := range []replicaSetup{
		{"one process, records in a file (bbolt)", 1, false},
		{"one replica, Redis, appendfsync always", 1, true},
		{"three replicas, Redis, appendfsync always", 3, true},
	} {
		rate, err := b.answered(ctx, i, s, file)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		switch {
		case i == 0:
			file = rate
		case s.replicas > 1:
			b.headline(headline{"replicas", fmt.Sprintf("%d replicas on Redis: requests of %d clients, a commit and an operation each", s.replicas, b.clients), fmt.Sprintf("%.0f/s", rate),
				fmt.Sprintf("one process with a file: %.0f/s", file), ratio(rate, file)})
		}
	}
	return nil
}

// answered measures one setup. file is what one process with a file does a second, 0 for itself.
func (b *bench) answered(ctx context.Context, i int, s replicaSetup, file float64) (rate float64, err error) {
	dir := filepath.Join(b.tmp, fmt.Sprintf("replicas-%d", i))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	o := ha.Options{Dir: dir, Binary: b.binary, Replicas: s.replicas}
	if s.redis {
		o.Redis, o.RedisArgs = 1, []string{"--appendfsync", "always"}
	}
	r, err := ha.Start(ctx, o)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	server := r.Servers.Present()
	server.Data = r.Forge.Dir // where the repository of instances is
	j := &jibe{Server: server}
	n := min(b.instances, max(b.clients, b.writes/replicaWrites))
	err = j.addUnseen(ctx, "fill", 0, n, func(_ int, id string) string {
		return fmt.Sprintf("id: %s\nname: bench\nvnfdId: %s\nstate: notInstantiated\n", id, process.SmallVnfd)
	})
	if err != nil {
		return 0, err
	}
	if err := knownByAll(ctx, r, n); err != nil {
		return 0, err
	}
	l, err := b.modified(ctx, j, n)
	if err != nil {
		return 0, err
	}
	rate = float64(n) / l.wall.Seconds()
	more := fmt.Sprintf("%d requests of %d clients", n, b.clients)
	if file > 0 {
		more += "; of one process with a file " + ratio(rate, file)
	}
	b.value(s.name+": requests", fmt.Sprintf("%.0f/s", rate), true, "", more)
	b.value("  request -> 202", fmt.Sprintf("p50 %s, p99 %s", short(l.answered.median()), short(l.answered.at(0.99))), true, "", "its commit is on the git server, its operation in the records")
	b.value("  202 -> operation COMPLETED", fmt.Sprintf("p50 %s, p99 %s", short(l.ended.median()), short(l.ended.at(0.99))), true, "", "")
	if !s.redis {
		return rate, nil
	}
	return rate, errors.Join(b.askedAtRest(ctx, r, s, n), b.redisPeer(ctx, r, rate))
}

// modifications are what many clients saw of requests to modify one instance each.
type modifications struct {
	answered, ended times
	wall            time.Duration // until the last was answered
}

// modified makes n requests, each on an instance of its own.
func (b *bench) modified(ctx context.Context, j *jibe, n int) (m modifications, err error) {
	m.answered, m.ended = make(times, n), make(times, n)
	at, locations := make([]time.Time, n), make([]string, n)
	start := time.Now()
	if err := j.clients(ctx, b.clients, n, func(w *wire, i int) error {
		begin := time.Now()
		a, err := modify(w, i)
		at[i], locations[i] = time.Now(), a.location
		m.answered[i] = at[i].Sub(begin)
		return err
	}); err != nil {
		return m, err
	}
	m.wall = time.Since(start)
	return m, j.clients(ctx, askers, n, func(w *wire, i int) error {
		o, err := w.completed(ctx, locations[i], askPause, endWait)
		m.ended[i] = max(0, o.Entered.Sub(at[i]))
		return err
	})
}

// knownByAll waits until each replica has all instances.
func knownByAll(ctx context.Context, r *ha.Rig, n int) error {
	return kit.Poll(ctx, 5*time.Minute, func() error {
		for _, s := range r.Direct() {
			var all []struct{}
			if err := s.Get(ctx, "/jibe/v1/instances", &all); err != nil {
				return err
			}
			if len(all) < n {
				return fmt.Errorf("a replica knows %d of %d instances", len(all), n)
			}
		}
		return nil
	})
}

// askedAtRest is what Redis is asked while nothing happens.
func (b *bench) askedAtRest(ctx context.Context, r *ha.Rig, s replicaSetup, n int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(quietBefore):
	}
	left := min(replicaRest, b.idleFor/2)
	asked, err := r.RedisAsked(ctx, left)
	if err != nil {
		return err
	}
	rate := float64(asked.Total()) / left.Seconds()
	limit := float64(s.replicas) * (beatAsks + healthAsks) * atRestSlack
	var said []string
	for _, command := range slices.Sorted(maps.Keys(asked.Requests)) {
		said = append(said, fmt.Sprintf("%d %s", asked.Requests[command], command))
	}
	b.value("  requests to Redis at rest", fmt.Sprintf("%.1f/s", rate), rate <= limit, fmt.Sprintf("<= %.1f/s, for heartbeats and health alone", limit),
		fmt.Sprintf("%.2f/s for each 1,000 instances, of which there are %d; %s in %s, and %d commands inside scripts", rate*1000/float64(n), n, strings.Join(said, ", "), short(left), asked.Within))
	return nil
}

// redisPeer is what Redis itself does of writes of that size, from as many clients.
func (b *bench) redisPeer(ctx context.Context, r *ha.Rig, rate float64) error {
	host, port, err := net.SplitHostPort(r.RedisAddress(ctx))
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port, "-t", "set", "--csv",
		"-n", strconv.Itoa(recordSets), "-c", strconv.Itoa(b.clients), "-d", strconv.Itoa(recordSize), "-r", strconv.Itoa(recordSets)).Output()
	if err != nil {
		return fmt.Errorf("redis-benchmark: %w", err)
	}
	_, line, _ := strings.Cut(string(out), `"SET",`)
	text, _, _ := strings.Cut(strings.TrimPrefix(line, `"`), `"`)
	sets, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("redis-benchmark says %q: %w", out, err)
	}
	b.value("  redis-benchmark SET of the same Redis", fmt.Sprintf("%.0f/s", sets), true, "",
		fmt.Sprintf("%d bytes, %d clients; requests to Jibe: %.4fx of it, as each is several writes and a commit on the git server", recordSize, b.clients, rate/sets))
	return nil
}
