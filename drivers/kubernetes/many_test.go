package kubernetes_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
)

// One push may bring many instances, each a Deployment and a ConfigMap.
func TestManyInstancesComeUpSideBySide(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	const n = 20
	sources := make([]drivers.Source, n)
	for i := range sources {
		manifests := deployment(fmt.Sprintf("one%d", i), pause) + fmt.Sprintf("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}\n", i)
		sources[i] = sample.Source(uuid.NewString(), namespace, manifests, sample.Workloads(fmt.Sprintf("one%d", i)), nil)
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for _, src := range sources {
		wg.Go(func() {
			want, err := d.Render(src)
			if err != nil {
				t.Error(err)
				return
			}
			o, err := d.Observe(t.Context(), want)
			if err != nil {
				t.Error(err)
				return
			}
			steps := plan.Next(plan.Compute(want.Desired, o, plan.Journal{}))
			if err := d.Verify(t.Context(), want, steps...); err != nil {
				t.Error(err)
			}
			if err := d.Do(t.Context(), want, steps...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d instances were started in %v", n, time.Since(begin))
	if t.Failed() {
		return
	}
	for _, src := range sources {
		if o := converge(t, d, src, true); len(o.Units) != 1 {
			t.Errorf("instance %s has units %+v", src.Instance.ID, o.Units)
		}
	}
	t.Logf("and were up after %v", time.Since(begin))
	for _, src := range sources {
		converge(t, d, src, false)
	}
}
