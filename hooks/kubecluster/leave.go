package kubecluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// briefly bounds how long the nodes of a scale-out that is rolled back are drained: they have
// just come, and they go in any case.
const briefly = 30 * time.Second

// leave serves scale_start and heal_start: the pods of the machines that are to go move away,
// then the nodes are deleted, either all of them or none.
func (d *driver) leave(ctx context.Context) error {
	removed := d.of(d.in.Removed)
	if len(removed) == 0 {
		return nil // nothing goes, or it is no part of the cluster
	}
	gone, _ := part(removed)
	if len(gone) > 0 && len(d.masters()) == 0 {
		return fmt.Errorf("%s is the only master of the cluster: it can't be taken out, as the cluster's data would go with it; "+
			"terminate and instantiate the VNF, or restore the machine by hand", gone[0])
	}
	c, err := d.find(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.evicts(); err != nil {
		return err
	}
	victims, err := d.victims(ctx, c, removed)
	if err != nil {
		return err
	}
	// All of them first: a pod that leaves one must not go to the next.
	if err := d.cordonAll(ctx, c, victims); err != nil {
		return err
	}
	if err := d.drainAll(ctx, c, victims); err != nil {
		return err
	}
	if err := d.unbalance(ctx, victims); err != nil {
		return err
	}
	if err := each(victims, d.Parallel, func(v victim) error { return d.expel(ctx, c, v) }); err != nil {
		return err
	}
	d.message = fmt.Sprintf("%s left the cluster", counted(len(victims), "node"))
	return nil
}

// victim is a machine that goes, with its node.
type victim struct {
	machine
	node *corev1.Node
}

// victims returns those of the machines that have a node.
func (d *driver) victims(ctx context.Context, c *cluster, removed []machine) ([]victim, error) {
	nodes, err := c.nodes(ctx)
	if err != nil {
		return nil, err
	}
	var all []victim
	for _, m := range removed {
		n := d.nodeOf(m, nodes)
		if n == nil {
			d.say("%s: has no node in the cluster", m)
			if name := d.noted(m.Name); name != "" && m.isMaster() && !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == name }) {
				// Its etcd may still count.
				all = append(all, victim{machine: m, node: &corev1.Node{}})
				all[len(all)-1].node.Name = name
			}
			continue
		}
		all = append(all, victim{machine: m, node: n})
	}
	return all, nil
}

func (d *driver) cordonAll(ctx context.Context, c *cluster, victims []victim) error {
	k := &cordoner{cluster: c, operation: d.in.Operation.ID}
	return each(victims, d.Parallel, func(v victim) error {
		if err := k.cordon(ctx, v.node); err != nil {
			return err
		}
		d.say("%s: its node %s takes no more pods", v.machine, v.node.Name)
		return nil
	})
}

// drainAll moves the pods of all away.
func (d *driver) drainAll(ctx context.Context, c *cluster, victims []victim) error {
	limited, cancel := context.WithTimeout(ctx, d.DrainTime)
	defer cancel()
	// All of them at once: those that waited for a turn would lose the time for it.
	err := each(victims, max(len(victims), 1), func(v victim) error {
		if isReady(v.node) {
			if err := d.drain(limited, c, v.node.Name, true); !errors.Is(err, errDown) {
				return err
			}
		}
		d.say("node %s isn't Ready: its pods get %s", v.node.Name, d.ForceAfter)
		return d.clearDead(ctx, c, v.node.Name)
	})
	if err != nil {
		return fmt.Errorf("%w; no node was deleted, and no machine removed (drain_timeout is %s). "+
			"Let the pods go (more replicas, or a budget that allows it) and retry, or roll back", err, d.DrainTime)
	}
	return nil
}

// expel removes a node from the cluster, and a master from etcd.
func (d *driver) expel(ctx context.Context, c *cluster, v victim) error {
	if v.isMaster() {
		if err := d.removeMember(ctx, c, v.node.Name); err != nil {
			return err
		}
	}
	if err := c.deleteNode(ctx, v.node.Name); err != nil {
		return err
	}
	d.note(&d.left.Deleted, v.Name, v.node.Name)
	d.say("%s: its node %s is deleted", v.machine, v.node.Name)
	return nil
}

// removeTries is how often a master is taken out of etcd.
const removeTries = 3

