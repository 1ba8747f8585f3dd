package kubecluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// namedPods is how many pods an error names.
const namedPods = 5

var (
	// errStuck is returned where pods don't leave a node in time.
	errStuck = errors.New("not drained")
	// errDown is returned where a node that was Ready is no more: nobody ends its pods.
	errDown = errors.New("the node isn't Ready any more")
)

// podsToMove returns the pods on a node that must leave before its machine goes: not those
// of DaemonSets, which would come again, nor those that the kubelet runs by itself, nor
// those that have ended.
func (c *cluster) podsToMove(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("node %s: list its pods: %w", node, err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
		owner := metav1.GetControllerOf(&p)
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		return mirror || ended || owner != nil && owner.Kind == "DaemonSet"
	}), nil
}

// evicts refuses a cluster whose API server takes no eviction of policy/v1, which came with
// Kubernetes 1.22, before anything of it is changed: its pods could only be deleted, whatever
// their budgets say.
func (c *cluster) evicts() error {
	all, err := c.Discovery().ServerResourcesForGroupVersion("v1")
	if err != nil {
		return fmt.Errorf("ask %s what its API server serves: %w", c.master, err)
	}
	for _, r := range all.APIResources {
		if r.Name == "pods/eviction" && r.Group == policyv1.GroupName && r.Version == policyv1.SchemeGroupVersion.Version {
			return nil
		}
	}
	version := "a version that it doesn't tell"
	if v, err := c.Discovery().ServerVersion(); err == nil {
		version = v.GitVersion
	}
	return fmt.Errorf("the cluster of %s runs Kubernetes %s, which has no eviction by policy/v1: 1.22 or newer is needed to move pods away as their budgets allow; "+
		"upgrade the cluster, or drain and delete the nodes by hand and retry. No node was cordoned, and no machine removed", c.master, version)
}

// drain evicts the pods of a node, as their budgets allow, and waits until they are gone, at
// most until ctx ends. The error then wraps [errStuck] and says what was in the way. Where
// the node must be Ready for that, and isn't any more, the error wraps [errDown].
func (d *driver) drain(ctx context.Context, c *cluster, node string, needed bool) error {
	began, moved := time.Now(), map[string]bool{}
	refused := map[string]string{} // by the pod
	var left []corev1.Pod
	for {
		pods, err := c.podsToMove(ctx, node)
		switch {
		case err == nil:
			left = pods
			if len(left) == 0 {
				d.say("node %s: drained of %s in %s", node, counted(len(moved), "pod"), time.Since(began).Round(100*time.Millisecond))
				return nil
			}
			for i := range left {
				p := &left[i]
				name := p.Namespace + "/" + p.Name
				moved[name] = true
				if p.DeletionTimestamp != nil {
					continue
				}
				if err := c.evict(ctx, p); err != nil {
					if refused[name] == "" {
						d.say("node %s: pod %s has to wait: %s", node, name, why(err))
					}
					refused[name] = why(err)
				} else {
					d.say("node %s: pod %s is evicted", node, name)
					delete(refused, name)
				}
			}
		case ctx.Err() == nil && lasting(err):
			return err
		}
		if n, err := c.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); needed && err == nil && !isReady(n) {
			return fmt.Errorf("node %s: %w", node, errDown)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %s: %w after %s: %s", node, errStuck, time.Since(began).Round(time.Second), d.inTheWay(ctx, c, left, refused))
		case <-time.After(pollPause):
		}
	}
}

// lasting says whether it is no use to ask again.
func lasting(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// evict asks for one pod to go. One that is gone is fine.
func (c *cluster) evict(ctx context.Context, p *corev1.Pod) error {
	err := c.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		// Another one may have the name by now: it is not on this node.
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// why returns what the API server says of an eviction that it refuses.
func why(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				return cause.Message
			}
		}
	}
	return err.Error()
}

// inTheWay names pods that don't go, and the budgets that keep them.
func (d *driver) inTheWay(ctx context.Context, c *cluster, pods []corev1.Pod, refused map[string]string) string {
	if len(pods) == 0 {
		return "the API server didn't list its pods"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTime)
	defer cancel()
	var texts []string
	for i := range pods {
		p := &pods[i]
		name := p.Namespace + "/" + p.Name
		if len(texts) == namedPods {
			texts = append(texts, fmt.Sprintf("and %d more", len(pods)-i))
			break
		}
		text := "pod " + name
		switch {
		case p.DeletionTimestamp != nil:
			text += " is being ended, and isn't gone"
		case refused[name] != "":
			text += " may not go"
			if names := c.budgets(ctx, p); names != "" {
				text += " (PodDisruptionBudget " + names + ")"
			}
			text += ": " + refused[name]
		default:
			text += " is there"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// budgets names the PodDisruptionBudgets that hold a pod.
func (c *cluster) budgets(ctx context.Context, p *corev1.Pod) string {
	list, err := c.PolicyV1().PodDisruptionBudgets(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "" // what the API server said of the eviction must do
	}
	var names []string
	for _, b := range list.Items {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(p.Labels)) {
			names = append(names, b.Namespace+"/"+b.Name)
		}
	}
	return strings.Join(names, ", ")
}

// clearDead removes the pods of a node whose machine doesn't answer: it gives them the time of
// force_after to be moved elsewhere, then deletes them without waiting for a kubelet that
// will not answer.
func (d *driver) clearDead(ctx context.Context, c *cluster, node string) error {
	limited, cancel := context.WithTimeout(ctx, d.ForceAfter)
	defer cancel()
	err := d.drain(limited, c, node, false)
	if err == nil || !errors.Is(err, errStuck) || ctx.Err() != nil {
		return err
	}
	list, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return fmt.Errorf("node %s: list its pods: %w", node, err)
	}
	var now int64
	for i := range list.Items {
		p := &list.Items[i]
		err := retried(ctx, func() error {
			return c.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
				GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID},
			})
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("node %s: delete pod %s/%s: %w", node, p.Namespace, p.Name, err)
		}
	}
	d.say("node %s: %s deleted by force, as the node isn't Ready", node, counted(len(list.Items), "pod"))
	return nil
}
