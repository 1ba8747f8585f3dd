package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// cluster is a control plane, seen by a bare client without a rate limit.
type cluster struct {
	*kubernetes.Clientset
	kubeconfig string
	run        string // in the names of this run's namespaces
	spaces     []string
	nodes      []string // of the benchmark's own
}

func newCluster(kubeconfig string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &cluster{Clientset: client, kubeconfig: kubeconfig, run: uuid.NewString()[:8]}, nil
}

// vim is the text of the VIM's file.
func (c *cluster) vim() string { return "type: kubernetes\nkubeconfig: file:" + c.kubeconfig + "\n" }

// namespace makes a namespace in which pods can be made. It goes with [cluster.clean].
func (c *cluster) namespace(ctx context.Context, purpose string) (string, error) {
	name := fmt.Sprintf("bench-%s-%s", c.run, purpose)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("namespace %s: %w", name, err)
	}
	c.spaces = append(c.spaces, name)
	return name, nil
}

// usable waits until the namespaces have what each pod needs.
func (c *cluster) usable(ctx context.Context, spaces ...string) error {
	for _, ns := range spaces {
		err := kit.Poll(ctx, time.Minute, func() error {
			_, err := c.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("namespace %s: %w", ns, err)
		}
	}
	return nil
}

// clean removes the namespaces, and nodes, and doesn't wait for them to be gone.
func (c *cluster) clean(ctx context.Context) error {
	var errs []error
	for _, name := range c.nodes {
		errs = append(errs, c.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}))
	}
	for _, ns := range c.spaces {
		if err := c.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// apply applies the package's objects as they are, as any client would.
func (c *cluster) apply(ctx context.Context, ns string) error {
	text, err := tiny.ReadFile("package/" + manifest)
	if err != nil {
		return err
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	o := metav1.PatchOptions{FieldManager: "bench", Force: new(true)}
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if bytes.Contains(doc, []byte("kind: Deployment")) {
			_, err = c.AppsV1().Deployments(ns).Patch(ctx, workload, types.ApplyPatchType, doc, o)
		} else {
			_, err = c.CoreV1().ConfigMaps(ns).Patch(ctx, workload, types.ApplyPatchType, doc, o)
		}
		if err != nil {
			return fmt.Errorf("apply in %s: %w", ns, err)
		}
	}
}

// remove is the opposite of apply.
func (c *cluster) remove(ctx context.Context, ns string) error {
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{PropagationPolicy: &background}
	return errors.Join(c.AppsV1().Deployments(ns).Delete(ctx, workload, o), c.CoreV1().ConfigMaps(ns).Delete(ctx, workload, o))
}

// scale patches the number of replicas.
func (c *cluster) scale(ctx context.Context, ns string, replicas int) error {
	_, err := c.AppsV1().Deployments(ns).Patch(ctx, workload, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{FieldManager: "bench"})
	return err
}

// workload is the name of the package's objects.
const workload = "web"

// view is what a watch of a namespace has shown: the workload and its pods.
type view struct {
	deployment *appsv1.Deployment
	pods       map[string]*corev1.Pod
}

// shows says whether the workload is meant to have so many replicas.
func (v *view) shows(replicas int) bool {
	return v.deployment != nil && v.deployment.Spec.Replicas != nil && int(*v.deployment.Spec.Replicas) == replicas
}

// settled says whether it has them: its pods, all ready, and no others.
func (v *view) settled(replicas int) bool {
	if !v.shows(replicas) || len(v.pods) != replicas {
		return false
	}
	for _, p := range v.pods {
		if p.DeletionTimestamp != nil || !podReady(p) {
			return false
		}
	}
	s := v.deployment.Status
	return s.ObservedGeneration >= v.deployment.Generation && int(s.Replicas) == replicas &&
		int(s.ReadyReplicas) == replicas && int(s.UpdatedReplicas) == replicas
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// sighting is an event and when it came.
type sighting struct {
	watch.Event
	at time.Time
}

// watched follows a namespace. What comes before anyone asks keeps its time.
type watched struct {
	view
	events chan sighting
	stop   func()
}

func (c *cluster) watch(ctx context.Context, ns string) (*watched, error) {
	deployments, err := c.AppsV1().Deployments(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := c.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		deployments.Stop()
		return nil, err
	}
	return follow(ctx, deployments, pods), nil
}

// follow takes down what the watches tell, and when.
func follow(ctx context.Context, from ...watch.Interface) *watched {
	w := &watched{
		view:   view{pods: map[string]*corev1.Pod{}},
		events: make(chan sighting, 1024), // more than one change of an instance makes
		stop: func() {
			for _, x := range from {
				x.Stop()
			}
		},
	}
	for _, from := range from {
		go func() {
			for e := range from.ResultChan() {
				select {
				case w.events <- sighting{e, time.Now()}:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return w
}

// until returns when the condition was first seen to hold.
func (w *watched) until(ctx context.Context, holds func(*view) bool) (time.Time, error) {
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		select {
		case s := <-w.events:
			if w.update(s.Event); holds(&w.view) {
				return s.at, nil
			}
		case <-limit.C:
			return time.Time{}, errors.New("the API server never showed what was asked for")
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

func (w *watched) update(e watch.Event) {
	switch o := e.Object.(type) {
	case *appsv1.Deployment:
		if w.deployment = o; e.Type == watch.Deleted {
			w.deployment = nil
		}
	case *corev1.Pod:
		if w.pods[o.Name] = o; e.Type == watch.Deleted {
			delete(w.pods, o.Name)
		}
	}
}
