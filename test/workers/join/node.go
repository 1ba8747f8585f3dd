package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// userPrefix and a node's name are who its kubelet is to the cluster.
const userPrefix = "system:node:"

// playedBy is the annotation of the Nodes that kwok plays (test/controlplane/controlplane).
const playedBy, playedByKwok = "kwok.x-k8s.io/node", "fake"

// node is what a host tells of itself.
type node struct {
	name, address     string
	cpu, memory, pods resource.Quantity
}

func (n *node) user() string { return userPrefix + n.name }

// free refuses a name that a living node has, as kubeadm does.
func (n *node) free(ctx context.Context, client kubernetes.Interface) error {
	there, err := client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for a node of that name: %w", err)
	case ready(there):
		return fmt.Errorf("there is a Node of that name, and it is Ready: delete it (kubectl delete node %s), or give this host another name", n.name)
	}
	return nil
}

// register makes the Node, or tells the one that is there what is new of this host.
func (n *node) register(ctx context.Context, client kubernetes.Interface) error {
	capacity := corev1.ResourceList{corev1.ResourceCPU: n.cpu, corev1.ResourceMemory: n.memory, corev1.ResourcePods: n.pods}
	made := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        n.name,
			Annotations: map[string]string{playedBy: playedByKwok},
			Labels:      map[string]string{corev1.LabelHostname: n.name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH},
		},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.address}, {Type: corev1.NodeHostName, Address: n.name}},
			Capacity:  capacity, Allocatable: capacity,
		},
	}
	_, err := client.CoreV1().Nodes().Create(ctx, made, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register the Node: %w", err)
	}
	// Others write it too.
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		there, err := client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		there.Status.Addresses = made.Status.Addresses
		_, err = client.CoreV1().Nodes().UpdateStatus(ctx, there, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("renew the Node: %w", err)
	}
	return nil
}

// awaitReady waits until the cluster counts on the node.
func (n *node) awaitReady(ctx context.Context, client kubernetes.Interface) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		var there *corev1.Node
		there, last = client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		return last == nil && ready(there), nil
	})
	if err != nil && last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("the Node is registered, but not Ready: %w; kwok plays those with the annotation %s=%s", err, playedBy, playedByKwok)
	}
	return nil
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
