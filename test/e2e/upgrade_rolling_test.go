package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestAOneLineCommitUpgradesARunningVNFInPlaceAndKeepsItsSize(t *testing.T) {
	b := newStage(t)
	b.publish(standard(1), standard(2))
	id, file, d := b.pushed(b.vnfdID(1), "levels: {web_aspect: 2}\n")
	web, service, pods := b.read("Deployment/web"), b.read("Service/front"), b.workers()
	f := b.recorder()
	b.upgraded(d, file, 1, 2)
	op := b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")

	after := b.read("Deployment/web")
	if after.GetUID() != web.GetUID() {
		t.Error("the Deployment is another one")
	}
	if left := len(pods) - len(gone(pods, b.workers())); left > 0 {
		t.Errorf("%d of the old pods still run", left)
	}
	b.awaitPods(5)
	if n := b.running(2); n != 5 {
		t.Errorf("%d pods run release 2, want 5", n)
	}
	if n := b.level(id, "web_aspect"); n != 2 {
		t.Errorf("scale level %d, want 2", n)
	}
	if now := b.read("Service/front"); now.GetUID() != service.GetUID() || fmt.Sprint(now.Object["spec"]) != fmt.Sprint(service.Object["spec"]) {
		t.Errorf("the Service was\n%v\nand is\n%v", service.Object, now.Object)
	}
	s := f.record()
	ready := s.readyAt(image(2), 5)
	if pruned := s.gone("ConfigMap/only-in-1"); pruned == 0 || ready == 0 || pruned < ready {
		t.Errorf("what the new release dropped went at %d, its pods were ready at %d", pruned, ready)
	}
	if made := s.born("ConfigMap/only-in-2"); made == 0 || made > ready {
		t.Errorf("what the new release added came at %d, its pods were ready at %d", made, ready)
	}
	for _, m := range s.traffic("front") {
		if len(m.pods) == 0 {
			t.Errorf("at %d the Service had no endpoint", m.at)
		}
	}
	b.versions(id, 2)
	b.sameVNFCs(id)
	want := []string{"ADDED BACK", "ADDED WEB", "ADDED WEB", "ADDED WEB", "ADDED WEB", "REMOVED BACK", "REMOVED WEB", "REMOVED WEB", "REMOVED WEB", "REMOVED WEB"}
	if got := changes(op); !slices.Equal(got, want) {
		t.Errorf("affected VNFCs: %v, want %v", got, want)
	}
	b.triggered(op, 1, 2)
	d.Pull()
	if text := d.Read(file); strings.Contains(text, "generation") || strings.Contains(text, "overlays") || strings.Count(text, "package: ") != 1 {
		t.Errorf("Jibe filled in more than the pin:\n%s", text)
	}
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })
	b.undrifted(id)
}

// triggered compares modificationsTriggeredByVnfPkgChange with a change between releases.
func (b *bench) triggered(op object, from, to int) {
	b.Helper()
	m := object{}
	if got, ok := op["modificationsTriggeredByVnfPkgChange"].(map[string]any); ok {
		m = got
	}
	for attr, want := range map[string]string{"vnfdId": b.vnfdID(to), "vnfdVersion": fmt.Sprintf("%d.0", to), "vnfSoftwareVersion": fmt.Sprintf("%d.0", to)} {
		if got := m.text(attr); got != want {
			b.Errorf("modificationsTriggeredByVnfPkgChange.%s is %q, want %q (from release %d): %v", attr, got, want, from, op["modificationsTriggeredByVnfPkgChange"])
		}
	}
}

// apart is the release with a file for each of its objects, as authors have them. The
// files of different releases have different names.
func apart(r release) release {
	var docs []string
	for _, v := range r.vdus {
		docs = append(docs, v.manifest())
	}
	r.files = map[string]string{"Files/kubernetes/all.yaml": "# Nothing: each object has its file.\n"}
	for _, doc := range append(docs, strings.SplitAfter(r.beside, "\n---\n")...) {
		doc = strings.ReplaceAll(strings.Trim(doc, "-\n"), "registry.k8s.io/pause:3.10", image(r.n)) + "\n"
		if i := strings.Index(doc, "name: "); i >= 0 {
			name := strings.FieldsFunc(doc[i+len("name: "):], func(c rune) bool { return strings.ContainsRune(" ,}\n", c) })[0]
			r.files[fmt.Sprintf("Files/kubernetes/%s.yaml", name)] = doc
		}
	}
	return r
}

