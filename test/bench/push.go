package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/process"
)

const showLimit = 60 * time.Millisecond

// target is the one instance on Kubernetes that is changed.
type target struct {
	*jibe
	id, ns string
	level  int
}

// onCluster starts a server with one instance on the cluster, which runs.
func (b *bench) onCluster(ctx context.Context, name string) (*target, error) {
	ns, err := b.cluster.namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := b.cluster.usable(ctx, ns); err != nil {
		return nil, err
	}
	j, err := b.start(ctx, name, map[string]string{"sim": simVIM, "kube": b.cluster.vim()})
	if err != nil {
		return nil, err
	}
	t := &target{jibe: j, id: instanceID(name, 0), ns: ns}
	if err = t.commitLevel(ctx, 0); err == nil {
		_, err = t.push(ctx)
	}
	if err == nil {
		err = t.settle(ctx, "")
	}
	if err != nil {
		j.Kill()
		return nil, err
	}
	return t, nil
}

// onKubernetes is what an instance of the package on the cluster has in its vnf.yaml.
func onKubernetes(ns string, level int, more ...string) string {
	files := strings.Join(append([]string{manifest}, more...), ", ")
	return fmt.Sprintf("vim: kube\nlevels: {web: %d}\nparams:\n  namespace: %s\n  lcm-kubernetes-def-files: [%s]\n", level, ns, files)
}

// commitLevel commits a scale level in the clone, as a person would.
func (t *target) commitLevel(ctx context.Context, level int) error {
	t.level = level
	name := desired.APIDir(t.id) + "/" + desired.InstanceFile
	if err := t.write(name, t.vnf(t.id, "instantiated", onKubernetes(t.ns, level))); err != nil {
		return err
	}
	return commit(ctx, t.clone, fmt.Sprintf("Scale to level %d", level), name)
}

// scaleRequest asks for the other level by SOL003 and returns when 202 was there.
func (t *target) scaleRequest(ctx context.Context) (asked, answered time.Time, operation string, err error) {
	typ := "SCALE_OUT"
	if t.level == 1 {
		typ = "SCALE_IN"
	}
	t.level = 1 - t.level
	asked = time.Now()
	a, err := t.Do(ctx, http.MethodPost, process.Instances+"/"+t.id+"/scale", map[string]any{"type": typ, "aspectId": "web"})
	answered = time.Now()
	if err == nil && a.Status != http.StatusAccepted {
		err = fmt.Errorf("scale: %d: %s", a.Status, a.Body)
	}
	if err != nil {
		return asked, answered, "", err
	}
	return asked, answered, a.Header.Get("Location"), nil
}

// settle waits for the end of an operation; "" is that of the clone's last commit.
func (t *target) settle(ctx context.Context, operation string) (err error) {
	if operation == "" {
		commit, err := process.Git(ctx, t.clone, "rev-parse", "HEAD")
		if err != nil {
			return err
		}
		operation = lcm.OperationID(commit, t.id)
	}
	_, err = t.ended(ctx, operation)
	return err
}

// push measures how long after a push, and after a 202, the API server shows the new
// replicas, in repositories of several sizes.
func (b *bench) push(ctx context.Context) error {
	t, err := b.onCluster(ctx, "push")
	if err != nil {
		return err
	}
	defer t.Kill()
	bare, err := b.bare(ctx, "bare-push")
	if err != nil {
		return err
	}
	plain := filepath.Join(b.tmp, "plain.git")
	if _, err := process.Git(ctx, b.tmp, "clone", "--quiet", "--bare", t.Desired(), plain); err != nil {
		return err
	}
	have := 1
	for _, size := range b.sizes {
		if size > have {
			if err := t.fill(ctx, have, size, "notInstantiated"); err != nil {
				return err
			}
			have = size
		}
		if err := t.known(ctx, have, 5*time.Minute); err != nil {
			return err
		}
		if _, err := process.Git(ctx, t.clone, "push", "--quiet", "--force", plain, "HEAD:refs/heads/main"); err != nil {
			return err
		}
		if err := b.pushes(ctx, t, plain, bare, have); err != nil {
			return err
		}
		if err := b.requests(ctx, t, have); err != nil {
			return err
		}
	}
	return t.Stop()
}

