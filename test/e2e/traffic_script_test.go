package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// naive is the patch of the document: the author's label of the Service alone.
func naive(version int) string {
	return fmt.Sprintf("{'spec': {'selector': {'version': 'v%d'}}}", version)
}

// byHand publishes the releases with a script for the new VNF that the test answers for; it
// answers for that of the old VNF as well.
func (b *bench) byHand(releases ...int) (arriving, leaving *script) {
	b.Helper()
	arriving, newText := b.scripted()
	leaving, oldText := b.scripted()
	var all []release
	for _, n := range releases {
		r := hand(n)
		r.files["Scripts/new.sh"], r.files["Scripts/old.sh"] = newText, oldText
		all = append(all, r)
	}
	b.publish(all...)
	return arriving, leaving
}

// patching is the release with a script that patches the author's label of the Service alone.
func (b *bench) patching(n int) release {
	b.Helper()
	client, err := os.ReadFile("../../examples/packages/blue-green-script-1.1/Scripts/kube.py")
	if err != nil {
		b.Fatal(err)
	}
	r := hand(n)
	r.files["Scripts/kube.py"] = string(client)
	r.files["Scripts/new.py"] = fmt.Sprintf(`#!/usr/bin/env python3
from kube import Kube
patch = {"spec": {"selector": {"version": "v%d"}}}
Kube().call("PATCH", "/api/v1/namespaces/%s/services/front", patch, fieldManager="script")
`, n, b.namespace)
	return r
}

// led waits until the Service sends traffic to pods of the version alone.
func (b *bench) led(f *recorder, version int) {
	b.Helper()
	kit.Eventually(b, func() error {
		flow := strings.Split(f.record().versions(), ", ")
		if last := flow[len(flow)-1]; last != fmt.Sprintf("v%d", version) {
			return fmt.Errorf("the Service sends traffic to %q, want v%d", last, version)
		}
		return nil
	})
}

// versions is to which versions the Service "front" sent traffic, as flow says it.
func (s record) versions() string {
	return s.route("front", func(pod *unstructured.Unstructured) string { return pod.GetLabels()["version"] })
}

// selector is that of the Service "front", without the instance.
func (b *bench) selector() string {
	b.Helper()
	selector := b.read("Service/front").Object["spec"].(map[string]any)["selector"].(map[string]any)
	delete(selector, "vnf.jibe.dev/instance")
	return fmt.Sprint(selector)
}

func TestAScriptThatSwitchesTheServiceByItsOwnLabelAloneCausesNoOutage(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	arriving, _ := b.byHand(1, 2, 3)
	id := b.runs(b.vnfdID(1))
	service := address(b.read("Service/front"))
	f := b.recorder()
	// The second change begins where the author's file still selects version v1, and Jibe has
	// left that out.
	for n := 2; n <= 3; n++ {
		path := b.begin(t, id, "change_vnfpkg", b.changing(n, "Blue-Green", "lcm-operation-coordinate-new-vnf", "Scripts/new.sh"))
		arriving.called(n - 1)
		if got, want := b.selector(), fmt.Sprintf("map[app:web version:v%d]", n-1); got != want {
			t.Errorf("when the script runs, the Service selects by %s, want %s", got, want)
		}
		b.patch("Service/front", "script", naive(n))
		b.led(f, n)
		patched := b.read("Service/front").GetResourceVersion()
		kit.Stays(t, quiet, func() error {
			if now := b.read("Service/front").GetResourceVersion(); now != patched {
				return fmt.Errorf("the Service that the script switched was changed while the script runs: %s", b.selector())
			}
			return nil
		})
		arriving.answer(n-1, "exit 0")
		b.await(t, path, "COMPLETED")
		if got, want := b.selector(), fmt.Sprintf("map[app:web %s:%d]", generationLabel, n-1); got != want {
			t.Errorf("after the change the Service selects by %s, want %s", got, want)
		}
	}
	s := f.record()
	if got := s.versions(); got != "v1, v2, v3" {
		t.Errorf("the Service sent traffic to the versions %q", got)
	}
	if is := address(b.read("Service/front")); is != service || len(s.of("Service/front", watch.Deleted)) > 0 {
		t.Errorf("the Service was %s and is %s", service, is)
	}
	b.undrifted(id)
}

