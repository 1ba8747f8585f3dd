package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// The two images of the packages whose containers are updated: one that every release
// has otherwise, and one that stays.
const staying = "registry.k8s.io/pause:stays"

// mounted has a container use the pod's only volume.
const mounted = "volumeMounts: [{name: v, mountPath: /v}],"

// box is a workload with one container.
type box struct {
	kind, name string
	image      string
	init       string // its init containers, in JSON without the brackets
	more       string // more of its container, a line
	pod        string // more of its pod, a line
}

func (x box) manifest(mode string) string {
	app := "{app: " + x.name + "}"
	pod := fmt.Sprintf(`{terminationGracePeriodSeconds: 0, %s initContainers: [%s],
    containers: [{name: c, image: "%s", %s env: [{name: FIELD, value: %s}], resources: {requests: {cpu: 1m}}}]}`, x.pod, x.init, x.image, x.more, mode)
	if x.kind == "Pod" {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: %s}, spec: %s}\n", x.name, app, pod)
	}
	more := ""
	if x.kind == "StatefulSet" {
		more = "serviceName: s, "
	}
	return fmt.Sprintf("---\n{apiVersion: apps/v1, kind: %s, metadata: {name: %s}, spec: {%sselector: {matchLabels: %s}, template: {metadata: {labels: %s}, spec: %s}}}\n",
		x.kind, x.name, more, app, app, pod)
}

// boxes are the workloads of release n. Those whose names begin with "new" use what an
// update changes, each in another way; the others use what it leaves.
func boxes(n int) []box {
	return []box{
		{kind: "Deployment", name: "new-env-from", image: staying, more: "envFrom: [{prefix: CM_, configMapRef: {name: changing}}],"},
		{kind: "Deployment", name: "new-image", image: image(n)},
		{kind: "ReplicaSet", name: "new-volume", image: staying, more: mounted, pod: "volumes: [{name: v, secret: {secretName: secret-changing}}],"},
		{kind: "DaemonSet", name: "new-init", image: staying,
			init: `{name: i, image: "` + staying + `", env: [{name: A, valueFrom: {secretKeyRef: {name: secret-changing, key: password}}}]}`},
		{kind: "StatefulSet", name: "new-projected", image: staying, more: mounted, pod: "volumes: [{name: v, projected: {sources: [{configMap: {name: changing}}]}}],"},
		{kind: "Pod", name: "new-pod-config", image: staying, more: mounted, pod: "volumes: [{name: v, configMap: {name: changing}}],"},
		{kind: "Pod", name: "in-place", image: image(n)},
		{kind: "Pod", name: "old-pod", image: staying, more: mounted, pod: "volumes: [{name: v, configMap: {name: staying}}],"},
		{kind: "Deployment", name: "old-env", image: staying, more: "envFrom: [{secretRef: {name: secret-staying}}],"},
		{kind: "DaemonSet", name: "old-nothing", image: staying},
	}
}

// boxed is release n of the package: its ConfigMaps and Secrets lie in files whose names
// tell the release, and differ in both sets, of which an update names one.
func boxed(n int) release {
	var workloads strings.Builder
	r := release{n: n, files: map[string]string{}}
	for _, x := range boxes(n) {
		workloads.WriteString(x.manifest(fmt.Sprintf("release-%d", n)))
		v := vdu{kind: x.kind, name: x.name, initial: 1}
		if x.kind == "DaemonSet" {
			v.initial = 0
		}
		r.vdus = append(r.vdus, v)
	}
	r.files["Files/kubernetes/all.yaml"] = workloads.String()
	for _, set := range []string{"changing", "staying"} {
		r.files[fmt.Sprintf("Files/kubernetes/%s-%d.yaml", set, n)] = fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %[1]s}, data: {key: release-%[2]d}}
