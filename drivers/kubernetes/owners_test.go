package kubernetes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// TestOwnersThatLostTheirLabelsEndWithTheirPods has an instance of a Deployment and a StatefulSet whose labels a tool
// removes or changes, and another installation with the same instance.
func TestOwnersThatLostTheirLabelsEndWithTheirPods(t *testing.T) {
	for name, label := range map[string]string{"removed": "null", "given to another instance": `"` + uuid.NewString() + `"`} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			namespace, id := c.namespace(t), uuid.NewString()
			a, b, p := c.connect(t), c.connectAs(t, "installation-b", keyB, nil), newPerson(t, namespace)
			src := sample.Source(id, namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
			other := sample.Source(id, namespace, sample.ConfigMap("b", "b"), sample.Workloads(), nil)
			was := converge(t, a, src, true)

			kinds := map[string]string{"front": "Deployment", "front-back": "StatefulSet"}
			for workload, kind := range kinds {
				change := `{"metadata":{"labels":{"vnf.jibe.dev/instance":` + label + `,"vnf.jibe.dev/installation":null,"vnf.jibe.dev/vdu":null}}}`
				if err := p.patch(kind, workload, change)(t.Context()); err != nil {
					t.Fatal(err)
				}
			}

			examined(t, a, src, func(found []drivers.Deviation) bool {
				isLabel := func(x drivers.Deviation) bool { return strings.HasPrefix(x.Field, "metadata.labels[") }
				return len(found) == 2*2 && !slices.ContainsFunc(found, func(x drivers.Deviation) bool { return !isLabel(x) })
			})
			now := observe(t, a, rendering(t, a, src))
			if len(now.Units) != len(was.Units) {
				t.Errorf("%d units, had %d", len(now.Units), len(was.Units))
			}
			for _, u := range now.Units {
				if u.Owner == "" || u.Orphan {
					t.Errorf("unit %s has owner %q", u.Name, u.Owner)
				}
			}
			if seen := observe(t, b, rendering(t, b, other)); len(seen.Units)+len(seen.Others) > 0 {
				t.Errorf("the other installation sees %v", seen.Units)
			}

			converge(t, a, src, false)
			kit.Eventually(t, func() error {
				pods, err := c.api(t).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
				if err == nil && len(pods.Items) > 0 {
					err = fmt.Errorf("%d pods are left", len(pods.Items))
				}
				return err
			})
			for workload, kind := range kinds {
				if left, err := p.of(kind).Get(t.Context(), workload, metav1.GetOptions{}); err == nil {
					t.Errorf("%s %s is left: %v", kind, workload, left.GetLabels())
				}
			}
		})
	}
}

func TestARepairPutsTheLabelsOfAnOwnerBack(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	p := newPerson(t, namespace)
	src := sample.Source(uuid.NewString(), namespace, sample.FrontAndBack, sample.TwoVDUs(), nil)
	was := converge(t, d, src, true)
	if err := p.patch("Deployment", "front", `{"metadata":{"labels":{"vnf.jibe.dev/instance":null}}}`)(t.Context()); err != nil {
		t.Fatal(err)
	}
	examined(t, d, src, func(found []drivers.Deviation) bool { return len(found) == 1 })

	now := converge(t, d, src, true)

	if got := p.get(t, "Deployment", "front").GetLabels()["vnf.jibe.dev/instance"]; got != src.Instance.ID {
		t.Errorf("the label is %q", got)
	}
	ids := func(o plan.Observed) map[string]string { return incarnations(o, everything) }
	if fmt.Sprint(ids(was)) != fmt.Sprint(ids(now)) {
		t.Errorf("what ran was replaced: %v, now %v", ids(was), ids(now))
	}
	converge(t, d, src, false)
}
