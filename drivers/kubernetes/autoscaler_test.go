package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// TestReplicasAreLeftToAnyAutoscalerOfTheCluster has an autoscaler that no package brought, as
// KEDA makes one; the test scales as its controller would.
func TestReplicasAreLeftToAnyAutoscalerOfTheCluster(t *testing.T) {
	c := newCluster(t)
	d, api, id, namespace := c.connect(t), c.api(t), uuid.NewString(), c.namespace(t)
	of := func(image string) drivers.Source {
		return sample.Source(id, namespace, deployment("one", image), sample.Workloads("one"), nil)
	}
	converge(t, d, of(pause), true)

	few := int32(3)
	_, err := api.AutoscalingV2().HorizontalPodAutoscalers(namespace).Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "keda-hpa-one"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "one"},
			MinReplicas:    &few, MaxReplicas: 5,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.AppsV1().Deployments(namespace).Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "kube-controller-manager"}, "scale")
	if err != nil {
		t.Fatal(err)
	}

	want, err := d.Render(of(pause))
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		o := observe(t, d, want)
		if steps := plan.Compute(want.Desired, o, plan.Journal{}); len(steps) > 0 || count(o, "ONE") != 3 {
			return fmt.Errorf("%d units, left to do: %+v", count(o, "ONE"), steps)
		}
		if by := o.Units[0].Metadata["autoscaler"]; by != "HorizontalPodAutoscaler/"+namespace+"/keda-hpa-one" {
			return fmt.Errorf("the units are scaled by %q", by)
		}
		return nil
	})
	if o := converge(t, d, of(strings.Replace(pause, "3.10", "3.11", 1)), true); count(o, "ONE") != 3 {
		t.Errorf("%d units after an upgrade, want 3", count(o, "ONE"))
	}

	if err := api.AutoscalingV2().HorizontalPodAutoscalers(namespace).Delete(t.Context(), "keda-hpa-one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		if o := converge(t, d, of(strings.Replace(pause, "3.10", "3.11", 1)), true); count(o, "ONE") != 1 {
			return fmt.Errorf("%d units once the autoscaler has gone, want 1", count(o, "ONE"))
		}
		return nil
	})
	converge(t, d, of(pause), false)
}
