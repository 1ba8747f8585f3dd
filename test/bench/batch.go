package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/process"
)

// batch measures many new instances from one push, each in a namespace of its own, beside a bare loop that
// makes the same objects in the same namespaces.
func (b *bench) batch(ctx context.Context) error {
	most := slices.Max(b.batches)
	if err := b.cluster.room(ctx, 4*most); err != nil { // two pods each, and what is on its way out
		return err
	}
	spaces, err := b.spaces(ctx, "batch", most)
	if err != nil {
		return err
	}
	between, err := newCounter(b.cluster.kubeconfig)
	if err != nil {
		return err
	}
	defer between.close()
	j, err := b.start(ctx, "batch", map[string]string{"kube": between.vim()})
	if err != nil {
		return err
	}
	defer j.Kill()
	// The first instance brings up what the server and the cluster do only once.
	warm := crowd{j, "warm", spaces[:1], between}
	if _, _, err := b.create(ctx, warm); err != nil {
		return err
	}
	if err := b.terminate(ctx, warm); err != nil {
		return err
	}
	for _, n := range b.batches {
		if err := b.besideBare(ctx, crowd{j, strconv.Itoa(n), spaces[:n], between}); err != nil {
			return err
		}
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

// allEnded waits for the operations of the clone's last commit, one after the other,
// and returns when the last of them was COMPLETED.
func (b *bench) allEnded(ctx context.Context, j *jibe, kind string, n int) (last time.Time, err error) {
	commit, err := process.Git(ctx, j.clone, "rev-parse", "HEAD")
	if err != nil {
		return last, err
	}
	for i := range n {
		at, err := j.ended(ctx, lcm.OperationID(commit, instanceID(kind, i)))
		if err != nil {
			return last, err
		}
		if at.After(last) {
			last = at
		}
	}
	return last, nil
}
