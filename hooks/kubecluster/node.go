package kubecluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// annotationCordoned marks a node that this driver has cordoned, with the operation's id,
// so that one which somebody else has cordoned stays so.
const annotationCordoned = "vnf.jibe.dev/cordoned-by"

// pollPause is between two looks at something that is waited for.
const pollPause = time.Second

// ready says whether a node is Ready, and why not.
func ready(n *corev1.Node) (bool, string) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.Reason + ": " + c.Message
		}
	}
	return false, "its kubelet has said nothing yet"
}

// has says whether a node is at an address.
func has(n *corev1.Node, address string) bool {
	return address != "" && slices.Contains(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
}

// nodeOf returns a machine's node, nil where it has none: the one at its address, or where the
// machine has none by now, the one whose name is noted.
func (d *driver) nodeOf(m machine, nodes []corev1.Node) *corev1.Node {
	noted := d.noted(m.Name)
	var there *corev1.Node
	for i := range nodes {
		n := &nodes[i]
		switch {
		case has(n, m.nodeAddress()):
			return n
		case n.Name == noted && m.nodeAddress() == "":
			there = n
		}
	}
	return there
}

// noted returns the name of a unit's node as an earlier run has noted it, else "".
func (d *driver) noted(unit string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, in := range []map[string]string{d.left.Joined, d.left.Deleted, texts(d.in.Instance.Metadata[metaNodes])} {
		if name := in[unit]; name != "" {
			return name
		}
	}
	return ""
}

// named gives each machine the name of its node: the one that it has, that was noted, or the
// shortest that no other has.
func (d *driver) named(all []machine, nodes []corev1.Node) (map[string]string, error) {
	taken := map[string]bool{}
	for _, n := range nodes {
		taken[n.Name] = true
	}
	names := map[string]string{}
	for _, m := range all {
		if n := d.nodeOf(m, nodes); n != nil {
			names[m.ID] = n.Name
		} else if name := d.noted(m.Name); name != "" && !taken[name] {
			names[m.ID], taken[name] = name, true
		}
	}
	for _, m := range all {
		if names[m.ID] != "" {
			continue
		}
		for _, name := range m.names() {
			if !taken[name] {
				names[m.ID], taken[name] = name, true
				break
			}
		}
		if names[m.ID] == "" {
			return nil, fmt.Errorf("%s: its node can have none of the names %v: nodes at other addresses have them; delete those that are left over (kubectl delete node)", m, m.names())
		}
	}
	return names, nil
}

// awaitReady waits until a node is Ready and at the address.
func (c *cluster) awaitReady(ctx context.Context, name, address string) error {
	began := time.Now()
	why := ""
	for {
		n, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			why = "there is no such node"
		case err != nil:
			if ctx.Err() == nil { // else the former reason says more
				why = err.Error()
			}
		case !has(n, address):
			why = fmt.Sprintf("it is at %v, not at %s", n.Status.Addresses, address)
		default:
			ok := false
			if ok, why = ready(n); ok {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("its node %s isn't Ready after %s: %s", name, time.Since(began).Round(time.Second), why)
		case <-time.After(pollPause):
		}
	}
}

// cordon keeps new pods from a node.
func (c *cordoner) cordon(ctx context.Context, n *corev1.Node) error {
	if n.Spec.Unschedulable {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}},"spec":{"unschedulable":true}}`, annotationCordoned, c.operation)
	return c.patch(ctx, n.Name, patch)
}

// uncordon lets new pods come to a node again that this driver has cordoned.
func (c *cordoner) uncordon(ctx context.Context, n *corev1.Node) error {
	if n.Annotations[annotationCordoned] == "" {
		return nil
	}
	return c.patch(ctx, n.Name, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}},"spec":{"unschedulable":null}}`, annotationCordoned))
}

// cordoner cordons nodes of a cluster, for an operation.
type cordoner struct {
	*cluster
	operation string
}

func (c *cordoner) patch(ctx context.Context, name string, patch []byte) error {
	err := retried(ctx, func() error {
		_, err := c.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("node %s: mark it: %w", name, err)
	}
	return nil
}

// deleteNode deletes a node object. One that is gone is no error.
func (c *cluster) deleteNode(ctx context.Context, name string) error {
	err := retried(ctx, func() error { return c.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}) })
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("node %s: delete it: %w", name, err)
	}
	return nil
}

// retried makes a request again, up to three times, where it may only have met an API server
// that is busy or is being restarted. It returns the error of the last try.
func retried(ctx context.Context, do func() error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: pollPause, Steps: 4}, func(context.Context) (bool, error) {
		last = do()
		return last == nil || final(last), nil
	})
	if last != nil {
		return last
	}
	return err // the context had ended before the first try
}

// final says whether an answer of the API server stays the same however often it is asked.
func final(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonNotFound, metav1.StatusReasonForbidden, metav1.StatusReasonUnauthorized,
		metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonAlreadyExists:
		return true
	}
	return false
}
