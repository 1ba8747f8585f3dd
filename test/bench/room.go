package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podsPerNode is what a fake node of the benchmark's own holds.
const podsPerNode = 1000

// room makes fake nodes, which only the pods of the bench tolerate, for so many pods, unless
// there are as many already. They go with [cluster.clean].
func (c *cluster) room(ctx context.Context, pods int) error {
	size := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("256"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   *resource.NewQuantity(podsPerNode, resource.DecimalSI),
	}
	for i := len(c.nodes); i*podsPerNode < pods; i++ {
		name := fmt.Sprintf("bench-%s-%d", c.run, i)
		_, err := c.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:        name,
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
				Labels:      map[string]string{"type": "kwok", corev1.LabelHostname: name},
			},
			Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: "jibe-bench", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		c.nodes = append(c.nodes, name)
	}
	return nil
}
