package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

const greenly = "update: {strategy: blueGreen}\n"

// address is what clients know of a Service, and its identity.
func address(u *unstructured.Unstructured) string {
	spec, _ := u.Object["spec"].(map[string]any)
	return fmt.Sprint(u.GetUID(), " ", spec["clusterIP"], " ", spec["ports"], " ", spec["type"])
}

// cleanly proves of a blue-green change that clients never noticed it: the Service was
// written once, kept its address, sent traffic to the old generation until it was switched to the new one,
// and nothing that the old pods use was changed.
func (b *bench) cleanly(s record, from, to string) {
	b.Helper()
	if got, want := s.flow("front"), from+", "+to; got != want {
		b.Errorf("the Service sent traffic to the generations %q, want %q", got, want)
	}
	b.switchedOnce(s)
	for _, x := range s {
		kind, _, _ := strings.Cut(x.name, "/")
		if (kind == "ConfigMap" || kind == "Secret") && x.event == watch.Modified {
			b.Errorf("%s was changed while pods used it", x.name)
		}
		if kind != "Pod" {
			continue
		}
		suffix := "-" + x.object.GetLabels()[generationLabel]
		if suffix == "-0" {
			suffix = ""
		}
		for _, used := range uses(x.object) {
			if used != "settings"+suffix && used != "login"+suffix {
				b.Errorf("%s of generation %s uses %s", x.name, x.object.GetLabels()[generationLabel], used)
			}
		}
	}
}

// switchedOnce proves that the Service was changed by exactly one write, and kept its address.
func (b *bench) switchedOnce(s record) {
	b.Helper()
	service := s.of("Service/front")
	if n := len(s.of("Service/front", watch.Modified)); n != 1 || len(service) != 2 {
		b.Errorf("the Service was written %d times (%d entries), want once", n, len(service))
	}
	for _, x := range service {
		if was, is := address(service[0].object), address(x.object); was != is {
			b.Errorf("the Service was %s and is %s", was, is)
		}
	}
}

// uses are the ConfigMaps and Secrets that a pod mounts.
func uses(pod *unstructured.Unstructured) []string {
	var names []string
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	for _, v := range volumes {
		m := v.(map[string]any)
		if name, found, _ := unstructured.NestedString(m, "configMap", "name"); found {
			names = append(names, name)
		}
		if name, found, _ := unstructured.NestedString(m, "secret", "secretName"); found {
			names = append(names, name)
		}
	}
	return names
}

// only proves that nothing of other generations is left, and that what the author
// wrote is there under the generation's names.
func (b *bench) only(id, generation string) {
	b.Helper()
	suffix := "-" + generation
	if generation == "0" {
		suffix = ""
	}
	made := b.made(id)
	for _, name := range []string{"Deployment/web", "Deployment/back", "ConfigMap/settings", "Secret/login"} {
		if made[name+suffix] == nil {
			b.Errorf("%s%s is missing", name, suffix)
		}
	}
	for name, u := range made {
		if g := u.GetLabels()[generationLabel]; g != "" && g != generation && !strings.HasPrefix(name, "Service/") {
			b.Errorf("%s of generation %q is left over", name, g)
		}
	}
	for name, p := range b.pods() {
		if g := p.Labels[generationLabel]; g != generation {
			b.Errorf("the pod %s is of generation %q", name, g)
		}
	}
}

func TestABlueGreenRequestSwitchesTheServiceInOneWriteAndNoClientNotices(t *testing.T) {
	b := newStage(t)
	b.publish(standard(1), standard(2))
	id := b.runs(b.vnfdID(1))
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 2))
	f := b.recorder()
	op := b.server.run(t, id, "change_vnfpkg", b.changing(2, "Blue-Green"))
	s := f.record()
	b.cleanly(s, "0", "1")
	if at, ready := s.switched("front", "1"), s.readyAt(image(2), 5); ready == 0 || at < ready {
		t.Errorf("the Service was switched at %d, the new pods were all ready at %d", at, ready)
	}
	b.only(id, "1")
	b.awaitPods(5)
	b.versions(id, 2)
	b.sameVNFCs(id)
	b.triggered(op, 1, 2)
	if n := b.level(id, "web_aspect"); n != 2 {
		t.Errorf("scale level %d, want 2", n)
	}
	want := []string{"ADDED BACK", "ADDED WEB", "ADDED WEB", "ADDED WEB", "ADDED WEB", "REMOVED BACK", "REMOVED WEB", "REMOVED WEB", "REMOVED WEB", "REMOVED WEB"}
	if got := changes(op); !slices.Equal(got, want) {
		t.Errorf("affected VNFCs: %v, want %v", got, want)
	}
	// Later operations find their way in the new generation.
	b.server.run(t, id, "scale", scale("SCALE_IN", "web_aspect", 1))
	b.server.run(t, id, "heal", chosen(b.vnfcs(id, "WEB")[0].uid))
	b.awaitPods(4)
	b.sameVNFCs(id)
	b.only(id, "1")
	b.undrifted(id)
}

