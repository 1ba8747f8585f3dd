package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	// replicaWrites is how many requests are made at most, one an instance: what a git server takes
	// bounds the rate, and it is seen soon.
	replicaWrites = 1000
	// replicaRest is how long replicas are left alone.
	replicaRest = 20 * time.Second
	// quietBefore lets what the load began come to its end.
	quietBefore = 10 * time.Second
)

// replicaSetup is one way in which requests are answered.
type replicaSetup struct {
	name     string
	replicas int
	fsync    string // of Redis, "" for a file in the data directory
}

// replicas measures requests at one and three replicas whose records are in Redis, beside one
// whose records are in a file. All have their desired repository on the same kind of git server,
// and a balancer before them.
func (b *bench) replicas(ctx context.Context) error {
	if err := ha.Missing(); err != nil {
		b.note("left out: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil
	}
	file := 0.0
	for i, s := range []replicaSetup{
		{"one process, records in a file", 1, ""},
		{"one replica, Redis with appendfsync always", 1, "always"},
		{"three replicas, Redis with appendfsync always", 3, "always"},
		{"one replica, Redis with appendfsync everysec", 1, "everysec"},
		{"three replicas, Redis with appendfsync everysec", 3, "everysec"},
	} {
		rate, err := b.answered(ctx, i, s, file)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if i == 0 {
			file = rate
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
	if s.fsync != "" {
		o.Redis, o.RedisArgs = 1, []string{"--appendfsync", s.fsync}
	}
	r, err := ha.Start(ctx, o)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	server := r.Servers.Present()
	server.Data = r.Forge.Dir // where the repository of instances is
	j := &jibe{Server: server}
	n := min(b.instances, b.writes, replicaWrites)
	err = j.addUnseen(ctx, "fill", 0, n, func(_ int, id string) string {
		return fmt.Sprintf("id: %s\nname: bench\nvnfdId: %s\nstate: notInstantiated\n", id, process.SmallVnfd)
	})
	if err != nil {
		return 0, err
	}
	if err := knownByAll(ctx, r, n); err != nil {
		return 0, err
	}
	load := *b
	load.writes = n
	took, _, wall, err := load.patches(ctx, j)
	if err != nil {
		return 0, err
	}
	rate = float64(len(took)) / wall.Seconds()
	more := fmt.Sprintf("p50 %s, p99 %s, n=%d, %d clients", short(took.median()), short(took.at(0.99)), len(took), b.clients)
	if file > 0 {
		more += fmt.Sprintf("; one process with a file: %s", ratio(rate, file))
	}
	b.value(s.name+": requests to 202", fmt.Sprintf("%.0f/s", rate), true, "", more)
	if s.fsync == "" {
		return rate, nil
	}
	return rate, errors.Join(b.commandsAtRest(ctx, r, s, n), b.redisPeer(ctx, r, s, rate))
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

// commandsAtRest is what Redis is asked while nothing happens.
func (b *bench) commandsAtRest(ctx context.Context, r *ha.Rig, s replicaSetup, n int) error {
	rest := func(d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	if err := rest(quietBefore); err != nil {
		return err
	}
	before, err := r.RedisCommands(ctx)
	if err != nil {
		return err
	}
	if err := rest(replicaRest); err != nil {
		return err
	}
	after, err := r.RedisCommands(ctx)
	if err != nil {
		return err
	}
	rate := float64(after-before) / replicaRest.Seconds()
	b.value("  commands to Redis at rest", fmt.Sprintf("%.1f/s", rate), true, "",
		fmt.Sprintf("%d instances, %d replicas: %.2f/s for each 1,000 instances", n, s.replicas, rate*1000/float64(n)))
	return nil
}

// redisPeer is what Redis itself does of writes of that size, from as many clients.
func (b *bench) redisPeer(ctx context.Context, r *ha.Rig, s replicaSetup, rate float64) error {
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
		fmt.Sprintf("%d bytes, %d clients; %.0f of them for each request to Jibe, which is several writes and a commit on the git server", recordSize, b.clients, sets/rate))
	return nil
}
