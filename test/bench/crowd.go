package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	appliedLimit = 1.5  // of the bare loop's time, until the cluster has all that was asked for
	readyLimit   = 1.15 // of the bare loop's time, until all of it is ready
	// bareWorkers is how many instances the bare loop works on at once: as many as Jibe does.
	bareWorkers = 16
	// crowdPatience bounds the creation of all instances.
	crowdPatience = 20 * time.Minute
)

// crowd is many new instances of a server, one in each namespace. It reaches the cluster through the
// counter.
type crowd struct {
	*jibe
	kind    string
	spaces  []string
	between *counter
}

// moments are how long it took until the cluster had all that was asked for, and until all of it was
// ready, and how many calls that asked of the API server.
type moments struct {
	applied, ready time.Duration
	calls          int
}

// meanwhile follows the cluster while do makes the workload in all namespaces.
func (b *bench) meanwhile(ctx context.Context, spaces []string, do func() error) (m moments, err error) {
	ctx, cancel := context.WithTimeout(ctx, crowdPatience)
	defer cancel()
	unapplied, unready := map[string]bool{}, map[string]bool{}
	for _, ns := range spaces {
		unapplied[ns], unready[ns] = true, true
	}
	deployments, err := b.cluster.AppsV1().Deployments("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return m, err
	}
	defer deployments.Stop()

	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- do() }()
	for len(unapplied) > 0 || len(unready) > 0 || done != nil {
		var e watch.Event
		var open bool
		select {
		case e, open = <-deployments.ResultChan():
		case err := <-done:
			if done = nil; err != nil {
				return m, err
			}
			continue
		case <-ctx.Done():
			return m, fmt.Errorf("%d of %d were never applied, %d never ready: %w", len(unapplied), len(spaces), len(unready), ctx.Err())
		}
		if !open {
			return m, errors.New("the watch ended")
		}
		d, ok := e.Object.(*appsv1.Deployment)
		if !ok || e.Type == watch.Deleted || d.Name != workload {
			continue
		}

		if unapplied[d.Namespace] {
			delete(unapplied, d.Namespace)
			m.applied = time.Since(start)
		}
		if unready[d.Namespace] && runs(d) {
			delete(unready, d.Namespace)
			m.ready = time.Since(start)
		}
	}
	return m, nil
}

// runs reports whether the Deployment has its one pod, ready, and no other.
func runs(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.Replicas == 1 && s.ReadyReplicas == 1 && s.UpdatedReplicas == 1
}

// bareCrowd makes the workload by a loop of a bare client, which goes the way that Jibe goes.
func (b *bench) bareCrowd(ctx context.Context, c crowd) (moments, error) {
	client, err := c.between.client()
	if err != nil {
		return moments{}, err
	}
	bare := &cluster{Clientset: client}
	return b.meanwhile(ctx, c.spaces, func() error {
		return each(c.spaces, func(ns string) error { return bare.apply(ctx, ns) })
	})
}

// create makes all instances by one commit, and returns also when all of them were COMPLETED.
func (b *bench) create(ctx context.Context, c crowd) (m moments, completed time.Duration, err error) {
	if err := c.follow(ctx); err != nil {
		return m, 0, err
	}
	for i, ns := range c.spaces {
		id := instanceID(c.kind, i)
		if err := c.write(desired.APIDir(id)+"/"+desired.InstanceFile, c.vnf(id, "instantiated", onKubernetes(ns, 0))); err != nil {
			return m, 0, err
		}
	}
	if err := commit(ctx, c.clone, "Add them all"); err != nil {
		return m, 0, err
	}

	var start time.Time
	m, err = b.meanwhile(ctx, c.spaces, func() error {
		c.between.take()
		start = time.Now()
		_, err := c.push(ctx)
		return err
	})
	if err != nil {
		return m, 0, fmt.Errorf("new instances: %w; the server's log:\n%s", err, c.Log())
	}
	last, err := b.allEnded(ctx, c.jibe, c.kind, len(c.spaces))
	if err != nil {
		return m, 0, err
	}
	calls, _ := c.between.take()
	m.calls = sum(calls)
	return m, last.Sub(start), c.quiet(ctx, 5*time.Minute)
}

// terminate takes all instances away by one commit.
func (b *bench) terminate(ctx context.Context, c crowd) error {
	if err := c.follow(ctx); err != nil {
		return err
	}
	if _, err := process.Git(ctx, c.clone, "rm", "-rq", "instances"); err != nil {
		return err
	}
	if _, err := process.Git(ctx, c.clone, "commit", "-qm", "Remove them"); err != nil {
		return err
	}
	if _, err := c.push(ctx, fmt.Sprintf("terminate=%d", len(c.spaces))); err != nil {
		return err
	}
	if _, err := b.allEnded(ctx, c.jibe, c.kind, len(c.spaces)); err != nil {
		return err
	}
	return c.quiet(ctx, 5*time.Minute)
}

// clear takes away what the bare loop made.
func (c *cluster) clear(ctx context.Context, spaces []string) error {
	if err := each(spaces, func(ns string) error { return c.remove(ctx, ns) }); err != nil {
		return err
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
			return err
		}
	}
	return nil
}

// besideBare makes the instances in the same namespaces first by the bare loop and then by Jibe, and
// prints both. It ends with nothing left in them.
func (b *bench) besideBare(ctx context.Context, c crowd) error {
	bare, err := b.bareCrowd(ctx, c)
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	if err := b.cluster.clear(ctx, c.spaces); err != nil {
		return err
	}
	own, completed, err := b.create(ctx, c)
	if err != nil {
		return err
	}

	n := len(c.spaces)
	what := fmt.Sprintf("%5d new instances", n)
	applied, ready := own.applied.Seconds()/bare.applied.Seconds(), own.ready.Seconds()/bare.ready.Seconds()
	b.value(what+": bare loop, all applied", short(bare.applied), true, "", fmt.Sprintf("%d at once; all ready after %s", bareWorkers, short(bare.ready)))
	b.value(what+": one push -> all applied", short(own.applied), applied <= appliedLimit, fmt.Sprintf("<= %.2fx of the bare loop", appliedLimit),
		fmt.Sprintf("%.2fx; %.1f calls an instance", applied, float64(own.calls)/float64(n)))
	b.value(what+": one push -> all ready", short(own.ready), ready <= readyLimit, fmt.Sprintf("<= %.2fx of the bare loop", readyLimit),
		fmt.Sprintf("%.2fx; all COMPLETED after %s", ready, short(completed)))
	b.headline(headline{"new instances", fmt.Sprintf("%d from one push: all applied, all ready", n), short(own.applied) + ", " + short(own.ready),
		fmt.Sprintf("a bare loop, %d at once: %s, %s", bareWorkers, short(bare.applied), short(bare.ready)), fmt.Sprintf("%.2fx, %.2fx", applied, ready)})
	return b.terminate(ctx, c)
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