func TestBlueGreenCommitsFollowEachOtherGenerationByGeneration(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), standard(2), standard(3))
	id, file, d := b.pushed(b.vnfdID(1), "levels: {web_aspect: 1}\n"+greenly)
	f := b.recorder()
	b.upgraded(d, file, 1, 2)
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	b.cleanly(f.record(), "0", "1")
	b.only(id, "1")
	b.awaitPods(4)

	f = b.recorder()
	b.upgraded(d, file, 2, 3)
	b.outcome(id, 2, "CHANGE_VNFPKG COMPLETED")
	b.cleanly(f.record(), "1", "2")
	b.only(id, "2")
	b.awaitPods(4)
	b.versions(id, 3)
	b.sameVNFCs(id)

	// A rolling change stays in the generation that runs.
	web := b.read("Deployment/web-2")
	b.amend(d, file, "Roll on", "vnfdId: "+b.vnfdID(3), "vnfdId: "+b.vnfdID(1), "blueGreen", "rolling")
	b.outcome(id, 3, "CHANGE_VNFPKG COMPLETED")
	b.only(id, "2")
	if b.read("Deployment/web-2").GetUID() != web.GetUID() || b.running(1) != 4 {
		t.Errorf("the Deployment is another one, or %d pods run release 1", b.running(1))
	}
	b.sameVNFCs(id)
	kit.Stays(t, quiet, func() error { return b.counted(id, 4) })
	b.undrifted(id)
}

// hand is a version of a package in the shape that authors of today's packages know:
// the Deployment selects by app alone, the Service by app and version, and the names of
// Deployment and ConfigMap differ between versions.
func hand(n int) release {
	named := func(vnfd string) string {
		return strings.Replace(vnfd, "properties: {name: web,", fmt.Sprintf("properties: {name: web-v%d,", n), 1)
	}
	return release{n: n, vdus: []vdu{{kind: "Deployment", name: "web", initial: 2}}, vnfd: named, files: map[string]string{"Files/kubernetes/all.yaml": fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: page-%[1]d}
data: {index: "version %[1]d"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-v%[1]d}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, version: v%[1]d}}
    spec:
      terminationGracePeriodSeconds: 0
      volumes: [{name: page, configMap: {name: page-%[1]d}}]
      containers: [{name: c, image: "%[2]s", resources: {requests: {cpu: 1m}}}]
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {app: web, version: v1}, ports: [{name: http, port: 80}]}
`, n, image(n))}}
}

func TestAServiceWhoseSelectorTheNewPackageLeavesBehindIsSwitchedAllTheSame(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(hand(1), hand(2))
	id := b.runs(b.vnfdID(1))
	f := b.recorder()
	b.server.run(t, id, "change_vnfpkg", b.changing(2, "Blue-Green"))
	s := f.record()
	if got := s.flow("front"); got != "0, 1" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	b.switchedOnce(s)
	b.awaitPods(2)
	if _, still := b.made(id)["ConfigMap/page-1"]; still {
		t.Error("the old ConfigMap is still there")
	}
	b.undrifted(id)
}

func TestAnAutoscaledWorkloadBeginsItsNewGenerationAtTheSizeThatItHas(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	autoscaled := func(n int) release {
		r := standard(n)
		r.vdus[0].initial = 0
		r.beside += `---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 1, maxReplicas: 9,
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}
`
		return r
	}
	b.publish(autoscaled(1), autoscaled(2))
	id, file, d := b.pushed(b.vnfdID(1), greenly)
	b.scaled("web", "horizontal-pod-autoscaler", 4)
	b.awaitPods(5)
	f := b.recorder()
	b.upgraded(d, file, 1, 2)
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	b.awaitPods(5)
	b.cleanly(f.record(), "0", "1")
	for _, x := range f.record().of("Deployment/web-1") {
		if n, _, _ := unstructured.NestedInt64(x.object.Object, "spec", "replicas"); n != 4 {
			t.Errorf("the new Deployment had %d replicas, the old one 4", n)
		}
	}
	scaler := b.read("HorizontalPodAutoscaler/web-1")
	if target, _, _ := unstructured.NestedString(scaler.Object, "spec", "scaleTargetRef", "name"); target != "web-1" {
		t.Errorf("the autoscaler scales %s", target)
	}
	b.only(id, "1")
	b.sameVNFCs(id)
}

func TestConnectionsHaveTheDrainTimeToEndBeforeTheOldGenerationGoes(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), standard(2))
	id, file, d := b.pushed(b.vnfdID(1), "update: {strategy: blueGreen, drain: 12s}\n")
	f := b.recorder()
	b.upgraded(d, file, 1, 2)
	kit.Eventually(t, func() error {
		if f.record().switched("front", "1") == 0 {
			return fmt.Errorf("the Service isn't switched")
		}
		return nil
	})
	kit.Stays(t, 2*quiet, func() error {
		if n := b.running(1); n != 3 {
			return fmt.Errorf("%d pods of the old generation run on in the drain time, want 3", n)
		}
		return nil
	})
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	b.cleanly(f.record(), "0", "1")
	b.only(id, "1")
}
