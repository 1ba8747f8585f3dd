package ha

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jibe-vnfm/jibe/test/ha/clock"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// restartPause is how long whoever looks after a replica waits before it starts one that ended.
const restartPause = 500 * time.Millisecond

// Replica is one process of several, with a data directory of its own. Its machine looks after
// it, as systemd and Kubernetes do: one that ends by itself is started again.
type Replica struct {
	// Name is for people; Data is its data directory, Address where it listens.
	Name, Data, Address string

	rig     *Rig
	args    []string
	network *network
	clock   *clock.Clock
	disk    *disk // nil where its data directory is on the machine's

	mu     sync.Mutex
	binary string
	server *process.Server
	wanted bool
	paused bool
	ended  int // how often it ended by itself
}

func (r *Rig) newReplica(i int) (*Replica, error) {
	x := &Replica{Name: fmt.Sprintf("replica-%d", i), rig: r, binary: r.Binary}
	x.Data = filepath.Join(r.Dir, x.Name)
	if err := os.Mkdir(x.Data, 0o700); err != nil {
		return nil, err
	}
	r.Replicas = append(r.Replicas, x) // so that what follows is taken away again
	var err error
	if r.OwnDisks {
		if x.disk, err = mountDisk(x.Data); err != nil {
			return nil, err
		}
	}
	if x.clock, err = clock.New(r.folder("clock-" + x.Name)); err != nil {
		return nil, err
	}
	// The first one's tokens let in at all of them.
	if err := os.WriteFile(filepath.Join(x.Data, "tokens.yaml"), []byte("tokens:\n- {name: admin, role: admin, token: "+token+"}\n"), 0o600); err != nil {
		return nil, err
	}
	if x.Address, err = kit.FreeAddress("127.0.0.1"); err != nil {
		return nil, err
	}
	var servers, sentinels []string
	for _, s := range r.redis.servers {
		servers = append(servers, s.Address)
	}
	for _, s := range r.redis.sentinels {
		sentinels = append(sentinels, s.Address)
	}
	x.network, err = newNetwork(servers, sentinels)
	return x, err
}

// log is the file of what the replica logs; it stays over its starts.
func (x *Replica) log() string { return x.Data + ".log" }

// Revive is Start for when what the replica needs may be away: it is started again until it
// serves, as by its machine.
func (x *Replica) Revive(ctx context.Context) error {
	for {
		err := x.Start(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		x.rig.Tell("%s doesn't start yet: %s", x.Name, lastLine(err.Error()))
		kit.Pause(ctx, restartPause)
	}
}

// Start starts the replica, and returns when it serves.
func (x *Replica) Start(ctx context.Context) error {
	x.mu.Lock()
	x.wanted = true
	binary := x.binary
	x.mu.Unlock()
	s, err := process.StartLogged(binary, x.Data, x.log(), []string{x.clock.Environment()}, x.args...)
	if err != nil {
		return fmt.Errorf("%s: %w", x.Name, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if ctx.Err() != nil {
		s.KillGroup()
		return ctx.Err()
	}
	x.server = s
	go x.watch(ctx, s)
	return nil
}

// watch starts the replica again where it ends and nobody wanted that.
func (x *Replica) watch(ctx context.Context, s *process.Server) {
	<-s.Exited()
	x.mu.Lock()
	byItself := x.wanted && x.server == s
	if byItself {
		x.ended++
	}
	x.mu.Unlock()
	if !byItself {
		return
	}
	x.rig.Tell("%s ended by itself, and is started again: %s", x.Name, lastLine(s.Log()))
	if kit.Rest(ctx, nil, restartPause) {
		_ = x.Revive(ctx) // else all of it ends
	}
}

// Kill ends the replica and all that it started, as when its machine dies. It isn't started again
// until Start is called.
func (x *Replica) Kill() {
	x.mu.Lock()
	s := x.server
	x.wanted, x.server, x.paused = false, nil, false
	x.mu.Unlock()
	if s != nil {
		s.KillGroup()
	}
}

// Install has the replica be another binary from its next start on.
func (x *Replica) Install(binary string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.binary = binary
}

// Stop ends the replica in order, as a new version of it is rolled out. It isn't started again
// until Start is called.
func (x *Replica) Stop() error {
	x.mu.Lock()
	s := x.server
	x.wanted, x.server = false, nil
	x.mu.Unlock()
	if s == nil {
		return nil
	}
	if err := s.Stop(); err != nil {
		return fmt.Errorf("%s: %w", x.Name, err)
	}
	return nil
}

// Pid is the process's id, 0 where it is down.
func (x *Replica) Pid() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.server == nil {
		return 0
	}
	return x.server.Pid()
}

// Pause stops the replica and all that it started, as a machine does that is suspended; Continue
// has them go on where they were.
func (x *Replica) Pause() error { return x.signal(syscall.SIGSTOP, true) }

// Continue ends a pause.
func (x *Replica) Continue() error { return x.signal(syscall.SIGCONT, false) }

func (x *Replica) signal(s syscall.Signal, paused bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.server == nil {
		return nil
	}
	x.paused = paused
	return syscall.Kill(-x.server.Pid(), s)
}

// State is what the replica is now, in a word.
func (x *Replica) State() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.server == nil:
		return "down"
	case x.paused:
		return "paused"
	}
	select {
	case <-x.server.Exited():
		return "starting"
	default:
		return "serves"
	}
}

// Cut cuts the replica's way to Redis and the sentinels, and Silence lets nothing through and
// tells nobody; Slow delays all, and Mend has all go through again.
func (x *Replica) Cut() { x.network.set(cutOff) }

// Silence has nothing pass between the replica and Redis.
func (x *Replica) Silence() { x.network.set(silent) }

// Slow has what passes between them take long.
func (x *Replica) Slow() { x.network.set(slow) }

// Mend ends what Silence or Slow began.
func (x *Replica) Mend() { x.network.set(passing) }

// close ends the replica, and takes away what it had of the machine.
func (x *Replica) close() {
	x.Kill()
	if x.network != nil {
		x.network.close()
	}
	if err := x.disk.close(); err != nil {
		x.rig.Tell("%s: %v", x.Name, err)
	}
}
