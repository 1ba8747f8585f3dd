package kubernetes_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// runsOn is a workload whose pods read the map, each kind in another way.
func runsOn(kind, name, uses string) string {
	pod := fmt.Sprintf(`{terminationGracePeriodSeconds: 0, %s}`, uses)
	if kind == "Pod" {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: %s}\n", name, pod)
	}
	return fmt.Sprintf("---\n{apiVersion: apps/v1, kind: %s, metadata: {name: %s}, spec: {selector: {matchLabels: {app: %[2]s}}, template: {metadata: {labels: {app: %[2]s}}, spec: %s}}}\n", kind, name, pod)
}

const (
	byEnv    = `containers: [{name: c, image: "a:1", env: [{name: A, valueFrom: {configMapKeyRef: {name: used, key: a}}}]}]`
	byFrom   = `containers: [{name: c, image: "a:1", envFrom: [{secretRef: {name: pin}}]}]`
	byVolume = `volumes: [{name: v, projected: {sources: [{configMap: {name: used}}]}}], containers: [{name: c, image: "a:1"}]`
	byNone   = `containers: [{name: c, image: "a:1", env: [{name: A, valueFrom: {configMapKeyRef: {name: unused, key: a}}}]}]`
)

func updatable(value, image string) fstest.MapFS {
	names := map[string]string{
		"dep-env": "Deployment", "dep-none": "Deployment", "set-from": "ReplicaSet", "set-none": "ReplicaSet",
		"agent-volume": "DaemonSet", "agent-none": "DaemonSet", "pod-env": "Pod", "pod-none": "Pod", "pod-image": "Pod",
	}
	uses := map[string]string{"env": byEnv, "from": byFrom, "volume": byVolume, "none": byNone, "image": strings.Replace(byNone, "a:1", image, 1)}
	all := ""
	for _, name := range slices.Sorted(maps.Keys(names)) {
		_, way, _ := strings.Cut(name, "-")
		all += runsOn(names[name], name, uses[way])
	}
	return fstest.MapFS{
		"Files/kubernetes/all.yaml":  {Data: []byte(all)},
		"Files/kubernetes/used.yaml": {Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: used}, data: {a: " + value + "}}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: pin}, stringData: {a: " + value + "}}")},
		"Files/kubernetes/rest.yaml": {Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: unused}, data: {a: " + value + "}}")},
	}
}

func TestAContainerUpdateRestartsOnlyPodsThatUseWhatChanged(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	vdus := sample.Workloads("dep-env", "dep-none", "set-from", "set-none", "agent-volume", "agent-none", "pod-env", "pod-none", "pod-image")
	base := sample.Packaged(uuid.NewString(), namespace, updatable("one", "a:1"), vdus, nil)
	was := unitsByVDU(converge(t, d, base, true))

	files := updatable("two", "a:2")
	update := &vnfd.Package{Tree: sample.TreeOf(files), Files: files, VNFD: vdus}
	in := *base.Instance
	in.Package, in.Base = update.Tree, base.Package.Tree
	in.Update.Strategy = desired.Container
	in.Overlays = []desired.Overlay{{Package: update.Tree, Paths: []string{"Files/kubernetes/used.yaml"}}}
	after := drivers.Source{Instance: &in, Package: update, Base: base.Package, Overlays: []*vnfd.Package{update}}
	steps, err := verify(t, d, after, plan.Journal{Operation: "MODIFY_INFO", Granted: true})
	if err != nil {
		t.Fatalf("%+v: %v", steps, err)
	}
	want, err := d.Render(after)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range observe(t, d, want).Units {
		reason := ""
		if u.VDU == "SET-FROM" {
			reason = "ConfigMaps or Secrets that it uses have changed"
		}
		if u.Outdated != reason {
			t.Errorf("%s is outdated as %q, want %q", u.VDU, u.Outdated, reason)
		}
	}
	now := unitsByVDU(converge(t, d, after, true))
	for vdu, ids := range was {
		restarts := slices.Contains([]string{"DEP-ENV", "SET-FROM", "AGENT-VOLUME", "POD-ENV"}, vdu)
		for id := range ids {
			if _, lives := now[vdu][id]; lives == restarts {
				t.Errorf("%s: unit %s lives on: %v, want %v", vdu, id, lives, !restarts)
			}
		}
	}
	for _, image := range now["POD-IMAGE"] {
		if image != "a:2" {
			t.Errorf("the Pod whose image changed in place runs %s", image)
		}
	}
	converge(t, d, after, false)
}

// unitsByVDU are the images of units by VDU and incarnation.
func unitsByVDU(o plan.Observed) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, u := range o.Units {
		if all[u.VDU] == nil {
			all[u.VDU] = map[string]string{}
		}
		all[u.VDU][u.ID] = u.Metadata["image"]
	}
	return all
}
