package kubernetes_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

const gaugeDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gauges.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Gauge, plural: gauges, singular: gauge, listKind: GaugeList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              mode: {type: string, nullable: true, default: fast}
              limit: {type: integer, nullable: true, default: 5}
              unit: {type: string, default: bar}
              note: {type: string}
              names: {type: object, additionalProperties: {type: string}}
              aliases: {type: object, additionalProperties: {type: string, nullable: true}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, value: {type: string, nullable: true, default: Q}}}
`

const gauge = `
apiVersion: GROUP/v1
kind: Gauge
metadata: {name: NAME}
spec:
  mode: null
  limit: null
  unit: null
  note: null
  names: {a: null, b: x}
  aliases: {a: null, b: x}
  free: {x: null, z: {w: null}}
  parts: [{name: one, value: null}]
`

// TestNullsOfCustomResourcesMeanWhatTheySay compares with what the API server makes of a creation with the same nulls.
func TestNullsOfCustomResourcesMeanWhatTheySay(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	group := namespace + ".example.com"
	fill := func(text, name string) string { return strings.NewReplacer("GROUP", group, "NAME", name).Replace(text) }
	src := sample.Source(uuid.NewString(), namespace, fill(gaugeDefinition+"---"+gauge, "ours"), sample.Workloads(), nil)
	t.Cleanup(func() {
		definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
		_ = dynamicClient(t).Resource(definitions).Delete(context.WithoutCancel(t.Context()), "gauges."+group, metav1.DeleteOptions{})
	})
	gauges := dynamicClient(t).Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gauges"}).Namespace(namespace)
	spec := func(name string) string {
		u, err := gauges.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(u.Object["spec"])
		return string(text)
	}

	converge(t, d, src, true)
	reference := sample.Object(t, fill(gauge, "reference"))
	kit.Eventually(t, func() error {
		_, err := gauges.Create(t.Context(), reference, metav1.CreateOptions{})
		return err
	})
	if ours, want := spec("ours"), spec("reference"); ours != want {
		t.Errorf("the API server makes of a creation\n%s\nand of Jibe's apply\n%s", want, ours)
	}
	if !strings.Contains(spec("ours"), `"mode":null`) {
		t.Errorf("the null isn't kept: %s", spec("ours"))
	}
	want := rendering(t, d, src)
	if found, err := d.Preview(t.Context(), want, plan.Compute(want.Desired, observe(t, d, want), plan.Journal{})...); err != nil || len(found) > 0 {
		t.Errorf("it would change: %v, %v", found, err)
	}
	settled(t, d, src)

	// At rest after a restart, too: each null that isn't kept is looked at once, and cleared.
	again := c.connect(t)
	examined(t, again, src, func(found []drivers.Deviation) bool { return len(found) == 0 })
	settled(t, again, src)

	if _, err := gauges.Patch(t.Context(), "ours", types.MergePatchType, []byte(`{"spec":{"mode":"slow"}}`), metav1.PatchOptions{FieldManager: byHand}); err != nil {
		t.Fatal(err)
	}
	found := examined(t, d, src, func(found []drivers.Deviation) bool { return len(found) > 0 })
	if len(found) != 1 || found[0].Field != "spec.mode" || found[0].Want != "null" || found[0].Have != `"slow"` || found[0].By != byHand {
		t.Errorf("told is %+v", found)
	}
	converge(t, d, src, true)
	if got := spec("ours"); !strings.Contains(got, `"mode":null`) {
		t.Errorf("it isn't repaired: %s", got)
	}
	converge(t, d, src, false)
}
