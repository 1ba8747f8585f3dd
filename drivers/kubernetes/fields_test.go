package kubernetes

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/desired"
)

func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAnEntryOfManagedFieldsMayLackAnything(t *testing.T) {
	for _, entry := range []string{
		"{manager: x, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'f:data': {}}}",
		"{manager: x, operation: Update}",
		"{}",
		"{manager: jibe, operation: Apply, fieldsV1: {}}",
	} {
		u := object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, resourceVersion: '7', managedFields: ["+entry+"]}, data: {a: c}}")
		rendered := object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}")
		f := factOf(kindConfigMap, u)
		if owns(f.fields.Value(), rendered) {
			t.Errorf("%s: Jibe owns all", entry)
		}
		if found := differing(desired.SecretNames{}, kindConfigMap, f.key, u, rendered, rendered, maxDeviations); len(found) != 1 {
			t.Errorf("%s: told is %v", entry, found)
		}
	}
}

func TestTheMarkMovesWithEveryTouchButStatusAndScale(t *testing.T) {
	const form = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, resourceVersion: '%s', generation: %d, managedFields: [" +
		"{manager: jibe, operation: Apply, time: '2026-01-01T00:00:0%dZ', fieldsV1: {'f:spec': {}}}," +
		"{manager: c, operation: Update, subresource: %s, time: '2026-01-01T00:00:0%dZ', fieldsV1: {'f:status': {}}}," +
		"{manager: p, operation: Update, time: '2026-01-01T00:00:0%dZ', fieldsV1: {'f:metadata': {'f:%s': {}}}}]}, status: {}}"
	mark := func(version string, generation, ours int, subresource string, status, touch int, field string) uint64 {
		return factOf(kindDeployment, object(t, fmt.Sprintf(form, version, generation, ours, subresource, status, touch, field))).touched
	}
	base := mark("1", 1, 1, "status", 1, 1, "a")
	for name, same := range map[string]uint64{
		"a status":                      mark("2", 1, 1, "status", 2, 1, "a"),
		"a scale of the same number":    mark("2", 1, 1, "scale", 2, 1, "a"),
		"an apply that changed nothing": mark("2", 1, 2, "status", 1, 1, "a"),
	} {
		if same != base {
			t.Errorf("%s moves the mark", name)
		}
	}
	for name, other := range map[string]uint64{
		"a generation": mark("2", 2, 1, "status", 1, 1, "a"),
		"a time":       mark("2", 1, 1, "status", 1, 2, "a"),
		"a field":      mark("2", 1, 1, "status", 1, 1, "b"),
	} {
		if other == base {
			t.Errorf("%s doesn't move the mark", name)
		}
	}
}

func TestAPathReadsAsPeopleWriteIt(t *testing.T) {
	for want, path := range map[string]fieldPath{
		"spec.template.spec.containers[name=web].image": {"f:spec", "f:template", "f:spec", "f:containers", `k:{"name":"web"}`, "f:image"},
		"spec.ports[port=80,protocol=TCP].nodePort":     {"f:spec", "f:ports", `k:{"protocol":"TCP","port":80}`, "f:nodePort"},
		"metadata.labels[vnf.jibe.dev/instance]":        {"f:metadata", "f:labels", "f:vnf.jibe.dev/instance"},
		"metadata.finalizers[example.com/hold]":         {"f:metadata", "f:finalizers", `v:"example.com/hold"`},
		"data":                                          {"f:data"},
	} {
		if got := path.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