// removeMember has a master that stays take another one out of etcd. The API server beside the
// member that goes cuts its connections, and the script's may be one of them, as balancers lead to any
// API server: it is run again, and finds done what is done.
func (d *driver) removeMember(ctx context.Context, c *cluster, node string) error {
	for try := 1; ; try++ {
		err := d.install(ctx, time.Now().Add(d.JoinTime), c.master, "remove-member", map[string]string{"JIBE_K8S_NODE_NAME": node})
		if err == nil || try == removeTries || ctx.Err() != nil {
			return err
		}
		d.say("%v: once more", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lostPause):
		}
	}
}

// takeBack begins a rollback: the nodes that came go again, and those that were to go stay.
func (d *driver) takeBack(ctx context.Context) error {
	added, removed := d.of(d.in.Added), d.of(d.in.Removed)
	if len(added)+len(removed) == 0 {
		return nil
	}
	c, err := d.find(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	d.removeToken(ctx, c)
	if err := d.undoJoins(ctx, c, added); err != nil {
		return err
	}
	return d.undoLeaves(ctx, c, removed)
}

// undoJoins removes nodes that have come. Their pods get a moment.
func (d *driver) undoJoins(ctx context.Context, c *cluster, added []machine) error {
	victims, err := d.victims(ctx, c, added)
	if err != nil || len(victims) == 0 {
		return err
	}
	if err := d.cordonAll(ctx, c, victims); err != nil {
		return err
	}
	if err := d.unbalance(ctx, victims); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, min(briefly, d.DrainTime))
	defer cancel()
	return each(victims, len(victims), func(v victim) error {
		if err := d.drain(limited, c, v.node.Name, false); err != nil {
			d.say("%v; it goes all the same", err)
		}
		if err := d.expel(ctx, c, v); err != nil {
			return err
		}
		d.note(&d.left.Undone, v.Name, v.node.Name)
		d.forget(d.left.Joined, v.Name)
		return nil
	})
}

// undoLeaves lets pods come again to nodes that were to go.
func (d *driver) undoLeaves(ctx context.Context, c *cluster, removed []machine) error {
	nodes, err := c.nodes(ctx)
	if err != nil {
		return err
	}
	k := &cordoner{cluster: c, operation: d.in.Operation.ID}
	return each(removed, d.Parallel, func(m machine) error {
		n := d.nodeOf(m, nodes)
		if n == nil {
			return nil // restore has it join again
		}
		if err := k.uncordon(ctx, n); err != nil {
			return err
		}
		d.say("%s: its node %s takes pods again", m, n.Name)
		return nil
	})
}

// restore ends a rollback: machines that are there and whose nodes were deleted join again,
// and so do those that were made in the place of machines that went. Nodes of machines that
// are gone are deleted.
func (d *driver) restore(ctx context.Context) error {
	added, removed := d.of(d.in.Added), d.of(d.in.Removed)
	var back []machine
	for _, m := range removed {
		if m.Ready {
			back = append(back, m)
		}
	}
	for _, m := range added {
		if len(removed) > 0 && d.left.Undone[m.Name] == "" && m.Ready {
			back = append(back, m)
		}
	}
	if len(back)+len(added)+len(d.left.Undone) == 0 {
		return nil
	}
	c, err := d.find(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if err := d.undoJoins(ctx, c, slices.DeleteFunc(added, func(m machine) bool {
		return slices.ContainsFunc(back, func(b machine) bool { return b.ID == m.ID })
	})); err != nil {
		return err
	}
	for _, name := range d.left.Undone {
		// A kubelet that was slow to go may have made it again.
		if err := c.deleteNode(ctx, name); err != nil {
			return err
		}
	}
	if err := d.undoLeaves(ctx, c, removed); err != nil {
		return err
	}
	return d.rejoin(ctx, c, back)
}

// rejoin has machines join again whose nodes were deleted. It resets them first, as a kubelet
// doesn't register twice.
func (d *driver) rejoin(ctx context.Context, c *cluster, back []machine) error {
	nodes, err := c.nodes(ctx)
	if err != nil {
		return err
	}
	back = slices.DeleteFunc(back, func(m machine) bool { return d.nodeOf(m, nodes) != nil })
	if len(back) == 0 {
		return nil
	}
	err = each(back, d.Parallel, func(m machine) error {
		return d.install(ctx, time.Now().Add(d.JoinTime), m, "reset", map[string]string{"JIBE_K8S_NODE_ADDRESS": m.nodeAddress()})
	})
	if err != nil {
		return err
	}
	if err := d.rebalance(ctx, back); err != nil {
		return err
	}
	return d.joinAll(ctx, c, back)
}
