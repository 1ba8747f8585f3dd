package watched

import (
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

func TestTheMarkMovesWithEveryTouchButStatusAndScale(t *testing.T) {
	const form = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, resourceVersion: '%s', generation: %d, managedFields: [" +
		"{manager: jibe, operation: Apply, time: '2026-01-01T00:00:0%dZ', fieldsV1: {'f:spec': {}}}," +
		"{manager: c, operation: Update, subresource: %s, time: '2026-01-01T00:00:0%dZ', fieldsV1: {'f:status': {}}}," +
		"{manager: p, operation: Update, time: '2026-01-01T00:00:0%dZ', fieldsV1: {'f:metadata': {'f:%s': {}}}}]}, status: {}}"
	mark := func(version string, generation, ours int, subresource string, status, touch int, field string) uint64 {
		return FactOf("", manifest.KindDeployment, sample.Object(t, fmt.Sprintf(form, version, generation, ours, subresource, status, touch, field))).Touched
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