func TestARequestThatListsOneManifestLosesNeitherVDUsNorSharedObjects(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(apart(standard(1)), apart(standard(2)))
	id := b.create(b.vnfdID(1))
	body := b.request()
	files := []string{"Files/kubernetes/settings.yaml", "Files/kubernetes/login.yaml", "Files/kubernetes/only-in-1.yaml", "Files/kubernetes/front.yaml", "Files/kubernetes/web.yaml", "Files/kubernetes/back.yaml"}
	body["additionalParams"].(object)["lcm-kubernetes-def-files"] = files
	b.server.run(t, id, "instantiate", body)
	objects := b.made(id)
	f := b.recorder()

	change := b.changing(2, "RollingUpdate", "lcm-kubernetes-def-files", []string{"Files/kubernetes/web.yaml"})
	op := b.server.run(t, id, "change_vnfpkg", change)
	if op.text("operation") != "CHANGE_VNFPKG" || op["isAutomaticInvocation"] != false {
		t.Errorf("%v", op)
	}
	b.awaitPods(3)
	if n := b.running(2); n != 3 {
		t.Errorf("%d pods run release 2, want all 3: a VDU that isn't listed is carried over", n)
	}
	after := b.made(id)
	for name, u := range objects {
		if now, ok := after[name]; name != "ConfigMap/only-in-1" && (!ok || now.GetUID() != u.GetUID()) {
			t.Errorf("%s is gone, or another one", name)
		}
	}
	if data := after["ConfigMap/settings"].Object["data"]; fmt.Sprint(data) != "map[mode:release-2]" {
		t.Errorf("the ConfigMap holds %v", data)
	}
	if _, still := after["ConfigMap/only-in-1"]; still {
		t.Error("what the new release dropped is still there")
	}
	if n := len(f.record().of("Deployment/web", watch.Deleted, watch.Added)); n != 0 {
		t.Errorf("the Deployment was made anew")
	}
	b.versions(id, 2)
	b.sameVNFCs(id)
	b.triggered(op, 1, 2)
	b.definitions(id, "web.yaml", "back.yaml", "settings.yaml", "front.yaml", "login.yaml")
	b.server.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	b.awaitPods(0)
	if left := b.made(id); len(left) > 0 {
		t.Errorf("after the termination there is still %v", left)
	}
}

// definitions looks for files in the manifests that the API shows.
func (b *bench) definitions(id string, names ...string) {
	b.Helper()
	shown := fmt.Sprint(b.show(b.T, id).get("instantiatedVnfInfo", "metadata", "lcm-kubernetes-def-files"))
	for _, n := range names {
		if !strings.Contains(shown, "Files/kubernetes/"+n) {
			b.Errorf("the manifests that are shown lack %s: %s", n, shown)
		}
	}
}

func TestANewPackageMayHaveAVDUMoreAndAnAspectMore(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	grown := standard(2)
	grown.vdus = append(grown.vdus, vdu{kind: "StatefulSet", name: "log", initial: 1, more: "serviceName: log, "})
	b.publish(standard(1), grown)
	id, file, d := b.pushed(b.vnfdID(1), "levels: {web_aspect: 1}\n")
	b.upgraded(d, file, 1, 2)
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	b.awaitPods(5)
	b.sameVNFCs(id)
	if web, log := b.level(id, "web_aspect"), b.level(id, "log_aspect"); web != 1 || log != 0 {
		t.Errorf("scale levels: web %d, log %d", web, log)
	}
	b.server.run(t, id, "scale", scale("SCALE_OUT", "log_aspect", 1))
	b.awaitPods(6)
}

