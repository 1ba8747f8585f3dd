package openstack

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
)

// update does the work on a stack that exists. While other work on the stack is under way, it
// fails with [drivers.ErrUnavailable]; while this very work is, it has nothing to do.
func (d *Driver) update(ctx context.Context, r drivers.Rendering, w *work, found *stackRecord) error {
	rendered, err := templatesOf(r)
	if err != nil {
		return err
	}
	onlyApply := w.apply && len(w.counts)+len(w.dead)+len(w.renew)+len(w.volumes) == 0
	if onlyApply && found.inProgress() && found.tag(tagDigest) == rendered.Digest && found.tag(tagInstance) == r.Source.Instance.ID {
		return nil // it is under way
	}
	p, err := d.fetch(ctx, found)
	if err != nil {
		return err
	}
	c := p.compare(rendered, w)
	if c.nothing() && !w.apply {
		return nil
	}
	if len(c.deleteFirst) > 0 {
		if p.busy() {
			return busyWith(found)
		}
		return d.deleteServers(ctx, c.deleteFirst...) // they still count as dead then, and the next pass replaces them
	}
	live := hot.Live{Template: p.live.Template, Files: p.live.Files, Parameters: p.live.Parameters, Members: c.members}
	c.want.Together = w.apply && r.Source.Instance.Update.AllAtOnce
	if !w.apply && c.onlyGroups(live, rendered) {
		if done, err := d.renewInGroups(ctx, w, p, c, live, rendered); done || err != nil {
			return err
		}
		// Heat is asked what it makes of the groups' new definitions, and the next pass renews.
		c.want.Renew = nil
	}
	body, err := rendered.Update(live, c.want)
	if err != nil {
		return &drivers.RefusedError{Object: stackKey(w.name), Reason: err.Error()}
	}
	return d.updateWhole(ctx, r, rendered, w, found, p, c, body)
}

// updateWhole sends Heat the stack's new body, unless that is what Heat has or works on.
func (d *Driver) updateWhole(ctx context.Context, r drivers.Rendering, rendered *hot.Rendered, w *work, found *stackRecord, p *present, c *composed, body *hot.Body) error {
	instance := r.Source.Instance.ID
	send, err := d.send(instance, rendered, body)
	if err != nil {
		return err
	}
	now, err := p.live.hash()
	if err != nil {
		return err
	}
	sent, err := (&liveBody{Template: body.Template, Files: body.Files, Parameters: body.Parameters}).hash()
	if err != nil {
		return err
	}

	same := now == sent && found.tag(tagBody) == sent && found.tag(tagDigest) == rendered.Digest && found.tag(tagInstance) == instance
	marked := !slices.ContainsFunc(c.mark, func(n *node) bool { return !n.marked() })
	switch {
	case p.busy() && same && marked:
		return nil // it is under way
	case p.busy():
		return busyWith(found)
	case same && len(c.mark) == 0 && !found.failed():
		return nil
	}
	if found.failed() {
		if err := d.deleteForgotten(ctx, instance, p); err != nil {
			return err
		}
	}
	if err := d.mark(ctx, c.mark); err != nil {
		return err
	}
	err = d.cloud.updateStack(ctx, p.id(), send, body.Existing)
	return d.updated(ctx, w.name, p.id(), err)
}

func busyWith(found *stackRecord) error {
	return fmt.Errorf("%w: Heat works on it (%s), which must end first", drivers.ErrUnavailable, found.Status)
}

// updated notes the update of the stack as one of this process, if Heat took it.
func (d *Driver) updated(ctx context.Context, name string, id stackID, err error) error {
	switch {
	case is(err, http.StatusNotFound):
		return d.cloud.asUnavailable(err) // it went meanwhile, and is observed again
	case err != nil:
		return d.refused(stackKey(name), err)
	}
	now, err := d.cloud.findStack(ctx, id)
	if now != nil {
		d.known.put(now.ID, now.UpdatedTime)
	}
	return err
}

// mark has Heat make the resources anew in its next update.
func (d *Driver) mark(ctx context.Context, nodes []*node) error {
	for _, n := range nodes {
		if n.marked() {
			continue
		}
		err := d.cloud.markUnhealthy(ctx, n.stack, n.Name)
		if is(err, http.StatusNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("mark %s: %w", n.Name, d.cloud.asUnavailable(err))
		}
	}
	return nil
}

// composed is what remains of the work, given what the stack is now.
type composed struct {
	members map[string][]hot.Member
	want    hot.Want
	mark    []*node // resources to mark unhealthy before, for Heat to make them anew
	renewed []*node // servers
	// deleteFirst are the ids of servers that must be gone before Heat can make successors.
	deleteFirst []string
}

func (c *composed) nothing() bool {
	return len(c.mark)+len(c.renewed)+len(c.want.Counts)+len(c.want.Victims) == 0
}

