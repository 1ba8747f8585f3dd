package ha

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// Faults break the rig. Each works for a while and leaves it whole; its error is of what must not
// fail. Their choices are those of a seed, their timing the machine's.
type Faults struct {
	*Rig
	// Longest is how long a replica is stopped at most, a part of the net away at most a quarter of
	// that.
	Longest time.Duration
	// Forget carries out the loss of all records: who was told something by the replicas sees to it that what is told
	// before and after is told apart.
	Forget func(ctx context.Context, lose func() error) error
	// Clocks says that the binary's clock can be moved.
	Clocks bool

	mu     sync.Mutex
	counts map[string]int

	// back is since when the git server is back, and owing are the replicas that were away then: what
	// they did before may be in nobody's git yet. Both are of the goroutine that breaks what replicas depend on.
	back  time.Time
	owing []*Replica
}

// NewFaults are the faults of a rig.
func NewFaults(r *Rig, longest time.Duration) *Faults {
	return &Faults{Rig: r, Longest: longest, counts: map[string]int{}}
}

// Counts is how often each was.
func (f *Faults) Counts() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.counts)
}

func (f *Faults) tell(kind, format string, args ...any) {
	f.mu.Lock()
	f.counts[kind]++
	f.mu.Unlock()
	f.Tell("fault: "+format, args...)
}

