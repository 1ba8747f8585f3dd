package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	regv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestFieldsOfOtherManagersAreNoDrift(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id, _, _ := b.pushed(twins, "")
	objects := b.made(id)
	apply := func(object, text string) {
		t.Helper()
		kind, name, _ := strings.Cut(object, "/")
		if _, err := b.at(kind).Patch(t.Context(), name, types.ApplyPatchType, []byte(strings.ReplaceAll(text, "'", `"`)), metav1.PatchOptions{FieldManager: "another"}); err != nil {
			t.Fatal(err)
		}
	}
	apply("Deployment/web", "{'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'web', 'annotations': {'another.example/x': '1'}, 'labels': {'another': 'yes'}}, 'spec': {'minReadySeconds': 1, 'revisionHistoryLimit': 3}}")
	apply("ConfigMap/settings", "{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'settings'}, 'data': {'more': 'keys', 'mode': 'fast'}}") // the same value, owned together
	apply("Service/front", "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'front', 'annotations': {'lb.example/pool': 'a'}}, 'spec': {'externalTrafficPolicy': 'Local'}}")
	b.patch("Deployment/web", "hand", "{'metadata': {'annotations': {'hand.example/note': 'seen'}}}")
	b.patch("ConfigMap/settings", "hand", "{'data': {'handwritten': 'too'}}")
	b.patch("Service/front", "controller", "{'status': {'conditions': []}}", "status")
	// The next change on the same watches is real: it is put back, and nothing else is.
	b.scaled("back", "hand", 3)
	op := b.repaired(id, 1, "Deployment/"+b.namespace+"/back", "spec.replicas")
	b.remove("Service/front")
	next := b.repaired(id, 2, "Service/"+b.namespace+"/front")
	b.patch("ConfigMap/settings", "hand", "{'data': {'mode': 'slow'}}")
	last := b.repaired(id, 3, "ConfigMap/"+b.namespace+"/settings", "data.mode")
	for _, op := range []object{op, next, last} {
		cause := op.text("operationParams", "cause")
		for _, foreign := range []string{"another", "minReadySeconds", "handwritten", "note", "more", "externalTrafficPolicy"} {
			if strings.Contains(cause, foreign) {
				t.Errorf("what is another's is drift: %s", cause)
			}
		}
	}
	web, config := b.read("Deployment/web"), b.read("ConfigMap/settings")
	if got, _, _ := unstructured.NestedInt64(web.Object, "spec", "minReadySeconds"); got != 1 || web.GetAnnotations()["hand.example/note"] != "seen" || web.GetLabels()["another"] != "yes" {
		t.Errorf("what is another's was taken away: %v", web.Object)
	}
	if data, _, _ := unstructured.NestedStringMap(config.Object, "data"); data["more"] != "keys" || data["handwritten"] != "too" || data["mode"] != "fast" {
		t.Errorf("what is another's was taken away: %v", data)
	}
	if got := b.renewed(objects, b.made(id)); !slices.Equal(got, []string{"Service/front"}) {
		t.Errorf("objects with a new uid: %v", got)
	}
	kit.Stays(t, quiet, func() error { return b.counted(id, 4) })
}

func TestReplicasThatAnAutoscalerRulesAreNoDriftAndOutliveAHeal(t *testing.T) {
	b := newBench(t, usual)
	id, _, _ := b.pushed(hpa, "")
	replicas := func(deployment string) int64 {
		t.Helper()
		n, _, _ := unstructured.NestedInt64(b.read("Deployment/"+deployment).Object, "spec", "replicas")
		return n
	}
	b.scaled("web", "horizontal-pod-autoscaler", 3)
	b.scaled("back", "hand", 4)
	op := b.repaired(id, 1, "Deployment/"+b.namespace+"/back")
	if cause := op.text("operationParams", "cause"); strings.Contains(cause, "/web") {
		t.Errorf("the autoscaler's replicas are drift: %s", cause)
	}
	if web, back := replicas("web"), replicas("back"); web != 3 || back != 1 {
		t.Errorf("%d and %d replicas, want 3 and 1", web, back)
	}
	b.awaitPods(4)
	b.server.run(t, id, "heal", object{})
	if web := replicas("web"); web != 3 {
		t.Errorf("%d replicas after the heal, the autoscaler had set 3", web)
	}
	b.awaitPods(4)
	b.remove("HorizontalPodAutoscaler/web")
	b.repaired(id, 3, "HorizontalPodAutoscaler/"+b.namespace+"/web")
	if web := replicas("web"); web != 3 {
		t.Errorf("%d replicas after the repair, want 3", web)
	}
}

func TestWhatAMutatingWebhookMakesOfObjectsIsNoDrift(t *testing.T) {
	b := newBench(t, usual)
	var asked atomic.Int64
	b.webhook(true, func(r *admissionv1.AdmissionRequest) verdict {
		asked.Add(1)
		switch r.Kind.Kind {
		case "Deployment":
			if strings.Contains(string(r.Object.Raw), `"name":"sidecar"`) {
				return verdict{patch: `[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "mirror.example/pause:3.10"}]`}
			}
			return verdict{patch: `[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "mirror.example/pause:3.10"},
				{"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "sidecar", "image": "mirror.example/mesh:1"}},
				{"op": "add", "path": "/metadata/labels/injected", "value": "yes"}]`}
		case "Pod":
			return verdict{patch: `[{"op": "add", "path": "/metadata/labels/meshed", "value": "yes"}]`}
		}
		return verdict{}
	}, rule("apps", "deployments", regv1.Create, regv1.Update), rule("", "pods", regv1.Create))
	id, _, _ := b.pushed(twins, "")
	b.remove("ConfigMap/settings")
	b.repaired(id, 1, "ConfigMap/"+b.namespace+"/settings")
	b.scaled("web", "hand", 3)
	op := b.repaired(id, 2, "Deployment/"+b.namespace+"/web", "spec.replicas")
	if cause := op.text("operationParams", "cause"); strings.Contains(cause, "mirror.example") || strings.Contains(cause, "sidecar") {
		t.Errorf("the webhook's work is drift: %s", cause)
	}
	b.server.run(t, id, "scale", scale("SCALE_OUT", "back_aspect", 1))
	containers, _, _ := unstructured.NestedSlice(b.read("Deployment/web").Object, "spec", "template", "spec", "containers")
	if text := fmt.Sprint(containers); len(containers) != 2 || !strings.Contains(text, "mirror.example/pause:3.10") || asked.Load() == 0 {
		t.Errorf("the webhook's work was undone: %s", text)
	}
	b.awaitPods(3)
	kit.Stays(t, quiet, func() error { return b.counted(id, 4) })
}
