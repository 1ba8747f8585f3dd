package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

const driftLimit = 150 * time.Millisecond

// drift measures how long after a change by hand the API server shows again what git
// says, one change at a time, beside a bare client that watches a workload of its own and puts it back. Each instance is meddled with once in each way: what drifts
// again and again is put back with growing pauses.
func (b *bench) drift(ctx context.Context) (err error) {
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
	bare, err := b.bare(ctx, "bare-drift")
	if err != nil {
		return err
	}
	keeper, err := b.cluster.keep(ctx, bare)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keeper()) }()
	for done, way := range []struct {
		name    string
		service bool
	}{{"kubectl scale of a Deployment", false}, {"kubectl delete of a Service", true}} {
		var put, ended, kept times
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
			m = &meddling{ns: bare, service: way.service}
			if err := b.cluster.meddle(ctx, 1, []*meddling{m}); err != nil {
				return fmt.Errorf("%s, at a bare client: %w", way.name, err)
			}
			kept = append(kept, m.put())
		}
		b.latency(way.name+": answered -> put back", put, driftLimit, "")
		b.latency("  until the automatic operation is COMPLETED", ended, 0, "")
		b.latency("  limit: put back by a bare client that watches", kept, 0, "Jibe: "+ratio(float64(put.median()), float64(kept.median())))
		if !way.service {
			b.headline(headline{"drift repair", way.name + ": answered -> put back, p50", short(put.median()), "a bare client that watches: p50 " + short(kept.median()), ratio(float64(put.median()), float64(kept.median()))})
		}
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

// keep has a bare client put back what somebody changes in a namespace that has one replica of the workload, as
// soon as a watch shows it. stop ends that, and says what it couldn't put back.
func (c *cluster) keep(ctx context.Context, ns string) (stop func() error, err error) {
	if err := c.expose(ctx, ns); err != nil {
		return nil, err
	}
	events, end, err := c.changes(ctx, ns)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.putBack(ctx, ns, events) }()
	return func() error {
		cancel()
		end()
		return <-done
	}, nil
}

func (c *cluster) putBack(ctx context.Context, ns string, events <-chan sighting) error {
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case s := <-events:
			switch o := s.Object.(type) {
			case *appsv1.Deployment:
				if s.Type != watch.Deleted && o.Spec.Replicas != nil && *o.Spec.Replicas != 1 {
					err = c.scale(ctx, ns, 1)
				}
			case *corev1.Service:
				if s.Type == watch.Deleted {
					err = c.expose(ctx, ns)
				}
			}
		}
		if err != nil {
			return fmt.Errorf("put back by a bare client in %s: %w", ns, err)
		}
	}
}

// expose gives the workload its Service.
func (c *cluster) expose(ctx context.Context, ns string) error {
	text := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"selector":{"app":"web"},"ports":[{"name":"http","port":80}]}}`
	_, err := c.CoreV1().Services(ns).Patch(ctx, workload, types.ApplyPatchType, []byte(text), metav1.PatchOptions{FieldManager: "bench", Force: new(true)})
	return err
}
