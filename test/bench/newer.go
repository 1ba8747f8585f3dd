package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newerLimit is within which the first step of a newer commit is at the API server.
const newerLimit = time.Second

// newer measures how soon a push takes the place of an operation that waits for pods without a node, beside
// pushes of the same kind on an instance at rest, and beside Flux, which leaves its wait off as well.
func (b *bench) newer(ctx context.Context) (err error) {
	ns, err := b.cluster.namespace(ctx, "flux")
	if err != nil {
		return err
	}
	if err := b.cluster.usable(ctx, ns); err != nil {
		return err
	}
	f, err := b.startFlux(ctx, ns)
	if err != nil {
		return err
	}
	if f != nil {
		defer func() { err = errors.Join(err, f.close(context.WithoutCancel(ctx))) }()
	}
	t, err := b.onCluster(ctx, "newer")
	if err != nil {
		return err
	}
	defer t.Kill()
	var rest, fluxRest, waiting, fluxWaiting times
	took, fluxTook := time.Duration(0), time.Duration(0)
	for i := range b.samples {
		if took, err = b.shownAfter(ctx, t, 1-t.level); err != nil {
			return err
		}
		if err := t.settle(ctx, ""); err != nil {
			return err
		}
		rest = append(rest, took)
		if f == nil {
			continue
		}
		n := 2 - i%2
		if fluxTook, err = f.shownAfter(ctx, b.cluster, n); err != nil {
			return err
		}
		if err := f.await(ctx, b.cluster, n); err != nil {
			return err
		}
		fluxRest = append(fluxRest, fluxTook)
	}
	if t.level != 0 {
		if _, err := b.shownAfter(ctx, t, 0); err != nil {
			return err
		}
		if err := t.settle(ctx, ""); err != nil {
			return err
		}
	}
	if err := b.cluster.cordon(ctx, true); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cluster.cordon(context.WithoutCancel(ctx), false)) }()
	if _, err := b.shownAfter(ctx, t, 1); err != nil { // both wait from now on
		return err
	}
	if f != nil {
		if _, err := f.shownAfter(ctx, b.cluster, waitingFor); err != nil {
			return err
		}
	}
	for i := range b.samples {
		if took, err = b.shownAfter(ctx, t, 3-t.level); err != nil {
			return err
		}
		waiting = append(waiting, took)
		if f == nil {
			continue
		}
		if fluxTook, err = f.shownAfter(ctx, b.cluster, waitingFor+1-i%2); err != nil {
			return err
		}
		fluxWaiting = append(fluxWaiting, fluxTook)
	}
	b.latency("git push -> the change is at the API server, at rest", rest, 0, "")
	if f != nil {
		b.latency("  by Flux, which is told of the push at once", fluxRest, 0, ratio(float64(rest.median()), float64(fluxRest.median()))+" of it is Jibe's")
	}
	b.latency("the same while an operation waits for pods without a node", waiting, newerLimit,
		ratio(float64(waiting.median()), float64(rest.median()))+" of that at rest; the operation that waits is FAILED, superseded")
	if f != nil {
		b.latency("  by Flux, which leaves off its health check", fluxWaiting, 0, ratio(float64(waiting.median()), float64(fluxWaiting.median()))+" of it is Jibe's")
	}
	return nil // pods that have no node never end the last operation
}

// waitingFor is how many replicas Flux is to wait for, and one more.
const waitingFor = 3

// shownAfter pushes a scale level, and returns after how long the API server shows it.
func (b *bench) shownAfter(ctx context.Context, t *target, level int) (time.Duration, error) {
	if err := t.follow(ctx); err != nil {
		return 0, err
	}
	if err := t.commitLevel(ctx, level); err != nil {
		return 0, err
	}
	w, err := b.cluster.watch(ctx, t.ns)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	start := time.Now()
	if _, err := t.push(ctx); err != nil {
		return 0, err
	}
	at, err := w.until(ctx, func(v *view) bool { return v.shows(level + 1) })
	return at.Sub(start), err
}

// cordon lets the nodes take no pods, or take them again.
func (c *cluster) cordon(ctx context.Context, closed bool) error {
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
		if _, err := c.CoreV1().Nodes().Patch(ctx, nodes.Items[i].Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "bench"}); err != nil {
			return fmt.Errorf("node %s: %w", nodes.Items[i].Name, err)
		}
	}
	return nil
}
