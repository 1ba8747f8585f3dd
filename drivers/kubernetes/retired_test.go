package kubernetes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
)

func TestARetiredAPIVersionNamesTheOneThatIsServed(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	for _, x := range []struct{ version, kind, served string }{
		{"policy/v1beta1", "PodDisruptionBudget", "policy/v1"},
		{"autoscaling/v2beta2", "HorizontalPodAutoscaler", "autoscaling/v"},
		{"networking.k8s.io/v1beta1", "Ingress", "networking.k8s.io/v1"},
		{"extensions/v1beta1", "Deployment", "apps/v1"},
	} {
		retired := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: old}\nspec: {}\n", x.version, x.kind)
		src := sample.Source(uuid.NewString(), namespace, retired, sample.Workloads(), nil)

		_, err := verify(t, d, src, plan.Journal{Operation: "INSTANTIATE"})
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || refused.Awaited || !strings.Contains(refused.Reason, "it serves "+x.served) || strings.Contains(refused.Reason, "install") {
			t.Errorf("%s %s: %v", x.version, x.kind, err)
		}

		want := rendering(t, d, src)
		_, err = d.Preview(t.Context(), want, plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})...)
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "it serves "+x.served) {
			t.Errorf("preview of %s %s: %v", x.version, x.kind, err)
		}
	}
}

func TestANullInAMapOfStringsIsEmptyAtTheCluster(t *testing.T) {
	c := newCluster(t)
	d, api, namespace := c.connect(t), c.api(t), c.namespace(t)
	src := sample.Source(uuid.NewString(), namespace, `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: , annotations: , namespace: }
data: {EMPTY: , FULL: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
data: {none: }
`, sample.Workloads(), nil)
	converge(t, d, src, true)

	settings, err := api.CoreV1().ConfigMaps(namespace).Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if empty, ok := settings.Data["EMPTY"]; !ok || empty != "" || settings.Data["FULL"] != "1" {
		t.Errorf("the ConfigMap has %v", settings.Data)
	}
	keys, err := api.CoreV1().Secrets(namespace).Get(t.Context(), "keys", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if none, ok := keys.Data["none"]; !ok || len(none) > 0 {
		t.Errorf("the Secret has %v", keys.Data)
	}

	want := rendering(t, d, src)
	if found, err := d.Preview(t.Context(), want, plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})...); err != nil || len(found) > 0 {
		t.Errorf("it would change: %v, %v", found, err)
	}
	converge(t, d, src, false)
}