---
{apiVersion: v1, kind: Secret, metadata: {name: secret-%[1]s}, stringData: {password: hidden-in-%[2]d}}
`, set, n)
	}
	return r
}

func boxedFiles(n int) []string {
	return []string{fmt.Sprintf("Files/kubernetes/changing-%d.yaml", n), fmt.Sprintf("Files/kubernetes/staying-%d.yaml", n), "Files/kubernetes/all.yaml"}
}

// boxedRuns defines and instantiates release 1 of the package by a push.
func (b *bench) boxedRuns() (id, file string, d *process.WorkTree) {
	b.Helper()
	d = b.clone(b.T, "desired.git")
	file = "instances/boxed/" + b.namespace + "/vnf.yaml"
	d.Write(file, fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nparams: {namespace: %[1]s, lcm-kubernetes-def-files: [%[3]s]}\n",
		b.namespace, b.vnfdID(1), strings.Join(boxedFiles(1), ", ")))
	d.Push("Run")
	id = b.idOf(b.namespace)
	b.outcome(id, 0, "INSTANTIATE COMPLETED")
	d.Pull()
	return id, file, d
}

// replaced compares the pods that are gone: exactly those that use what was changed.
// The others have their UIDs, and have run since they did.
func (b *bench) replaced(before, after map[string]podState) {
	b.Helper()
	for uid, p := range before {
		now, still := after[uid]
		fresh := strings.HasPrefix(p.app, "new-")
		switch {
		case fresh && still:
			b.Errorf("%s uses what was changed and wasn't replaced", p.name)
		case !fresh && !still:
			b.Errorf("%s uses nothing that was changed and was replaced", p.name)
		case !fresh && (now.started != p.started || now.name != p.name):
			b.Errorf("%s ran since %s and runs since %s", p.name, p.started, now.started)
		}
	}
	if len(before) != len(after) {
		b.Errorf("%d pods, were %d", len(after), len(before))
	}
}

// podState is what of a pod an update may change.
type podState struct{ app, name, started, image string }

// states are the live pods by UID.
func (b *bench) states() map[string]podState {
	b.Helper()
	all := map[string]podState{}
	for _, p := range b.pods() {
		started := ""
		if p.Status.StartTime != nil {
			started = p.Status.StartTime.String()
		}
		all[string(p.UID)] = podState{p.Labels["app"], p.Name, started, p.Spec.Containers[0].Image}
	}
	return all
}

// contents is what a ConfigMap or Secret holds under its only key.
func (b *bench) contents(object, key string) string {
	b.Helper()
	u := b.read(object)
	value, _, _ := unstructured.NestedString(u.Object, "data", key)
	if u.GetKind() == "Secret" {
		text, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			b.Fatal(err)
		}
		return string(text)
	}
	return value
}

// updated proves what a container update from release 1 to n does and what it leaves.
func (b *bench) updated(id string, before map[string]podState, n int) {
	b.Helper()
	b.replaced(before, b.states())
	b.awaitPods(len(before))
	for object, want := range map[string]string{
		"ConfigMap/changing key": fmt.Sprintf("release-%d", n), "Secret/secret-changing password": fmt.Sprintf("hidden-in-%d", n),
		"ConfigMap/staying key": "release-1", "Secret/secret-staying password": "hidden-in-1",
	} {
		name, key, _ := strings.Cut(object, " ")
		if got := b.contents(name, key); got != want {
			b.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	for _, p := range b.states() {
		want := staying
		if p.app == "new-image" || p.app == "in-place" {
			want = image(n)
		}
		if p.image != want {
			b.Errorf("%s runs %s, want %s", p.name, p.image, want)
		}
	}
	b.fields(1)
	b.sameWorkersSoon(id)
	b.versions(id, n)
}

// fields looks at the field that only a change in full takes over: in all pods it is
// that of release n.
func (b *bench) fields(n int) {
	b.Helper()
	for name, p := range b.pods() {
		if env := p.Spec.Containers[0].Env; len(env) == 0 || env[len(env)-1].Value != fmt.Sprintf("release-%d", n) {
			b.Errorf("%s has the environment %v, want that of release %d", name, env, n)
		}
	}
}

func TestAPatchUpdatesContainersAndConfigAndRestartsOnlyWhoUsesThem(t *testing.T) {
	b := newStage(t)
	b.publish(boxed(1), boxed(2))
	id, file, d := b.boxedRuns()
	before := b.states()
	objects := b.made(id)
	patch := object{"vnfdId": b.vnfdID(2), "vnfInstanceName": "modify_vnf_after", "metadata": object{"configmap_secret_paths": []string{"Files/kubernetes/changing-2.yaml"}}}
	a := b.must(t, 202, "PATCH", instances+"/"+id, patch, "Content-Type", "application/merge-patch+json")
	op := b.await(t, a.Header.Get("Location"), "COMPLETED")
	b.updated(id, before, 2)
	if op.text("operation") != "MODIFY_INFO" {
		t.Errorf("the operation is %s", op.text("operation"))
	}
	for attr, want := range map[string]string{"vnfdId": b.vnfdID(2), "vnfInstanceName": "modify_vnf_after", "vnfdVersion": "2.0", "vnfSoftwareVersion": "2.0"} {
		if got := op.text("changedInfo", attr); got != want {
			t.Errorf("changedInfo.%s is %q, want %q", attr, got, want)
		}
	}
	if got := fmt.Sprint(op.get("changedInfo", "metadata")); !strings.Contains(got, "Files/kubernetes/changing-2.yaml") {
		t.Errorf("changedInfo.metadata is %s", got)
	}
	// Nothing but bare Pods whose config changed is made anew.
	if got := b.renewed(objects, b.made(id)); !slices.Equal(got, []string{"Pod/new-pod-config"}) {
		t.Errorf("objects with a new uid: %v", got)
	}
	for _, change := range changes(op) {
		if strings.Contains(change, "OLD-") || strings.HasSuffix(change, " IN-PLACE") && !strings.HasPrefix(change, "MODIFIED") {
			t.Errorf("an affected VNFC: %s", change)
		}
	}
	b.undrifted(id)
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })

	// A VNFC that is healed comes back as it was updated.
	b.server.run(t, id, "heal", chosen(b.vnfcs(id, "NEW-IMAGE")[0].uid, b.vnfcs(id, "NEW-POD-CONFIG")[0].uid))
	b.fields(1)
	if n := b.running(2); n != 2 {
		t.Errorf("%d pods run the image of release 2, want 2", n)
	}

	// Healed as a whole, the VNF is the new package in full.
	b.server.run(t, id, "heal", object{})
	b.awaitPods(len(before))
	b.fields(2)
	for object, want := range map[string]string{"ConfigMap/staying": "release-2", "ConfigMap/changing": "release-2"} {
		if got := b.contents(object, "key"); got != want {
			t.Errorf("after the heal %s holds %q, want %q", object, got, want)
		}
	}
	d.Pull()
	if text := d.Read(file); strings.Contains(text, "overlays") || strings.Contains(text, "base:") {
		t.Errorf("the heal left updates in the file:\n%s", text)
	}
	b.sameWorkersSoon(id)
	b.undrifted(id)
}

func TestCommitsUpdateContainersOneOnTopOfTheOther(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(boxed(1), boxed(2), boxed(3))
	id, file, d := b.boxedRuns()
	before := b.states()
	b.amend(d, file, "Update containers", "vnfdId: "+b.vnfdID(1),
		"update: {strategy: container}\nmetadata: {configmap_secret_paths: [Files/kubernetes/changing-2.yaml]}\nvnfdId: "+b.vnfdID(2))
	op := b.outcome(id, 1, "MODIFY_INFO COMPLETED")
	if op.get("changedInfo", "vnfdId") != b.vnfdID(2) {
		t.Errorf("changedInfo is %v", op["changedInfo"])
	}
	b.updated(id, before, 2)

	before = b.states()
	b.amend(d, file, "Update them again", "vnfdId: "+b.vnfdID(2), "vnfdId: "+b.vnfdID(3), "changing-2.yaml]}", "changing-3.yaml]}")
	b.outcome(id, 2, "MODIFY_INFO COMPLETED")
	b.updated(id, before, 3)
	d.Pull()
	if text := d.Read(file); strings.Count(text, "changing-2.yaml") != 1 || !strings.Contains(text, "base:") {
		t.Errorf("the file doesn't tell of two updates on one base:\n%s", text)
	}

	// A change of package takes over all of it.
	b.amend(d, file, "Roll", "vnfdId: "+b.vnfdID(3), "vnfdId: "+b.vnfdID(2), "strategy: container", "strategy: rolling", "-1.yaml", "-2.yaml", "-1.yaml", "-2.yaml")
	b.outcome(id, 3, "CHANGE_VNFPKG COMPLETED")
	b.awaitPods(len(before))
	b.fields(2)
	b.undrifted(id)
}

func TestAContainerUpdateThatFailsIsTakenBack(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(boxed(1), boxed(2))
	id, file, d := b.boxedRuns()
	b.quota("99")
	text, before := d.Read(file), b.snapshot(false)
	kept := b.states()
	maps.DeleteFunc(kept, func(_ string, p podState) bool { return strings.HasPrefix(p.app, "new-") })
	b.quota("1")
	a := b.must(t, 202, "PATCH", instances+"/"+id, object{"vnfdId": b.vnfdID(2), "metadata": object{"configmap_secret_paths": []string{"Files/kubernetes/changing-2.yaml"}}},
		"Content-Type", "application/merge-patch+json")
	path := a.Header.Get("Location")
	b.says(b.await(t, path, "FAILED_TEMP"), "exceeded quota")
	b.quota("99")
	b.must(t, 202, "POST", path+"/rollback", nil)
	b.await(t, path, "ROLLED_BACK")
	b.restored(id, file, text, before, false)
	after := b.states()
	for uid, p := range kept {
		if now := after[uid]; now != p {
			t.Errorf("%v is %v after the rollback", p, now)
		}
	}
	b.undrifted(id)
}

func TestAContainerUpdateOfAnImmutableMapIsRefused(t *testing.T) {
	b := newStage(t)
	fixed := func(n int) release {
		r := boxed(n)
		set := fmt.Sprintf("Files/kubernetes/changing-%d.yaml", n)
		r.files[set] = strings.Replace(r.files[set], "kind: ConfigMap,", "kind: ConfigMap, immutable: true,", 1)
		return r
	}
	b.publish(fixed(1), fixed(2))
	id, _, _ := b.boxedRuns()
	b.unmoved(id, func() {
		a := b.rest(t, "PATCH", instances+"/"+id, object{"vnfdId": b.vnfdID(2), "metadata": object{"configmap_secret_paths": []string{"Files/kubernetes/changing-2.yaml"}}},
			"Content-Type", "application/merge-patch+json")
		if a.Status != 400 || !strings.Contains(a.object(t).text("detail"), "immutable") {
			t.Errorf("an immutable ConfigMap: %d %s", a.Status, a.Body)
		}
	})
}

func TestContainersAreUpdatedInALaterGeneration(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	// Without what can't stand twice.
	able := func(n int) release {
		r := boxed(n)
		var workloads strings.Builder
		r.vdus = nil
		for _, x := range boxes(n) {
			if x.kind == "Deployment" || x.kind == "ReplicaSet" {
				workloads.WriteString(x.manifest(fmt.Sprintf("release-%d", n)))
				r.vdus = append(r.vdus, vdu{kind: x.kind, name: x.name, initial: 1})
			}
		}
		r.files["Files/kubernetes/all.yaml"] = workloads.String()
		return r
	}
	b.publish(able(1), able(2), able(3))
	id, file, d := b.boxedRuns()
	b.amend(d, file, "Switch", "vnfdId: "+b.vnfdID(1), greenly+"vnfdId: "+b.vnfdID(2), "-1.yaml", "-2.yaml", "-1.yaml", "-2.yaml")
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	b.awaitPods(4)
	before := b.states()
	b.amend(d, file, "Update containers", "vnfdId: "+b.vnfdID(2), "metadata: {configmap_secret_paths: [Files/kubernetes/changing-3.yaml]}\nvnfdId: "+b.vnfdID(3), "strategy: blueGreen", "strategy: container")
	b.outcome(id, 2, "MODIFY_INFO COMPLETED")
	b.replaced(before, b.states())
	b.fields(2)
	for object, want := range map[string]string{"ConfigMap/changing-1": "release-3", "ConfigMap/staying-1": "release-2"} {
		if got := b.contents(object, "key"); got != want {
			t.Errorf("%s holds %q, want %q", object, got, want)
		}
	}
	b.sameWorkersSoon(id)

	// From there it is switched on, to the package in full.
	b.amend(d, file, "Switch again", "vnfdId: "+b.vnfdID(3), "vnfdId: "+b.vnfdID(1), "strategy: container", "strategy: blueGreen", "-2.yaml", "-1.yaml", "-2.yaml", "-1.yaml")
	b.outcome(id, 3, "CHANGE_VNFPKG COMPLETED")
	b.awaitPods(4)
	b.fields(1)
	if left := b.made(id)["ConfigMap/changing-1"]; left != nil {
		t.Error("the former generation's ConfigMap is left over")
	}
	b.undrifted(id)
}
