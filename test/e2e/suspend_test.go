package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestASuspendedInstanceIsLeftAloneAndSaysSoUntilItIsResumed(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id, file, d := b.pushed(twins, "")
	suspend := func(on bool) {
		t.Helper()
		d.Pull()
		if on {
			d.Write(file, d.Read(file)+"suspend: true\n")
		} else {
			d.Replace(file, "suspend: true\n", "")
		}
		d.Push("Suspend or resume")
	}
	suspend(true)
	kit.Eventually(t, func() error { // else the change by hand may be put right before the push is seen
		if b.show(t, id).get("jibe", "suspended") != true {
			return errors.New("the instance isn't suspended yet")
		}
		return nil
	})
	key := "ConfigMap/" + b.namespace + "/settings"
	b.patch("ConfigMap/settings", "hand", "{'data': {'mode': 'slow'}}")
	b.drifted(id, key, "suspended")
	for task, body := range map[string]object{"heal": {}, "scale": scale("SCALE_OUT", "back_aspect", 1), "terminate": {"terminationType": "FORCEFUL"}} {
		a := b.rest(t, "POST", instances+"/"+id+"/"+task, body)
		if a.Status != 409 || !strings.Contains(string(a.Body), "suspend") {
			t.Errorf("%s of a suspended instance: %d: %s", task, a.Status, a.Body)
		}
	}
	if b.show(t, id).get("jibe", "suspended") != true {
		t.Errorf("the instance doesn't say so: %v", b.show(t, id)["jibe"])
	}
	if out, _, _ := b.cli(t, "get", "instances", "-o", "wide"); !strings.Contains(lineOf(out, id), "suspended") {
		t.Errorf("jibe get instances doesn't say so: %s", lineOf(out, id))
	}
	if out, _, _ := b.cli(t, "get", "drift"); !strings.Contains(lineOf(out, key), "suspended") {
		t.Errorf("jibe get drift doesn't say so: %s", lineOf(out, key))
	}
	if text := string(b.must(t, 200, "GET", "/metrics", nil).Body); !strings.Contains(text, "\njibe_instances_suspended ") || strings.Contains(text, "\njibe_instances_suspended 0") {
		t.Error("the metric jibe_instances_suspended doesn't count it")
	}
	kit.Stays(t, quiet, func() error { return b.counted(id, 1) })
	suspend(false)
	b.repaired(id, 1, key, "data.mode")
	b.undrifted(id)
	if b.show(t, id).get("jibe", "suspended") != nil {
		t.Errorf("it still says so: %v", b.show(t, id)["jibe"])
	}
}

func TestASuspendedInstancesOperationStandsStillUntilItIsResumed(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, impatient)
	d := b.clone(t, "desired.git")
	file := "instances/still/" + b.namespace + "/vnf.yaml"
	text := fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nparams: {namespace: %[1]s}\n", b.namespace, byHand)
	d.Write(file, text)
	d.Push("Run")
	pod := b.waiting()
	id := b.idOf(b.namespace)
	b.awaitHistory(id, "INSTANTIATE PROCESSING")
	d.Pull()
	d.Write(file, d.Read(file)+"suspend: true\n")
	d.Push("Stop")
	kit.Eventually(t, func() error {
		if b.show(t, id).get("jibe", "suspended") != true {
			return fmt.Errorf("the instance doesn't show that it is suspended: %v", b.show(t, id)["jibe"])
		}
		return nil
	})
	b.bind(pod)
	b.awaitPods(1)
	// Longer than this server's patience: its clock stands still as well.
	kit.Stays(t, 22*time.Second, func() error {
		if op := b.history(t, id)[0]; op.text("operationState") != "PROCESSING" {
			return fmt.Errorf("the operation of a suspended instance is %s: %v", op.text("operationState"), op["error"])
		}
		return nil
	})
	d.Pull()
	d.Replace(file, "suspend: true\n", "")
	d.Push("Go on")
	b.awaitHistory(id, "INSTANTIATE COMPLETED")
}
