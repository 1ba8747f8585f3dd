package ha

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// TakeoverLimit is how long the last instance of a replica that was killed may be nobody's.
const TakeoverLimit = 5 * time.Second

// sleep is longer than a session of a replica lasts.
const sleep = 7 * time.Second

// Break breaks the rig in an order in which it can be followed, and holds it to what it promises
// meanwhile. title is told of each part before it begins.
func (r *Rig) Break(ctx context.Context, people *People, title func(string)) error {
	title("A replica is killed: the others take over its instances")
	n, took, err := r.Takeover(ctx)
	if err != nil {
		return err
	}
	if took > TakeoverLimit {
		return fmt.Errorf("the last of %d instances was another's after %s, want %s at most", n, took.Round(time.Millisecond), TakeoverLimit)
	}

	title("A replica is stopped for longer than its session lasts, and wakes up: it writes over nothing")
	x := r.Replicas[len(r.Replicas)-1]
	r.Tell("stop %s for %s (SIGSTOP)", x.Name, sleep)
	if err := x.Pause(); err != nil {
		return err
	}
	kit.Pause(ctx, sleep)
	if err := x.Continue(); err != nil {
		return err
	}
	r.Tell("%s goes on", x.Name)
	if err := r.Ready(ctx); err != nil {
		return err
	}

	title("The master of Redis is killed: the sentinels name another one")
	r.Tell("kill the master of Redis, %s", r.redis.at(ctx))
	if err := r.redis.failOver(ctx); err != nil {
		return err
	}
	r.Tell("the master of Redis is %s", r.redis.at(ctx))
	if err := r.Ready(ctx); err != nil {
		return err
	}

	title("All replicas are restarted, one after the other: no request fails")
	people.World.RequestsAlone(true)
	defer people.World.RequestsAlone(false)
	kit.Pause(ctx, settled)
	before := time.Now()
	if err := r.Roll(ctx, r.Binary); err != nil {
		return err
	}
	if list := people.World.Failures(before); len(list) > 0 {
		return fmt.Errorf("%d requests failed while the replicas were restarted:\n%s", len(list), strings.Join(list, "\n"))
	}
	r.Tell("no request has failed")
	return ctx.Err()
}

// settled is how long requests that were under way while something broke may still take.
const settled = 5 * time.Second
