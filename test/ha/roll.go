package ha

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
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
		if !kit.Rest(ctx, nil, 2*time.Second) {
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
// it took until the last of them was another's, apart from those that were removed meanwhile. The
// replica is started again.
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
	left := map[string]bool{} // that have had no other holder yet
	for id, h := range before {
		if h == holder {
			left[id] = true
		}
	}
	x.Kill()
	killed, asked := time.Now(), time.Now()
	for len(left) > 0 {
		now, err := r.Holders(ctx)
		maps.DeleteFunc(left, func(id string, _ bool) bool {
			is, held := now[id]
			if held = held && is != holder; held {
				took = time.Since(killed)
			}
			return held
		})
		if time.Since(asked) > askPause { // people work on: what they have removed is nobody's
			maps.DeleteFunc(left, func(id string, _ bool) bool { return r.removed(ctx, id) })
			asked = time.Now()
		}
		if waited := time.Since(killed); len(left) > 0 && waited > takeoverWait {
			err = errors.Join(err, fmt.Errorf("%d of %d instances of %s have no new holder after %s: %v", len(left), instances, x.Name, takeoverWait, slices.Sorted(maps.Keys(left))))
			return instances, waited, errors.Join(err, x.Start(ctx), r.Ready(ctx))
		}
		if !kit.Rest(ctx, nil, 10*time.Millisecond) {
			return instances, took, ctx.Err()
		}
	}
	r.Tell("all of them are others' after %s", took.Round(time.Millisecond))
	return instances, took, errors.Join(x.Start(ctx), r.Ready(ctx))
}

// askPause is that between two questions for what has been removed.
const askPause = time.Second

// removed says whether the instance is no more, as who asks for it is told.
func (r *Rig) removed(ctx context.Context, id string) bool {
	a, err := r.Servers.Present().Do(ctx, http.MethodGet, process.Instances+"/"+id, nil)
	return err == nil && a.Status == http.StatusNotFound
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
