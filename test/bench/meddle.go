package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// meddling is one change by hand of what an instance has on the cluster.
type meddling struct {
	id, ns  string
	service bool // the Service is deleted; else the Deployment is scaled

	answered time.Time // by the API server
	back     time.Time // when a watch showed that all was as before
	wrong    bool      // a watch has shown the change
}

// put is how long it took until all was right again.
func (m *meddling) put() time.Duration { return max(0, m.back.Sub(m.answered)) }

// meddle does what people do with kubectl, on all at once, and returns when all of it
// was put back. replicas is how many each Deployment should have.
func (c *cluster) meddle(ctx context.Context, replicas int, all []*meddling) error {
	ns := metav1.NamespaceAll
	if len(all) == 1 {
		ns = all[0].ns
	}
	of := make(map[string]*meddling, len(all))
	for _, m := range all {
		of[m.ns] = m
	}
	events, stop, err := c.changes(ctx, ns)
	if err != nil {
		return err
	}
	defer stop()
	done := make(chan error, 1)
	go func() { done <- c.meddled(ctx, replicas, all) }()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for left, busy := len(all), true; left > 0 || busy; {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			busy = false
		case s := <-events:
			if m := of[namespaceOf(s.Object)]; m != nil && m.back.IsZero() && m.see(s, replicas) {
				left--
			}
		case <-limit.C:
			return fmt.Errorf("%d of %d changes by hand were never put back", left, len(all))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// meddled makes the changes, several at a time.
func (c *cluster) meddled(ctx context.Context, replicas int, all []*meddling) error {
	var g errgroup.Group
	g.SetLimit(bareWorkers)
	for _, m := range all {
		g.Go(func() (err error) {
			if m.service {
				err = c.CoreV1().Services(m.ns).Delete(ctx, workload, metav1.DeleteOptions{})
			} else {
				_, err = c.AppsV1().Deployments(m.ns).Patch(ctx, workload, types.MergePatchType,
					fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas+1), metav1.PatchOptions{FieldManager: "kubectl"}, "scale")
			}
			m.answered = time.Now()
			return err
		})
	}
	return g.Wait()
}

// see takes down what a watch showed, and says whether all is as before with it.
func (m *meddling) see(s sighting, replicas int) bool {
	right := false
	switch o := s.Object.(type) {
	case *appsv1.Deployment:
		if m.service {
			return false
		}
		right = s.Type != watch.Deleted && o.Spec.Replicas != nil && int(*o.Spec.Replicas) == replicas
	case *corev1.Service:
		if !m.service {
			return false
		}
		right = s.Type != watch.Deleted && o.DeletionTimestamp == nil && o.Spec.ClusterIP != "" && o.Spec.Selector["app"] == workload
	default:
		return false
	}
	if m.wrong = m.wrong || !right; m.wrong && right {
		m.back = s.at
	}
	return m.wrong && right
}

// changes are those of the Deployments and Services from now on. What is there already
// isn't shown: an API server that must tell a busy client of thousands of objects first
// may cut the watch.
func (c *cluster) changes(ctx context.Context, ns string) (events <-chan sighting, stop func(), err error) {
	now, err := c.CoreV1().Services(ns).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, nil, err
	}
	from := metav1.ListOptions{ResourceVersion: now.ResourceVersion}
	deployments, err := c.AppsV1().Deployments(ns).Watch(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	services, err := c.CoreV1().Services(ns).Watch(ctx, from)
	if err != nil {
		deployments.Stop()
		return nil, nil, err
	}
	w := follow(ctx, deployments, services)
	return w.events, w.stop, nil
}

func namespaceOf(o any) string {
	if m, ok := o.(metav1.Object); ok {
		return m.GetNamespace()
	}
	return ""
}

// repair is what a record says of an operation that nobody asked for.
type repair struct {
	State   string    `json:"operationState"`
	Entered time.Time `json:"stateEnteredTime"`
}

// repairs waits until n automatic operations are COMPLETED, and none is under way, and
// returns them. query narrows the search; it is a filter of SOL013 clause 5.2.
func (j *jibe) repairs(ctx context.Context, query string, n int) (all []repair, err error) {
	target := process.Operations + "?filter=" + url.QueryEscape("(eq,isAutomaticInvocation,true)"+query)
	err = kit.Poll(ctx, 5*time.Minute, func() error {
		if all, err = process.All[repair](ctx, j.Server, target); err != nil {
			return err
		}
		completed := 0
		for _, r := range all {
			if r.State == "COMPLETED" {
				completed++
			}
		}
		if completed < n || completed < len(all) {
			return fmt.Errorf("%d automatic operations are COMPLETED, of %d, want %d; the server's log:\n%s", completed, len(all), n, j.Log())
		}
		return nil
	})
	return all, err
}

// onEach puts one instance into each namespace, all in one commit, waits until they
// run, and says how far it is.
func (b *bench) onEach(ctx context.Context, j *jibe, kind string, spaces []string, level int) error {
	err := j.add(ctx, kind, 0, len(spaces), func(i int, id string) string {
		return j.vnf(id, "instantiated", onKubernetes(spaces[i], level, exposed))
	})
	if err != nil {
		return err
	}
	reported := time.Now()
	return j.scrape(ctx, 30*time.Minute, func(c counts) error {
		if c.completed >= len(spaces) {
			return nil
		}
		if time.Since(reported) > progressPause {
			reported = time.Now()
			b.progress("%d of %d instances run", c.completed, len(spaces))
		}
		return errors.New("not all instances run")
	})
}
