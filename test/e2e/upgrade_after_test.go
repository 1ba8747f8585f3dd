package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestAVNFInALaterGenerationIsHealedAndTerminatedAsAnyOther(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), standard(2))
	id := b.runs(b.vnfdID(1))
	b.server.run(t, id, "change_vnfpkg", b.changing(2, "Blue-Green"))
	service, objects := b.read("Service/front"), b.made(id)
	b.server.run(t, id, "heal", object{})
	b.awaitPods(3)
	if got := len(b.renewed(objects, b.made(id))); got != len(objects) {
		t.Errorf("%d of %d objects were made anew", got, len(objects))
	}
	b.only(id, "1")
	for _, field := range []string{"clusterIP", "ports"} {
		was, is := service.Object["spec"].(map[string]any)[field], b.read("Service/front").Object["spec"].(map[string]any)[field]
		if fmt.Sprint(was) != fmt.Sprint(is) {
			t.Errorf("the Service's %s was %v and is %v", field, was, is)
		}
	}
	// A change behind its back is repaired.
	n := len(b.history(t, id))
	b.patch("ConfigMap/settings-1", "hand", "{'data': {'mode': 'slow'}}")
	b.repaired(id, n, "ConfigMap/"+b.namespace+"/settings-1", "data.mode")
	b.server.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	b.awaitPods(0)
	if left := b.made(id); len(left) > 0 {
		t.Errorf("left over: %v", slices.Sorted(maps.Keys(left)))
	}
}

func TestAVNFOfWhichTwoGenerationsStandIsTerminatedWhole(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), stuck(2))
	id := b.runs(b.vnfdID(1))
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green"))
	b.unpullable(2)
	b.await(t, path, "FAILED_TEMP")
	b.must(t, 409, "POST", instances+"/"+id+"/terminate", object{"terminationType": "FORCEFUL"})
	b.must(t, 200, "POST", path+"/fail", nil)
	b.await(t, path, "FAILED")
	b.server.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	b.awaitPods(0)
	if left := b.made(id); len(left) > 0 {
		t.Errorf("left over: %v", slices.Sorted(maps.Keys(left)))
	}
}

func TestAnUpgradeThatIsCancelledIsRolledBackOrGoesOn(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), stuck(2))
	id := b.runs(b.vnfdID(1))
	before := b.snapshot(true)
	f := b.recorder()
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green"))
	b.unplaced()
	b.must(t, 202, "POST", path+"/cancel", object{"cancelMode": "FORCEFUL"})
	b.says(b.await(t, path, "FAILED_TEMP"), "cancelled")
	b.must(t, 202, "POST", path+"/rollback", nil)
	b.await(t, path, "ROLLED_BACK")
	b.unchanged(before, true)

	path = b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green"))
	b.unplaced()
	b.must(t, 202, "POST", path+"/cancel", object{"cancelMode": "FORCEFUL"})
	b.await(t, path, "FAILED_TEMP")
	b.must(t, 202, "POST", path+"/retry", nil)
	b.placing(func() error {
		if s := b.must(t, 200, "GET", path, nil).object(t).text("operationState"); s != "COMPLETED" {
			return fmt.Errorf("the operation is %s", s)
		}
		return nil
	})
	b.cleanly(f.record(), "0", "1")
	b.only(id, "1")
}

func TestANewTreeOfTheSameVnfdIsAnUpgradeToo(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1))
	id, file, d := b.pushed(b.vnfdID(1), greenly)
	old := b.pin(d, file)
	repaired := standard(1)
	repaired.beside = standardBeside(7)
	b.publish(repaired)
	kit.Eventually(t, func() error { // the catalogue has it under the same id
		if body := string(b.must(t, 200, "GET", "/jibe/v1/packages", nil).Body); strings.Contains(body, old) {
			return fmt.Errorf("the old tree is still the newest")
		}
		return nil
	})
	f := b.recorder()
	b.amend(d, file, "Take the newest", "package: "+old+"\n", "")
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	if got := f.record().flow("front"); got != "0, 1" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	if data := b.read("ConfigMap/settings-1").Object["data"]; fmt.Sprint(data) != "map[mode:release-7]" {
		t.Errorf("the ConfigMap holds %v", data)
	}
	d.Pull()
	if now := b.pin(d, file); now == old {
		t.Error("the pin is still the old one")
	}
}

