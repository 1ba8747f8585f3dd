package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/reconciler/plan"
)

// Verify dry-runs what would be applied. What stands in a namespace, or is of a
// kind, that comes with the same steps can't be asked about yet and is left out;
// of a change of numbers there is nothing to ask.
func (d *Driver) Verify(ctx context.Context, src drivers.Source, steps ...plan.Step) error {
	r, err := d.renderFor(src, steps)
	if err != nil {
		return err
	}
	coming := map[string]bool{}
	defined := map[schema.GroupKind]bool{}
	for _, s := range steps {
		gk, _, name, _ := splitKey(s.Object)
		if s.Action != plan.Apply {
			continue
		}
		switch obj := r.objects[s.Object]; {
		case gk == kindNamespace:
			coming[name] = true
		case gk == kindCRD && obj != nil:
			kind, _ := definition(obj)
			defined[kind] = true
		}
	}
	var calls []func() error
	for _, s := range steps {
		gk, namespace, _, ok := splitKey(s.Object)
		if !ok || s.Action != plan.Apply || coming[namespace] || defined[gk] {
			continue
		}
		calls = append(calls, func() error {
			return again(ctx, func() error { return d.dryRun(ctx, src, r, s) })
		})
	}
	if err := together(calls); err != nil {
		return fmt.Errorf("instance %s at VIM %s: %w", src.Instance.ID, d.vim.Name, err)
	}
	return nil
}

// A webhook that denies now and then would never let all objects pass at one look,
// as every look asks about all of them: what it denies is asked once more, soon.
const (
	askAgain   = 4
	askedPause = 50 * time.Millisecond
)

// again repeats ask while the answer is no that may pass.
func again(ctx context.Context, ask func() error) error {
	for n := 1; ; n++ {
		err := ask()
		var refused *drivers.RefusedError
		if n > askAgain || !errors.As(err, &refused) || !refused.MayPass {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(n) * askedPause):
		}
	}
}

func (d *Driver) dryRun(ctx context.Context, src drivers.Source, r *render, s plan.Step) error {
	obj, gk, err := sized(r, s)
	if err != nil {
		return err
	}
	api, obj, err := d.resource(obj, gk, s.Object)
	if err != nil {
		return d.unknownKind(gk, s.Object, err)
	}
	instance := src.Instance.ID
	answer, err := d.patch(ctx, api, obj, true)
	if err != nil {
		// What the server finds wrong with a change of somebody else's object ("field
		// is immutable") isn't what is wrong.
		if !d.mine(gk, s.Object, instance) && !infoOf(gk).shared {
			var refused *drivers.RefusedError
			if owner := d.checkOwner(ctx, api, obj, s.Object, instance); errors.As(owner, &refused) {
				return owner
			}
		}
		return fmt.Errorf("dry run of %s: %w", s.Object, classify(s.Object, err))
	}
	if d.mine(gk, s.Object, instance) || infoOf(gk).shared {
		return nil
	}
	// What would be created has no version yet; what has one exists already.
	if answer.GetResourceVersion() != "" {
		return d.checkOwner(ctx, api, obj, s.Object, instance)
	}
	d.verified.add(instance + " " + s.Object)
	return nil
}

// defined says whether a definition of the kind is known to the watches.
func (c *cache) defined(gk schema.GroupKind) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k := c.kinds[kindCRD]
	if k == nil {
		return false
	}
	for _, f := range k.facts {
		if f.defines == gk {
			return true
		}
	}
	return false
}

// recent remembers names for a short time: what Verify found free, Do needn't
// look at again.
type recent struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// recentFor is short, as the world moves on.
const recentFor = 10 * time.Second

func newRecent() *recent { return &recent{until: map[string]time.Time{}} }

func (r *recent) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.until) > 4096 {
		for n, t := range r.until {
			if t.Before(now) {
				delete(r.until, n)
			}
		}
	}
	r.until[name] = now.Add(recentFor)
}

// take says whether the name was added lately, and forgets it.
func (r *recent) take(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.until[name]
	delete(r.until, name)
	return ok && time.Now().Before(t)
}
