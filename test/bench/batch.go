package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	batchLimit = 1.5 // of the bare loop's time
	// bareWorkers is how many instances the bare loop applies at once: as many as
	// Jibe works on.
	bareWorkers = 16
)

// batch measures many new instances, each in a namespace of its own, from one push,
// beside a bare loop that applies the same objects in the same namespaces.
func (b *bench) batch(ctx context.Context) error {
	spaces, err := b.spaces(ctx, "batch", slices.Max(b.batches))
	if err != nil {
		return err
	}
	j, err := b.start(ctx, "batch", map[string]string{"kube": b.cluster.vim()})
	if err != nil {
		return err
	}
	defer j.Kill()
	// The first instance brings up what the server and the cluster do only once.
	if _, err := b.fromPush(ctx, j, "warm", spaces[:1]); err != nil {
		return err
	}
	for _, n := range b.batches {
		bare, err := b.bareLoop(ctx, spaces[:n])
		if err != nil {
			return fmt.Errorf("bare loop: %w", err)
		}
		took, err := b.fromPush(ctx, j, strconv.Itoa(n), spaces[:n])
		if err != nil {
			return err
		}
		b.value(fmt.Sprintf("%5d new instances: bare loop, %d at once", n, bareWorkers), short(bare), true, "", "")
		b.value(fmt.Sprintf("%5d new instances: one push -> all COMPLETED", n), short(took.all), took.all.Seconds() <= batchLimit*bare.Seconds(),
			fmt.Sprintf("<= %.1fx of the bare loop", batchLimit),
			fmt.Sprintf("%s; from the push's begin, which took %s", ratio(took.all.Seconds(), bare.Seconds()), short(took.push)))
	}
	return j.Stop()
}

func (b *bench) spaces(ctx context.Context, purpose string, n int) ([]string, error) {
	spaces := make([]string, n)
	for i := range spaces {
		var err error
		if spaces[i], err = b.cluster.namespace(ctx, fmt.Sprintf("%s-%d", purpose, i)); err != nil {
			return nil, err
		}
	}
	return spaces, b.cluster.usable(ctx, spaces...)
}

type batchTimes struct{ push, all time.Duration }

// fromPush pushes the instances, waits for them, and takes them away again.
func (b *bench) fromPush(ctx context.Context, j *jibe, kind string, spaces []string) (took batchTimes, err error) {
	if err := j.follow(ctx); err != nil {
		return took, err
	}
	for i, ns := range spaces {
		id := instanceID(kind, i)
		if err := j.write(desired.APIDir(id)+"/"+desired.InstanceFile, j.vnf(id, "instantiated", onKubernetes(ns, 0))); err != nil {
			return took, err
		}
	}
	if err := commit(ctx, j.clone, "Add many"); err != nil {
		return took, err
	}
	start := time.Now()
	returned, err := j.push(ctx)
	if err != nil {
		return took, err
	}
	last, err := b.allEnded(ctx, j, kind, len(spaces))
	if err != nil {
		return took, err
	}
	took = batchTimes{push: returned.Sub(start), all: last.Sub(start)}
	if _, err := process.Git(ctx, j.clone, "rm", "-rq", "instances"); err != nil {
		return took, err
	}
	if _, err := process.Git(ctx, j.clone, "commit", "-qm", "Remove them"); err != nil {
		return took, err
	}
	if _, err := j.push(ctx, fmt.Sprintf("terminate=%d", len(spaces))); err != nil {
		return took, err
	}
	if _, err := b.allEnded(ctx, j, kind, len(spaces)); err != nil {
		return took, err
	}
	return took, j.quiet(ctx, time.Minute)
}

// allEnded waits for the operations of the clone's last commit, one after the other,
// and returns when the last of them was COMPLETED.
func (b *bench) allEnded(ctx context.Context, j *jibe, kind string, n int) (last time.Time, err error) {
	commit, err := process.Git(ctx, j.clone, "rev-parse", "HEAD")
	if err != nil {
		return last, err
	}
	for i := range n {
		at, err := j.ended(ctx, reconciler.OperationID(commit, instanceID(kind, i)))
		if err != nil {
			return last, err
		}
		if at.After(last) {
			last = at
		}
	}
	return last, nil
}

// bareLoop applies the objects, waits until all pods are ready, and takes them away.
func (b *bench) bareLoop(ctx context.Context, spaces []string) (time.Duration, error) {
	c := b.cluster
	start := time.Now()
	w, err := c.AppsV1().Deployments("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	missing := map[string]bool{}
	for _, ns := range spaces {
		missing[ns] = true
	}
	applied := make(chan error, 1)
	go func() {
		applied <- each(spaces, func(ns string) error { return c.apply(ctx, ns) })
	}()
	limit := time.NewTimer(10 * time.Minute)
	defer limit.Stop()
	for len(missing) > 0 {
		select {
		case err := <-applied:
			if err != nil {
				return 0, err
			}
		case e, ok := <-w.ResultChan():
			if !ok {
				return 0, errors.New("the watch ended")
			}
			if d, ok := e.Object.(*appsv1.Deployment); ok && d.Status.ObservedGeneration >= d.Generation && d.Status.ReadyReplicas == 1 {
				delete(missing, d.Namespace)
			}
		case <-limit.C:
			return 0, fmt.Errorf("%d workloads never became ready", len(missing))
		}
	}
	took := time.Since(start)
	if err := each(spaces, func(ns string) error { return c.remove(ctx, ns) }); err != nil {
		return 0, err
	}
	for _, ns := range spaces {
		err := kit.Poll(ctx, 5*time.Minute, func() error {
			pods, err := c.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
			if err == nil && len(pods.Items) > 0 {
				err = fmt.Errorf("%d pods are left in %s", len(pods.Items), ns)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return took, nil
}

// each calls f for every namespace, several at once.
func each(spaces []string, f func(ns string) error) error {
	var g errgroup.Group
	g.SetLimit(bareWorkers)
	for _, ns := range spaces {
		g.Go(func() error { return f(ns) })
	}
	return g.Wait()
}