// compare finds what of the work is still to be done.
func (p *present) compare(rendered *hot.Rendered, w *work) *composed {
	c := &composed{members: p.members(rendered), want: hot.Want{Counts: map[string]int{}, Victims: map[string][]string{}, Renew: map[string][]string{}}}
	for n := range p.unitsOf(w.victims) {
		vdu := p.vdu(n)
		c.want.Victims[vdu] = append(c.want.Victims[vdu], n.memberName())
		if n.grouped() {
			c.mark = append(c.mark, n.member())
		}
	}
	p.compareCounts(c, rendered, w)
	for n := range p.unitsOf(w.dead) {
		c.mark = append(c.mark, n)
		if v := p.servers[n.Physical]; v != nil && (v.Status == "ERROR" || v.Image == "") {
			c.deleteFirst = append(c.deleteFirst, n.Physical)
		}
	}
	for _, n := range p.tree.all {
		if n.Type == typeVolume && w.volumes[n.Physical] || n.Type == typePort && p.withoutAddress[n.Physical] {
			c.mark = append(c.mark, n)
		}
	}
	for n := range p.unitsOf(w.renew) {
		vdu := p.vdu(n)
		def, server := rendered.VDUs[vdu], p.servers[n.Physical]
		if def == nil || server != nil && server.Metadata[hot.MetaDigest] == def.Digest {
			continue
		}
		c.renewed = append(c.renewed, n)
		c.want.Renew[vdu] = append(c.want.Renew[vdu], n.memberName())
	}
	return c
}

// compareCounts says how many members groups are to have, where that is to be said.
func (p *present) compareCounts(c *composed, rendered *hot.Rendered, w *work) {
	for vdu, n := range w.counts {
		if len(c.members[vdu]) != n || p.live.capacity(rendered.VDUs[vdu]) != n {
			c.want.Counts[vdu] = n
		}
	}
	if !w.apply {
		return
	}
	for vdu, def := range rendered.VDUs { // the capacity stays as it is, also where Heat has not made all of it yet
		if _, ok := c.want.Counts[vdu]; !ok && len(c.members[vdu]) > 0 {
			c.want.Counts[vdu] = max(p.live.capacity(def), len(c.members[vdu])-len(c.want.Victims[vdu]))
		}
	}
}

// unitsOf are those of the incarnations that are there, in their order.
func (p *present) unitsOf(incarnations map[string]bool) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for _, id := range slices.Sorted(maps.Keys(incarnations)) {
			if n := p.unit(id); n != nil && !yield(n) {
				return
			}
		}
	}
}

// onlyGroups says whether all that remains is to renew members of groups, in a way that the
// groups' own stacks can take.
func (c *composed) onlyGroups(live hot.Live, rendered *hot.Rendered) bool {
	if len(c.renewed) == 0 || len(c.mark)+len(c.want.Counts)+len(c.want.Victims) > 0 {
		return false
	}
	for vdu, names := range c.want.Renew {
		if rendered.ThroughTop(live, vdu, names...) {
			return false
		}
	}
	return true
}

// renewInGroups updates the groups' own stacks. It returns false where Heat has yet to be asked
// for a part of the new definition.
func (d *Driver) renewInGroups(ctx context.Context, w *work, p *present, c *composed, top hot.Live, rendered *hot.Rendered) (bool, error) {
	for _, vdu := range slices.Sorted(maps.Keys(c.want.Renew)) {
		i := slices.IndexFunc(c.renewed, func(n *node) bool { return p.vdu(n) == vdu })
		group := c.renewed[i].member().parent.nested
		live, err := d.cloud.body(ctx, group)
		if err != nil {
			return false, d.cloud.asUnavailable(err)
		}
		var outputs map[string]any
		if rendered.NeedsHeat(vdu) {
			if outputs, err = d.cloud.outputs(ctx, p.id()); err != nil {
				return false, d.cloud.asUnavailable(err)
			}
		}
		members := map[string][]hot.Member{vdu: c.members[vdu]}
		body, err := rendered.RenewInGroup(vdu, hot.Live{Template: live.Template, Files: live.Files, Members: members}, outputs, c.want.Renew[vdu]...)
		if err != nil {
			return false, &drivers.RefusedError{Object: stackKey(w.name), Reason: err.Error()}
		}
		if body == nil {
			if !p.busy() && rendered.Asks(vdu, top) {
				return false, &drivers.RefusedError{Object: stackKey(w.name), Reason: fmt.Sprintf(
					"Heat doesn't resolve what the group of VDU %s passes to its members (the stack's output jibe_next has no value): see that what the properties of its resource refer to in %s exists", vdu, rendered.Top)}
			}
			return false, nil
		}
		if p.busy() {
			if sameTemplate(live.Template, body.Template) {
				continue // it is under way
			}
			return false, busyWith(&p.stackRecord)
		}
		err = d.cloud.updateStack(ctx, group, stackRequest{
			"template": body.Template, "files": nonNil(body.Files), "parameters": nonNil(body.Parameters), "timeout_mins": d.minutes(),
		}, true)
		if is(err, http.StatusNotFound) {
			return false, d.cloud.asUnavailable(err) // the group went meanwhile, and is observed again
		}
		if err != nil {
			return false, d.refused(stackKey(w.name), err)
		}
	}
	return true, nil
}

func sameTemplate(a, b map[string]any) bool {
	x, err := plain(a)
	y, err2 := plain(b)
	return err == nil && err2 == nil && reflect.DeepEqual(x, y)
}
