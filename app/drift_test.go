package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// repository gives a server the small package, and files to its desired repository, which it returns.
func repository(t *testing.T, s *process.Server, files map[string]string) *process.Bare {
	t.Helper()
	addSmall(packagesOf(t, s))
	b := desiredOf(t, s)
	change(b, files)
	return b
}

// metrics waits until the scrape has all lines that begin like these.
func metrics(t *testing.T, s *process.Server, lines ...string) {
	t.Helper()
	kit.Eventually(t, func() error {
		a, err := s.Do(t.Context(), http.MethodGet, "/metrics", nil)
		if err != nil || a.Status != http.StatusOK {
			return fmt.Errorf("scrape: %w: %+v", err, a)
		}
		for _, line := range lines {
			if !strings.Contains("\n"+string(a.Body), "\n"+line) {
				ours := slices.DeleteFunc(strings.SplitAfter(string(a.Body), "\n"), func(l string) bool { return !strings.HasPrefix(l, "jibe_") })
				return fmt.Errorf("no %s in\n%s", line, strings.Join(ours, ""))
			}
		}
		return nil
	})
}

// drift waits for the one drift that there is, in this state.
func drift(t *testing.T, s *process.Server, query string, state reconciler.DriftState) (d reconciler.Drift) {
	t.Helper()
	kit.Eventually(t, func() error {
		var list []reconciler.Drift
		if err := s.Get(t.Context(), "/jibe/v1/drift"+query, &list); err != nil {
			return err
		}
		if len(list) != 1 || list[0].State != state {
			return fmt.Errorf("want one drift that is %s: %+v", state, list)
		}
		d = list[0]
		return nil
	})
	return d
}

func instance(extra string) string {
	return "name: web\nvnfdId: " + process.SmallVnfd + "\nflavour: simple\nparams: {namespace: a}\n" + extra
}

func TestDriftIsReportedByTheAPIAndTheMetrics(t *testing.T) {
	t.Parallel()
	cloud := sim.NewCloud()
	s, stop := start(t, t.TempDir(), cloud, "")
	t.Cleanup(stop)
	const id, object = "3a5c1f0e-0000-4000-8000-00000000000a", "Workload/a/vdu1"
	c := repository(t, s, map[string]string{
		"vims/cloud.yaml":       "type: sim\ndefault: true\n",
		"instances/a/vnf.yaml":  instance("id: " + id + "\ndrift: report\n"),
		"instances/b/vnf.yaml":  strings.Replace(instance("state: notInstantiated\nheld: 0c6b1a52-5f0e-4d53-9d8a-3c1f5a0e7b11\n"), "namespace: a", "namespace: b", 1),
		"instances/b/notes.txt": "held by hand\n",
	})
	var units struct {
		InstantiatedVnfInfo struct {
			VnfcResourceInfo []struct {
				ComputeResource struct{ ResourceID string }
				VduID           string
			}
		}
	}
	kit.Eventually(t, func() error {
		if err := s.Get(t.Context(), "/vnflcm/v2/vnf_instances/"+id, &units); err != nil {
			return err
		}
		if len(units.InstantiatedVnfInfo.VnfcResourceInfo) == 0 {
			return fmt.Errorf("nothing runs yet")
		}
		return nil
	})
	metrics(t, s, "jibe_instances 2", "jibe_instances_suspended 0", "jibe_fights 0", `jibe_instance_held_since_timestamp_seconds{instance="`)
	var none []reconciler.Drift
	if err := s.Get(t.Context(), "/jibe/v1/drift", &none); err != nil || none == nil || len(none) != 0 {
		t.Fatalf("nothing has drifted yet: %v, %v", none, err)
	}

	cloud.Drift(object)
	d := drift(t, s, "", reconciler.DriftReported)
	if d.Instance != id || d.Dir != "instances/a" || len(d.Deviations) == 0 || d.Deviations[0].Object != object || d.Since.IsZero() {
		t.Errorf("the drift is reported as %+v", d)
	}
	drift(t, s, "?instance="+id, reconciler.DriftReported)
	since := func(state reconciler.DriftState) string {
		return fmt.Sprintf("jibe_drift_since_timestamp_seconds{by=%q,field=%q,instance=%q,object=%q,state=%q} 1.",
			d.Deviations[0].By, d.Deviations[0].Field, id, object, state)
	}
	metrics(t, s, since(reconciler.DriftReported))

	change(c, map[string]string{"instances/a/vnf.yaml": instance("id: " + id + "\ndrift: report\nsuspend: true\n")})
	drift(t, s, "", reconciler.DriftSuspended)
	metrics(t, s, "jibe_instances_suspended 1", since(reconciler.DriftSuspended))

	change(c, map[string]string{"instances/a/vnf.yaml": instance("id: " + id + "\n")})
	metrics(t, s, "jibe_instances_suspended 0", `jibe_drift_repairs_total{kind="Workload"} 1`)
	kit.Eventually(t, func() error { // the repair is counted when it is issued, and the drift is gone when it is done
		var list []reconciler.Drift
		if err := s.Get(t.Context(), "/jibe/v1/drift", &list); err != nil {
			return err
		}
		a, err := s.Do(t.Context(), http.MethodGet, "/metrics", nil)
		if err == nil && (len(list) > 0 || strings.Contains(string(a.Body), "jibe_drift_since_timestamp_seconds{")) {
			err = fmt.Errorf("a drift that was repaired stays: %+v", list)
		}
		return err
	})
}

func TestDriftOfAnUnknownInstanceIsNotFoundRatherThanNone(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	a, err := s.Do(t.Context(), http.MethodGet, "/jibe/v1/drift?instance=nobody", nil)
	if err != nil || a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "nobody") {
		t.Errorf("%v, %+v", err, a)
	}
	s.Token = "of nobody at all"
	if a, err := s.Do(t.Context(), http.MethodGet, "/jibe/v1/drift", nil); err != nil || a.Status != http.StatusUnauthorized {
		t.Errorf("without a token: %v, %+v", err, a)
	}
}
