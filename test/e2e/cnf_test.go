package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/testenv"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// apps counts the live pods by their label app.
func (b *bench) apps() map[string]int {
	b.Helper()
	n := map[string]int{}
	for _, p := range b.pods() {
		n[p.Labels["app"]]++
	}
	return n
}

// workloadsShown holds what an instance shows of its VDUs' workloads against those in the cluster,
// "Kind/name".
func (b *bench) workloadsShown(id string, names ...string) {
	b.Helper()
	reses, _ := b.show(b.T, id).get("instantiatedVnfInfo", "metadata", "vdu_reses").(map[string]any)
	shown := object(reses)
	var got []string
	for vdu := range shown {
		name := shown.text(vdu, "kind") + "/" + shown.text(vdu, "metadata", "name")
		live := b.read(name)
		got = append(got, name)
		if shown.text(vdu, "metadata", "namespace") != b.namespace || shown.text(vdu, "metadata", "labels", instanceLabel) != id ||
			shown.text(vdu, "apiVersion") != live.GetAPIVersion() {
			b.Errorf("VDU %s is shown as %v", vdu, shown[vdu])
		}
		if want, ok, err := unstructured.NestedInt64(live.Object, "spec", "replicas"); err != nil || ok && fmt.Sprint(shown.get(vdu, "spec", "replicas")) != fmt.Sprint(want) {
			b.Errorf("VDU %s is shown with %v replicas and has %d: %v", vdu, shown.get(vdu, "spec", "replicas"), want, err)
		}
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		b.Errorf("workloads shown are %v, want %v", got, names)
	}
}

func TestDeploymentReplicaSetAndStatefulSetScaleAndTwoVDUsByOneAspect(t *testing.T) {
	b := newBench(t, usual)
	d := b.clone(t, "desired.git")
	file := "instances/kinds/" + b.namespace + "/vnf.yaml"
	d.Write(file, fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nlevels: {web_aspect: 1}\nparams: {namespace: %[1]s}\n", b.namespace, everyKind))
	d.Push("Run every kind")
	id := b.idOf(b.namespace)
	b.awaitHistory(id, "INSTANTIATE COMPLETED")
	want := b.apps()
	nodes := want["agent"] // a DaemonSet has as many pods as there are nodes
	if diff := maps.Equal(want, map[string]int{"web": 3, "web-admin": 1, "cache": 2, "store": 1, "agent": nodes, "probe": 1}); !diff || nodes == 0 {
		t.Errorf("pods after the instantiation: %v", want)
	}
	op := b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.affected(op, "ADDED", "CACHE", "WEB", "WEB")
	op = b.server.run(t, id, "scale", scale("SCALE_OUT", "store_aspect", 2))
	b.affected(op, "ADDED", "STORE", "STORE")
	if n := b.apps(); n["web"] != 5 || n["cache"] != 3 || n["store"] != 3 || n["web-admin"] != 1 {
		t.Errorf("pods after scaling out: %v", n)
	}
	b.sameVNFCs(id)
	b.workloadsShown(id, "Deployment/web", "Deployment/web-admin", "ReplicaSet/cache", "StatefulSet/store", "DaemonSet/agent", "Pod/probe")

	// Several aspects in one push are one operation.
	d.Pull()
	d.Replace(file, "web_aspect: 2", "web_aspect: 0, web_admin_aspect: 1")
	d.Replace(file, "store_aspect: 2", "store_aspect: 0")
	d.Push("Another size")
	ops := b.awaitHistory(id, "INSTANTIATE COMPLETED, SCALE COMPLETED, SCALE COMPLETED, SCALE_TO_LEVEL COMPLETED")
	if n := b.apps(); n["web"] != 1 || n["cache"] != 1 || n["store"] != 1 || n["web-admin"] != 2 {
		t.Errorf("pods after the push: %v", n)
	}
	var changes []string
	for _, v := range ops[3].list("resourceChanges", "affectedVnfcs") {
		changes = append(changes, v.text("changeType")+" "+v.text("vduId"))
	}
	slices.Sort(changes)
	if got := strings.Join(changes, ", "); got != "ADDED WEB_ADMIN, REMOVED CACHE, REMOVED CACHE, REMOVED STORE, REMOVED STORE, REMOVED WEB, REMOVED WEB, REMOVED WEB, REMOVED WEB" {
		t.Errorf("affected VNFCs: %s", got)
	}
	b.sameVNFCs(id)
	b.server.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	b.awaitPods(0)
}

func TestAspectsOfDaemonSetsAndPodsAreRefusedByName(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id := b.runs(fixed)
	for aspect, words := range map[string][]string{"agent_aspect": {"DaemonSet", "agent"}, "probe_aspect": {"Pod", "probe"}} {
		a := b.rest(t, "POST", instances+"/"+id+"/scale", scale("SCALE_OUT", aspect, 1))
		for _, w := range append(words, aspect) {
			if a.Status != http.StatusBadRequest || !strings.Contains(string(a.Body), w) {
				t.Errorf("scale of %s: %d, no %q: %s", aspect, a.Status, w, a.Body)
			}
		}
	}
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
}

func TestInstancesInOneNamespaceNeverClaimEachOthersPods(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	one, two := b.runs(crowdA), b.runs(crowdB)
	vnfcs := func(id string) (names []string) {
		for _, v := range b.show(t, id).list("instantiatedVnfInfo", "vnfcResourceInfo") {
			names = append(names, v.text("computeResource", "resourceId"))
		}
		return names
	}
	op := b.server.run(t, one, "scale", scale("SCALE_OUT", "web_aspect", 2))
	b.affected(op, "ADDED", "WEB", "WEB")
	if a, z := len(vnfcs(one)), len(vnfcs(two)); a != 3 || z != 2 {
		t.Errorf("%d and %d VNFCs, want 3 and 2", a, z)
	}
	op = b.server.run(t, two, "scale", scale("SCALE_OUT", "web-1_aspect", 1))
	b.affected(op, "ADDED", "WEB-1")
	for _, name := range vnfcs(two) {
		if !strings.HasPrefix(name, "web-1-") || slices.Contains(vnfcs(one), name) {
			t.Errorf("%s is a VNFC of the second instance", name)
		}
	}
	op = b.server.run(t, one, "terminate", object{"terminationType": "FORCEFUL"})
	b.affected(op, "REMOVED", "WEB", "WEB", "WEB")
	b.awaitPods(3)

	// The same package once more in that namespace would take the workload of the other.
	third := b.create(crowdB)
	op = b.await(t, b.begin(t, third, "instantiate", b.request()), "ROLLED_BACK")
	b.says(op, "web-1", two)
	b.awaitPods(3)
}

func TestAManifestThatTheAPIServerRefusesTouchesNothing(t *testing.T) {
	b := newBench(t, usual)
	id := b.create(refused)
	op := b.await(t, b.begin(t, id, "instantiate", b.request()), "ROLLED_BACK")
	b.says(op, "Deployment/"+b.namespace+"/web", "nonsense")
	b.awaitPods(0)
}
