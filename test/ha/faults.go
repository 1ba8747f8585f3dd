package ha

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Faults break the rig. Each works for a while and leaves it whole; its error is of what must not
// fail. Their choices are those of a seed, their timing the machine's.
type Faults struct {
	*Rig
	// Longest is how long a replica is stopped at most, a part of the net away at most a quarter of
	// that.
	Longest time.Duration
	// Flush also empties Redis.
	Flush bool

	mu     sync.Mutex
	counts map[string]int
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

// Break breaks replicas and, at the same time, what they depend on, until stop is closed. Both
// begin with each of their kinds in turn, so that also a short time has each once if it can.
func (f *Faults) Break(ctx context.Context, seed uint64, stop <-chan struct{}) error {
	around := []fault{f.loseAnswers, f.failOver, f.gitAway}
	if f.Flush {
		around = append(around, f.flush)
	}
	var wg sync.WaitGroup
	var errs [2]error
	for i, kinds := range [][]fault{{f.kill, f.pause, f.cut, f.silence, f.slow}, around} {
		rng := rand.New(rand.NewPCG(seed, uint64(1000+i)))
		wg.Go(func() { errs[i] = f.each(ctx, rng, stop, kinds) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// each has one fault after another until stop is closed.
func (f *Faults) each(ctx context.Context, rng *rand.Rand, stop <-chan struct{}, kinds []fault) error {
	var turn []int
	for pause(ctx, stop, upTo(rng, 4*time.Second)) {
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

// pause passes time, and says whether it wasn't stopped meanwhile.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-stop:
		return false
	case <-time.After(d):
		return true
	}
}

func (f *Faults) any(rng *rand.Rand) *Replica { return f.Replicas[rng.IntN(len(f.Replicas))] }

// kill ends a replica as its machine does that fails, and starts it again a moment later.
func (f *Faults) kill(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	x, away := f.any(rng), upTo(rng, f.Longest/2)
	f.tell("replica killed", "kill %s, start it again after %s", x.Name, away.Round(time.Millisecond))
	x.Kill()
	pause(ctx, stop, away)
	return x.Revive(ctx)
}

// pause stops a replica for longer or shorter than its session lasts.
func (f *Faults) pause(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	x, away := f.any(rng), time.Second+upTo(rng, f.Longest-time.Second)
	f.tell("replica stopped", "stop %s for %s (SIGSTOP)", x.Name, away.Round(time.Millisecond))
	err := x.Pause()
	pause(ctx, stop, away)
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
	pause(ctx, stop, away)
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

// flush empties Redis.
func (f *Faults) flush(ctx context.Context, _ *rand.Rand, _ <-chan struct{}) error {
	f.tell("Redis emptied", "empty Redis")
	m := f.redis.master(ctx)
	if m == nil {
		return errors.New("empty Redis: there is no master")
	}
	c := m.Dial()
	defer c.Close()
	return c.FlushAll(ctx).Err()
}

// gitAway has the git server cut each connection for a while.
func (f *Faults) gitAway(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	away := upTo(rng, f.Longest/2)
	f.tell("git server away", "the git server is away for %s", away.Round(time.Millisecond))
	f.Forge.Away(true)
	pause(ctx, stop, away)
	f.Forge.Away(false)
	return nil
}

// loseAnswers has the git server take pushes whose answers are lost.
func (f *Faults) loseAnswers(_ context.Context, rng *rand.Rand, _ <-chan struct{}) error {
	n := 1 + rng.IntN(3)
	f.tell("answers of pushes lost", "the answers of the next %d pushes are lost", n)
	f.Forge.Lose(n)
	return nil
}

// Roll ends each replica in order and starts it again, one after the other, as a new version is
// rolled out: the next one's turn is when it is ready.
func (r *Rig) Roll(ctx context.Context) error {
	for _, x := range r.Replicas {
		r.Tell("restart %s in order", x.Name)
		if err := x.Stop(); err != nil {
			return err
		}
		if err := x.Start(ctx); err != nil {
			return err
		}
		if err := r.Ready(ctx); err != nil {
			return err
		}
		// As a rollout does (minReadySeconds): the balancer has seen it, too.
		if !pause(ctx, nil, 2*time.Second) {
			return ctx.Err()
		}
	}
	return nil
}

// takeoverWait bounds the wait for a dead replica's instances to be others'.
const takeoverWait = time.Minute

// Takeover kills a replica that looks after instances, and returns how many it had, and how long
// it took until the last of them was another's. The replica is started again.
func (r *Rig) Takeover(ctx context.Context) (instances int, took time.Duration, err error) {
	before, err := r.Holders(ctx)
	if err != nil {
		return 0, 0, err
	}
	of, err := r.holdersByReplica(ctx)
	if err != nil {
		return 0, 0, err
	}
	var x *Replica
	var holder string
	for name, h := range of {
		n := 0
		for _, owner := range before {
			if owner == h {
				n++
			}
		}
		if n > instances {
			instances, holder = n, h
			x = r.replica(name)
		}
	}
	if x == nil {
		return 0, 0, fmt.Errorf("no replica looks after any instance: %v, %v", before, of)
	}
	r.Tell("kill %s, which looks after %d instances", x.Name, instances)
	x.Kill()
	killed := time.Now()
	for {
		now, err := r.Holders(ctx)
		left := 0
		for id, was := range before {
			if is, held := now[id]; was == holder && (!held || is == holder) {
				left++
			}
		}
		took = time.Since(killed)
		if err == nil && left == 0 {
			break
		}
		if took > takeoverWait {
			return instances, took, errors.Join(err, fmt.Errorf("%d of %d instances of %s have no new holder after %s", left, instances, x.Name, takeoverWait))
		}
		if !pause(ctx, nil, 10*time.Millisecond) {
			return instances, took, ctx.Err()
		}
	}
	r.Tell("all of them are others' after %s", took.Round(time.Millisecond))
	return instances, took, errors.Join(x.Start(ctx), r.Ready(ctx))
}

func (r *Rig) replica(name string) *Replica {
	for _, x := range r.Replicas {
		if x.Name == name {
			return x
		}
	}
	return nil
}

// holdersByReplica asks each replica by which name it holds leases.
func (r *Rig) holdersByReplica(ctx context.Context) (map[string]string, error) {
	of := map[string]string{}
	for _, x := range r.Replicas {
		var list []struct {
			Holder string `json:"holder"`
			Self   bool   `json:"self"`
		}
		if err := r.at(x).Get(ctx, "/jibe/v1/members", &list); err != nil {
			return nil, err
		}
		for _, m := range list {
			if m.Self {
				of[x.Name] = m.Holder
			}
		}
	}
	return of, nil
}
