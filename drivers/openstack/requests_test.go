package openstack_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// populate makes so many instances at the cloud, each of three servers.
func populate(tb testing.TB, cloud *openstacktest.Cloud, instances int) []drivers.Source {
	tb.Helper()
	d := driver(tb, cloud, openstack.Options{Rest: time.Hour})
	sources := make([]drivers.Source, instances)
	var all sync.WaitGroup
	for i := range sources {
		sources[i] = source(uuid.NewString(), grouped, 2)
		all.Go(func() {
			want, err := d.Render(sources[i])
			if err == nil {
				err = d.Do(tb.Context(), want, plan.Step{Action: plan.Apply, Object: want.Objects[0].Key, From: -1})
			}
			if err != nil {
				tb.Error(err)
			}
		})
	}
	all.Wait()
	// It would look at all that it made beside the driver whose requests are counted.
	if err := d.Close(); err != nil {
		tb.Error(err)
	}
	return sources
}

func driver(tb testing.TB, cloud *openstacktest.Cloud, o openstack.Options) *openstack.Driver {
	tb.Helper()
	o.Egress = egress.Anywhere()
	d, err := openstack.New(cloud.VIM(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// sweep observes each instance with a driver that has just started; it is how many aren't
// as they should be.
func sweep(tb testing.TB, d *openstack.Driver, sources []drivers.Source) (due int) {
	tb.Helper()
	for _, src := range sources {
		want, err := d.Render(src)
		if err != nil {
			tb.Fatal(err)
		}
		o, err := d.Observe(tb.Context(), want)
		if err != nil {
			tb.Fatal(err)
		}
		if len(plan.Compute(want.Desired, o, plan.Journal{})) > 0 {
			due++
		}
	}
	return due
}

// A full sweep is what a process does first: it looks at every instance.
func BenchmarkSweep(b *testing.B) {
	for _, instances := range []int{1, 10, 200} {
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) {
			cloud := openstacktest.New(b, openstacktest.Options{})
			sources := populate(b, cloud, instances)
			asked := 0
			for b.Loop() {
				before := cloud.Requests("")
				d := driver(b, cloud, openstack.Options{Rest: time.Hour})
				if due := sweep(b, d, sources); due > 0 {
					b.Fatalf("%d of %d instances are not as they should be", due, instances)
				}
				asked = cloud.Requests("") - before
			}
			b.ReportMetric(float64(asked), "requests/sweep")
		})
	}
}

// atRest is how many requests the driver makes for each look at a VIM where nothing
// happens.
func atRest(tb testing.TB, instances int) float64 {
	tb.Helper()
	cloud := openstacktest.New(tb, openstacktest.Options{})
	sources := populate(tb, cloud, instances)
	d := driver(tb, cloud, openstack.Options{Rest: 50 * time.Millisecond, Busy: 10 * time.Millisecond})
	sweep(tb, d, sources)
	looks := func() (n int) {
		for _, r := range cloud.Asked() {
			if r.Service == openstacktest.Nova && r.Method == "GET" {
				n++
			}
		}
		return n
	}
	first := looks()
	kit.Until(tb, "two looks", func() bool { return looks() >= first+2 })
	seen, before := looks(), cloud.Requests("")
	kit.Until(tb, "ten looks", func() bool { return looks() >= seen+10 })
	return float64(cloud.Requests("")-before) / float64(looks()-seen)
}

// At rest the driver looks each 30 seconds.
func BenchmarkAtRest(b *testing.B) {
	for _, instances := range []int{1, 10, 200} {
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) {
			var n float64
			for b.Loop() {
				n = atRest(b, instances)
			}
			b.ReportMetric(n*2, "requests/min")
		})
	}
}

func TestTheRequestsAtRestDoNotGrowWithTheNumberOfInstances(t *testing.T) {
	t.Parallel()

	few, many := atRest(t, 1), atRest(t, 40)
	if many > few+0.5 {
		t.Errorf("a look costs %.1f requests for one instance, and %.1f for 40", few, many)
	}
}
