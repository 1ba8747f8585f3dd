package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
)

// TestStatefulSetLeavesATemplateThatNeverRuns takes back, and corrects, what no node can run. A
// StatefulSet's controller waits for ever for the pods of such a template.
func TestStatefulSetLeavesATemplateThatNeverRuns(t *testing.T) {
	c := newCluster(t)
	set := func(podSpec string) string {
		return strings.Replace(deployment("one", podSpec), "kind: Deployment", "kind: StatefulSet", 1)
	}
	nowhere := `nodeSelector: {no: where}, ` + pause
	for name, x := range map[string]struct{ before, bad, after string }{
		"rolled back":                  {pause, nowhere, pause},
		"corrected":                    {pause, nowhere, strings.Replace(pause, "3.10", "3.11", 1)},
		"corrected before it ever ran": {"", nowhere, pause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, id, namespace := c.connect(t), uuid.NewString(), c.namespace(t)
			of := func(podSpec string) drivers.Source {
				return sample.Source(id, namespace, set(podSpec), sample.Workloads("one"), map[string]int{"one_aspect": 1})
			}
			if x.before != "" {
				converge(t, d, of(x.before), true)
			}
			wait := stuck(t, d, of(x.bad), func(s plan.Step) bool { return strings.Contains(s.Reason, "Unschedulable") })
			if !strings.Contains(wait.Reason, "one-") {
				t.Errorf("the wait doesn't name the pod: %+v", wait)
			}

			o := converge(t, d, of(x.after), true)

			if n := count(o, "ONE"); n != 3 {
				t.Errorf("%d units, want 3: %+v", n, o.Units)
			}
			converge(t, d, of(x.after), false)
		})
	}
}