// pin is the tree that the instance's file names as its package.
func (b *bench) pin(d *process.WorkTree, file string) string {
	b.Helper()
	_, rest, ok := strings.Cut(d.Read(file), "package: ")
	if !ok {
		b.Fatalf("no pin in\n%s", d.Read(file))
	}
	pin, _, _ := strings.Cut(rest, "\n")
	return pin
}

func TestAnUpgradeThatWasFailedAfterTheSwitchIsSwitchedBackByTheNextRequestWithoutAGap(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	_, leaving := b.coordinated()
	id := b.runs(b.vnfdID(1))
	body := b.byScript()
	delete(body["additionalParams"].(object), "lcm-operation-coordinate-new-vnf")
	delete(body["additionalParams"].(object), "lcm-operation-coordinate-new-vnf-class")
	f := b.recorder()
	path := b.begin(t, id, "change_vnfpkg", body)
	leaving.each(1, "exit 1")
	b.await(t, path, "FAILED_TEMP")
	b.must(t, 200, "POST", path+"/fail", nil)
	b.await(t, path, "FAILED")
	// Nothing is done until somebody asks for something.
	kit.Stays(t, quiet, func() error {
		if n := b.running(1); n != 3 || b.running(2) != 3 {
			return fmt.Errorf("%d old and %d new pods, want 3 each", n, b.running(2))
		}
		return nil
	})
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.awaitPods(4)
	b.only(id, "0")
	if got := f.record().flow("front"); got != "0, 1, 0" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	b.versions(id, 1)
	b.sameVNFCs(id)
	b.undrifted(id)
}

func TestWhatIsDamagedWhileAnUpgradeRunsIsRepairedByIt(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), stuck(2))
	id := b.runs(b.vnfdID(1))
	f := b.recorder()
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green"))
	b.unplaced()
	b.remove("Deployment/web-1")
	b.patch("ConfigMap/settings-1", "hand", "{'data': {'mode': 'slow'}}")
	b.placing(func() error {
		if s := b.must(t, 200, "GET", path, nil).object(t).text("operationState"); s != "COMPLETED" {
			return fmt.Errorf("the operation is %s", s)
		}
		return nil
	})
	if data := b.read("ConfigMap/settings-1").Object["data"]; fmt.Sprint(data) != "map[mode:release-2]" {
		t.Errorf("the ConfigMap holds %v", data)
	}
	if got := f.record().flow("front"); got != "0, 1" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	b.awaitPods(3)
	b.only(id, "1")
	b.sameVNFCs(id)
	b.undrifted(id)
}

func TestSeveralServicesAreSwitchedEachByOneWriteAndOthersAreLeftAlone(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	served := func(n int) release {
		r := standard(n)
		r.beside += `---
{apiVersion: v1, kind: Service, metadata: {name: inside}, spec: {clusterIP: None, selector: {app: back}, ports: [{name: http, port: 81}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: same-pods}, spec: {selector: {app: web}, ports: [{name: http, port: 82}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: elsewhere}, spec: {type: ExternalName, externalName: example.org}}
---
{apiVersion: v1, kind: Service, metadata: {name: nobody}, spec: {selector: {app: nobody}, ports: [{name: http, port: 83}]}}
`
		return r
	}
	b.publish(served(1), served(2))
	id := b.runs(b.vnfdID(1))
	f := b.recorder()
	b.server.run(t, id, "change_vnfpkg", b.changing(2, "Blue-Green"))
	s := f.record()
	b.cleanly(s, "0", "1")
	for service, writes := range map[string]int{"front": 1, "inside": 1, "same-pods": 1, "elsewhere": 0, "nobody": 0} {
		if n := len(s.of("Service/"+service, watch.Modified)); n != writes {
			t.Errorf("the Service %s was written %d times, want %d", service, n, writes)
		}
		if writes > 0 && s.flow(service) != "0, 1" {
			t.Errorf("the Service %s sent traffic to the generations %q", service, s.flow(service))
		}
	}
	b.only(id, "1")
	b.undrifted(id)
}