// fault is one of the kinds.
type fault func(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error

// Break breaks replicas, their machines and, at the same time, what they depend on, until stop is
// closed. Each begins with each of its kinds in turn, so that also a short time has each once if it
// can.
func (f *Faults) Break(ctx context.Context, seed uint64, stop <-chan struct{}) error {
	var machines []fault
	if f.Clocks {
		machines = append(machines, f.moveAhead, f.moveBack)
	}
	if f.OwnDisks {
		machines = append(machines, f.fill)
	}
	var wg sync.WaitGroup
	var errs [3]error
	for i, kinds := range [][]fault{{f.kill, f.pause, f.cut, f.silence, f.slow}, {f.loseAnswers, f.failOver, f.gitAway, f.flush}, machines} {
		rng := rand.New(rand.NewPCG(seed, uint64(1000+i)))
		if len(kinds) > 0 {
			wg.Go(func() { errs[i] = f.each(ctx, rng, stop, kinds) })
		}
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// each has one fault after another until stop is closed.
func (f *Faults) each(ctx context.Context, rng *rand.Rand, stop <-chan struct{}, kinds []fault) error {
	var turn []int
	for kit.Rest(ctx, stop, upTo(rng, 4*time.Second)) {
		if len(turn) == 0 {
			turn = rng.Perm(len(kinds))
		}
		if err := kinds[turn[0]](ctx, rng, stop); err != nil && ctx.Err() == nil {
			return err
		}
		turn = turn[1:]
	}
	return nil
}

func upTo(rng *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(limit)))
}

func (f *Faults) any(rng *rand.Rand) *Replica { return f.Replicas[rng.IntN(len(f.Replicas))] }

// kill ends a replica as its machine does that fails, and starts it again a moment later.
func (f *Faults) kill(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	x, away := f.any(rng), upTo(rng, f.Longest/2)
	f.tell("replica killed", "kill %s, start it again after %s", x.Name, away.Round(time.Millisecond))
	x.Kill()
	kit.Rest(ctx, stop, away)
	return x.Revive(ctx)
}

// pause stops a replica for longer or shorter than its session lasts.
func (f *Faults) pause(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	x, away := f.any(rng), time.Second+upTo(rng, f.Longest-time.Second)
	f.tell("replica stopped", "stop %s for %s (SIGSTOP)", x.Name, away.Round(time.Millisecond))
	err := x.Pause()
	kit.Rest(ctx, stop, away)
	return errors.Join(err, x.Continue())
}

func (f *Faults) cut(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	return f.net(ctx, rng, stop, "cut from Redis", (*Replica).Cut)
}

func (f *Faults) silence(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	return f.net(ctx, rng, stop, "out of Redis's reach, silently", (*Replica).Silence)
}

func (f *Faults) slow(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	return f.net(ctx, rng, stop, "slow to reach Redis", (*Replica).Slow)
}

func (f *Faults) net(ctx context.Context, rng *rand.Rand, stop <-chan struct{}, what string, how func(*Replica)) error {
	x, away := f.any(rng), upTo(rng, max(f.Longest/4, 6*time.Second))
	f.tell("replica "+what, "%s is %s for %s", x.Name, what, away.Round(time.Millisecond))
	how(x)
	kit.Rest(ctx, stop, away)
	x.Mend()
	return nil
}

// failOver kills the master of Redis; the sentinels name another one.
func (f *Faults) failOver(ctx context.Context, _ *rand.Rand, _ <-chan struct{}) error {
	f.tell("master of Redis killed", "kill the master of Redis, %s", f.redis.at(ctx))
	err := f.redis.failOver(ctx)
	f.Tell("the master of Redis is %s", f.redis.at(ctx))
	return err
}

// noteTime is how long replicas have to tell git what they did while it was away.
const noteTime = 5 * time.Second

// flush empties Redis, and its replicas. Who did something while the git server was away has to have
// told it: what only a dead machine knows, nobody can put back.
func (f *Faults) flush(ctx context.Context, _ *rand.Rand, stop <-chan struct{}) error {
	for len(f.owing) > 0 || time.Since(f.back) < noteTime {
		if !kit.Rest(ctx, stop, noteTime/10) {
			return nil
		}
		n := len(f.owing)
		if f.owing = slices.DeleteFunc(f.owing, func(x *Replica) bool { return x.State() == "serves" }); len(f.owing) < n {
			f.back = time.Now()
		}
	}
	if err := f.redis.complete(ctx); err != nil { // else a failover may bring back what was there
		return err
	}
	m := f.redis.master(ctx)
	if m == nil {
		return errors.New("empty Redis: there is no master")
	}
	return f.Forget(ctx, func() error {
		f.tell("Redis emptied", "empty Redis")
		c := m.Dial()
		defer c.Close()
		if err := c.FlushAll(ctx).Err(); err != nil {
			return fmt.Errorf("empty Redis: %w", err)
		}
		return nil
	})
}

// gitAway has the git server cut each connection for a while.
func (f *Faults) gitAway(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	away := upTo(rng, f.Longest)
	f.tell("git server away", "the git server is away for %s", away.Round(time.Millisecond))
	f.Forge.Away(true)
	kit.Rest(ctx, stop, away)
	f.Forge.Away(false)
	f.back = time.Now()
	for _, x := range f.Replicas {
		if x.State() != "serves" && !slices.Contains(f.owing, x) {
			f.owing = append(f.owing, x)
		}
	}
	return nil
}

// loseAnswers has the git server take pushes whose answers are lost.
func (f *Faults) loseAnswers(_ context.Context, rng *rand.Rand, _ <-chan struct{}) error {
	n, wrong := 1+rng.IntN(3), rng.IntN(2) == 0
	if wrong {
		f.tell("answers of pushes wrong", "the next %d pushes are taken, and answered with an error", n)
	} else {
		f.tell("answers of pushes lost", "the answers of the next %d pushes are lost", n)
	}
	f.Forge.Lose(n, wrong)
	return nil
}

// leap is by how much a clock is moved.
const leap = time.Hour

func (f *Faults) moveAhead(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	return f.move(ctx, rng, stop, "clock ahead", leap)
}

func (f *Faults) moveBack(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	return f.move(ctx, rng, stop, "clock behind", -leap)
}

// move has the clock of a replica's machine jump, and a while later jump back.
func (f *Faults) move(ctx context.Context, rng *rand.Rand, stop <-chan struct{}, what string, by time.Duration) error {
	x, wrong := f.any(rng), time.Second+upTo(rng, f.Longest)
	f.tell(what, "the clock of %s jumps by %s, and back after %s", x.Name, by, wrong.Round(time.Millisecond))
	err := x.clock.Move(by)
	kit.Rest(ctx, stop, wrong)
	return errors.Join(err, x.clock.Move(0))
}

// fill leaves no room on a replica's disk.
func (f *Faults) fill(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	x, full := f.any(rng), time.Second+upTo(rng, f.Longest)
	f.tell("disk full", "the disk of %s is full for %s", x.Name, full.Round(time.Millisecond))
	err := x.disk.fill()
	kit.Rest(ctx, stop, full)
	return errors.Join(err, x.disk.free())
}
