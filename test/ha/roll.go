package ha

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Roll ends each replica in order and starts it again, one after the other, with the binary that is
// to serve from then on, as a new version is rolled out: the next one's turn is when it is ready.
func (r *Rig) Roll(ctx context.Context, binary string) error {
	for _, x := range r.Replicas {
		r.Tell("restart %s in order", x.Name)
		if err := x.Stop(); err != nil {
			return err
		}
		x.Install(binary)
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

// Upgrade is Roll from one version to another, which serve side by side meanwhile. The binaries call
// themselves differently.
func (r *Rig) Upgrade(ctx context.Context, binary string) error {
	before, err := r.Versions(ctx)
	if err != nil {
		return err
	}
	if err := r.Roll(ctx, binary); err != nil {
		return err
	}
	after, err := r.Versions(ctx)
	if err != nil {
		return err
	}
	r.Tell("the replicas were %q, and are %q", before, after)
	if len(after) != len(r.Replicas) || slices.ContainsFunc(after, func(v string) bool { return slices.Contains(before, v) }) {
		return fmt.Errorf("upgrade the replicas: they were %q, and are %q", before, after)
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
