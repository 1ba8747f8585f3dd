package main

import (
	"context"
	"time"
)

const shareLimit = 150 * time.Millisecond

// share measures whole operations beside a bare client that patches a workload of its
// own and waits for the same readiness, turn by turn.
func (b *bench) share(ctx context.Context) error {
	t, err := b.onCluster(ctx, "share")
	if err != nil {
		return err
	}
	defer t.Kill()
	ns, err := b.bare(ctx, "bare")
	if err != nil {
		return err
	}
	var whole, bare, before, after times
	for range b.samples {
		o, err := b.operation(ctx, t)
		if err != nil {
			return err
		}
		whole = append(whole, o.ended.Sub(o.asked))
		before = append(before, o.shown.Sub(o.asked))
		after = append(after, max(0, o.ended.Sub(o.settled)))
		took, err := b.bareScale(ctx, ns, t.level+1)
		if err != nil {
			return err
		}
		bare = append(bare, took)
	}
	b.latency("scale by REST: request -> COMPLETED", whole, 0, "")
	b.latency("the same by a bare client: patch -> all pods ready", bare, 0, "")
	own := whole.median() - bare.median()
	b.value("Jibe's own share: difference of the medians", short(own), own <= shareLimit, "<= "+short(shareLimit),
		ratio(float64(whole.median()), float64(bare.median()))+" of the bare client")
	b.headline(headline{"operation overhead", "scale by REST: request -> COMPLETED, p50", short(whole.median()),
		"a bare client: patch -> all pods ready, p50 " + short(bare.median()), ratio(float64(whole.median()), float64(bare.median()))})
	b.latency("  of it: request -> replicas at the API server", before, 0, "")
	b.latency("  of it: pods ready -> COMPLETED", after, 0, "")
	return t.Stop()
}

// bare makes a namespace with a workload of the bare client, which runs.
func (b *bench) bare(ctx context.Context, purpose string) (ns string, err error) {
	if ns, err = b.cluster.namespace(ctx, purpose); err != nil {
		return "", err
	}
	if err := b.cluster.usable(ctx, ns); err != nil {
		return "", err
	}
	if err := b.cluster.apply(ctx, ns); err != nil {
		return "", err
	}
	w, err := b.cluster.watch(ctx, ns)
	if err != nil {
		return "", err
	}
	defer w.stop()
	_, err = w.until(ctx, func(v *view) bool { return v.settled(1) })
	return ns, err
}

// operation is the times of one scaling.
type operation struct{ asked, shown, settled, ended time.Time }

func (b *bench) operation(ctx context.Context, t *target) (o operation, err error) {
	w, err := b.cluster.watch(ctx, t.ns)
	if err != nil {
		return o, err
	}
	defer w.stop()
	var location string
	if o.asked, _, location, err = t.scaleRequest(ctx); err != nil {
		return o, err
	}
	if o.shown, err = w.until(ctx, func(v *view) bool { return v.shows(t.level + 1) }); err != nil {
		return o, err
	}
	if o.settled, err = w.until(ctx, func(v *view) bool { return v.settled(t.level + 1) }); err != nil {
		return o, err
	}
	o.ended, err = t.ended(ctx, location)
	return o, err
}

// bareScale is how long the cluster takes by itself.
func (b *bench) bareScale(ctx context.Context, ns string, replicas int) (time.Duration, error) {
	w, err := b.cluster.watch(ctx, ns)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	start := time.Now()
	if err := b.cluster.scale(ctx, ns, replicas); err != nil {
		return 0, err
	}
	at, err := w.until(ctx, func(v *view) bool { return v.settled(replicas) })
	return at.Sub(start), err
}