func TestACommitThatUpgradesAndScalesIsOneOperation(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), standard(2))
	id, file, d := b.pushed(b.vnfdID(1), "levels: {web_aspect: 0}\n")
	b.amend(d, file, "Upgrade and grow", "vnfdId: "+b.vnfdID(1), "vnfdId: "+b.vnfdID(2), "web_aspect: 0", "web_aspect: 2")
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	b.awaitPods(5)
	if n := b.level(id, "web_aspect"); n != 2 || b.running(2) != 5 {
		t.Errorf("scale level %d, %d pods of release 2", n, b.running(2))
	}
	b.sameVNFCs(id)
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })
}

func TestTheCoordinationScriptOfARollingChangeRunsWhenTheNewPodsAreReady(t *testing.T) {
	b := newStage(t)
	coordinate, text := b.scripted()
	second := standard(2)
	second.files = map[string]string{"Scripts/new.sh": text}
	b.publish(standard(1), second)
	id := b.runs(b.vnfdID(1))
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "RollingUpdate", "lcm-operation-coordinate-new-vnf", "Scripts/new.sh"))
	input := coordinate.called(1)
	if n := b.running(2); n != 3 {
		t.Errorf("the script runs while %d pods of the new release do, want 3", n)
	}
	if _, still := b.made(id)["ConfigMap/only-in-1"]; still {
		t.Error("the script runs before what the new release dropped is gone")
	}
	if got := unitsOf(input, "WEB", "new"); len(got) != 2 {
		t.Errorf("the hook gets the new pods %v", got)
	}
	coordinate.answer(1, "exit 0")
	b.await(t, path, "COMPLETED")
	if n := coordinate.calls(); n != 1 {
		t.Errorf("the script was called %d times", n)
	}
}

func TestEveryKindOfWorkloadAndJobIsCarriedOverByARollingChange(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	all := func(n int) release {
		return release{n: n, vdus: []vdu{
			{kind: "Deployment", name: "web", initial: 2}, {kind: "ReplicaSet", name: "cache", initial: 2}, {kind: "StatefulSet", name: "store", initial: 2, more: "serviceName: store, "},
			{kind: "DaemonSet", name: "agent"}, {kind: "Pod", name: "probe", initial: 1},
		}, beside: standardBeside(n) + fmt.Sprintf(`---
{apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "%s"}]}}}}
`, image(n))}
	}
	b.publish(all(1), all(2))
	id, file, d := b.pushed(b.vnfdID(1), "")
	pods, objects := b.workers(), b.made(id)
	probe := b.pods()["probe"].UID
	f := b.recorder()
	b.upgraded(d, file, 1, 2)
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	if left := len(pods) - len(gone(pods, b.workers())); left != 1 || b.pods()["probe"].UID != probe {
		t.Errorf("%d of the old pods still run; only the bare Pod may, whose image was changed where it is", left)
	}
	for name, p := range b.pods() {
		if got := p.Spec.Containers[0].Image; got != image(2) {
			t.Errorf("%s runs %s", name, got)
		}
	}
	delete(objects, "ConfigMap/only-in-1")
	after := b.made(id)
	delete(after, "ConfigMap/only-in-2")
	if got := b.renewed(objects, after); !slices.Equal(got, []string{"Job/once"}) {
		t.Errorf("objects with a new uid: %v; a Job's template can't be changed", got)
	}
	// A ReplicaSet's pods are replaced one at a time.
	b.sameWorkersSoon(id)
	live, least := map[string]bool{}, 99
	for _, x := range f.record() {
		if strings.HasPrefix(x.name, "Pod/cache-") {
			if x.event == watch.Deleted || x.object.GetDeletionTimestamp() != nil || !isReady(x.object) {
				delete(live, x.name)
			} else {
				live[x.name] = true
			}
			if x.event != there {
				least = min(least, len(live))
			}
		}
	}
	if least != 1 {
		t.Errorf("of the ReplicaSet's 2 pods there were %d at least", least)
	}
	b.undrifted(id)
}
