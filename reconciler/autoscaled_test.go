package reconciler_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestReplicasAreLeftToAnAutoscalerOfTheCluster(t *testing.T) {
	t.Parallel()
	w := running(t, "", soon)
	before := w.units("VDU1")
	w.cloud.Autoscale(web, "HorizontalPodAutoscaler/ns/keda-hpa-web")

	w.cloud.Resize(web, before+2)
	w.until("the autoscaler's units run", func() bool { return w.units("VDU1") == before+2 })
	w.looks()
	if n := len(w.operations(lcm.Heal)); n != 0 || len(w.recon.View().Drift()) != 0 {
		t.Errorf("%d repairs, drift %v", n, w.recon.View().Drift())
	}

	w.commit(file("instantiated", "levels: {web: 2}\n"))
	op := w.last(lcm.Scale, lcm.RolledBack)
	if !strings.Contains(op.Error.Detail, "keda-hpa-web") || w.units("VDU1") != before+2 {
		t.Errorf("%d units; the error is %q", w.units("VDU1"), op.Error.Detail)
	}

	w.commit(file("instantiated", "levels: {db: 1}\n"))
	w.last(lcm.Scale, lcm.Completed)
	if n := w.units("VDU1"); n != before+2 {
		t.Errorf("%d units once another VDU was scaled", n)
	}

	w.cloud.Autoscale(web, "")
	w.until("the number is the package's again", func() bool { return w.units("VDU1") == before })
}