func TestAScriptThatSwitchesTheServiceBackByItsOwnLabelAloneCausesNoOutage(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	arriving, leaving := b.byHand(1, 2)
	id := b.runs(b.vnfdID(1))
	f := b.recorder()
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green", "lcm-operation-coordinate-new-vnf", "Scripts/new.sh", "lcm-operation-coordinate-old-vnf", "Scripts/old.sh"))
	arriving.called(1)
	b.patch("Service/front", "script", naive(2))
	b.led(f, 2)
	// It fails when it has switched the Service; tried again, it finds its own work.
	arriving.answer(1, "exit 1")
	b.await(t, path, "FAILED_TEMP")
	b.must(t, 202, "POST", path+"/retry", nil)
	arriving.called(2)
	b.patch("Service/front", "script", naive(2))
	arriving.answer(2, "exit 0")
	leaving.called(1)
	if got := b.selector(); got != fmt.Sprintf("map[app:web %s:1]", generationLabel) {
		t.Errorf("when the script of the old VNF runs, the Service selects by %s", got)
	}
	leaving.answer(1, "exit 1")
	b.await(t, path, "FAILED_TEMP")
	b.must(t, 202, "POST", path+"/rollback", nil)
	leaving.called(2)
	b.patch("Service/front", "script", naive(1))
	b.led(f, 1)
	leaving.answer(2, "exit 0")
	b.await(t, path, "ROLLED_BACK")
	if got := f.record().versions(); got != "v1, v2, v1" {
		t.Errorf("the Service sent traffic to the versions %q", got)
	}
	if got, want := b.selector(), fmt.Sprintf("map[app:web version:v1 %s:0]", generationLabel); got != want {
		t.Errorf("rolled back, the Service selects by %s, want %s", got, want)
	}
	b.undrifted(id)
}

func TestAServiceWhosePodsNoLabelOfThePackageTellsApartKeepsThatOfJibe(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	arriving, _ := b.coordinated()
	id := b.runs(b.vnfdID(1))
	before := b.read("Service/front").GetResourceVersion()
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green", "lcm-operation-coordinate-new-vnf", "Scripts/new.sh"))
	arriving.called(1)
	if now := b.read("Service/front").GetResourceVersion(); now != before {
		t.Errorf("the Service was changed before the script runs: it selects by %s", b.selector())
	}
	arriving.answer(1, "exit 0")
	b.await(t, path, "COMPLETED")
}

func TestAChangeAfterOneThatFailedSendsNoTrafficToItsPodsBeforeTheirTime(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	arriving, _ := b.byHand(1, 2)
	again := hand(3) // its pods are labelled as those of release 1 are
	again.files["Files/kubernetes/all.yaml"] = strings.NewReplacer("version: v3", "version: v1").Replace(again.files["Files/kubernetes/all.yaml"])
	later, text := b.scripted()
	again.files["Scripts/new.sh"] = text
	b.publish(again)
	id, file, d := b.pushed(b.vnfdID(1), "update: {strategy: blueGreen, coordinate: {new: Scripts/new.sh}}\n")
	f := b.recorder()
	b.upgraded(d, file, 1, 2)
	arriving.each(1, "exit 1")
	b.outcome(id, 1, "CHANGE_VNFPKG FAILED_TEMP")
	if got := b.selector(); got != "map[app:web version:v1]" {
		t.Errorf("after the script failed, the Service selects by %s", got)
	}
	b.amend(d, file, "Another one", "vnfdId: "+b.vnfdID(2), "vnfdId: "+b.vnfdID(3), "generation: \"1\"", "generation: \"2\"")
	later.called(1)
	if got := f.record().flow("front"); got != "0" {
		t.Errorf("before the script of the third release runs, the Service sent traffic to the generations %q", got)
	}
	later.answer(1, "exit 0")
	b.outcome(id, 2, "CHANGE_VNFPKG COMPLETED")
	if got := f.record().flow("front"); got != "0, 2" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	b.undrifted(id)
}

// TestAServiceThatAScriptSwitchesByItsOwnLabelIsServedAtWhicheverStepJibeIsKilled kills the
// process at the first step of a change, then at the second, until there is no such step.
func TestAServiceThatAScriptSwitchesByItsOwnLabelIsServedAtWhicheverStepJibeIsKilled(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t) // for the namespace; the server is one of this test
	b.alone(t)
	b.permit()
	one, two := b.patching(1), b.patching(2)
	b.publish(one, two)
	id, file, d := b.pushed(b.vnfdID(1), "update: {strategy: blueGreen, coordinate: {new: Scripts/new.py}}\n")
	for n := 1; ; n++ {
		from, to := 2-n%2, 1+n%2
		f := b.recorder()
		killed, end := killAt(b.server, n, taking/2)
		b.upgraded(d, file, from, to)
		hit := b.endsDespiteAKill(t, id, n, killed, end)
		b.outcome(id, n, "CHANGE_VNFPKG COMPLETED")
		got := f.record().versions()
		if want := fmt.Sprintf("v%d, v%d", from, to); got != want {
			t.Fatalf("killed at step %d, the Service sent traffic to the versions %q, want %q", n, got, want)
		}
		if !hit {
			t.Logf("killed at each of %d steps", n-1)
			if n <= 6 {
				t.Errorf("only %d steps were found", n-1)
			}
			return
		}
	}
}
