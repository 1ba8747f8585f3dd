package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/plan"
)

var errClosed = fmt.Errorf("%w: the driver is closed", drivers.ErrUnavailable)

// unavailableIn is the error where the context ended before an answer came.
func unavailableIn(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: no answer in time: %w", drivers.ErrUnavailable, ctx.Err())
}

// Observe implements [drivers.Driver]. It answers from the last snapshot that began after the
// last Do on the instance, and waits for one where there is none yet.
func (d *Driver) Observe(ctx context.Context, r drivers.Rendering) (plan.Observed, error) {
	id := r.Source.Instance.ID
	now, err := d.seenSince(ctx, id)
	if err != nil {
		return plan.Observed{}, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	v := view{instance: id, digests: map[string]string{}}
	for _, x := range r.Objects {
		v.digests[x.Key] = x.Digest
	}
	v.rendered, _ = templatesOf(r) // nothing of an instance that should not exist is outdated
	var o plan.Observed
	names := map[string]bool{}
	for _, s := range d.ofInstance(now, id, r.Desired) {
		if s.err != nil {
			return plan.Observed{}, fmt.Errorf("VIM %s: %w", d.vim.Name, s.err)
		}
		if names[s.Name] {
			o.Objects = append(o.Objects, v.duplicate(s))
			continue
		}
		names[s.Name] = true
		if s.deleted() {
			o.Objects = append(o.Objects, v.deleted(s))
			continue
		}
		v.stack(&o, s, d.changedByHand(s) || len(s.withoutAddress) > 0 && !s.busy())
	}
	return o, nil
}

// Instances implements [drivers.Surveyor] from the last snapshot. A stack that names no installation isn't provably this
// one's, so that its instance is left out.
func (d *Driver) Instances(ctx context.Context) ([]string, error) {
	now, err := d.seenSince(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	ids := make([]string, 0, len(now.stacks))
	for id, stacks := range now.stacks {
		if !slices.ContainsFunc(stacks, func(s *stack) bool { return s.tag(tagInstallation) != d.opts.Installation }) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

var _ drivers.Surveyor = (*Driver)(nil)

// ofInstance are the stacks of the instance: those whose tag or name says so, and those that
// have the name of a desired one.
func (d *Driver) ofInstance(now *snapshot, id string, want plan.Desired) []*stack {
	stacks := slices.Clone(now.stacks[id])
	for _, x := range want.Objects {
		name, _ := strings.CutPrefix(x.Key, "Stack/")
		for _, s := range now.stacks[strings.TrimPrefix(name, stackPrefix)] {
			if s.Name == name && !slices.Contains(stacks, s) {
				stacks = append(stacks, s)
			}
		}
	}
	return stacks
}

// view turns stacks into what the planner observes.
type view struct {
	instance string
	digests  map[string]string // of the desired objects
	rendered *hot.Rendered     // nil where nothing is desired
}

// stack adds the stack and all that is in it to o. One that drifted has no digest, so that it
// differs from any rendering.
func (v *view) stack(o *plan.Observed, s *stack, drifted bool) {
	x := plan.ObservedObject{
		Key: stackKey(s.Name), Incarnation: s.ID, Digest: s.tag(tagDigest), Count: -1, Passive: true,
		Ready: s.working() && !s.busy(), Deleting: s.deleting(), Retention: plan.RetainData,
		Generation: generationOf(s.generation(v.instance)), Created: s.CreationTime.UTC(),
		Data: s.hasData(),
	}
	if drifted {
		x.Digest = ""
	}
	switch {
	case s.Status == "DELETE"+failed:
		// Heat neither updates it nor goes on by itself: it is deleted again.
		x.Dead = s.Status + ": " + s.why()
	case s.failed():
		x.Stalled = s.Status + ": " + s.why()
	case s.inProgress():
		x.Reason = s.Status + s.waitsFor()
	case !x.Ready:
		x.Reason = s.Status + s.waitsFor()
	}
	for name, g := range s.groups {
		if g.failed() && !s.busy() && x.Stalled+x.Dead == "" {
			x.Ready, x.Stalled = false, fmt.Sprintf("%s: %s: %s", name, g.Status, short(g.StatusReason))
		}
	}
	x.Reason = cmp.Or(x.Reason, x.Stalled, x.Dead)
	desired := v.rendered != nil && v.digests[x.Key] != ""
	if desired {
		x.Counts = map[string]int{}
		for vdu, def := range v.rendered.VDUs {
			x.Counts[vdu] = s.live.capacity(def)
		}
	}
	o.Objects = append(o.Objects, x)
	parts := &stackParts{view: v, stack: s, object: x, desired: desired, suffix: s.generation(v.instance)}
	parts.units(o)
	parts.volumes(o)
	parts.links(o)
}

// duplicate is a stack with the name of another one, which is kept. Nobody desires the
// duplicate, and its servers are no VNFCs.
func (v *view) duplicate(s *stack) plan.ObservedObject {
	return plan.ObservedObject{
		Key: stackKey(s.Name) + "/" + s.ID, Incarnation: s.ID, Count: -1, Passive: true, Deleting: s.deleting(),
		Generation: generationOf(s.generation(v.instance)), Reason: s.Status, Created: s.CreationTime.UTC(), Data: s.hasData(),
	}
}

// hasData reports whether data are, or may be, lost with the stack: it has volumes, or servers to which Nova attached some,
// which may go with them.
func (s *stack) hasData() bool {
	if s.tree != nil && slices.ContainsFunc(s.tree.all, func(n *node) bool { return n.Type == typeVolume }) {
		return true
	}
	for _, x := range s.servers {
		if x != nil && (x.Image == "" || len(x.Volumes) > 0) {
			return true
		}
	}
	return false
}

// deleted is a stack of which nothing is left but its name.
func (v *view) deleted(s *stack) plan.ObservedObject {
	return plan.ObservedObject{
		Key: stackKey(s.Name), Incarnation: s.ID, Count: -1, Passive: true, Deleting: true,
		Generation: generationOf(s.generation(v.instance)),
		Reason:     s.Status + ", but Heat still lists it: if that stays so, delete stack " + s.ID + " again with OpenStack's client",
	}
}

// why is Heat's reason for a failure. The stack's own names the innermost resource; where it
// has none, that of the first resource that failed serves.
func (s *stack) why() string {
	if s.StatusReason != "" {
		return short(s.StatusReason)
	}
	for _, n := range s.tree.all {
		if strings.HasSuffix(n.Status, failed) {
			return short(n.Name + ": " + n.Reason)
		}
	}
	return "Heat gives no reason"
}

// waitsFor names the resources that are in progress.
func (s *stack) waitsFor() string {
	var names []string
	for _, n := range s.tree.all {
		if n.inProgress() && n.nested.id == "" {
			names = append(names, n.Name)
		}
	}
	const most = 5
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > most {
		names, more = names[:most], ", …"
	}
	return ": " + strings.Join(names, ", ") + more
}
