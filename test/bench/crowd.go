package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	// crowdPatience bounds one change of all instances.
	crowdPatience = 20 * time.Minute
)

// verb is one change of many instances at once, of one Deployment each.
type verb struct {
	name string
	// bare makes the change in one namespace, as any client would.
	bare func(ctx context.Context, c *cluster, ns string) error
	// commit makes the change in the text of a vnf.yaml; victim is the instance's pod.
	commit func(j *jibe, text string, victim *corev1.Pod) string
	// shows says of an object that a watch brings whether it has what was asked for, and
	// whether it is ready.
	shows func(o runtime.Object, deleted bool, victim *corev1.Pod) (applied, ready bool)
}

// settledAs says whether the Deployment has n pods of its present template, all ready.
func settledAs(d *appsv1.Deployment, n int32) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.Replicas == n && s.ReadyReplicas == n && s.UpdatedReplicas == n
}

// The changes, by what they are called here.
const (
	toCreate  = "create"
	toHeal    = "heal"
	toScale   = "scale"
	toUpgrade = "upgrade"
)

func verbs() map[string]verb {
	deployment := func(shows func(*appsv1.Deployment) (bool, bool)) func(runtime.Object, bool, *corev1.Pod) (bool, bool) {
		return func(o runtime.Object, deleted bool, _ *corev1.Pod) (bool, bool) {
			d, ok := o.(*appsv1.Deployment)
			if !ok || deleted || d.Name != workload {
				return false, false
			}
			return shows(d)
		}
	}
	return map[string]verb{
		toCreate: {
			name: "new instances",
			bare: func(ctx context.Context, c *cluster, ns string) error { return c.apply(ctx, ns) },
			shows: deployment(func(d *appsv1.Deployment) (bool, bool) {
				return true, settledAs(d, 1)
			}),
		},
		toHeal: {
			name: "pods healed",
			bare: func(ctx context.Context, c *cluster, ns string) error {
				return c.CoreV1().Pods(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
			},
			commit: func(_ *jibe, text string, victim *corev1.Pod) string {
				return text + fmt.Sprintf("condemned: {Pod/%s/%s: %s}\n", victim.Namespace, victim.Name, victim.UID)
			},
			shows: func(o runtime.Object, deleted bool, victim *corev1.Pod) (bool, bool) {
				p, ok := o.(*corev1.Pod)
				if !ok {
					return false, false
				}
				if p.UID == victim.UID {
					return deleted || p.DeletionTimestamp != nil, false
				}
				return false, !deleted && podReady(p)
			},
		},
		toScale: {
			name: "instances scaled",
			bare: func(ctx context.Context, c *cluster, ns string) error { return c.scale(ctx, ns, 2) },
			commit: func(_ *jibe, text string, _ *corev1.Pod) string {
				return strings.Replace(text, "levels: {web: 0}", "levels: {web: 1}", 1)
			},
			shows: deployment(func(d *appsv1.Deployment) (bool, bool) {
				return *d.Spec.Replicas == 2, *d.Spec.Replicas == 2 && settledAs(d, 2)
			}),
		},
		toUpgrade: {
			name: "instances upgraded (rolling)",
			bare: func(ctx context.Context, c *cluster, ns string) error {
				patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, nextImage)
				_, err := c.AppsV1().Deployments(ns).Patch(ctx, workload, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "bench"})
				return err
			},
			commit: func(j *jibe, text string, _ *corev1.Pod) string {
				return strings.NewReplacer(vnfdID, nextVnfdID, j.tree, j.nextTree).Replace(text)
			},
			shows: deployment(func(d *appsv1.Deployment) (bool, bool) {
				next := d.Spec.Template.Spec.Containers[0].Image == nextImage
				return next, next && settledAs(d, *d.Spec.Replicas)
			}),
		},
	}
}

// moments are how long it took until the cluster had all that was asked for, and until
// all of it was ready, and how many calls that asked of the API server.
type moments struct {
	applied, ready time.Duration
	calls          int
}

// meanwhile follows the cluster while do makes the change in all namespaces, for which
// prepare is given the pods that run there.
func (b *bench) meanwhile(ctx context.Context, v verb, spaces []string, prepare func(victims map[string]*corev1.Pod) error, do func() error) (m moments, err error) {
	ctx, cancel := context.WithTimeout(ctx, crowdPatience)
	defer cancel()
	waits := map[string]bool{}
	for _, ns := range spaces {
		waits[ns] = true
	}
	victims := map[string]*corev1.Pod{}
	pods, err := b.cluster.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return m, err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; waits[p.Namespace] && p.DeletionTimestamp == nil {
			victims[p.Namespace] = p
		}
	}
	if err := prepare(victims); err != nil {
		return m, err
	}
	deployments, err := b.cluster.AppsV1().Deployments("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return m, err
	}
	defer deployments.Stop()
	podWatch, err := b.cluster.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	if err != nil {
		return m, err
	}
	defer podWatch.Stop()
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- do() }()
	unapplied, unready := waits, map[string]bool{}
	for ns := range waits {
		unready[ns] = true
	}
	for len(unapplied) > 0 || len(unready) > 0 || done != nil {
		var e watch.Event
		var open bool
		select {
		case e, open = <-deployments.ResultChan():
		case e, open = <-podWatch.ResultChan():
		case err := <-done:
			if done = nil; err != nil {
				return m, err
			}
			continue
		case <-ctx.Done():
			return m, fmt.Errorf("%s: %d of %d were never applied, %d never ready: %w", v.name, len(unapplied), len(spaces), len(unready), ctx.Err())
		}
		o, ok := e.Object.(metav1.Object)
		if !open || !ok {
			return m, errors.New("the watch ended")
		}
		ns := o.GetNamespace()
		if !unapplied[ns] && !unready[ns] {
			continue
		}
		applied, ready := v.shows(e.Object, e.Type == watch.Deleted, victims[ns])
		if applied && unapplied[ns] {
			delete(unapplied, ns)
			m.applied = time.Since(start)
		}
		if ready && unready[ns] {
			delete(unready, ns)
			m.ready = time.Since(start)
		}
	}
	return m, nil
}