// pushes are measured beside a push to a plain repository, and a patch by a bare client in a namespace of
// its own.
func (b *bench) pushes(ctx context.Context, t *target, plain, ns string, size int) error {
	var shown, pushed, whole, bare, patched times
	early := 0
	for range b.samples {
		if err := t.follow(ctx); err != nil {
			return err
		}
		if err := t.commitLevel(ctx, 1-t.level); err != nil {
			return err
		}
		start := time.Now()
		if _, err := process.Git(ctx, t.clone, "push", "--quiet", "--force", plain, "HEAD:refs/heads/main"); err != nil {
			return err
		}
		bare = append(bare, time.Since(start))
		w, err := b.cluster.watch(ctx, t.ns)
		if err != nil {
			return err
		}
		start = time.Now()
		returned, err := t.push(ctx)
		if err != nil {
			return err
		}
		at, err := w.until(ctx, func(v *view) bool { return v.shows(t.level + 1) })
		if err != nil {
			return err
		}
		w.stop()
		pushed, whole = append(pushed, returned.Sub(start)), append(whole, at.Sub(start))
		if at.Before(returned) {
			early++
			at = returned
		}
		shown = append(shown, at.Sub(returned))
		if err := t.settle(ctx, ""); err != nil {
			return err
		}
		took, err := b.barePatch(ctx, ns)
		if err != nil {
			return err
		}
		patched = append(patched, took)
	}
	b.latency(fmt.Sprintf("%5d instances: push returned -> replicas at the API server", size), shown, showLimit,
		fmt.Sprintf("%d of %d were there before", early, len(shown)))
	b.latency(fmt.Sprintf("%5d instances: git push itself, checked by the hook", size), pushed, 0,
		fmt.Sprintf("%s of a push to a plain bare repository: p50 %s (neither hook nor fsync)", ratio(float64(pushed.median()), float64(bare.median())), short(bare.median())))
	b.latency(fmt.Sprintf("%5d instances: limit: a patch by a bare client -> replicas at the API server", size), patched, 0, "")
	least := bare.median() + patched.median()
	b.headline(headline{"commit to applied", fmt.Sprintf("%d instances: git push -> the change is at the API server, p50", size), short(whole.median()),
		fmt.Sprintf("a push to a plain repository, and a bare client's patch: p50 %s + %s", short(bare.median()), short(patched.median())), ratio(float64(whole.median()), float64(least))})
	return nil
}

// barePatch is how long a bare client's patch, to two replicas or to one, takes until a watch shows it.
func (b *bench) barePatch(ctx context.Context, ns string) (time.Duration, error) {
	w, err := b.cluster.watch(ctx, ns)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	if _, err := w.until(ctx, func(v *view) bool { return v.deployment != nil }); err != nil {
		return 0, err
	}
	replicas := 2
	if w.shows(replicas) {
		replicas = 1
	}
	start := time.Now()
	if err := b.cluster.scale(ctx, ns, replicas); err != nil {
		return 0, err
	}
	at, err := w.until(ctx, func(v *view) bool { return v.shows(replicas) })
	return at.Sub(start), err
}

func (b *bench) requests(ctx context.Context, t *target, size int) error {
	var shown, answered times
	early := 0
	for range b.samples {
		w, err := b.cluster.watch(ctx, t.ns)
		if err != nil {
			return err
		}
		asked, returned, location, err := t.scaleRequest(ctx)
		if err != nil {
			return err
		}
		at, err := w.until(ctx, func(v *view) bool { return v.shows(t.level + 1) })
		if err != nil {
			return err
		}
		w.stop()
		answered = append(answered, returned.Sub(asked))
		if at.Before(returned) {
			early++
			at = returned
		}
		shown = append(shown, at.Sub(returned))
		if err := t.settle(ctx, location); err != nil {
			return err
		}
	}
	b.latency(fmt.Sprintf("%5d instances: 202 -> replicas at the API server", size), shown, showLimit,
		fmt.Sprintf("%d of %d were there before; 202 itself p50 %s", early, len(shown), short(answered.median())))
	return nil
}
