package main

import (
	"context"
	"fmt"
	"time"
)

const driftLimit = 150 * time.Millisecond

// drift measures how long after a change by hand the API server shows again what git
// says, one change at a time. Each instance is meddled with once in each way: what drifts
// again and again is put back with growing pauses.
func (b *bench) drift(ctx context.Context) error {
	spaces, err := b.spaces(ctx, "drift", b.samples)
	if err != nil {
		return err
	}
	j, err := b.start(ctx, "drift", map[string]string{"kube": b.cluster.vim()})
	if err != nil {
		return err
	}
	defer j.Kill()
	if err := b.onEach(ctx, j, "drift", spaces, 0); err != nil {
		return err
	}
	if err := j.quiet(ctx, time.Minute); err != nil {
		return err
	}
	for done, way := range []struct {
		name    string
		service bool
	}{{"kubectl scale of a Deployment", false}, {"kubectl delete of a Service", true}} {
		var put, ended times
		for i, ns := range spaces {
			m := &meddling{id: instanceID("drift", i), ns: ns, service: way.service}
			if err := b.cluster.meddle(ctx, 1, []*meddling{m}); err != nil {
				return fmt.Errorf("%s: %w; the server's log:\n%s", way.name, err, j.Log())
			}
			repairs, err := j.repairs(ctx, fmt.Sprintf(";(eq,vnfInstanceId,%s)", m.id), done+1)
			if err != nil {
				return err
			}
			if len(repairs) != done+1 {
				return fmt.Errorf("%s: %d automatic operations, want %d", way.name, len(repairs), done+1)
			}
			put = append(put, m.put())
			ended = append(ended, latest(repairs).Sub(m.answered))
		}
		b.latency(way.name+": answered -> put back", put, driftLimit, "")
		b.latency("  until the automatic operation is COMPLETED", ended, 0, "")
	}
	return j.Stop()
}

// latest is when the last of the operations ended.
func latest(all []repair) (at time.Time) {
	for _, r := range all {
		if r.Entered.After(at) {
			at = r.Entered
		}
	}
	return at
}