// bareCrowd makes the change by a loop of a bare client, which goes the way that Jibe goes.
func (b *bench) bareCrowd(ctx context.Context, v verb, spaces []string, between *counter) (moments, error) {
	client, err := between.client()
	if err != nil {
		return moments{}, err
	}
	bare := &cluster{Clientset: client}
	nothing := func(map[string]*corev1.Pod) error { return nil }
	return b.meanwhile(ctx, v, spaces, nothing, func() error {
		return each(spaces, func(ns string) error { return v.bare(ctx, bare, ns) })
	})
}

// crowd is many instances of a server, one in each namespace. It reaches the cluster
// through the counter.
type crowd struct {
	*jibe
	kind    string
	spaces  []string
	between *counter
}

// change makes the change by one commit, and returns also when all of it was COMPLETED.
func (b *bench) change(ctx context.Context, c crowd, v verb) (m moments, completed time.Duration, err error) {
	if err := c.follow(ctx); err != nil {
		return m, 0, err
	}
	var start time.Time
	m, err = b.meanwhile(ctx, v, c.spaces, func(victims map[string]*corev1.Pod) error {
		return c.write(ctx, v, victims)
	}, func() error {
		c.between.take()
		start = time.Now()
		_, err := c.push(ctx)
		return err
	})
	if err != nil {
		return m, 0, fmt.Errorf("%s: %w; the server's log:\n%s", v.name, err, c.Log())
	}
	last, err := b.allEnded(ctx, c.jibe, c.kind, len(c.spaces))
	if err != nil {
		return m, 0, err
	}
	calls, _ := c.between.take()
	m.calls = sum(calls)
	return m, last.Sub(start), c.quiet(ctx, 5*time.Minute)
}

// write commits the change of all instances in the clone.
func (c crowd) write(ctx context.Context, v verb, victims map[string]*corev1.Pod) error {
	for i, ns := range c.spaces {
		id := instanceID(c.kind, i)
		name := desired.APIDir(id) + "/" + desired.InstanceFile
		text := c.vnf(id, "instantiated", onKubernetes(ns, 0))
		if v.commit != nil {
			was, err := os.ReadFile(filepath.Join(c.clone, name))
			if err != nil {
				return err
			}
			text = v.commit(c.jibe, string(was), victims[ns])
		}
		if err := c.jibe.write(name, text); err != nil {
			return err
		}
	}
	return commit(ctx, c.clone, "Change them all")
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

// beside makes the changes one after the other, in the same namespaces, first by the
// bare loop and then by Jibe, and prints both. It ends with nothing left in them.
func (b *bench) beside(ctx context.Context, c crowd, changes ...verb) error {
	bare := make([]moments, len(changes))
	for i, v := range changes {
		var err error
		if bare[i], err = b.bareCrowd(ctx, v, c.spaces, c.between); err != nil {
			return fmt.Errorf("bare loop: %w", err)
		}
	}
	if err := b.cluster.clear(ctx, c.spaces); err != nil {
		return err
	}
	for i, v := range changes {
		own, completed, err := b.change(ctx, c, v)
		if err != nil {
			return err
		}
		b.compare(len(c.spaces), v, own, completed, bare[i])
	}
	return b.terminate(ctx, c)
}

// compare prints both ways of one change.
func (b *bench) compare(n int, v verb, jibe moments, completed time.Duration, bare moments) {
	what := fmt.Sprintf("%5d %s", n, v.name)
	b.value(what+": bare loop, all applied", short(bare.applied), true, "", fmt.Sprintf("%d at once; all ready after %s", bareWorkers, short(bare.ready)))
	b.value(what+": one push -> all applied", short(jibe.applied), jibe.applied.Seconds() <= appliedLimit*bare.applied.Seconds(),
		fmt.Sprintf("<= %.2fx of the bare loop", appliedLimit), fmt.Sprintf("%s; %.1f calls an instance", ratio(jibe.applied.Seconds(), bare.applied.Seconds()), float64(jibe.calls)/float64(n)))
	b.value(what+": one push -> all ready", short(jibe.ready), jibe.ready.Seconds() <= readyLimit*bare.ready.Seconds(),
		fmt.Sprintf("<= %.2fx of the bare loop", readyLimit), fmt.Sprintf("%s; all COMPLETED after %s", ratio(jibe.ready.Seconds(), bare.ready.Seconds()), short(completed)))
	if v.name == verbs()[toCreate].name {
		b.headline(headline{"new instances", fmt.Sprintf("%d from one push: all applied, all ready", n), short(jibe.applied) + ", " + short(jibe.ready),
			fmt.Sprintf("a bare loop, %d at once: %s, %s", bareWorkers, short(bare.applied), short(bare.ready)),
			ratio(jibe.applied.Seconds(), bare.applied.Seconds()) + ", " + ratio(jibe.ready.Seconds(), bare.ready.Seconds())})
	}
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
